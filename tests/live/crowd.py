"""Many clients at once, and how soon each is back."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from kazoo.protocol.states import KazooState

from parkazoo import ParKazooClient
from parkazoo.local import LocalServer
from tests.live.world import LiveTest, wait_until

CONNECTED, SUSPENDED, LOST = KazooState.CONNECTED, KazooState.SUSPENDED, KazooState.LOST
LONG_S = 90.0
TICK_S = 0.02
PROMPT_S = 2.0  # half a second is owed; what this is to tell from it is 16 s
SESSION_S = 10.0


class Crowd:
    """Clients of one process, and the time of each change of their states."""

    def __init__(self, test: LiveTest, hosts: str, count: int, *listeners: Callable[[str], Any], **options: Any):
        options = {"timeout": SESSION_S, "randomize_hosts": False} | options
        self.clients = [ParKazooClient(hosts, **options) for _ in range(count)]
        self.history: list[list[tuple[float, str]]] = [[] for _ in self.clients]
        self._late: list[tuple[float, float]] = []
        self._is_over = threading.Event()
        test.addCleanup(self._end)
        for client, history in zip(self.clients, self.history, strict=True):
            client.add_listener(partial(self._told, history))
            for listener in listeners:
                client.add_listener(listener)
            client.start_async()
        wait_until(lambda: all(client.connected for client in self.clients), "connected", LONG_S)
        self.sessions = [client.client_id[0] for client in self.clients]
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()

    def _told(self, history: list[tuple[float, str]], state: str) -> None:
        history.append((time.monotonic(), state))

    def _watch(self) -> None:
        """Note what the states are, because listeners hear of them in turn; and how late this thread is."""
        seen: list[Any] = [CONNECTED for _ in self.clients]
        before_s = time.monotonic()
        while not self._is_over.wait(TICK_S):
            now_s = time.monotonic()
            self._late.append((now_s, now_s - before_s - TICK_S))
            before_s = now_s
            for number, client in enumerate(self.clients):
                if client.state != seen[number]:
                    seen[number] = client.state
                    self.history[number].append((now_s, seen[number]))

    def _end(self) -> None:
        self._is_over.set()
        with ThreadPoolExecutor(len(self.clients)) as pool:
            for stopped in [pool.submit(client.stop) for client in self.clients]:
                stopped.result()
        for client in self.clients:
            client.close()

    def late_s(self, since_s: float) -> float:
        """How much later than it should the thread has woken up since then, at most."""
        return max((late_s for at_s, late_s in list(self._late) if at_s > since_s), default=0.0)

    def told_s(self, number: int, state: str, since_s: float) -> float:
        """How long after `since_s` that client was first in that state; infinite if it has not been."""
        times = [at_s for at_s, each in list(self.history[number]) if each == state and at_s >= since_s]
        return min(times, default=float("inf")) - since_s

    def wait_back(self, broke_s: float) -> None:
        """Wait until all have been SUSPENDED, and are CONNECTED; both are noted then."""
        numbers = range(len(self.clients))
        wait_until(lambda: all(self.told_s(n, SUSPENDED, broke_s) < LONG_S for n in numbers), "suspended", LONG_S)
        wait_until(lambda: all(self._is_back(n, broke_s) for n in numbers), "connected again", LONG_S)

    def _is_back(self, number: int, broke_s: float) -> bool:
        """Whether it is CONNECTED, and that is noted: a note may come after the state itself."""
        suspended_s = broke_s + self.told_s(number, SUSPENDED, broke_s)
        return self.clients[number].connected and self.told_s(number, CONNECTED, suspended_s) < LONG_S

    def on(self, server: LocalServer) -> list[int]:
        """The clients whose first ensemble's connection leads to that server."""
        peers = [client._connection._socket.getpeername() for client in self.clients]
        return [number for number, (_, port) in enumerate(peers) if port == server.port]

    def judge(self, test: LiveTest, broke_s: float, cut: Sequence[int] | None = None) -> None:
        """Those that were cut off were SUSPENDED at once, none was LOST. All are CONNECTED.

        :param cut: all by default.
        """
        numbers = range(len(self.clients))
        slowest_s = max(self.told_s(number, SUSPENDED, broke_s) for number in (numbers if cut is None else cut))
        lost = [number for number in numbers if self.told_s(number, LOST, broke_s) < float("inf")]
        lost += [n for n in numbers if n not in lost and self.clients[n].client_id[0] != self.sessions[n]]
        late_s = self.late_s(broke_s)
        told = (
            f"{len(lost)} of {len(numbers)} LOST, SUSPENDED after {slowest_s:.2f} s, process {late_s:.2f} s late"
        )
        print(told)
        test.assertEqual(lost, [], told)
        test.assertLess(slowest_s, PROMPT_S + 2 * late_s, told)
