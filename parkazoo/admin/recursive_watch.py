"""All changes of an ensemble, heard by one persistent recursive watch on ``/``, since ZooKeeper 3.6."""

from __future__ import annotations

import random
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Collection, Mapping
from contextlib import suppress
from types import TracebackType

from kazoo.exceptions import (
    EXCEPTIONS,
    AuthFailedError,
    ConfigurationError,
    ConnectionDropped,
    KazooException,
    NoAuthError,
    UnimplementedError,
)

from parkazoo.admin.clients import AdminClient, Auth, Options
from parkazoo.admin.hot_directories import EventCounts, Seen
from parkazoo.kazoo_private import AUTH_XID, PING_XID, CloseInstance, Connect, Create, PingInstance, int_struct
from parkazoo.protocol.cluster_map import ClusterMap, parse_hosts
from parkazoo.protocol.newer_requests import AddWatch
from parkazoo.protocol.registration import format_session, parse_session
from parkazoo.types import AddWatchMode
from parkazoo.wire.about import command_registration
from parkazoo.wire.frames import LENGTH_BYTES, REPLY, request_frame, session_frames
from parkazoo.wire.report import words_of
from parkazoo.wire.tls import make_context

SESSION_S = 4.0  # soon over, if this process stops to read: until then the server keeps what it does not take
PING_S = 1.0
LATE_S = 3.0  # of a ping's answer, which comes behind the events that are sent before it
POLL_S = 0.2
AGAIN_S = 1.0
MOST_EVENTS = 20_000  # a second: beyond it, the server's work for them may be felt
PART = 1 << 18
MOST_BYTES = 1 << 23  # an event has a path, which is shorter than a request
WATCHES, ENDS, REGISTERS = 1, 2, 3  # xids
OF_ALL = AddWatch("/", AddWatchMode.PERSISTENT_RECURSIVE, None)
NOT_YET = "no server has accepted the watch yet"
LATE = f"a ping was not answered within {LATE_S:g} s: events are read too slowly, or the server stands still"


class Follower:
    """Counts an ensemble's changes by directory, or by path, until it is stopped or they are too many.

    It has one thread, which reads and pings. After a lost connection it goes on with another session, of any
    server that accepts it; the changes between are not counted.

    :param context: of TLS; None: plain text. :param most_events: a second.
    :ivar trouble: why events do not come at this moment; empty if they do. :ivar session: the id of its last one.
    """

    def __init__(
        self,
        hosts: str,
        auth: Auth,
        context: ssl.SSLContext | None,
        most_events: int = MOST_EVENTS,
        *,
        by_path: bool = False,
    ) -> None:
        self._servers = parse_hosts(hosts)
        self._auth = auth
        self._context = context
        self._most_events = most_events
        self._by_path = by_path
        self._counts = EventCounts(by_path=by_path)
        self._lock = threading.Lock()
        self._is_over = threading.Event()
        self._is_known = threading.Event()
        self._second = (0.0, 0)  # when it began, and its events
        self._pings: deque[float] = deque()  # when those were sent that are not answered
        self.trouble = NOT_YET
        self.session = ""
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wait_started(self) -> None:
        """Waits until events come, or no server lets them come: at most `SESSION_S` for each."""
        self._is_known.wait(SESSION_S * len(self._servers))

    def end(self) -> None:
        """Has it end soon, and does not wait."""
        self._is_over.set()

    def is_over(self) -> bool:
        """Whether it follows no more, and will not again."""
        return self._is_over.is_set()

    def stop(self) -> None:
        self.end()
        if self._thread.is_alive():  # not if ^C came before its start
            self._thread.join(SESSION_S)

    def take(self) -> Seen:
        """Returns what was seen since the last call."""
        with self._lock:
            taken, self._counts = self._counts, EventCounts(by_path=self._by_path)
        return taken.seen()

    def _run(self) -> None:
        while not self._is_over.is_set():
            if why := self._follow_any():
                self._tell(why)
                self._is_over.wait(AGAIN_S)

    def _follow_any(self) -> str:
        """Follows by the first server that accepts it, and returns why that has ended; empty: it was told to."""
        refusals: dict[str, None] = {}
        for server in random.sample(self._servers, len(self._servers)):
            try:
                self._follow(server)
            except (OSError, KazooException) as error:
                why = words_of(error)
                if not self.trouble:  # events came until now
                    return why
                refusals[why] = None
            if self._is_over.is_set():
                return ""
        return "; ".join(refusals)

    def _tell(self, trouble: str) -> None:
        self.trouble = trouble
        self._is_known.set()

    def _give_up(self, why: str) -> None:
        self._is_over.set()
        self._tell(why)

    def _follow(self, server: tuple[str, int]) -> None:
        with socket.create_connection(server, SESSION_S) as plain:
            if self._context is None:
                return self._listen(plain)
            with self._context.wrap_socket(plain, server_hostname=server[0]) as secured:
                return self._listen(secured)

    def _listen(self, sock: socket.socket) -> None:
        sock.sendall(session_frames(int(SESSION_S * 1000), self._auth) + request_frame(OF_ALL, WATCHES))
        sock.settimeout(POLL_S)
        received = bytearray()
        is_accepted = False
        pinged_s = time.monotonic()
        self._pings.clear()
        try:
            while not self._is_over.is_set():
                part = None
                now_s = time.monotonic()  # before: if this process stood still, the answer may be there
                with suppress(TimeoutError):
                    part = sock.recv(PART)
                if part:
                    received += part
                    was_accepted, is_accepted = is_accepted, self._take_in(received, is_accepted)
                    if is_accepted and not was_accepted:
                        sock.sendall(request_frame(self._registration(), REGISTERS))
                elif part is not None:
                    raise ConnectionDropped("the server has closed the connection")
                if self._pings and now_s - self._pings[0] > LATE_S:
                    raise ConnectionDropped(LATE)  # what it has not sent yet lies in the server's memory
                if now_s - pinged_s >= PING_S:
                    pinged_s = now_s
                    self._pings.append(now_s)
                    sock.sendall(request_frame(PingInstance, PING_XID))
        finally:
            with suppress(OSError):
                sock.send(request_frame(CloseInstance, ENDS))
                ended_s = time.monotonic() + POLL_S
                while sock.recv(PART) and time.monotonic() < ended_s:
                    pass  # closing a socket with unread bytes would reset it, and lose what was just sent

    def _take_in(self, received: bytearray, is_accepted: bool) -> bool:
        """Takes the whole frames out of what was received; whether there is a session."""
        begin = 0
        with self._lock:
            while len(received) >= begin + LENGTH_BYTES:
                (length,) = int_struct.unpack_from(received, begin)
                if not REPLY.size <= length <= MOST_BYTES:
                    raise ConnectionDropped("the server's answer is not ZooKeeper's")
                end = begin + LENGTH_BYTES + length
                if len(received) < end:
                    break
                if not is_accepted:
                    is_accepted = self._accept(bytes(received[begin + LENGTH_BYTES : end]))
                elif self._counts.add(received, begin, end):
                    self._limit()
                else:
                    self._hear(*REPLY.unpack_from(received, begin + LENGTH_BYTES))
                begin = end
        del received[:begin]
        return is_accepted

    def _accept(self, frame: bytes) -> bool:
        try:
            accepted, _ = Connect.deserialize(frame, 0)
        except Exception:
            raise ConnectionDropped("the server's answer is not ZooKeeper's") from None
        if accepted.time_out <= 0:
            raise ConnectionDropped("the server begins no session")
        self.session = format_session(accepted.session_id)
        return True

    def _registration(self) -> Create:
        return command_registration(parse_session(self.session) or 0, bool(self._auth))

    def _hear(self, xid: int, zxid: int, code: int) -> None:
        if xid == AUTH_XID and code:
            raise AuthFailedError("the server refuses the identity")
        if xid == PING_XID and self._pings:
            self._pings.popleft()
        if xid != WATCHES:
            return
        error = EXCEPTIONS.get(code)
        if error is UnimplementedError:
            self._give_up("its servers are older than ZooKeeper 3.6, which has no such watch")
        elif error is NoAuthError:
            self._give_up("the identity may not watch /")
        elif code:
            raise ConnectionDropped(f"the server refuses the watch: {error.__name__ if error else code}")
        else:
            self._tell("")

    def _limit(self) -> None:
        """Ends it if there are too many events: a server makes, keeps and sends each."""
        now_s = time.monotonic()
        began_s, events = self._second
        if now_s - began_s >= 1:
            began_s, events = now_s, 0
        self._second = began_s, events + 1
        if events >= self._most_events and not self._is_over.is_set():
            self._give_up(
                f"it had more than {self._most_events:,} changes within a second: they are not followed any more, "
                "to spare its servers"
            )


class Followers:
    """Follows all ensembles of a map, which may change.

    :param by_path: whether changes are counted by path, not by directory.
    :raises ConfigurationError: the options ask for SASL, which it does not do, or TLS files are of no use.
    """

    def __init__(self, auth: Auth, options: Options, *, by_path: bool = False) -> None:
        self._auth = auth
        self._options = options
        self._by_path = by_path
        self._followers: dict[tuple[str, str], Follower] = {}

    def __enter__(self) -> Followers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _stop(self._followers.values())

    def follow(self, cluster_map: ClusterMap) -> None:
        """Begins with ensembles that are new, and ends those that are gone."""
        wanted = {(name, cluster_map.ensembles[name]) for name in cluster_map.ensembles}
        _stop([self._followers.pop(gone) for gone in self._followers.keys() - wanted])
        begun = []
        for name, hosts in sorted(wanted - self._followers.keys()):
            zk = AdminClient(name, hosts, self._options, SESSION_S).zk
            if zk._connection.sasl_options is not None:
                raise ConfigurationError("directories are followed without SASL: leave it out")
            context = make_context(zk) if zk.use_ssl else None
            follower = Follower(hosts, self._auth, context, by_path=self._by_path)
            self._followers[name, hosts] = follower
            follower.start()
            begun.append(follower)
        for each in begun:
            each.wait_started()

    def take(self) -> Mapping[str, Seen]:
        return {name: each.take() for (name, _), each in self._followers.items()}

    def sessions(self) -> Mapping[str, str]:
        """Returns the session of each, by ensemble."""
        return {name: each.session for (name, _), each in self._followers.items()}

    def are_over(self) -> bool:
        """Whether none will follow again: each has given up."""
        return all(each.is_over() for each in self._followers.values())

    def troubles(self) -> dict[str, str]:
        return {name: each.trouble for (name, _), each in self._followers.items() if each.trouble}


def _stop(followers: Collection[Follower]) -> None:
    """Stops them at the same time."""
    for each in followers:
        each.end()
    for each in followers:
        each.stop()
