"""A side of a comparison, and the process that it has while it is measured.

Each side has a process of its own: its CPU time is that process's, no thread of the other side waits for the same
GIL, and its memory is its own. One at a time has its turn; the others wait on a pipe.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # a side's process imports `parkazoo` only when it knows which checkout's
    from bench.client.workload import Load

ANSWER_TIMEOUT_S = 300
END_TIMEOUT_S = 30
_spawn = multiprocessing.get_context("spawn")  # a fork would inherit what the parent holds


class BenchError(Exception):
    """Something could not be measured. The message says what and why."""


@dataclass(frozen=True)
class Side:
    """Who does the work.

    :param make: its load, given the hosts of each ensemble.
    :param ensembles: of the cluster that it works on.
    :param checkout: of another version, whose `parkazoo` it works with; empty for this one's.
    :param has_grown: whether that began with one of them.
    """

    name: str
    make: Callable[[Sequence[str]], Load]
    ensembles: int = 1
    checkout: str = ""
    has_grown: bool = False


@dataclass(frozen=True)
class Turn:
    """What one run took.

    :param wall_s: seconds by the clock.
    :param cpu_s: seconds of CPU time of the side's process.
    """

    operations: int
    wall_s: float
    cpu_s: float


@dataclass(frozen=True)
class Report:
    """What a side says after its turn.

    :param all_cpu_s: with that of its preparations.
    """

    turn: Turn
    all_cpu_s: float


class Child:
    """A process that takes orders and answers by a pipe. It ends when the pipe is closed."""

    def __init__(self, name: str, target: Callable[..., None], *arguments: Any) -> None:
        self._name = name
        self._pipe, theirs = _spawn.Pipe()
        self._process = _spawn.Process(target=_work, args=(theirs, target, *arguments), daemon=True)
        self._process.start()
        theirs.close()

    def tell(self, what: Any) -> None:
        """
        :raises BenchError: it has died.
        """
        try:
            self._pipe.send(what)
        except OSError:
            raise BenchError(f"{self._name}: its process has died") from None

    def hear(self) -> Any:
        """
        :raises BenchError: it failed, has died, or says nothing within five minutes.
        """
        try:
            if not self._pipe.poll(ANSWER_TIMEOUT_S):
                raise BenchError(f"{self._name}: no end within {ANSWER_TIMEOUT_S} s")
            answer = self._pipe.recv()
        except (EOFError, OSError):
            raise BenchError(f"{self._name}: its process has died") from None
        if isinstance(answer, BenchError):
            raise BenchError(f"{self._name}: {answer}")
        return answer

    def end(self) -> None:
        """Wait until it has closed its sessions; a process that does not end is killed."""
        self._pipe.close()
        self._process.join(END_TIMEOUT_S)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


class SideProcess:
    """A side at work, seen from outside. Methods raise BenchError if it fails, dies or does not end."""

    def __init__(self, side: Side, hosts: Sequence[str]) -> None:
        self._child = Child(side.name, _serve, _Checkout(side.checkout), side.make, hosts)

    def wait_ready(self) -> None:
        self._child.hear()

    def take_turn(self, operations: int) -> Report:
        self._child.tell(operations)
        report: Report = self._child.hear()
        return report

    def end(self) -> None:
        self._child.end()


def run_alone(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function returns, in a process of its own.

    :raises BenchError: it raises.
    """
    child = Child(function.__name__.strip("_"), _answer, function, *arguments)
    try:
        return child.hear()
    finally:
        child.end()


def _work(pipe: Connection, target: Callable[..., None], *arguments: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent gets it too, and closes the pipe
    try:
        target(pipe, *arguments)
    except Exception as error:
        with suppress(OSError):  # the parent is gone
            pipe.send(error if isinstance(error, BenchError) else BenchError(f"{type(error).__name__}: {error}"))
        os._exit(1)  # clients that are left open would keep the process


class _Checkout:
    """As an argument of a new process: what comes after it is imported from that checkout first."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Callable[[str], _Checkout], tuple[str]]:
        return _import_from, (self._path,)


def _import_from(path: str) -> _Checkout:
    if path:
        sys.path.insert(0, path)
    return _Checkout(path)


def _serve(pipe: Connection, _: _Checkout, make: Callable[[Sequence[str]], Load], hosts: Sequence[str]) -> None:
    """Make the load, take turns."""
    load = make(hosts)
    pipe.send("ready")
    while True:
        try:
            operations = pipe.recv()
        except (EOFError, OSError):
            break
        began_cpu_s = time.process_time()
        load.prepare(operations)
        gc.collect()
        cpu_s, wall_s = time.process_time(), time.perf_counter()
        load.run(operations)
        wall_s, now_cpu_s = time.perf_counter() - wall_s, time.process_time()
        pipe.send(Report(Turn(operations, wall_s, now_cpu_s - cpu_s), now_cpu_s - began_cpu_s))
    load.close()


def _answer(pipe: Connection, function: Callable[..., Any], *arguments: Any) -> None:
    pipe.send(function(*arguments))
