"""Whether a server that the map does not name belongs to its ensemble, or to a copy of that ensemble's data.

A copy has the map and the identity of the original. But a session that begins on one is unknown to the other: the
servers that the map names are asked whether they have its registration. So it does not matter by which address a
server is reached. What servers say of their own addresses shows nothing: with ``reconfigEnabled=false`` those of a
copy go on naming the original's, and standalone servers name none.
"""

from __future__ import annotations

import socket
import time
from collections import deque
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from kazoo.exceptions import KazooException, NoNodeError

from parkazoo.kazoo_private import Connect, Exists, GetData, Sync
from parkazoo.protocol.cluster_map import parse_hosts
from parkazoo.protocol.placement import CLIENTS, ENSEMBLE
from parkazoo.protocol.registration import registration_path
from parkazoo.wire.attempt import ConnectAttempt, Limit, Steps, connect, receive, secure, send
from parkazoo.wire.dialogue import Authenticate, ask, close_session, receive_all
from parkazoo.wire.exchange import CONNECTING, Exchange
from parkazoo.wire.tls import make_context

if TYPE_CHECKING:
    from parkazoo.wire.member import Member

LIMIT_S = 3.0  # for all servers: who cannot reach them cannot use them by mistake


def is_copy(
    member: Member, session: int, record: bytes, hosts: str, authenticate: Authenticate, attempt: ConnectAttempt
) -> Steps[bool]:
    """Steps that return whether the servers of the map do not have a session's registration.

    False too if none of them answers as the ensemble. The attempt has its own socket again afterwards.

    :param record: the ensemble's identity, as the server in question gives it.
    :param hosts: that the map names, ``"h:p,h:p"``.
    """
    own = attempt.sock
    deadline_s = time.monotonic() + LIMIT_S
    try:
        yield Limit(LIMIT_S, "no addresses of the servers that the map names")
        addresses = yield partial(_resolve, hosts)
        for host, ip, port in addresses:
            attempt.sock = None
            try:
                yield Limit(max(0.0, deadline_s - time.monotonic()), "no answer of a server that the map names")
                yield from connect(attempt, ip, port)
                has_it = yield from _has_registration(member, session, record, host, authenticate, attempt)
            except (OSError, KazooException):
                continue
            finally:
                attempt.close()
            if has_it is not None:
                return not has_it
    except (OSError, KazooException):
        pass
    finally:
        attempt.sock = own
    return False


def _resolve(hosts: str) -> list[tuple[str, str, int]]:
    """On another thread."""
    found: list[tuple[str, str, int]] = []
    for host, port in parse_hosts(hosts):
        with suppress(OSError, UnicodeError):
            infos = socket.getaddrinfo(host, port, 0, 0, socket.IPPROTO_TCP)
            found += [(host, str(info[4][0]), port) for info in infos]
    return found


def _has_registration(
    member: Member, session: int, record: bytes, host: str, authenticate: Authenticate, attempt: ConnectAttempt
) -> Steps[bool | None]:
    """By a session of its own; None if the server is not the ensemble's, or does not say it."""
    if member.use_ssl:
        yield from secure(attempt, partial(make_context, member), host)
    exchange = Exchange(member, deque(), lambda data, offset: None, member.logger)
    answers: list[Any] = []
    opening = exchange.connect(Connect(0, 0, member._session_timeout, 0, bytes(16), False))
    questions = GetData(ENSEMBLE, None), Sync(CLIENTS), Exists(registration_path(session), None)
    first = exchange.credentials(member.auth_data) + ask(exchange, questions, answers)
    yield from send(attempt, opening)
    while exchange.state == CONNECTING:
        exchange.receive_handshake((yield from receive(attempt)))
    if member._connection.sasl_options is not None:
        yield partial(authenticate, attempt.sock, host, LIMIT_S)
    yield from send(attempt, first)
    yield from receive_all(attempt, exchange)
    close_session(attempt)
    identity, _, registration = answers
    if isinstance(identity, Exception) or identity[0] != record:
        return None
    if isinstance(registration, NoNodeError):
        return False
    return None if isinstance(registration, Exception) else True
