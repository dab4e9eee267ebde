"""Runs the lanes of deferred writes: batches out, answers in, markers made, asked and replaced."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from functools import partial
from itertools import count
from typing import Any

from kazoo.exceptions import ConnectionLoss, OperationTimeoutError, SessionExpiredError

from parkazoo.engine.early import Early
from parkazoo.engine.ports import OnAnswer, Reply, Runtime
from parkazoo.engine.session import Session
from parkazoo.protocol.chain import (
    ChainedBatch,
    Landed,
    Settled,
    make_marker,
    marker_path,
    remove_marker,
    replace_marker,
)
from parkazoo.protocol.deferral import Batch, Lane, Moved, Outcome, Phase, Write, directory_of
from parkazoo.protocol.placement import Place
from parkazoo.protocol.steps import Operation, Request

DISCONNECTED = (ConnectionLoss, SessionExpiredError, OperationTimeoutError)
PAUSE_S = 0.05  # before a marker is asked again


class Deferrals:
    """All lanes of one client. Its ordinary operations come through here as long as there is one.

    An operation first puts on the wire what the lanes have not sent yet. While a lane does not know which of its
    batches are in, operations wait: they would not see what is sent again. They wait for the session timeout at
    most.

    :param acl: of markers. :param lock: may be taken again by the thread that holds it; nothing blocks then.
    :ivar users: how many ``client.deferred()`` there are; the client keeps this as long as there are some.
    """

    def __init__(
        self,
        session: Session[Any],
        runtime: Runtime,
        patience_s: float,
        acl: Any,
        lock: AbstractContextManager[Any],
    ) -> None:
        self.session = session
        self.runtime = runtime
        self.acl = acl
        self.lanes: tuple[RunningLane, ...] = ()
        self.users = 0
        self._patience_s = patience_s
        self._lock = lock
        self._early: Early | None = None
        self._opening: Early | None = None

    def call(self, request: Request, reply: Reply | None) -> None:
        """Issue an ordinary operation."""
        for lane in self.lanes:
            lane.flush()
        early = self._early
        if early is None:
            self.session.call(request, reply)
        else:
            early.call(request, reply)

    def enter(self, lane: RunningLane) -> None:
        """There is another lane, and it is in doubt."""
        with self._lock:
            self.lanes = (*self.lanes, lane)
        self.hold()

    def leave(self, lane: RunningLane) -> None:
        """The lane is over."""
        with self._lock:
            self.lanes = tuple(each for each in self.lanes if each is not lane)
        self.release()

    def hold(self) -> None:
        """Keep what comes: a lane is in doubt."""
        with self._lock:
            if self._early is not self._opening:
                return
            self._early = early = Early(self.runtime.make_lock(), lambda: None)
        self.call_later(self._patience_s, partial(self._let_go, early))

    def call_later(self, delay_s: float, call: Callable[[], None]) -> None:
        """As the runtime's; any thread may ask for it."""

        def begin() -> None:
            self.runtime.call_later(delay_s, call)

        self.runtime.call(begin)

    def release(self) -> None:
        """A lane is not in doubt any more."""
        with self._lock:
            early = self._early
            if early is None or any(lane.is_in_doubt for lane in self.lanes):
                return
        self._let_go(early)

    def _let_go(self, early: Early) -> None:
        with self._lock:  # a lane that gets in doubt from now on keeps what comes anew
            if self._early is early:
                self._opening = early
        early.open(self.session.call)
        with self._lock:
            if self._opening is early:
                self._opening = None
            if self._early is early:
                self._early = None


class Lanes:
    """The lanes of one ``client.deferred()``, one for each ensemble, and to which of them each directory belongs.

    A directory belongs to a lane until that has found its children elsewhere. Of what changes it, all is done with
    the lock held.

    :param lock: may be taken again by the thread that holds it: a member may answer at once. It is held while a
        batch is handed over, so that batches leave in their order; nothing blocks then.
    :param guard: the whole path of what must be there when a batch lands; None: nothing must.
    :param on_change: called with the lock held when writes have ended.
    :ivar client: the number of the session to which all of this belongs.
    :ivar of: the lane of each directory in which something was written.
    :ivar has_moved: whether a directory has changed its lane. :ivar is_closed: no write is taken any more.
    :ivar running: all lanes, in their order.
    """

    def __init__(
        self,
        owner: Deferrals,
        lock: AbstractContextManager[Any],
        skips: bool,
        guard: str | None,
        linger_s: float,
        on_change: Callable[[], None],
    ) -> None:
        self.owner = owner
        self.client = owner.session.number
        self.lock = lock
        self.guard = guard
        self.linger_s = linger_s
        self.on_change = on_change
        self.numbers = count()
        self.of: dict[str, RunningLane] = {}
        self.running: tuple[RunningLane, ...] = ()
        self.has_moved = False
        self.is_closed = False
        self._skips = skips

    @property
    def pending(self) -> int:
        """How many writes have no outcome yet."""
        pending = 0
        for lane in self.running:
            pending += lane.lane.pending
        return pending

    def assign(self, directory: str, ensemble: int) -> RunningLane:
        """The lane of a directory: that of this ensemble, unless it belongs to one already."""
        if directory not in self.of:
            self.of[directory] = self._on(ensemble)
        return self.of[directory]

    def _on(self, ensemble: int) -> RunningLane:
        for running in self.running:
            if running.ensemble == ensemble:
                return running
        running = RunningLane(self, Lane(self._skips, self.numbers), ensemble)
        self.running = (*self.running, running)
        return running

    def move(self, moved: Iterable[Moved]) -> None:
        """Directories of one lane have their children elsewhere: what was to be written there goes on there."""
        for directory, ensemble, writes in moved:
            self.of[directory] = self._on(ensemble)
            self.has_moved = True
            self.of[directory].take_in(writes)

    def forget(self) -> None:
        """Which directories belong to which lane, unless something is pending."""
        with self.lock:
            if not self.pending:
                self.of.clear()

    def remove(self) -> None:
        """All of them are at rest."""
        for lane in self.running:
            lane.remove()
        self.of.clear()
        self.running = ()


class RunningLane:
    """One lane on its way. Any thread may call."""

    def __init__(self, lanes: Lanes, lane: Lane, ensemble: int) -> None:
        owner = lanes.owner
        self.lane = lane
        self.ensemble = ensemble
        self._lanes = lanes
        self._owner = owner
        self._session = owner.session
        self._runtime = owner.runtime
        self._lock = lanes.lock
        self._guard = lanes.guard
        self._client = lanes.client
        self._marker = Place(ensemble, "")
        self._data = b""
        self._successor = ""
        self._left: list[Place] = []  # markers that may be there
        self._is_removed = False
        self._is_timed = False
        self._is_urgent = False
        self._is_asking = False
        with self._lock:
            owner.enter(self)
            self._ask()

    @property
    def is_in_doubt(self) -> bool:
        return self.lane.phase in (Phase.DRAINING, Phase.SETTLING)

    # ---- what is to be sent ------------------------------------------------------------------------

    def add(self, write: Write) -> Exception | None:
        """Take a write; or return why the lane takes none any more."""
        lane, lanes = self.lane, self._lanes
        with self._lock:
            if lanes.is_closed:  # since the caller has looked; the marker may be gone
                return ConnectionLoss()
            if lanes.has_moved:  # since the caller has looked, perhaps
                now = lanes.of.get(directory_of(write.request.path), self)
                if now is not self:
                    return now.add(write)
            if lane.error is None:
                if lane.add(write):
                    self._pump()
                if not self._is_timed and lane.has_unsent:
                    self._is_timed = True
                    self._owner.call_later(lanes.linger_s, self._have_lingered)
            return lane.error

    def take_in(self, writes: Iterable[Write]) -> None:
        """With the lock held: what another lane has given up."""
        self.lane.take_in(writes)
        self._is_urgent = True
        self._go_on()

    def flush(self) -> None:
        """Put everything on the wire, as soon as the lane is out of doubt."""
        with self._lock:
            if self.lane.has_unsent or self._is_over:
                self._is_urgent = True
                self._pump()

    @property
    def _is_over(self) -> bool:
        """Whether the session is over, and the lane does not know it yet."""
        return self._session.number != self._client and self.lane.phase is Phase.OPEN

    def end(self, error: Exception) -> None:
        """The client stops: what has no answer yet gets none."""
        with self._lock:
            self.lane.lost(None, error)
            self._go_on()

    def _have_lingered(self) -> None:
        with self._lock:
            self._is_timed = False
        self.flush()

    def _pump(self) -> None:
        """With the lock held: send what may be sent."""
        lane = self.lane
        if self._is_over:
            lane.end_session()
            self._go_on()
        while (batch := lane.take(self._is_urgent)) is not None:
            self._send(batch)
        if not lane.has_unsent:
            self._is_urgent = False

    def _send(self, batch: Batch) -> None:
        version = batch.number - self.lane.base
        requests = [write.request for write in batch.writes]
        request = ChainedBatch(self._marker, version, self._data, self._guard, requests)
        try:
            self._session.call(request, OnAnswer(partial(self._answered, batch)))
        except BaseException:  # a signal handler's: the client drops its connections
            if batch.outcome is None:
                batch.answer(Outcome.LOST)
            raise

    # ---- what comes back ---------------------------------------------------------------------------

    def _answered(self, batch: Batch, answer: Landed | Exception) -> None:
        with self._lock:
            if batch.outcome is None:
                batch.answer(*self._outcome(answer))
            was_in_doubt = self.is_in_doubt
            self.lane.answered()
            if self.is_in_doubt and not was_in_doubt:
                self._owner.hold()
            self._lanes.move(self.lane.take_moved())
            self._go_on()

    def _outcome(self, answer: Landed | Exception) -> tuple[Outcome, int, Exception | None, int]:
        if isinstance(answer, Exception):
            if not isinstance(answer, DISCONNECTED):
                self.lane.give_up(answer)
            return Outcome.LOST, -1, answer, -1
        at, error, elsewhere = answer
        if error is None:
            return Outcome.DONE, -1, None, -1
        if at < 0:
            return Outcome.BEHIND, -1, error, -1
        return Outcome.FAILED if elsewhere < 0 else Outcome.APART, at - (self._guard is not None), error, elsewhere

    def _go_on(self) -> None:
        """With the lock held, after the lane has changed."""
        if self.lane.phase is Phase.SETTLING and not self._is_asking:
            self._ask()
        elif self.lane.phase is Phase.OPEN:
            self._pump()
        if not self.is_in_doubt:
            self._owner.release()
        self._lanes.on_change()

    # ---- the marker --------------------------------------------------------------------------------

    def _ask(self) -> None:
        self._is_asking = True
        operation: Operation[Any]
        driver = self._session.driver
        assert driver is not None
        if not self._data:  # under another name each time: one that was lost may still be made, after all else
            self._marker = self._new_marker()
            operation = make_marker(self._marker, self._client, self._owner.acl)
        else:
            self._successor = self._successor or self._new_marker().path
            operation = replace_marker(self._marker, self._successor, self._client, self._owner.acl)
        driver.run(operation, OnAnswer(self._told))

    def _new_marker(self) -> Place:
        marker = Place(self.ensemble, marker_path(self._runtime.new_mark()))
        self._left.append(marker)
        return marker

    def _told(self, answer: bytes | Settled | Exception) -> None:
        with self._lock:
            if self._is_removed:
                self._remove_markers()
                return
            is_over = self._session.number != self._client
            if isinstance(answer, bytes):
                self._data = answer
                answer = Settled(0, answer)
            elif isinstance(answer, Settled):
                self._left.remove(self._marker)
                self._marker, self._data, self._successor = Place(self.ensemble, self._successor), answer.data, ""
            elif isinstance(answer, DISCONNECTED) and not self._session.is_stopping:
                self._owner.call_later(PAUSE_S, self._ask)
                return
            self._is_asking = False
            if isinstance(answer, Exception):
                self.lane.lost(None, answer)
            elif is_over:
                self.lane.lost(answer.batches, SessionExpiredError())
            else:
                self.lane.settled(answer.batches)
            self._go_on()

    def remove(self) -> None:
        """With the lock held: the lane has nothing pending. A marker that it waits for is removed too."""
        self._owner.leave(self)
        self._is_removed = True
        if not self._is_asking:
            self._remove_markers()

    def _remove_markers(self) -> None:
        for marker in self._left:
            self._remove_marker(marker)

    def _remove_marker(self, marker: Place) -> None:
        """Again, until it is known to be gone; a client that stops leaves it."""
        driver = self._session.driver
        if driver is not None and not self._session.is_stopping:
            driver.run(remove_marker(marker), OnAnswer(partial(self._removed, marker)))

    def _removed(self, marker: Place, answer: Exception | None) -> None:
        if isinstance(answer, DISCONNECTED):
            self._owner.call_later(PAUSE_S, partial(self._remove_marker, marker))
