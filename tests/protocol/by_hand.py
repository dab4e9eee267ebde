"""A session without wire or thread: ensembles, members and a runtime whose clock a test turns by hand."""

from __future__ import annotations

import heapq
import itertools
import json
import logging
from collections import deque
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from kazoo.exceptions import ConnectionLoss, NodeExistsError, NoNodeError, SessionExpiredError
from kazoo.protocol.states import KeeperState

from parkazoo.engine.session import Session
from parkazoo.kazoo_private import Create, GetData
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.placement import ENSEMBLE, MAP
from parkazoo.protocol.registration import encode_registration, registration_path
from parkazoo.protocol.states import CLOSED_ERRORS

CONNECT_S = 1.0  # an attempt to connect
SESSION_TIMEOUT_S = 10.0
PASSWORD = b"p" * 16


class Runtime:
    """Makes the calls of a session when the test lets time pass.

    :ivar dispatched: calls of watches, which the test makes.
    """

    def __init__(self) -> None:
        self.now_s = 0.0
        self.users = 0
        self.dispatched: deque[Callable[[], None]] = deque()
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()

    def begin(self) -> None:
        self.users += 1

    def end(self) -> None:
        self.users -= 1

    def call(self, call: Callable[[], None]) -> None:
        self.call_later(0, call)

    def call_later(self, delay_s: float, call: Callable[[], None]) -> None:
        heapq.heappush(self._timers, (self.now_s + delay_s, next(self._numbers), call))

    def dispatch(self, call: Callable[[], None]) -> None:
        self.dispatched.append(call)

    def make_lock(self) -> nullcontext[None]:
        return nullcontext()

    def new_mark(self) -> str:
        return f"mark{next(self._numbers)}"

    def turn(self, seconds: float = 0) -> None:
        """Let time pass, and make the calls that are due on the way, each in its time."""
        end_s = self.now_s + seconds
        while self._timers and self._timers[0][0] <= end_s:
            self.now_s, _, call = heapq.heappop(self._timers)
            call()
        self.now_s = end_s


class Ensemble:
    """What a member talks to.

    :ivar data: by path; an exception is what a read gets.
    :ivar sessions: those that have not ended.
    """

    numbers = itertools.count(1)

    def __init__(self, name: str, data: dict[str, Any]) -> None:
        self.name = name
        self.data = data
        self.is_up = True
        self.refuses_credentials = self.loses_registrations = False
        self.sessions: set[int] = set()
        self.seen: list[Any] = []  # requests

    def connect(self, session_id: int) -> int:
        """Resume that session, or begin one for 0; 0 if it has expired."""
        if not session_id:
            session_id = next(self.numbers)
            self.sessions.add(session_id)
        return session_id if session_id in self.sessions else 0

    def read(self, path: str) -> Any:
        found = self.data.get(path, NoNodeError())
        return found if isinstance(found, Exception) else (found, None)

    def register(self, request: Any) -> Any:
        """Create a registration."""
        if request.path in self.data:
            return NodeExistsError()
        self.data[request.path] = request.data
        return ConnectionLoss() if self.loses_registrations else request.path

    def answer(self, request: Any) -> Any:
        if isinstance(request, Create):
            return self.register(request)
        self.seen.append(request)
        return self.read(request.path) if isinstance(request, GetData) else "/"


class Member:
    """The client of one ensemble: it connects within CONNECT_S, and answers on the loop."""

    def __init__(
        self, owner: Any, runtime: Runtime, name: str, ensemble: Ensemble, client_id: tuple[int, bytes] | None
    ) -> None:
        self.name = name
        self.verify: Callable[[Any], Exception | None] | None = None
        self.registration: Callable[[int], Any] | None = None
        self.registrations: list[tuple[int, Any]] = []  # sessions, and the answers
        self.state = KeeperState.CLOSED
        self.session_id, self.session_password = client_id or (0, PASSWORD)
        self.begun_s: list[float] = []
        self.told: list[str] = []  # what the session asked of it
        self.ensemble = ensemble
        self._owner = owner
        self._runtime = runtime
        self._queue: deque[tuple[Any, Any]] = deque()
        self._is_stopping = False
        self._has_to_wait = False

    def begin(self) -> None:
        self.begun_s.append(self._runtime.now_s)
        self.state = KeeperState.CONNECTING
        self._runtime.call_later(CONNECT_S, self._try)

    def submit(self, request: Any, reply: Any) -> None:
        if self.state in CLOSED_ERRORS:
            reply.set_exception(CLOSED_ERRORS[self.state]())
            return
        self._queue.append((request, reply))
        self._runtime.call(self._serve)

    def registered(self, session: int, answer: Any) -> None:
        self.registrations.append((session, answer))

    def go_on(self) -> None:
        if self._has_to_wait:
            self._has_to_wait = False
            self._try()

    def rename(self, name: str) -> None:
        self.name = name

    def renew(self, expired: str | None = None) -> None:
        self.told.append(f"renew for {expired}")
        self.ensemble.sessions.discard(self.session_id)
        self.session_id = 0
        self.state = KeeperState.CONNECTING
        self._fail(SessionExpiredError)
        self._runtime.call_later(CONNECT_S, self._try)

    def begin_stop(self) -> None:
        if not self._is_stopping:
            self._is_stopping = True
            self._runtime.call_later(CONNECT_S, self._finish)

    def close(self) -> None:
        self.told.append("close")

    def abandon(self) -> None:
        self.told.append("abandon")

    def distrust(self, thread: int) -> None:
        self.told.append(f"distrust {thread}")
        self._drop()

    def drop_watches(self, state: str) -> None:
        self.told.append(f"drop watches: {state}")

    def forget_watch(self, path: str, watch: Any) -> None:
        self.told.append(f"forget a watch on {path}")

    def describe_troubles(self) -> str:
        return "it is down" if not self.ensemble.is_up else "no answer yet"

    def lose(self) -> None:
        """Its servers go down."""
        self.ensemble.is_up = False
        lost = self.session_id
        self._runtime.call_later(SESSION_TIMEOUT_S, lambda: self._expire(lost))
        self._drop()

    def _drop(self) -> None:
        self._change(KeeperState.CONNECTING)
        self._fail(ConnectionLoss)
        self._runtime.call_later(CONNECT_S, self._try)

    def _expire(self, session_id: int) -> None:
        """On the servers."""
        if not self.ensemble.is_up:
            self.ensemble.sessions.discard(session_id)

    def _try(self) -> None:
        if self._is_stopping or self.state != KeeperState.CONNECTING:
            return
        if not self.session_id and not self._owner.may_begin(self):
            self._has_to_wait = True
            return
        if self.ensemble.refuses_credentials:
            self._change(KeeperState.AUTH_FAILED)
            self._finish()
            return
        if self.ensemble.is_up:
            session_id = self.ensemble.connect(self.session_id)
            if not session_id:
                self.session_id = 0
                self._change(KeeperState.EXPIRED_SESSION)
                self._change(KeeperState.CONNECTING)
            else:
                self.session_id = session_id
                if self.verify is None or self.verify(self.ensemble.read(ENSEMBLE)) is None:
                    if self.registration is not None:
                        self.registered(session_id, self.ensemble.register(self.registration(session_id)))
                    self._change(KeeperState.CONNECTED)
                    self._serve()
                    return
        self._runtime.call_later(CONNECT_S, self._try)

    def _serve(self) -> None:
        while self._queue and self.state == KeeperState.CONNECTED:
            request, reply = self._queue.popleft()
            answer = self.ensemble.answer(request)
            if isinstance(answer, Exception):
                reply.set_exception(answer)
            else:
                reply.set(answer)

    def _fail(self, error: type[Exception]) -> None:
        while self._queue:
            self._queue.popleft()[1].set_exception(error())

    def _finish(self) -> None:
        self._serve()
        self.ensemble.sessions.discard(self.session_id)
        self.session_id = 0
        self._change(KeeperState.CLOSED)
        self._fail(ConnectionLoss)
        self._owner.member_ended(self)

    def _change(self, state: str) -> None:
        self.state = state
        self._owner.member_changed(self, state)


class Client:
    """Whom the session works for; it has begun, and no time has passed."""

    def __init__(self, names: str = "abc", resume: tuple[int, bytes] | None = None) -> None:
        hosts = {name: f"{name}:1" for name in names}
        self.map = ClusterMap(cluster="test", bootstrap=names[0], ensembles=hosts, placement=tuple(names))
        self.ensembles = {name: Ensemble(name, {ENSEMBLE: self.identity(name)}) for name in names}
        self.ensembles[names[0]].data[MAP] = self.map.to_json()
        self.logger = logging.getLogger("parkazoo.test")
        self.client_state = KeeperState.CONNECTING
        self.states: list[str] = []
        self.resume = resume
        self.begin()

    def begin(self) -> None:
        self.runtime = Runtime()
        self.session: Session[Member] = Session(self, self.runtime, self.make_member, self.resume)
        self.session.begin()

    def identity(self, name: str) -> bytes:
        return json.dumps(self.map.identity(name)).encode()

    def describe_hosts(self) -> str:
        return self.map.ensembles[self.map.bootstrap]

    def registration(self, session: int, client: int, epoch: int) -> Any:
        return Create(registration_path(session), encode_registration(client, {"epoch": epoch}), [], 0)

    def make_member(self, session: Any, name: str, hosts: str, client_id: Any) -> Member:
        ensemble = self.ensembles[hosts.partition(":")[0]]
        return Member(session, self.runtime, name, ensemble, client_id)

    def session_changed(self, state: str) -> None:
        if state != self.client_state:
            self.client_state = state
            self.states.append(state)

    def __getitem__(self, name: str) -> Member:
        """The member of an ensemble."""
        return next(member for member in self.session.members if member.name == name)
