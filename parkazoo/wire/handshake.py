"""How a session begins or goes on with a server: everything before the first request.

Connect; SASL, if wanted; then, together, the credentials and reads of the ensemble's identity and of its copy of
the cluster map. What follows is sent only if this is the ensemble that the map means, because its address may now
belong to another one. If the ensemble seems to have gone back, or refuses the session, the client makes sure of
that, and notes it there (`older_copy.py`). A new session then registers, and reads the copy behind that. The last
read of the copy leaves a watch, and so does a read of the ensemble's own configuration beside it. If the map does
not name the first server that a client meets, the client asks the servers that it names whether they know the
session (`same_ensemble.py`).
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from kazoo.exceptions import ConnectionDropped, NodeExistsError

from parkazoo.engine.ports import OtherSession
from parkazoo.kazoo_private import Connect, Create, GetData, SetData
from parkazoo.protocol.placement import ENSEMBLE, MAP
from parkazoo.protocol.steps import Question
from parkazoo.types.znodes import ZnodeStat
from parkazoo.wire.attempt import Closed, ConnectAttempt, Limit, Steps, connect, receive, secure, send
from parkazoo.wire.dialogue import Authenticate, ask, close_session, receive_all
from parkazoo.wire.exchange import CONNECTING, Exchange
from parkazoo.wire.older_copy import Refusal, remember
from parkazoo.wire.own_read import OWN_READS
from parkazoo.wire.same_ensemble import is_copy
from parkazoo.wire.tls import make_context, tls_options

if TYPE_CHECKING:
    from parkazoo.wire.member import Member

WRITER = b"rw"  # a server's answer to isro
LEAST_ATTEMPTS = 3  # within the time of a session that is to go on


class Address(NamedTuple):
    """A server: the name that the map or the user gives it, and one of the IP addresses of that name."""

    host: str
    ip: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class WrongEnsemble(ConnectionDropped):
    """The server belongs to another ensemble than the one that the cluster map means."""


class Established(NamedTuple):
    """A connection that may carry requests.

    :param exchange: has the bytes behind the last answer.
    :param asked_s: when the last of what it has answered was sent.
    """

    sock: socket.socket
    address: Address
    exchange: Exchange
    read_timeout_s: float
    connect_timeout_s: float
    asked_s: float


def reach(member: Member, address: Address) -> Callable[[ConnectAttempt], Steps[socket.socket]]:
    """Steps that return a connected socket, with TLS if the member wants that.

    :param member: that is to be connected.
    :raises ConnectionDropped: the server does not accept in time. OSError means that it refuses.
    """
    return partial(_reach, member, address)


def _reach(member: Member, address: Address, attempt: ConnectAttempt) -> Steps[socket.socket]:
    limit_s = _limit_s(member)
    yield Limit(limit_s, f"no connection within {limit_s:.1f} s")
    create = member.socket_maker()
    if create is not None:
        attempt.sock = yield partial(_create, create, member, address, limit_s)
    else:
        yield from connect(attempt, address.ip, address.port)
        if member.tls.use_ssl:
            yield from secure(attempt, partial(make_context, member.tls), address.host)
    return attempt.sock


def shake_hands(
    member: Member, address: Address, sock: socket.socket, exchange: Exchange, authenticate: Authenticate
) -> Callable[[ConnectAttempt], Steps[Established]]:
    """Steps that return an :class:`Established`.

    :param member: whose session it is. Nothing of it is changed here.
    :param sock: what :func:`reach` has returned.
    :param exchange: a new one of this member.
    :param authenticate: SASL on a socket with a host, within seconds. It may block. Used if the member has SASL
        options.
    :raises SessionExpiredError: the server does not know the session.
    :raises AuthFailedError: it refuses the credentials.
    :raises ConnectionDropped: it refuses, closes, is too slow, or is not a server of the member's ensemble. The
        message says which. OSError means the same.
    """
    return partial(_shake_hands, member, address, sock, exchange, authenticate)


def _shake_hands(
    member: Member,
    address: Address,
    sock: socket.socket,
    exchange: Exchange,
    authenticate: Authenticate,
    attempt: ConnectAttempt,
) -> Steps[Established]:
    attempt.sock = sock
    limit_s = _limit_s(member)
    yield Limit(limit_s, f"no answer to Connect within {limit_s:.1f} s")
    is_new = not member._session_id
    try:
        return (yield from _open_session(member, address, authenticate, attempt, exchange))
    except BaseException:  # GeneratorExit too: another server is asked
        if is_new:
            close_session(attempt)
        raise


def _limit_s(member: Member) -> float:
    """A server that starts may accept and never answer. Another attempt must find the session still alive.

    If there is no session to find alive, each round in vain gives servers that are slow twice the time.
    """
    connection = member._connection
    if member._session_id and connection.may_session_live():
        attempts = max(len(member.hosts), LEAST_ATTEMPTS)
    else:
        attempts = max(len(member.hosts) >> connection._rounds.in_vain, 1)
    return float(member._session_timeout) / 1000 / attempts


def _needed_zxid(member: Member) -> int:
    """The zxid that a server must have reached. One that is behind, for good perhaps, may end a session."""
    return 0 if member.is_renewing else member.last_zxid


def _open_session(
    member: Member, address: Address, authenticate: Authenticate, attempt: ConnectAttempt, exchange: Exchange
) -> Steps[Established]:
    asked = Connect(
        0,
        _needed_zxid(member),
        member._session_timeout,
        member._session_id or 0,
        member._session_passwd,
        member.read_only,
    )
    has_sasl = member.sasl_options is not None
    opening = exchange.connect(asked)
    answers: list[Any] = []
    questions: list[Question[object]] = [GetData(ENSEMBLE, None)]
    if not member.must_register(member._session_id):
        questions += OWN_READS
    elif not member.owner.has_map:
        questions.append(GetData(MAP, None))
    first = exchange.credentials(member.auth_data) + ask(exchange, questions, answers)
    asked_s = time.monotonic()
    opening = opening if has_sasl else opening + first
    yield from _ask_first(member, address, authenticate, attempt, exchange, opening)
    time_out_s = exchange.accepted.time_out / 1000
    connect_timeout_s = time_out_s / max(len(member.hosts), 1)
    if has_sasl:
        yield Limit(2 * connect_timeout_s, f"no end of SASL within {2 * connect_timeout_s:.1f} s")
        yield partial(authenticate, attempt.sock, address.host, connect_timeout_s)
        yield Limit(connect_timeout_s, f"no answer within {connect_timeout_s:.1f} s")
        asked_s = time.monotonic()
        yield from send(attempt, first)
    yield from receive_all(attempt, exchange)
    record, copy, config = (*answers, None, None)[:3]
    _verify(member.owner.recognize(member, record, copy, str(address)))
    if not exchange.accepted.read_only:
        yield from remember(member, attempt, exchange, record, _limit_s(member))
    session = exchange.accepted.session_id
    if member.must_register(session) and not exchange.accepted.read_only:
        limit_s = _limit_s(member)
        yield Limit(limit_s, f"no answer to the registration of the session within {limit_s:.1f} s")
        asked_s = time.monotonic()
        answer, copy, config = yield from _register(attempt, exchange, member.owner.registration(member, session))
        _verify(member.owner.take_copy(member, copy, str(address)))
        if not isinstance(answer, Exception):
            yield from _verify_place(member, address, session, record, authenticate, attempt)
        _verify(member.owner.unready(member))
        member.registered(session, answer)  # not before: a session that is resumed is asked again if it is ready
    if config is not None:
        member.owner.take_config(member, config)
    exchange.open()
    return Established(attempt.sock, address, exchange, time_out_s * 2 / 3, connect_timeout_s, asked_s)


def _verify_place(
    member: Member,
    address: Address,
    session: int,
    record: tuple[bytes, ZnodeStat],
    authenticate: Authenticate,
    attempt: ConnectAttempt,
) -> Steps[None]:
    """That a server at an address of the user's own is no copy of the ensemble."""
    hosts = member.owner.doubts(member, (address.host, address.port))
    if hosts and (yield from is_copy(member, session, record[0], hosts, authenticate, attempt)):
        _verify(member.owner.refuse_copy(member, str(address)))


def _verify(trouble: Exception | None) -> None:
    if isinstance(trouble, OtherSession):
        raise trouble
    if trouble is not None:
        raise WrongEnsemble(str(trouble))


def _register(attempt: ConnectAttempt, exchange: Exchange, create: Create) -> Steps[list[Any]]:
    """The answers to the registration of a session, and to the member's own reads behind it.

    The registration is there already if another client's session is resumed.
    """
    answers: list[Any] = []
    yield from send(attempt, ask(exchange, [create, *OWN_READS], answers))
    yield from receive_all(attempt, exchange)
    if isinstance(answers[0], NodeExistsError):
        answers.clear()
        again = SetData(create.path, create.data, -1)
        yield from send(attempt, ask(exchange, [again, *OWN_READS], answers))
        yield from receive_all(attempt, exchange)
    return answers


def _ask_first(
    member: Member,
    address: Address,
    authenticate: Authenticate,
    attempt: ConnectAttempt,
    exchange: Exchange,
    opening: bytes,
) -> Steps[None]:
    """The answer to Connect. There is none if the server has no quorum, or is behind what the client has seen."""
    with suppress(Closed, ConnectionResetError, BrokenPipeError):
        yield from send(attempt, opening)
        while exchange.state == CONNECTING:
            exchange.receive_handshake((yield from receive(attempt)))
        return
    seen = _needed_zxid(member)
    if seen and member._connection.is_session_over():
        refusal = Refusal(member, address, seen, reach(member, address), authenticate, _limit_s(member))
        why = yield from refusal.find_why(attempt)
        if why is not None:
            raise ConnectionDropped(why)
    lost = ", or have lost data that this client has seen" if seen else ""
    raise ConnectionDropped(f"the server closed the connection before it answered: it may have no quorum{lost}")


def _create(
    create: Callable[..., socket.socket], member: Member, address: Address, timeout_s: float
) -> socket.socket:
    """On another thread: a socket, made with kazoo's arguments."""
    sock = create(
        address=(address.ip, address.port),
        hostname=address.host,
        timeout=timeout_s,
        **tls_options(member.tls),
    )
    sock.setblocking(False)
    return sock


def ask_writer(address: Address, limit_s: float) -> Callable[[ConnectAttempt], Steps[bool]]:
    """Steps that return whether a server says that it can write, and raise if it does not answer."""
    return partial(_ask_writer, address, limit_s)


def _ask_writer(address: Address, limit_s: float, attempt: ConnectAttempt) -> Steps[bool]:
    yield Limit(limit_s, "no answer to isro")
    yield from connect(attempt, address.ip, address.port)
    yield from send(attempt, b"isro")
    answer = b""
    while len(answer) < len(WRITER):
        answer += yield from receive(attempt)
    attempt.close()
    return answer == WRITER
