"""What all clients of a crash stress share: the directories, what was counted, and what went wrong."""

from __future__ import annotations

import itertools
import threading
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from kazoo.client import KazooClient

from parkazoo.protocol.placement import Placement

ROOT = "/stress"
SET, VERSIONED, GAP = "set", "versioned", "gap"
DIRECTORIES_OF_A_KIND = 1
SESSION_TIMEOUT_S = 20.0  # far more than any server is frozen for
START_TIMEOUT_S = 60.0
PROBLEMS_MAX = 20
SEQUENCE_DIGITS = 10


def started(client: Any, stack: ExitStack) -> Any:
    stack.callback(client.close)
    stack.callback(client.stop)
    client.start(START_TIMEOUT_S)
    return client


def connect(hosts: str, stack: ExitStack) -> KazooClient:
    """A client that sees what is really there."""
    return started(KazooClient(hosts, timeout=SESSION_TIMEOUT_S), stack)


class Numbers:
    """The sequence numbers that were seen, by the life of their directory."""

    def __init__(self) -> None:
        self._names: dict[tuple[str, int], dict[str, str]] = defaultdict(dict)
        self._lock = threading.Lock()

    def add(self, path: str, czxid: int, name: str) -> str | None:
        """Returns another child that was seen with this number in this life."""
        number = name[-SEQUENCE_DIGITS:]
        with self._lock:
            other = self._names[path, czxid].setdefault(number, name)
        return other if other != name else None

    @property
    def lives(self) -> int:
        return len(self._names)

    @property
    def seen(self) -> int:
        return sum(map(len, self._names.values()))


class Stress:
    """What all clients of a run share: the directories, what was counted, and what went wrong."""

    def __init__(self, crashes: int, tell: Callable[[str], None]) -> None:
        self.wanted = crashes
        self.problems: list[str] = []
        self.count: Counter[str] = Counter()
        self.numbers = Numbers()
        self.over = threading.Event()
        self._tell = tell
        self._lock = threading.Lock()
        placement = Placement(3)
        paths = (f"{ROOT}/d{number}" for number in itertools.count())
        mirrored = (path for path in paths if not placement.is_native(path))
        self.kinds = {
            path: kind
            for kind in (SET, VERSIONED, GAP)
            for path in itertools.islice(mirrored, DIRECTORIES_OF_A_KIND)
        }

    def add(self, what: str) -> None:
        with self._lock:
            self.count[what] += 1

    def crashed(self, operation: str, step: int) -> None:
        with self._lock:
            self.count["crashes"] += 1
            self.count[f"crashes of {operation}"] += 1
            self.count[f"crashes at step {step}"] += 1
            if self.count["crashes"] % 250 == 0:
                self._tell(f"{self.count['crashes']} crashes")
            if self.count["crashes"] >= self.wanted:
                self.over.set()

    def problem(self, text: str) -> None:
        with self._lock:
            if text not in self.problems:
                self.problems.append(text)
            if len(self.problems) >= PROBLEMS_MAX:
                self.over.set()

    def number(self, path: str, czxid: int, name: str) -> None:
        other = self.numbers.add(path, czxid, name)
        if other is None:
            return
        if self.kinds[path] == GAP:
            self.add("numbers repeated in a known gap")
        else:
            self.problem(f"{path} of czxid {czxid} gave one number to both {other} and {name}")
