"""What dialogues with a server are made of: questions, all their answers, another session and its end."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from socket import socket
from typing import TYPE_CHECKING, Any

from parkazoo.kazoo_private import CloseInstance, Connect
from parkazoo.protocol.steps import Question
from parkazoo.wire.attempt import ConnectAttempt, Steps, receive, send
from parkazoo.wire.exchange import CONNECTING, Exchange
from parkazoo.wire.frames import request_frame

if TYPE_CHECKING:
    from parkazoo.wire.member import Member

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


def begin_another(
    member: Member,
    host: str,
    questions: Sequence[Question[object]],
    answers: list[Any],
    authenticate: Authenticate,
    limit_s: float,
    attempt: ConnectAttempt,
) -> Steps[Exchange]:
    """Begins a session beside the member's own, on a connected socket, and asks. The caller closes the session.

    :param answers: gets the answers to `questions`. :param limit_s: for SASL.
    :returns: the exchange, for further questions.
    """
    exchange = Exchange(member, deque(), lambda data, offset: None, member.logger)
    opening = exchange.connect(Connect(0, 0, member._session_timeout, 0, bytes(16), False))
    first = exchange.credentials(member.auth_data) + ask(exchange, questions, answers)
    yield from send(attempt, opening)
    while exchange.state == CONNECTING:
        exchange.receive_handshake((yield from receive(attempt)))
    if member.sasl_options is not None:
        yield partial(authenticate, attempt.sock, host, limit_s)
    yield from send(attempt, first)
    yield from receive_all(attempt, exchange)
    return exchange
