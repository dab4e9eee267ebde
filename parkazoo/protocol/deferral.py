"""Deferred writes to one ensemble: in which batches they go, and what has become of them. Pure.

Each batch is one multi, which also sets the lane's marker if that has the version that all batches before this one
leave behind. So a batch lands only behind all before it, and only once. A batch that fails or is lost makes all
behind it fail at the server. docs/design/deferred.md has the whole argument.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from enum import Enum
from itertools import chain, islice
from typing import NamedTuple

from parkazoo.protocol.placement import is_of_zookeeper, split
from parkazoo.protocol.steps import Request

MOST_WRITES = 64  # in a batch
MOST_BYTES = 512 * 1024  # in a batch, unless one write alone has more
OVERHEAD_BYTES = 100  # of a write in a batch, beside its path and value

PENDING, COMMITTED, FAILED, DROPPED, UNKNOWN = "pending", "committed", "failed", "dropped", "unknown"


def directory_of(path: str) -> str:
    """The directory to whose lane a write belongs."""
    return path.rpartition("/")[0] or (path if is_of_zookeeper(path) else "/")


class Write:
    """One deferred write, and what has become of it.

    :ivar request: kazoo's, with the whole path. :ivar error: why it is FAILED, DROPPED or UNKNOWN.
    """

    __slots__ = ("error", "number", "request", "size", "state")

    def __init__(self, request: Request, size: int) -> None:
        self.request = request
        self.size = size
        self.number = -1  # of all that its lane and those beside it have taken
        self.state = PENDING
        self.error: Exception | None = None

    def end(self, state: str, error: Exception | None = None) -> None:
        self.error = error
        self.state = state


class Outcome(Enum):
    """What is known of a batch."""

    DONE = "done"
    FAILED = "failed"  # one of its writes, or the guard, was refused
    APART = "apart"  # one of its writes is to go to another ensemble: nothing of the batch was done
    BEHIND = "behind"  # the marker was not what it must be: nothing of the batch was done
    LOST = "lost"  # it may have been done


class Batch:
    """Writes that go together.

    :ivar number: how many batches of the lane are in front of it.
    :ivar outcome: None until it is answered.
    :ivar failed_at: the index of the write that was refused, or is to go elsewhere; -1: the guard.
    :ivar elsewhere: the ensemble to which it is to go.
    """

    def __init__(self, writes: list[Write]) -> None:
        self.writes = writes
        self.number = -1
        self.outcome: Outcome | None = None
        self.failed_at = self.elsewhere = -1
        self.error: Exception | None = None

    def answer(
        self, outcome: Outcome, failed_at: int = -1, error: Exception | None = None, elsewhere: int = -1
    ) -> None:
        self.outcome, self.failed_at, self.error, self.elsewhere = outcome, failed_at, error, elsewhere


class Moved(NamedTuple):
    """What a lane gives up, because they are elsewhere: all writes of a directory that have not ended."""

    directory: str
    ensemble: int
    writes: list[Write]


class Phase(Enum):
    """OPEN sends. DRAINING waits for the answers to what is under way. SETTLING asks the marker. OVER is the end.

    A lane begins SETTLING: it has no marker yet.
    """

    OPEN = "open"
    DRAINING = "draining"
    SETTLING = "settling"
    OVER = "over"


class Lane:
    """The deferred writes of one client to one ensemble, in their order.

    A write that has not ended is at every moment in one of the lane's queues at least. So :meth:`break_off` finds
    it, wherever a signal handler has raised.

    :param skips: whether the rest follows when a write is refused. If not, the lane ends there.
    :param numbers: of writes; lanes beside this one use them too.
    :ivar pending: how many writes have not ended. :ivar base: the batches that were in when the marker was made.
    :ivar bad: what has ended and is not COMMITTED, until it is told; after an interruption, some twice.
    :ivar moved: what the lane has given up, until another one has it.
    :ivar error: why it is OVER, or will be behind what is sent again.
    """

    def __init__(self, skips: bool, numbers: Iterator[int]) -> None:
        self.phase = Phase.SETTLING
        self.pending = self.base = 0
        self._numbers = numbers
        self.bad: list[Write] = []
        self._skips = skips
        self._waiting: deque[Write] = deque()  # in no batch yet
        self._waiting_bytes = 0
        self._guests: list[Write] = []  # that another lane has given up; their numbers may be lower
        self.moved: deque[Moved] = deque()
        self._again: deque[Batch] = deque()  # have been sent, and go first
        self._flight: deque[Batch] = deque()
        self._next = 0  # the number of the next batch
        self._is_lost = False  # the session is over
        self._gives_up = False  # nothing is sent again
        self.error: Exception | None = None

    @property
    def is_full(self) -> bool:
        """Whether a whole batch waits to be sent."""
        return len(self._waiting) >= MOST_WRITES or self._waiting_bytes >= MOST_BYTES

    @property
    def has_unsent(self) -> bool:
        return bool(self._waiting)

    def has_ended(self, number: int) -> bool:
        """Whether every write in front of this number has ended."""
        first = self._flight or self._again
        oldest = first[0].writes[0] if first else self._waiting[0] if self._waiting else None
        if self._guests:
            self._guests = [each for each in self._guests if each.state == PENDING]
        return oldest is None or min(each.number for each in (oldest, *self._guests)) >= number

    def forget(self, told: Iterable[Write]) -> None:
        """These have been told."""
        known = set(told)
        self.bad = [write for write in self.bad if write not in known]

    def add(self, write: Write) -> bool:
        """Returns whether a whole batch waits to be sent."""
        write.number = next(self._numbers)
        self._waiting.append(write)
        self._waiting_bytes += write.size
        self.pending += 1
        return len(self._waiting) >= MOST_WRITES or self._waiting_bytes >= MOST_BYTES

    def take_in(self, writes: Iterable[Write]) -> None:
        """Add what another lane has given up."""
        for write in writes:
            self.pending += 1
            if self.error is not None:
                self._end([write], DROPPED, self.error)
                continue
            self._waiting.append(write)
            self._waiting_bytes += write.size
            self._guests.append(write)

    def take(self, is_urgent: bool) -> Batch | None:
        """The next batch to send now.

        :param is_urgent: even if more writes would fit in.
        """
        if self.phase is not Phase.OPEN:
            return None
        if self._again:
            self._begin_flight(batch := self._again[0])
            self._again.popleft()
        elif self.error is None and self._waiting and (is_urgent or self.is_full):
            self._begin_flight(batch := Batch(self._first_waiting()))
            for write in batch.writes:
                self._waiting.popleft()
                self._waiting_bytes -= write.size
        else:
            return None
        return batch

    def _first_waiting(self) -> list[Write]:
        """As many as fit in a batch."""
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
        batch.outcome = None
        self._flight.append(batch)

    def answered(self) -> None:
        """A batch has got its outcome."""
        self._commit_first()
        if self.phase is Phase.OPEN and any(each.outcome not in (None, Outcome.DONE) for each in self._flight):
            self.phase = Phase.DRAINING
        if self.phase is Phase.DRAINING and all(each.outcome is not None for each in self._flight):
            self._resolve()
        self._end_if_stopped()

    def _commit_first(self) -> None:
        while self._flight and self._flight[0].outcome is Outcome.DONE:
            self._end(self._flight[0].writes, COMMITTED)
            self._flight.popleft()

    def _resolve(self) -> None:
        """Nothing is under way any more: the first batch did not land, or may not have landed."""
        first = self._flight[0] if self._flight else None
        is_lost = self._is_lost or any(each.outcome is Outcome.LOST for each in self._flight)
        if first is None or is_lost or first.outcome not in (Outcome.FAILED, Outcome.APART):
            self.phase = Phase.SETTLING
            return
        self._go_back(first.number)
        if first.outcome is Outcome.FAILED:
            self._leave_out(first)
        elif first.failed_at:  # what is in front of it comes first, and alone
            self._again.insert(1, Batch(first.writes[first.failed_at :]))
            del first.writes[first.failed_at :]
        else:
            self._give_up_directory(split(first.writes[0].request.path)[0], first.elsewhere)

    def _leave_out(self, batch: Batch) -> None:
        """What a batch does without the write that was refused."""
        at, error = batch.failed_at, batch.error
        assert error is not None
        if at < 0:  # the guard
            self.stop(error)
            self._drop_again(0)
            return
        refused, behind = batch.writes[at], batch.writes[at + 1 :]
        self._end([refused], FAILED, error)
        if self._skips:
            batch.writes = batch.writes[:at] + behind
        else:
            self.stop(error)
            self._end(behind, DROPPED, error)
            batch.writes = batch.writes[:at]
            self._drop_again(1)
        if not batch.writes:
            self._again.popleft()

    def _give_up_directory(self, directory: str, ensemble: int) -> None:
        """The lane has nothing under way, and everything in front of the directory's first write has ended."""

        def is_inside(write: Write) -> bool:
            return split(write.request.path)[0] == directory

        queued = chain(chain.from_iterable(batch.writes for batch in self._again), self._waiting)
        inside = [write for write in queued if is_inside(write)]
        self.moved.append(Moved(directory, ensemble, inside))
        for batch in self._again:
            batch.writes = [write for write in batch.writes if not is_inside(write)]
        self._again = deque(batch for batch in self._again if batch.writes)
        self._waiting = deque(write for write in self._waiting if not is_inside(write))
        self._waiting_bytes = sum(write.size for write in self._waiting)
        self.pending -= len(inside)

    def _drop_again(self, first: int) -> None:
        while len(self._again) > first:
            self._end(self._again[-1].writes, DROPPED, self.error)
            self._again.pop()

    def _go_back(self, number: int) -> None:
        """Send what is under way once more, the first with this number."""
        self._again.extendleft(reversed(self._flight))
        self._flight.clear()
        self._next = number
        self.phase = Phase.OPEN

    def settled(self, count: int) -> None:
        """The lane has a new marker, and nothing that was sent with an old one can land any more.

        :param count: so many batches are in.
        """
        while self._flight and self._flight[0].number < count:
            self._end(self._flight[0].writes, COMMITTED)
            self._flight.popleft()
        self.base = count
        self._go_back(count)
        if self._gives_up:
            self._drop_again(0)
        self._end_if_stopped()

    def lost(self, count: int | None, error: Exception) -> None:
        """The lane ends: the session is over, or the marker is gone.

        :param count: so many batches are in, and no more will be; None: no one knows.
        """
        self.stop(error)
        while self._flight:
            batch = self._flight[0]
            is_unknown = count is None and batch.outcome in (None, Outcome.LOST)
            is_in = count is not None and batch.number < count
            self._end(batch.writes, COMMITTED if is_in else UNKNOWN if is_unknown else DROPPED, error)
            self._flight.popleft()
        self._drop_again(0)
        self.phase = Phase.OPEN
        self._end_if_stopped()

    def end_session(self) -> None:
        """The session is over: nothing is sent, and the marker is asked when what is under way is answered."""
        self._is_lost = True
        if self.phase is Phase.OPEN:
            self.phase = Phase.DRAINING
        self.answered()

    def give_up(self, error: Exception) -> None:
        """A batch was not even sent, or its answer makes no sense: no sense in sending it again."""
        self._gives_up = True
        self.stop(error)

    def break_off(self, error: Exception) -> None:
        """A call was interrupted in the middle: the queues have every write, and perhaps twice.

        What is queued has not landed. What has landed of the rest is asked of the marker. Nothing more is sent.
        """
        self.give_up(error)
        queued: list[Batch | Moved] = [*self._again, *self.moved]
        self._end(chain(*(each.writes for each in queued), self._waiting), DROPPED, self.error)
        self._again.clear()
        self.moved.clear()
        self._waiting.clear()
        self._waiting_bytes = 0
        self.pending = sum(write.state == PENDING for batch in self._flight for write in batch.writes)
        if self.phase is not Phase.OVER:
            self.phase = Phase.SETTLING

    def stop(self, error: Exception) -> None:
        if self.error is None:
            self.error = error

    def _end_if_stopped(self) -> None:
        if self.error is None or self.phase is not Phase.OPEN or self._flight or self._again:
            return
        self._end(self._waiting, DROPPED, self.error)
        self._waiting.clear()
        self._waiting_bytes = 0
        self.phase = Phase.OVER

    def _end(self, writes: Iterable[Write], state: str, error: Exception | None = None) -> None:
        for write in writes:
            if write.state != PENDING:
                continue
            if state != COMMITTED:
                self.bad.append(write)
            write.end(state, None if state == COMMITTED else error)
            self.pending -= 1
