"""What dialogues with a server are made of: questions, all their answers, the end of a session."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from socket import socket
from typing import Any

from parkazoo.kazoo_private import CloseInstance
from parkazoo.protocol.steps import Question
from parkazoo.wire.attempt import ConnectAttempt, Steps, receive
from parkazoo.wire.exchange import Exchange
from parkazoo.wire.frames import request_frame

CLOSE_XID = 1
Authenticate = Callable[[socket, str, float], None]


def ask(exchange: Exchange, requests: Sequence[Question[object]], answers: list[Any]) -> bytes:
    """The bytes of requests whose answers are appended to `answers`."""
    return b"".join(exchange.ask(request, answers.append) for request in requests)


def receive_all(attempt: ConnectAttempt, exchange: Exchange) -> Steps[None]:
    while not exchange.is_handshake_over:
        exchange.receive_handshake((yield from receive(attempt)))


def close_session(attempt: ConnectAttempt) -> None:
    """End a session that has just begun, or is about to begin, and is not wanted: the server reads this next."""
    with suppress(OSError):
        attempt.sock.send(request_frame(CloseInstance, CLOSE_XID))
