"""Clients of the drill `restore`: each makes directories, and knows which of them are there."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from contextlib import suppress
from typing import Any

from kazoo.exceptions import NoNodeError

from parkazoo import ParKazooClient

PERIOD_S = 1.0
START_TIMEOUT_S = 60.0
CHILD = "child"


class User:
    """A client, and the thread that uses it as long as the context lasts.

    :param locks: a directory; the client keeps an ephemeral there.
    :ivar tried: the directories that it has begun to make. :ivar made: those that it has made, with a child.
    :ivar wrong: those in which it has not read its own write.
    :ivar states: that its listener was called with. :ivar errors: rounds that failed, by the exception.
    :ivar rounds: so many succeeded.
    """

    def __init__(self, hosts: str, number: int, locks: str, timeout_s: float) -> None:
        self.tried: list[str] = []
        self.made: list[str] = []
        self.wrong: list[str] = []
        self.states: list[str] = []
        self.errors: Counter[str] = Counter()
        self.rounds = 0
        self._directory = f"/user{number}"
        self._lock = f"{locks}/{number}"
        self._writes = True
        self._turn = threading.Lock()
        self._is_over = threading.Event()
        self._zk = ParKazooClient(hosts, timeout=timeout_s)
        self._zk.add_listener(self._hear)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> User:
        self._zk.start(START_TIMEOUT_S)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._is_over.set()
        self._thread.join()
        self._zk.stop()
        self._zk.close()

    def hold(self) -> None:
        """Has it read and not write, from now on."""
        with self._turn:
            self._writes = False

    def go_on(self) -> None:
        """Has it write again."""
        self._writes = True

    def _hear(self, state: Any) -> None:
        if not self._is_over.is_set():
            self.states.append(state)

    def _run(self) -> None:
        for number in itertools.count():
            if self._is_over.wait(PERIOD_S):
                return
            try:
                with self._turn:
                    if self._writes:
                        self._write(f"{self._directory}/{number}")
                    else:
                        self._read()
            except Exception as error:
                self.errors[type(error).__name__] += 1
            else:
                self.rounds += 1

    def _write(self, path: str) -> None:
        child = f"{path}/{CHILD}"
        if self._zk.exists(self._lock) is None:
            self._zk.create(self._lock, ephemeral=True, makepath=True)
        self.tried.append(path)
        self._zk.create(child, b"first", makepath=True)
        self._zk.set(child, b"second")
        if self._zk.get(child)[0] != b"second":
            self.wrong.append(path)
        self.made.append(path)

    def _read(self) -> None:
        for path in (self._lock, *(f"{each}/{CHILD}" for each in self.made[-2:])):
            with suppress(NoNodeError):  # it may be lost
                self._zk.get(path)
