"""Several processes of one gateway: a parent starts them, starts another for each that ends, and ends all."""

from __future__ import annotations

import logging
import os
import select
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

log = logging.getLogger(__name__)

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)
SHORT_S = 5.0  # one that has lived no longer is started again later
LATER_S = 1.0
STOP_S = 20.0  # then they are killed
READY = b"\n"

Run = Callable[[int, Callable[[], None]], None]


class WorkersError(OSError):
    """Reports that the workers have not started."""


class WorkerProcesses:
    """:param count: how many.
    :param run: called in each of them, and ends it when it returns; with a file that ends when the parent does,
        and with what says that programs can connect.
    """

    def __init__(self, count: int, run: Run) -> None:
        self._count = count
        self._run = run
        self._begun_s: dict[int, float] = {}  # by pid
        self._due_s: list[float] = []  # when others start in place of ended ones
        self._lifeline = self._ready = (-1, -1)  # pipes: from the parent, to the parent

    def serve(self, on_start: Callable[[], None]) -> None:
        """Until SIGTERM or SIGINT. The calling process must have one thread.

        :param on_start: called once, when all are ready.
        :raises WorkersError: one has ended before.
        """
        self._lifeline, self._ready = os.pipe(), os.pipe()
        try:
            with _woken() as wakes:
                self._due_s = self._count * [0.0]
                try:
                    self._supervise(wakes, on_start)
                finally:
                    self._end(wakes)
        finally:
            for each in (*self._lifeline, *self._ready):
                os.close(each)

    def _supervise(self, wakes: socket.socket, on_start: Callable[[], None]) -> None:
        missing = self._count
        while True:
            now_s = time.monotonic()
            for due_s in [each for each in self._due_s if each <= now_s]:
                self._due_s.remove(due_s)
                try:
                    self._start()
                except OSError as error:  # too many processes, for example
                    log.warning("a worker cannot start: %s: again in %g s", error.strerror, LATER_S)
                    self._due_s.append(now_s + LATER_S)
            wait_s = max(0.0, min(self._due_s) - now_s) if self._due_s else None
            readable, _, _ = select.select([wakes.fileno(), self._ready[0]], [], [], wait_s)
            if self._ready[0] in readable:
                count = len(os.read(self._ready[0], self._count))
                if 0 < missing <= count:
                    on_start()
                missing -= count
            if wakes.fileno() in readable and _are_to_end(wakes):
                return
            ended = self._reap()
            if ended and missing > 0:
                raise WorkersError("a worker has ended at its start")
            for pid, status, begun_s in ended:
                log.warning("worker %d has ended with status %d: another starts", pid, status)
                ended_s = time.monotonic()
                self._due_s.append(ended_s + (LATER_S if ended_s - begun_s < SHORT_S else 0.0))

    def _start(self) -> None:
        """:raises OSError: there cannot be one more."""
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # one that comes now is not for both
        pid = -1
        try:
            pid = os.fork()
        finally:
            if pid:
                signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        if pid:
            self._begun_s[pid] = time.monotonic()
            return
        status = 1
        try:
            self._work()
            status = 0
        except OSError as error:
            log.error("a worker ends: %s", error)
        except Exception:
            log.exception("Unhandled exception in a worker")
        finally:
            os._exit(status)

    def _work(self) -> None:
        """In a worker. ^C goes to all of them, and it is the parent that ends them."""
        signal.set_wakeup_fd(-1)
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN if number == signal.SIGINT else signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        os.close(self._lifeline[1])
        os.close(self._ready[0])
        self._run(self._lifeline[0], self._say_ready)

    def _say_ready(self) -> None:
        os.write(self._ready[1], READY)

    def _reap(self) -> list[tuple[int, int, float]]:
        """The ended ones: pid, status, and when they began."""
        ended: list[tuple[int, int, float]] = []
        for pid in list(self._begun_s):
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                ended.append((pid, os.waitstatus_to_exitcode(status), self._begun_s.pop(pid)))
        return ended

    def _end(self, wakes: socket.socket) -> None:
        """End them all, and wait until they have ended."""
        self._signal(signal.SIGTERM)
        deadline_s = time.monotonic() + STOP_S
        while self._begun_s:
            rest_s = deadline_s - time.monotonic()
            if rest_s <= 0:
                self._signal(signal.SIGKILL)
            if select.select([wakes], [], [], max(rest_s, LATER_S))[0]:
                _are_to_end(wakes)
            self._reap()

    def _signal(self, number: int) -> None:
        for pid in self._begun_s:
            with suppress(ProcessLookupError):
                os.kill(pid, number)


def _are_to_end(wakes: socket.socket) -> bool:
    """Whether one of the signals that have come says so."""
    return bool({signal.SIGTERM, signal.SIGINT} & {*wakes.recv(1024)})


@contextmanager
def _woken() -> Iterator[socket.socket]:
    """What gets the numbers of signals."""
    wakes, wake = socket.socketpair()
    with wakes, wake:
        wake.setblocking(False)
        earlier = [signal.signal(number, lambda number, frame: None) for number in SIGNALS]
        signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
        try:
            yield wakes
        finally:
            signal.set_wakeup_fd(-1)
            for number, handler in zip(SIGNALS, earlier, strict=True):
                signal.signal(number, handler)
