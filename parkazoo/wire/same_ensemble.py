"""Whether a server that the map does not name belongs to its ensemble, or to a copy of that ensemble's data.

A copy has the map and the identity of the original. But a session that begins on one is unknown to the other: the
servers that the map names are asked whether they have its registration. So it does not matter by which address a
server is reached. What servers say of their own addresses shows nothing: with ``reconfigEnabled=false`` those of a
copy go on naming the original's, and standalone servers name none.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from kazoo.exceptions import ConnectionDropped, NoNodeError

from parkazoo.kazoo_private import Exists, GetData, Sync
from parkazoo.protocol.cluster_map import parse_hosts
from parkazoo.protocol.placement import CLIENTS, ENSEMBLE
from parkazoo.protocol.registration import registration_path
from parkazoo.wire.attempt import ConnectAttempt, Limit, Steps, connect, secure
from parkazoo.wire.branches import first_of
from parkazoo.wire.dialogue import Authenticate, begin_another, close_session
from parkazoo.wire.tls import make_context

if TYPE_CHECKING:
    from parkazoo.wire.member import Member

LIMIT_S = 3.0  # for all servers: who cannot reach them cannot use them by mistake


def is_copy(
    member: Member, session: int, record: bytes, hosts: str, authenticate: Authenticate, attempt: ConnectAttempt
) -> Steps[bool]:
    """Steps that return whether the servers of the map do not have a session's registration.

    The first that answers as the ensemble decides; False too if none does.

    :param record: the ensemble's identity, as the server in question gives it.
    :param hosts: that the map names, ``"h:p,h:p"``.
    """
    ask = partial(_has_registration, member, session, record, authenticate)
    try:
        yield Limit(LIMIT_S, "no answer of a server that the map names")
        has_it = yield from first_of(attempt, [partial(_ask_host, ask, *each) for each in parse_hosts(hosts)])
    except ConnectionDropped:
        return False
    return has_it is False


Ask = Callable[[str, ConnectAttempt], Steps[bool | None]]  # by a host's name, on a connection


def _ask_host(ask: Ask, host: str, port: int, attempt: ConnectAttempt) -> Steps[bool | None]:
    ips = yield partial(_resolve, host, port)
    return (yield from first_of(attempt, [partial(_ask_server, ask, host, ip, port) for ip in ips]))


def _resolve(host: str, port: int) -> list[str]:
    """On another thread."""
    return [str(info[4][0]) for info in socket.getaddrinfo(host, port, 0, 0, socket.IPPROTO_TCP)]


def _ask_server(ask: Ask, host: str, ip: str, port: int, attempt: ConnectAttempt) -> Steps[bool | None]:
    try:
        yield from connect(attempt, ip, port)
        return (yield from ask(host, attempt))
    finally:
        attempt.close()


def _has_registration(
    member: Member, session: int, record: bytes, authenticate: Authenticate, host: str, attempt: ConnectAttempt
) -> Steps[bool | None]:
    """By a session of its own; None if the server is not the ensemble's, or does not say it."""
    if member.tls.use_ssl:
        yield from secure(attempt, partial(make_context, member.tls), host)
    answers: list[Any] = []
    questions = GetData(ENSEMBLE, None), Sync(CLIENTS), Exists(registration_path(session), None)
    try:
        yield from begin_another(member, host, questions, answers, authenticate, LIMIT_S, attempt)
    finally:
        close_session(attempt)
    identity, _, registration = answers
    if isinstance(identity, Exception) or identity[0] != record:
        return None
    if isinstance(registration, NoNodeError):
        return False
    return None if isinstance(registration, Exception) else True
