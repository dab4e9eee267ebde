"""Lanes of deferred writes: batches out, answers in; what lands is a prefix, and lands once.

Each batch is one multi, which also sets the lane's marker if that has the version that all batches before this one
leave behind. So a batch lands only after all before it, and only once. A batch that fails or is lost makes all
after it fail at the server. docs/design/deferred.md has the whole argument.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable
from enum import Enum
from functools import partial
from itertools import chain, count, islice
from typing import TypeVar

from kazoo.exceptions import CancelledError, ConnectionLoss

from parkazoo.engine.deferred.marker import DISCONNECTED, LaneMarker
from parkazoo.engine.deferred.own_operations import OwnOperations
from parkazoo.engine.deferred.writes import (
    COMMITTED,
    DROPPED,
    FAILED,
    MOST_BYTES,
    MOST_WRITES,
    PENDING,
    UNKNOWN,
    Batch,
    Write,
    directory_of,
)
from parkazoo.engine.ports import OnAnswer
from parkazoo.protocol.chain import ChainedBatch, Landed
from parkazoo.protocol.placement import split
from parkazoo.protocol.subject import Subject, error_about

T = TypeVar("T")


class Lanes:
    """Holds the lanes of one ``client.deferred()``, one for each ensemble, and the lane of each directory.

    A directory belongs to a lane until that lane finds its children elsewhere. Every call that changes a lane
    goes through :meth:`enter`.

    :param guard: the whole path of a znode without which no batch lands; None: there is none.
    :param skips: whether the rest follows when a write is refused. If not, the lane ends there.
    :param on_change: called with the lock held when writes have ended.
    :ivar client: the number of the session to which all of this belongs.
    :ivar numbers: of writes. :ivar of: the lane of each directory in which something was written.
    :ivar bad: writes that have ended and are not COMMITTED, until an error names them. After an interruption some
        are in it twice.
    :ivar ended: the reason why no write is taken any more.
    :ivar torn: the exception that has interrupted a call, until the loop has seen to it.
    """

    def __init__(
        self, own: OwnOperations, skips: bool, guard: str | None, linger_s: float, on_change: Callable[[], None]
    ) -> None:
        self.own = own
        self.client = own.session.number
        self.skips = skips
        self.guard = guard
        self.linger_s = linger_s
        self.on_change = on_change
        self.numbers = count()
        self.of: dict[str, Lane] = {}
        self.all: tuple[Lane, ...] = ()
        self.bad: list[Write] = []
        self.ended = ""
        self.torn: BaseException | None = None
        own.lanes = (*own.lanes, self)

    @property
    def pending(self) -> int:
        """Counts the writes without an outcome."""
        pending = 0
        for lane in self.all:
            pending += lane.pending
        return pending

    @property
    def is_in_doubt(self) -> bool:
        return any(lane.is_in_doubt for lane in self.all)

    @property
    def is_over(self) -> bool:
        """Returns whether the session is over."""
        return self.own.session.number != self.client

    # ---- calls with the lock held ------------------------------------------------------------------

    def enter(self, call: Callable[..., T], *arguments: object) -> T:
        """Makes a call with the lock held. Any thread may.

        If the exception of a signal handler comes in the middle, none of the lanes goes on. (The connections are
        dropped, as for the client's other calls.)
        """
        with self.own.lock:
            try:
                if self.torn is not None:
                    self.mend()
                result = call(*arguments)
            except BaseException as error:
                self.torn = error
                self.mend()
                raise
        return result

    def mend(self) -> None:
        """Breaks the lanes off after an interruption.

        Another exception may come in the middle of this: the next caller begins anew.
        """
        self._break_off()
        self.own.runtime.call(self._settle)

    def _break_off(self) -> None:
        why = CancelledError(f"a call was interrupted by {type(self.torn).__name__}")
        self.ended = f"broken off: {why}"
        for lane in self.all:
            lane.break_off(why)

    def _settle(self) -> None:
        """On the loop, where no signal handler raises: asks the markers which batches are in."""
        with self.own.lock:
            if self.torn is not None:
                self._break_off()
                self.torn = None
                for lane in self.all:
                    lane.settle()
                self.on_change()

    def put(self, lane: Lane, directory: str, write: Write, most: int) -> bool | Exception:
        """Hands a write to the lane of its directory.

        :returns: whether that has taken it, False while `most` are pending; or the error because of which it takes
            none.
        """
        if self.pending >= most:
            return False
        error = lane.put(directory, write)
        return True if error is None else error

    def assign(self, directory: str, ensemble: int) -> Lane:
        """Returns the lane of a directory: the ensemble's, unless the directory belongs to one already."""
        if directory not in self.of:
            self.of[directory] = self.on(ensemble)
        return self.of[directory]

    def on(self, ensemble: int) -> Lane:
        """Returns the lane of an ensemble, and makes it if there is none."""
        for lane in self.all:
            if lane.ensemble == ensemble:
                return lane
        lane = Lane(self, ensemble)
        self.all = (*self.all, lane)
        lane.settle()
        return lane

    def flush(self) -> None:
        """Sends everything, as soon as the lanes are out of doubt. Any thread may call."""
        self.enter(self._flush)

    def _flush(self) -> None:
        for lane in self.all:
            lane.flush()

    def end(self, error: Exception) -> None:
        """Gives up all writes without an answer."""
        for lane in self.all:
            lane.settled(-1, error)

    def remove(self) -> None:
        """Removes the markers. No write may be pending."""
        for lane in self.all:
            lane.marker.remove()
        self.of.clear()
        self.all = ()
        self.own.lanes = tuple(each for each in self.own.lanes if each is not self)
        self.own.changed(False)


class Phase(Enum):
    """OPEN sends. DRAINING waits for the answers of batches in flight. SETTLING asks the marker. OVER is the end.

    A lane begins SETTLING: it has no marker yet.
    """

    OPEN = "open"
    DRAINING = "draining"
    SETTLING = "settling"
    OVER = "over"


class Lane:
    """Holds the deferred writes of one ``client.deferred()`` to one ensemble, in their order.

    A write that has not ended is at every moment in one queue of a lane at least. So :meth:`break_off` finds it,
    wherever a signal handler has raised. The caller of every method holds the lock.

    :ivar pending: the number of writes that have not ended. :ivar error: why no write is taken any more.
    """

    def __init__(self, lanes: Lanes, ensemble: int) -> None:
        self.ensemble = ensemble
        self.phase = Phase.SETTLING
        self.pending = 0
        self.error: Exception | None = None
        self.marker = LaneMarker(lanes.own, lanes.client, ensemble, lanes.enter, self.settled)
        self._lanes = lanes
        self._waiting: deque[Write] = deque()  # in no batch yet
        self._waiting_bytes = 0
        self._guests: list[Write] = []  # from another lane; their numbers may be lower
        self._again: deque[Batch] = deque()  # have been sent, and go first
        self._flight: deque[Batch] = deque()
        self._next = 0  # the number of the next batch
        self._is_timed = False
        self._is_urgent = False  # a batch is sent even if more writes would fit in
        self._gives_up = False  # nothing is sent again

    @property
    def is_in_doubt(self) -> bool:
        """Returns whether the lane does not know which of its batches are in."""
        return self.phase in (Phase.DRAINING, Phase.SETTLING)

    @property
    def _is_full(self) -> bool:
        """Returns whether a whole batch waits to be sent."""
        return len(self._waiting) >= MOST_WRITES or self._waiting_bytes >= MOST_BYTES

    def has_ended(self, number: int) -> bool:
        """Returns whether every write below this number has ended."""
        first = self._flight or self._again
        oldest = first[0].writes[0] if first else self._waiting[0] if self._waiting else None
        if self._guests:
            self._guests = [each for each in self._guests if each.state == PENDING]
        return oldest is None or min(each.number for each in (oldest, *self._guests)) >= number

    # ---- the next batch ----------------------------------------------------------------------------

    def put(self, directory: str, write: Write) -> Exception | None:
        """Takes a write, or returns the error because of which the lane takes none."""
        lanes = self._lanes
        if lanes.ended:  # since the caller has looked; the marker may be gone
            return ConnectionLoss()
        lane = lanes.of.get(directory, self)
        if lane is not self:  # since the caller has looked
            return lane.put(directory, write)
        if self.error is None:
            write.number = next(lanes.numbers)
            self._waiting.append(write)
            self._waiting_bytes += write.size
            self.pending += 1
            if self._is_full and self.phase is Phase.OPEN:
                self._go_on()
            if not self._is_timed and self._waiting:
                self._is_timed = True
                lanes.own.call_later(lanes.linger_s, partial(lanes.enter, self._have_lingered))
        return self.error

    def _have_lingered(self) -> None:
        self._is_timed = False
        self.flush()

    def flush(self) -> None:
        """Sends everything, as soon as the lane is out of doubt."""
        if self._waiting or (self._lanes.is_over and self.phase is Phase.OPEN):
            self._is_urgent = True
            self._go_on()

    def _take_in(self, writes: Iterable[Write]) -> None:
        """Adds writes of a directory that another lane gives up."""
        for write in writes:
            self.pending += 1
            if self.error is not None:
                self._end([write], DROPPED, self.error)
                continue
            self._waiting.append(write)
            self._waiting_bytes += write.size
            self._guests.append(write)

    def _go_on(self) -> None:
        """Does everything that is due after a change."""
        if self.phase is Phase.OPEN and self._lanes.is_over:
            self.phase = Phase.DRAINING
        if self.phase is Phase.DRAINING and all(each.answer is not None for each in self._flight):
            self._resolve()
        if self.phase is Phase.OPEN and self.error is not None and not (self._flight or self._again):
            self._be_over()
        if self.phase is Phase.SETTLING and not self.marker.is_asked:
            self.marker.ask()
        while (batch := self._take()) is not None:
            self._send(batch)
        if not self._waiting:
            self._is_urgent = False
        self._lanes.own.changed(self.is_in_doubt)

    def _take(self) -> Batch | None:
        """Returns the next batch to send now; it is in flight then."""
        if self.phase is not Phase.OPEN:
            return None
        if self._again:
            self._begin_flight(batch := self._again[0])
            self._again.popleft()
        elif self.error is None and self._waiting and (self._is_urgent or self._is_full):
            self._begin_flight(batch := Batch(self._first_waiting()))
            for write in batch.writes:
                self._waiting.popleft()
                self._waiting_bytes -= write.size
        else:
            return None
        return batch

    def _first_waiting(self) -> list[Write]:
        """Returns as many writes as fit in a batch."""
        first: list[Write] = []
        size = 0
        for write in islice(self._waiting, MOST_WRITES):
            size += write.size
            if first and size > MOST_BYTES:
                break
            first.append(write)
        return first

    def _begin_flight(self, batch: Batch) -> None:
        batch.number, self._next = self._next, self._next + 1
        batch.answer = None
        self._flight.append(batch)

    def _send(self, batch: Batch) -> None:
        marker, lanes = self.marker, self._lanes
        requests = [write.request for write in batch.writes]
        request = ChainedBatch(marker.place, batch.number - marker.base, marker.data, lanes.guard, requests)
        lanes.own.session.call(request, OnAnswer(partial(lanes.enter, self.answered, batch)))

    # ---- what comes back ---------------------------------------------------------------------------

    def answered(self, batch: Batch, answer: Landed | Exception) -> None:
        """Takes the answer to a batch."""
        if batch.answer is None:
            batch.answer = answer
        if isinstance(answer, Exception) and not isinstance(answer, DISCONNECTED):
            self._gives_up = True  # it was not even sent, or the answer makes no sense
            self._stop(answer)
        while self._flight and self._flight[0].has_landed:
            self._end(self._flight[0].writes, COMMITTED)
            self._flight.popleft()
        if self.phase is Phase.OPEN and self._flight and not batch.has_landed:
            self.phase = Phase.DRAINING
        self._go_on()
        self._lanes.on_change()

    def settled(self, count: int, error: Exception | None = None) -> None:
        """Takes the marker's answer. No batch that was sent before can land any more.

        :param count: of batches that are in; -1: unknown. :param error: ends the lane; None: it goes on.
        """
        while self._flight and (self._flight[0].number < count or error is not None):
            batch = self._flight[0]
            is_unknown = count < 0 and batch.may_have_landed
            state = COMMITTED if batch.number < count else UNKNOWN if is_unknown else DROPPED
            self._end(batch.writes, state, error)
            self._flight.popleft()
        if error is None:
            self._go_back(count)
            if self._gives_up:
                self._drop_again(0)
        else:
            self._stop(error)
            self._drop_again(0)
            self._be_over()
        self._go_on()
        self._lanes.on_change()

    def _resolve(self) -> None:
        """Decides how to go on when every batch in flight has an answer."""
        first = self._flight[0] if self._flight else None
        refusal = first.refusal if first else None
        is_lost = self._lanes.is_over or any(each.may_have_landed for each in self._flight)
        if first is None or refusal is None or is_lost:
            self.phase = Phase.SETTLING
            return
        self._go_back(first.number)
        at = refusal.at - (self._lanes.guard is not None)
        if refusal.elsewhere < 0:
            self._leave_out(first, at, refusal.error)
        elif at > 0:  # the writes in front of it come first, and alone
            self._again.insert(1, Batch(first.writes[at:]))
            del first.writes[at:]
        elif at == 0:
            self._move([split(first.writes[0].request.path)[0]], refusal.elsewhere)
        else:  # the guard has moved, and all must be where it is
            self._move([each for each, lane in self._lanes.of.items() if lane is self], refusal.elsewhere)

    def _leave_out(self, batch: Batch, at: int, error: Exception | None) -> None:
        """Takes the refused write, at this index, out of a batch; -1: the guard was refused."""
        writes = batch.writes
        assert error is not None
        if not error.args:
            error = self._named(error, writes[at].request.path if at >= 0 else str(self._lanes.guard))
        if at < 0:
            self._stop(error)
            self._drop_again(0)
            return
        self._end([writes[at]], FAILED, error)
        if self._lanes.skips:
            batch.writes = writes[:at] + writes[at + 1 :]
        else:
            self._stop(error)
            self._end(writes[at + 1 :], DROPPED, error)
            batch.writes = writes[:at]
            self._drop_again(1)
        if not batch.writes:
            self._again.popleft()

    def _named(self, error: Exception, path: str) -> Exception:
        """Returns the error with the user's path and the ensemble, as errors of other requests have them."""
        driver = self._lanes.own.driver
        return error_about(type(error), Subject(driver.unchroot(path), driver.context.names[self.ensemble]))

    def _move(self, directories: Collection[str], ensemble: int) -> None:
        """Gives directories to another ensemble's lane. No write before their first one may be pending."""

        def is_inside(write: Write) -> bool:
            return directory_of(write.request.path) in directories

        queued = chain(chain.from_iterable(batch.writes for batch in self._again), self._waiting)
        inside = [write for write in queued if is_inside(write)]
        lane = self._lanes.on(ensemble)
        for directory in directories:
            self._lanes.of[directory] = lane
        lane._take_in(inside)
        for batch in self._again:
            batch.writes = [write for write in batch.writes if not is_inside(write)]
        self._again = deque(batch for batch in self._again if batch.writes)
        self._waiting = deque(write for write in self._waiting if not is_inside(write))
        self._waiting_bytes = sum(write.size for write in self._waiting)
        self.pending -= len(inside)
        lane.flush()

    def _drop_again(self, first: int) -> None:
        while len(self._again) > first:
            self._end(self._again[-1].writes, DROPPED, self.error)
            self._again.pop()

    def _go_back(self, number: int) -> None:
        """Sends the batches in flight once more, the first with this number."""
        self._again.extendleft(reversed(self._flight))
        self._flight.clear()
        self._next = number
        self.phase = Phase.OPEN

    # ---- the end -----------------------------------------------------------------------------------

    def break_off(self, error: Exception) -> None:
        """Stops sending after an interruption. The queues have every write, some perhaps twice.

        Queued writes have not landed, and are dropped. :meth:`settle` asks about the batches in flight.
        """
        self._gives_up = True
        self._stop(error)
        queued = chain.from_iterable(batch.writes for batch in self._again)
        self._end(chain(queued, self._waiting), DROPPED, self.error)
        self._again.clear()
        self._waiting.clear()
        self._waiting_bytes = 0
        self.pending = sum(write.state == PENDING for batch in self._flight for write in batch.writes)
        if self.phase is not Phase.OVER:
            self.phase = Phase.SETTLING

    def settle(self) -> None:
        """Asks the marker, even if it was asked before; makes it if there is none."""
        if self.phase is Phase.SETTLING:
            self.marker.ask()
        self._lanes.own.changed(self.is_in_doubt)

    def _stop(self, error: Exception) -> None:
        if self.error is None:
            self.error = error

    def _be_over(self) -> None:
        self._end(self._waiting, DROPPED, self.error)
        self._waiting.clear()
        self._waiting_bytes = 0
        self.phase = Phase.OVER

    def _end(self, writes: Iterable[Write], state: str, error: Exception | None = None) -> None:
        for write in writes:
            if write.state != PENDING:
                continue
            if state != COMMITTED:
                self._lanes.bad.append(write)
                write.error = error
            write.state = state
            self.pending -= 1
