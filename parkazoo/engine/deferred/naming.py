"""Which barrier names which of the deferred writes that are not done. For both clients."""

from __future__ import annotations

from weakref import WeakSet

from parkazoo.engine.deferred.lanes import Lanes
from parkazoo.engine.deferred.writes import Write


class WaitingBarrier:
    """One that waits.

    :param caller: its thread, greenlet or task. :param before: what had been named when it began.
    """

    def __init__(self, caller: object, before: frozenset[Write]) -> None:
        self.caller = caller
        self.before = before


class Naming:
    """Has each barrier name the writes that have ended badly: those that another one names meanwhile, too, for it
    may be of the caller that has issued them. What one that was given up has not named, the next one of any caller
    names that has not heard of it.

    Any thread may call. A signal handler's exception may come between any two lines.
    """

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes
        self._lock = lanes.own.lock
        self._waiting: WeakSet[WaitingBarrier] = WeakSet()  # or ended by a signal handler
        self._named: frozenset[Write] = frozenset()  # kept for those that wait
        self._heard: dict[Write, WeakSet[object]] = {}  # who knows of these, and of those that were given up

    def begin(self, caller: object) -> WaitingBarrier:
        """A barrier of that caller begins to wait."""
        with self._lock:
            barrier = WaitingBarrier(caller, self._named)
            self._waiting.add(barrier)
        return barrier

    def bad(self, barrier: WaitingBarrier) -> list[Write]:
        """Returns what it has to name."""
        with self._lock:
            bad = [write for write in dict.fromkeys(self._lanes.bad) if self._is_new(write, barrier)]
        return bad  # noqa: RET504 - inside, a signal handler's exception could keep the lock

    def unheard(self) -> list[Write]:
        """Returns what no barrier has named."""
        with self._lock:
            bad = [write for write in dict.fromkeys(self._lanes.bad) if write not in self._heard]
        return bad  # noqa: RET504 - as above

    def _is_new(self, write: Write, barrier: WaitingBarrier) -> bool:
        return write not in barrier.before and barrier.caller not in self._heard.get(write, ())

    def name(self, bad: list[Write], barrier: WaitingBarrier) -> None:
        """It has named them."""
        self.end(barrier)
        with self._lock:
            named, waiting = self._named.union(bad), list(self._waiting)
            kept = {write for write in named if any(self._is_new(write, each) for each in waiting)}
            self._named = named  # before the next line: a signal handler's exception may come between
            self._lanes.bad = [write for write in self._lanes.bad if write not in named or write in kept]
            self._named = frozenset(kept)
            for write in kept.intersection(bad):
                self._heard.setdefault(write, WeakSet()).add(barrier.caller)
            self._heard = {write: self._heard[write] for write in self._lanes.bad if write in self._heard}

    def give_up(self, barrier: WaitingBarrier) -> None:
        """It ends, and has not named what others have named meanwhile."""
        self.end(barrier)
        with self._lock:
            self._named &= barrier.before

    def end(self, barrier: WaitingBarrier) -> None:
        with self._lock:
            self._waiting.discard(barrier)
