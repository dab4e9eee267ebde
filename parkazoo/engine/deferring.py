"""Runs the lanes of deferred writes: batches out, answers in, markers made, asked and replaced."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from itertools import count
from typing import Any

from kazoo.exceptions import CancelledError, ConnectionLoss, OperationTimeoutError, SessionExpiredError

from parkazoo.engine.deferrals import Deferrals
from parkazoo.engine.ports import OnAnswer
from parkazoo.protocol.chain import (
    ChainedBatch,
    Landed,
    Settled,
    make_marker,
    marker_path,
    remove_marker,
    replace_marker,
)
from parkazoo.protocol.deferral import Batch, Lane, Outcome, Phase, Write, directory_of
from parkazoo.protocol.placement import Place
from parkazoo.protocol.steps import Operation
from parkazoo.protocol.subject import Subject, error_about

DISCONNECTED = (ConnectionLoss, SessionExpiredError, OperationTimeoutError)
PAUSE_S = 0.05  # before a marker is asked again


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
    :ivar has_moved: whether a directory has changed its lane. :ivar ended: why no write is taken any more.
    :ivar running: all lanes, in their order. :ivar torn: has interrupted a call, and the loop has not seen to it.
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
        self.ended = ""
        self.torn: BaseException | None = None
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
        try:
            if directory not in self.of:
                self.of[directory] = self._on(ensemble)
            return self.of[directory]
        except BaseException as error:
            self.torn = error
            self.mend()
            raise

    def _on(self, ensemble: int) -> RunningLane:
        for running in self.running:
            if running.ensemble == ensemble:
                return running
        running = RunningLane(self, Lane(self._skips, self.numbers), ensemble)
        self.running = (*self.running, running)
        running.begin()
        return running

    def move(self, lane: Lane) -> None:
        """Directories of a lane have their children elsewhere: what was to be written there goes on there."""
        changed = []
        while lane.moved:
            directory, ensemble, writes = lane.moved[0]
            running = self.of[directory] = self._on(ensemble)
            self.has_moved = True
            running.lane.take_in(writes)
            lane.moved.popleft()
            changed.append(running)
        for running in changed:
            running.hurry()

    def mend(self) -> None:
        """With the lock held, before anything else: has a signal handler's exception come in the middle of a call?

        Then none of the lanes goes on. (The connections are dropped, as for the client's other calls.) Another
        exception may come in the middle of this: whoever comes next begins anew.
        """
        if self.torn is not None:
            self._break_off(self.torn)
            self.owner.runtime.call(self._settle)

    def _break_off(self, error: BaseException) -> None:
        why = CancelledError(f"a call was interrupted by {type(error).__name__}")
        self.ended = f"broken off: {why}"
        for running in self.running:
            running.lane.break_off(why)

    def _settle(self) -> None:
        """On the loop, where no signal handler raises."""
        with self.lock:
            if self.torn is not None:
                self._break_off(self.torn)
                self.torn = None
                for running in self.running:
                    running.settle()

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
        self._question: object | None = None  # to which the marker's answer has not come

    def begin(self) -> None:
        """With the lock held."""
        self._owner.enter(self)
        self._ask()

    @property
    def is_in_doubt(self) -> bool:
        return self.lane.phase in (Phase.DRAINING, Phase.SETTLING)

    # ---- what is to be sent ------------------------------------------------------------------------

    def add(self, write: Write) -> Exception | None:
        """Take a write; or return why the lane takes none any more."""
        lane, lanes = self.lane, self._lanes
        with self._lock:
            try:
                lanes.mend()
                now, refusal = self, lane.error
                if lanes.has_moved:  # since the caller has looked, perhaps
                    now = lanes.of.get(directory_of(write.request.path), self)
                if lanes.ended:  # the same; the marker may be gone
                    refusal = ConnectionLoss()
                elif now is not self:
                    refusal = now.add(write)
                elif refusal is None:
                    if lane.add(write):
                        self._pump()
                    if not self._is_timed and lane.has_unsent:
                        self._is_timed = True
                        self._owner.call_later(lanes.linger_s, self._have_lingered)
                    refusal = lane.error
            except BaseException as error:
                lanes.torn = error
                lanes.mend()
                raise
        return refusal

    def hurry(self) -> None:
        """With the lock held: it has what another lane has given up."""
        self._is_urgent = True
        self._go_on()

    def flush(self) -> None:
        """Put everything on the wire, as soon as the lane is out of doubt."""
        lanes = self._lanes
        with self._lock:
            try:
                lanes.mend()
                if self.lane.has_unsent or self._is_over:
                    self._is_urgent = True
                    self._pump()
            except BaseException as error:
                lanes.torn = error
                lanes.mend()
                raise

    def settle(self) -> None:
        """With the lock held: the lane is broken off. What may be in is asked of the marker."""
        self._question = None
        self._go_on()

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
        self._session.call(request, OnAnswer(partial(self._answered, batch)))

    # ---- what comes back ---------------------------------------------------------------------------

    def _answered(self, batch: Batch, answer: Landed | Exception) -> None:
        with self._lock:
            self._lanes.mend()
            if batch.outcome is None:
                batch.answer(*self._outcome(batch, answer))
            was_in_doubt = self.is_in_doubt
            self.lane.answered()
            if self.is_in_doubt and not was_in_doubt:
                self._owner.hold()
            self._lanes.move(self.lane)
            self._go_on()

    def _outcome(self, batch: Batch, answer: Landed | Exception) -> tuple[Outcome, int, Exception | None, int]:
        if isinstance(answer, Exception):
            if not isinstance(answer, DISCONNECTED):
                self.lane.give_up(answer)
            return Outcome.LOST, -1, answer, -1
        at, error, elsewhere = answer
        if error is None:
            return Outcome.DONE, -1, None, -1
        if at < 0:
            return Outcome.BEHIND, -1, error, -1
        index = at - (self._guard is not None)
        if not error.args:
            error = self._named(error, batch.writes[index].request.path if index >= 0 else str(self._guard))
        return Outcome.FAILED if elsewhere < 0 else Outcome.APART, index, error, elsewhere

    def _named(self, error: Exception, path: str) -> Exception:
        """As of the client's other requests: with the user's path, and the ensemble."""
        driver = self._session.driver
        assert driver is not None
        return error_about(type(error), Subject(driver.unchroot(path), driver.context.names[self.ensemble]))

    def _go_on(self) -> None:
        """With the lock held, after the lane has changed."""
        if self.lane.phase is Phase.SETTLING and self._question is None:
            self._ask()
        elif self.lane.phase is Phase.OPEN:
            self._pump()
        if not self.is_in_doubt:
            self._owner.release()
        self._lanes.on_change()

    # ---- the marker --------------------------------------------------------------------------------

    def _ask(self) -> None:
        """With the lock held."""
        self._question = question = object()
        operation: Operation[Any]
        driver = self._session.driver
        assert driver is not None
        if not self._data:  # under another name each time: one that was lost may still be made, after all else
            self._marker = self._new_marker()
            operation = make_marker(self._marker, self._client, self._owner.acl)
        else:
            self._successor = self._successor or self._new_marker().path
            operation = replace_marker(self._marker, self._successor, self._client, self._owner.acl)
        driver.run(operation, OnAnswer(partial(self._told, question)))

    def _ask_again(self, question: object) -> None:
        with self._lock:
            if question is self._question:
                self._ask()

    def _new_marker(self) -> Place:
        marker = Place(self.ensemble, marker_path(self._runtime.new_mark()))
        self._left.append(marker)
        return marker

    def _told(self, question: object, answer: bytes | Settled | Exception) -> None:
        with self._lock:
            self._lanes.mend()
            if question is not self._question:  # a call was interrupted since; it was asked again
                return
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
                self._owner.call_later(PAUSE_S, partial(self._ask_again, question))
                return
            self._question = None
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
        if self._question is None:
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
