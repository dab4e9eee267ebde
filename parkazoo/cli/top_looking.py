"""Rates taken from their source in a thread, so that keys need not wait for a look."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import closing, suppress
from queue import Empty, SimpleQueue
from typing import NamedTuple

from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from parkazoo.admin.rates import Rates

AGAIN_S = 2.0  # after a look that failed
LATE_S = 2.0  # after which a look takes long
FOUND_KEPT = 15  # while its reader stands still, as a frozen terminal makes it
LEAVE_S = 0.5  # for the sessions to be closed
MENDABLE = (KazooException, KazooTimeoutError, OSError)  # ClusterMapError is one of kazoo's


class Pauses(NamedTuple):
    """What a source of rates asks, and calls to pause for seconds."""

    is_ended: Callable[[], bool]
    sleep: Callable[[float], object]


Source = Callable[[Pauses], Generator[Rates, None, None]]


class Failed(NamedTuple):
    error: Exception
    is_last: bool


class Looking:
    """Takes rates from a source, in a thread: a look may take as long as it likes.

    :param repeats: whether it begins again if a look fails. :param holds: whether a pause holds the source too.
    """

    def __init__(self, source: Source, *, repeats: bool, holds: bool) -> None:
        self.found: SimpleQueue[Rates | Failed | None] = SimpleQueue()  # None: there are no more
        self.goes_on = threading.Event()
        self.goes_on.set()
        self._source, self._repeats, self._holds = source, repeats, holds
        self._has_any = False
        self._ended = threading.Event()
        # not a worker of Textual's, which its end would wait for
        self._thread = threading.Thread(target=self._run, name="top", daemon=True)

    def begin(self) -> None:
        self._thread.start()

    def end(self) -> bool:
        """Whether it ended in time."""
        self._ended.set()
        self.goes_on.set()
        if self._thread.ident is not None:
            self._thread.join(LEAVE_S)
        return not self._thread.is_alive()

    def _sleep(self, seconds: float) -> None:
        self._ended.wait(seconds)
        if self._holds:
            self.goes_on.wait()

    def _run(self) -> None:
        while self._take():
            if self._ended.wait(AGAIN_S):
                return

    def _take(self) -> bool:
        """Takes all that the source gives; whether it is to be asked anew."""
        try:
            with closing(self._source(Pauses(self._ended.is_set, self._sleep))) as taken:
                for rates in taken:
                    self._has_any = True
                    self._put(rates)
        except Exception as error:
            is_last = not (self._repeats and self._has_any and isinstance(error, MENDABLE))
            self._put(Failed(error, is_last))
            return not is_last
        self._put(None)
        return False

    def _put(self, found: Rates | Failed | None) -> None:
        while self.found.qsize() >= FOUND_KEPT:
            with suppress(Empty):
                self.found.get_nowait()
        self.found.put(found)
