"""Whether ensembles can be read and written at this moment: a session begins on each, and ends.

A quorum commits the beginning of a session, so it shows that writes go through, and no znode is written. Only
where servers have `localSessionsEnabled` it shows no more than a server that has a leader.
"""

from __future__ import annotations

import random
import socket
import ssl
import threading
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from kazoo.client import KazooClient
from kazoo.exceptions import (
    EXCEPTIONS,
    AuthFailedError,
    ConfigurationError,
    ConnectionDropped,
    KazooException,
    NoNodeError,
)

from parkazoo.admin.clients import Auth
from parkazoo.admin.contents import parse_map
from parkazoo.admin.identity import is_identity
from parkazoo.admin.verify import verify_names
from parkazoo.errors import ClusterMapError
from parkazoo.kazoo_private import AUTH_XID, CloseInstance, Connect, GetData, int_struct
from parkazoo.protocol.cluster_map import ClusterMap, describe_record, format_hosts, no_map_error, parse_hosts
from parkazoo.protocol.placement import ENSEMBLE, MAP
from parkazoo.wire.frames import LENGTH_BYTES, REPLY, request_frame, session_frames
from parkazoo.wire.report import words_of
from parkazoo.wire.tls import make_context

READY_S = 1.0
AGAIN_S = 0.1  # between two attempts at a server
STAGGER_S = 0.15  # between the first attempts at an ensemble's servers: mostly one session is enough
SESSION_MS = 4000  # should its end get lost
MOST_ANSWER_BYTES = 1 << 21  # a map has at most 1,000,000
QUESTIONS = {1: MAP, 2: ENSEMBLE}  # by xid
STRANGE = "the answer is not ZooKeeper's"
CLOSES = 3  # the xid behind them
Server = tuple[str, int]


class Answers(NamedTuple):
    """Has the data of two znodes, None for one that does not exist.

    :param map: of ``/parkazoo/map``. :param record: of ``/parkazoo/ensemble``.
    """

    server: Server
    map: bytes | None
    record: bytes | None


def find_unready(
    hosts: str,
    ensembles: Collection[str] = (),
    *,
    auth: Auth = (),
    timeout_s: float = READY_S,
    **client_options: Any,
) -> tuple[list[str], dict[str, str]]:
    """Returns the names of the ensembles that were asked, and why some cannot be read and written at this moment.

    Each is asked again until it answers or the time is over, so that an election is awaited, not reported.
    Arguments as for `init_map`, but for SASL, which it does not do.

    :param ensembles: names; none: all of the map.
    :param timeout_s: seconds for everything.
    :raises ClusterMapError: no server at `hosts` gave a map in time, or there is no such ensemble.
    :raises ConfigurationError: SASL is asked for, or TLS files are of no use.
    """
    deadline = time.monotonic() + timeout_s
    servers = parse_hosts(hosts)
    client = KazooClient(hosts, auth_data=list(auth), **client_options)  # kazoo takes "sasl" out of auth_data
    if client._connection.sasl_options is not None:
        raise ConfigurationError("readiness is asked for without SASL: leave it out")
    ask = partial(_ask, auth, make_context(client) if client.use_ssl else None)
    first = _Race(servers, ask, partial(_why_no_map, hosts), deadline)
    if (answer := first.wait()) is None:
        raise ClusterMapError(f"no cluster map was read within {timeout_s:g} s: {first.reasons()}")
    cluster_map = parse_map(answer.map or b"", MAP, hosts)
    verify_names(ensembles, cluster_map)
    names = [name for name in cluster_map.ensembles if not ensembles or name in ensembles]
    races = {
        name: _Race(parse_hosts(cluster_map.ensembles[name]), ask, partial(_why_not, cluster_map, name), deadline)
        for name in names
        if answer.server not in parse_hosts(cluster_map.ensembles[name]) or _why_not(cluster_map, name, answer)
    }
    return names, {name: race.reasons() for name, race in races.items() if race.wait() is None}


def _why_no_map(hosts: str, answer: Answers) -> str:
    if answer.map is None:
        return str(no_map_error(hosts, answer.record))
    try:
        parse_map(answer.map, MAP, format_hosts([answer.server]))
    except ClusterMapError as error:
        return str(error)
    return ""


def _why_not(cluster_map: ClusterMap, name: str, answer: Answers) -> str:
    if answer.record is not None and is_identity(answer.record, cluster_map, name):
        return ""
    return f"is {describe_record(answer.record)}" if answer.record is not None else f"has no {ENSEMBLE}"


class _Race:
    """Asks servers, each again and again, until one gives an answer against which nothing is to be said.

    Its threads never keep the process: a frozen server does not answer at all.

    :param judge: returns the objection to an answer, "" if there is none.
    """

    def __init__(
        self,
        servers: Sequence[Server],
        ask: Callable[[Server, float], Answers],
        judge: Callable[[Answers], str],
        deadline: float,
    ) -> None:
        self._ask, self._judge, self._deadline = ask, judge, deadline
        self._answer: Answers | None = None
        self._reasons = dict.fromkeys(servers, "does not answer in time")
        self._is_won = threading.Event()
        pause_s = min(STAGGER_S, (deadline - time.monotonic()) / (2 * len(servers)))
        for number, server in enumerate(random.sample(servers, len(servers))):
            threading.Thread(target=self._run, args=(server, number * pause_s), daemon=True).start()

    def wait(self) -> Answers | None:
        """Returns the answer; None if none came in time."""
        self._is_won.wait(max(0.0, self._deadline - time.monotonic()))
        return self._answer

    def reasons(self) -> str:
        return ", ".join(f"{format_hosts([server])}: {why}" for server, why in self._reasons.items())

    def _run(self, server: Server, after_s: float) -> None:
        self._is_won.wait(after_s)
        while not self._is_won.is_set() and time.monotonic() < self._deadline:
            try:
                answer = self._ask(server, self._deadline)
                why = self._judge(answer)
            except (OSError, KazooException) as error:
                why = words_of(error)
            if not why:
                self._answer = answer
                self._is_won.set()
                return
            self._reasons[server] = why
            self._is_won.wait(AGAIN_S)


# ---- one server ----------------------------------------------------------------------------------


def _ask(auth: Auth, context: ssl.SSLContext | None, server: Server, deadline: float) -> Answers:
    """By a session of its own, which it ends."""
    with socket.create_connection(server, _left_s(deadline)) as plain:
        if context is None:
            return _converse(plain, auth, server, deadline)
        with context.wrap_socket(plain, server_hostname=server[0]) as secured:
            return _converse(secured, auth, server, deadline)


def _converse(sock: socket.socket, auth: Auth, server: Server, deadline: float) -> Answers:
    questions = b"".join(request_frame(GetData(path, None), xid) for xid, path in QUESTIONS.items())
    sock.settimeout(_left_s(deadline))
    try:
        sock.sendall(session_frames(SESSION_MS, auth) + questions)
        accepted, _ = _read(Connect, _receive(sock, deadline), 0)
        if accepted.time_out <= 0:
            raise ConnectionDropped("begins no session")
        found: dict[int, bytes | None] = {}
        while len(found) < len(QUESTIONS):
            frame = _receive(sock, deadline)
            xid, _, code = REPLY.unpack_from(frame)
            if xid == AUTH_XID and code:
                raise AuthFailedError("refuses the identity")
            if xid in QUESTIONS:
                found[xid] = _data(frame, code, QUESTIONS[xid])
    finally:
        with suppress(OSError):
            sock.send(request_frame(CloseInstance, CLOSES))
    return Answers(server, *(found[xid] for xid in QUESTIONS))


def _data(frame: bytes, code: int, path: str) -> bytes | None:
    if code == NoNodeError.code:
        return None
    if code:
        error = EXCEPTIONS.get(code)
        raise ConnectionDropped(f"{path}: {error.__name__ if error else code}")
    data, _ = _read(GetData, frame, REPLY.size)
    return data or b""


def _read(kind: Any, frame: bytes, offset: int) -> Any:
    try:
        return kind.deserialize(frame, offset)
    except Exception:
        raise ConnectionDropped(STRANGE) from None


def _receive(sock: socket.socket, deadline: float) -> bytes:
    (length,) = int_struct.unpack(_exactly(LENGTH_BYTES, sock, deadline))
    if not REPLY.size <= length <= MOST_ANSWER_BYTES:
        raise ConnectionDropped(STRANGE)
    return _exactly(length, sock, deadline)


def _exactly(count: int, sock: socket.socket, deadline: float) -> bytes:
    data = bytearray()
    while len(data) < count:
        sock.settimeout(_left_s(deadline))
        part = sock.recv(count - len(data))
        if not part:
            raise ConnectionDropped("closed the connection before it answered: no quorum?")
        data += part
    return bytes(data)


def _left_s(deadline: float) -> float:
    return max(0.001, deadline - time.monotonic())
