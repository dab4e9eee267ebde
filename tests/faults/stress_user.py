"""One client of a crash stress: what it does, and what it knows about its own children."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from kazoo.exceptions import (
    BadVersionError,
    ConnectionLoss,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    SessionExpiredError,
)

from parkazoo import ParKazooClient
from tests.faults.crashes import Armed, CrashError, Crashes
from tests.faults.stress_state import SEQUENCE_DIGITS, SESSION_TIMEOUT_S, SET, VERSIONED, Stress, started

SEASON_S = 1.0
STEPS = (*range(2, 10), 0)  # at which a crash comes, if there are so many; before the second nothing is half done
HELD_S = 0.3
REFUSALS = (NoNodeError, NodeExistsError, BadVersionError, NotEmptyError)
LOST = (ConnectionLoss, SessionExpiredError)


class User:
    """One client, what it does, and what it knows about its own children."""

    def __init__(self, stress: Stress, number: int, hosts: str, seed: int, stack: ExitStack) -> None:
        self._stress = stress
        self._number = number
        self._dice = random.Random(f"{seed}/{number}")
        self._names = (f"{number}-{count}-" for count in itertools.count())
        self.there: set[str] = set()  # acknowledged children of ours, as paths
        self.gone: set[str] = set()
        self.client = started(ParKazooClient(hosts, timeout=SESSION_TIMEOUT_S), stack)
        self._crashes = Crashes(self.client)
        self._growing = (
            *(self._make,) * 3,
            *(self._create_sequential,) * 4,
            *(self._create,) * 2,
            *(self._delete_child, self._remove, self._list, self._set, self._look),
        )
        self._shrinking = (
            *(self._remove,) * 8,
            *(self._make, self._create_sequential, self._list, self._set, self._look),
        )

    def __str__(self) -> str:
        return f"client {self._number}"

    def work(self) -> None:
        try:
            while not self._stress.over.is_set():
                index = self._dice.randrange(len(self._stress.kinds))
                is_growing = int(time.monotonic() / SEASON_S + index) % 2  # else it would hardly ever be empty
                path = list(self._stress.kinds)[index]
                self._dice.choice(self._growing if is_growing else self._shrinking)(path)
                self._stress.add("operations")
        except Exception as error:
            self._stress.problem(f"{self} has ended: {error!r}")
            raise

    def _do(self, name: str, call: Callable[[], Any]) -> Any:
        """Perhaps with a crash.

        :returns: what the call returns or raises.
        """
        dice = self._dice
        armed = Armed(dice.choice(STEPS), dice.random() < 0.5, dice.choice(STEPS), dice.uniform(0, HELD_S))
        try:
            with self._crashes.armed(armed):
                result = call()
            if self._crashes.is_held:
                self._stress.add("operations held up")
            return result
        except CrashError as crash:
            self._stress.crashed(name, self._crashes.at_step)
            return crash
        except LOST as error:
            self._stress.add("connections lost")
            return error
        except REFUSALS as refusal:
            return refusal

    # ---- what it does

    def _make(self, path: str) -> None:
        self._do("create of the directory", lambda: self.client.create(path, b""))

    def _remove(self, path: str) -> None:
        for child in self._own(path):
            self._delete(child)
        version = -1 if self._stress.kinds[path] == SET else self._dice.choice((0, 0, 0, 1))
        removed = self._do("delete of the directory", lambda: self.client.delete(path, version))
        if removed is True:
            self._stress.add("directories deleted")

    def _set(self, path: str) -> None:
        if self._stress.kinds[path] != VERSIONED:
            self._do("set", lambda: self.client.set(path, b""))

    def _create(self, path: str) -> None:
        child = f"{path}/{next(self._names)}"
        self._created(child, self._do("create of a child", lambda: self.client.create(child, b"")))

    def _create_sequential(self, path: str) -> None:
        prefix = f"{path}/{next(self._names)}"
        before = self._czxid(path)
        created = self._do("create of a child", lambda: self.client.create(prefix, b"", sequence=True))
        if isinstance(created, CrashError):
            self.there |= {
                f"{path}/{name}" for name in self._names_in(path) if f"{path}/{name}".startswith(prefix)
            }
        if isinstance(created, str):
            self._created(created, created)
            if before is not None and before == self._czxid(path):
                self._stress.number(path, before, created)

    def _created(self, child: str, result: Any) -> None:
        if not isinstance(result, Exception):
            self.there.add(child)
            self._stress.add("children created")
        elif isinstance(result, CrashError) and self._exists(child):
            self.there.add(child)

    def _delete_child(self, path: str) -> None:
        for child in self._own(path)[:2]:
            self._delete(child)

    def _delete(self, child: str) -> None:
        self.there.discard(child)
        deleted = self._do("delete of a child", lambda: self.client.delete(child))
        if deleted is True:
            self.gone.add(child)
        elif isinstance(deleted, CrashError):
            (self.there if self._exists(child) else self.gone).add(child)
        elif not isinstance(deleted, LOST):
            self._stress.problem(f"the delete of {child} raises {deleted!r}, but its create was acknowledged")

    # ---- what it checks

    def _list(self, path: str) -> None:
        before = self._czxid(path)
        names = self._do("listing", lambda: self.client.get_children(path))
        if not isinstance(names, list) or before is None or before != self._czxid(path):
            return
        for name in names:
            if name[-SEQUENCE_DIGITS:].isdecimal():
                self._stress.number(path, before, f"{path}/{name}")

    def _look(self, path: str) -> None:
        """At what is ours."""
        for child in self._own(path):
            if not self._exists(child):
                self._stress.problem(f"{child} is not there, but its create was acknowledged")
            if self._czxid(path) is None:
                self._stress.problem(f"{path} does not exist, but has the child {child}")
        for child in self._dice.sample(sorted(self.gone), min(1, len(self.gone))):
            if self._exists(child):
                self._stress.problem(f"{child} is there, but its delete was acknowledged")

    def _own(self, path: str) -> list[str]:
        return sorted(child for child in self.there if child.startswith(path + "/"))

    def _exists(self, path: str) -> Any:
        self.client.retry(self.client.sync, path)
        return self.client.retry(self.client.exists, path)

    def _names_in(self, path: str) -> list[str]:
        self.client.retry(self.client.sync, path)
        try:
            return list(self.client.retry(self.client.get_children, path))
        except NoNodeError:
            return []

    def _czxid(self, path: str) -> int | None:
        stat = self._exists(path)
        return None if stat is None else stat.czxid
