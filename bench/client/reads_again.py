"""What clients with many watched znodes ask when their connections have broken and are back."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kazoo.client import KazooClient
from kazoo.protocol.states import KazooState

from bench.client.measured import Figure, Measured
from bench.client.paths import pipeline
from bench.client.side import BenchError, run_alone
from bench.client.workload import START_TIMEOUT_S
from parkazoo import ParKazooClient
from parkazoo.kazoo_private import CONNECTION_DROP
from parkazoo.local import four_letter_word

if sys.version_info >= (3, 11):
    from bench.client.asyncio_loads import LoopThread, new_asyncio
    from parkazoo.aio import ParKazooClient as AsyncioClient

CLIENTS, ZNODES = 10, 1000
DIRECTORY = "/bench-rewatching"
SESSION_TIMEOUT_S = 30.0
TIMEOUT_S = 120.0
ANSWER_S = 30.0
POLL_S = 0.05


@dataclass(frozen=True)
class Again:
    """
    :param requests: that the servers got for each watched znode. :param cpu_s: of the clients' process.
    :param back_s: until all were watched again.
    """

    requests: float
    back_s: float
    cpu_s: float


class Watching(ABC):
    """Clients of one kind, each of which watches all the znodes.

    :ivar told: how often a watch has told a value that starts with a ``2``.
    :ivar states: that the clients have told since the last cut.
    """

    def __init__(self, hosts: str) -> None:
        self.hosts = hosts
        self.told = 0
        self.states: list[str] = []

    def note_state(self, state: str) -> None:
        self.states.append(state)

    def note(self, value: bytes | None) -> None:
        self.told += value == b"2"

    @abstractmethod
    def watch(self, clients: int, paths: Sequence[str]) -> None: ...

    @abstractmethod
    def cut(self) -> None:
        """Every connection breaks."""

    @abstractmethod
    def end(self) -> None: ...


class Threads(Watching):
    """With a DataWatch for each."""

    def __init__(self, client_class: type[Any], hosts: str) -> None:
        super().__init__(hosts)
        self._client_class = client_class
        self._clients: list[Any] = []

    def watch(self, clients: int, paths: Sequence[str]) -> None:
        for _ in range(clients):
            client = self._client_class(self.hosts, timeout=SESSION_TIMEOUT_S)
            client.start(START_TIMEOUT_S)
            client.add_listener(self.note_state)
            for path in paths:
                client.DataWatch(path, lambda value, stat: self.note(value))
            self._clients.append(client)

    def cut(self) -> None:
        for client in self._clients:
            members = client.members.values() if isinstance(client, ParKazooClient) else (client,)
            for member in members:
                member._call(CONNECTION_DROP, None)

    def end(self) -> None:
        for client in self._clients:
            client.stop()


class Asyncio(Watching):
    """With a ``watch_data`` for each."""

    def __init__(self, hosts: str) -> None:
        super().__init__(hosts)
        self._thread = LoopThread(new_asyncio)
        self._clients: list[AsyncioClient] = []
        self._tasks: list[asyncio.Task[None]] = []

    def watch(self, clients: int, paths: Sequence[str]) -> None:
        self._thread.wait(self._watch(clients, paths))

    async def _watch(self, clients: int, paths: Sequence[str]) -> None:
        for _ in range(clients):
            client = AsyncioClient(self.hosts, timeout=SESSION_TIMEOUT_S)
            await client.start(START_TIMEOUT_S)
            client.add_listener(self.note_state)
            self._clients.append(client)
            self._tasks += [asyncio.create_task(self._follow(client, path)) for path in paths]

    async def _follow(self, client: AsyncioClient, path: str) -> None:
        async with client.watch_data(path) as states:
            async for state in states:
                self.note(state and state[0])

    def cut(self) -> None:
        self._thread.wait(self._cut())

    async def _cut(self) -> None:
        for client in self._clients:
            assert client._session is not None
            client._session.drop_connections()

    def end(self) -> None:
        self._thread.wait(self._end())
        self._thread.end()

    async def _end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)
        for client in self._clients:
            await client.stop()


def kinds() -> dict[str, Callable[[str], Watching]]:
    """By name."""
    found: dict[str, Callable[[str], Watching]] = {"kazoo": _kazoo, "ParKazoo": _parkazoo}
    return found | {"asyncio": Asyncio} if sys.version_info >= (3, 11) else found


def _kazoo(hosts: str) -> Watching:
    return Threads(KazooClient, hosts)


def _parkazoo(hosts: str) -> Watching:
    return Threads(ParKazooClient, hosts)


def measure_rewatching(hosts: str, clients: int, znodes: int) -> Measured:
    """
    :param hosts: of one ensemble with one server.
    :raises BenchError: a watch was lost.
    """
    figures = []
    for name, make in kinds().items():
        again: Again = run_alone(_watch_again, make, hosts, clients, znodes)
        figures += [
            Figure(f"{name}: requests for each watched znode", again.requests, ""),
            Figure(f"{name}: until all are watched again", again.back_s, "s"),
            Figure(f"{name}: CPU of the process", again.cpu_s, "s"),
        ]
    about = f"The connections of {clients} clients break; each watches the same {znodes:,} znodes"
    return Measured(about, figures)


def _watch_again(make: Callable[[str], Watching], hosts: str, clients: int, znodes: int) -> Again:
    logging.disable()  # of connections that are meant to break
    maker = KazooClient(hosts)
    maker.start(START_TIMEOUT_S)
    paths = [f"{DIRECTORY}/n{number}" for number in range(znodes)]
    maker.delete(DIRECTORY, recursive=True)
    maker.create(DIRECTORY)
    pipeline(maker.create_async(path, b"1") for path in paths)
    watching = make(hosts)
    watching.watch(clients, paths)
    wanted = clients * znodes
    _wait(lambda: _asked(hosts, "zk_watch_count") >= wanted, "the watches")
    watching.states.clear()
    packets, began_s, cpu_s = _asked(hosts, "zk_packets_received"), time.monotonic(), time.process_time()
    watching.cut()
    _wait(lambda: watching.states.count(KazooState.CONNECTED) >= clients, "the connections")
    _wait(lambda: _asked(hosts, "zk_watch_count") >= wanted, "the watches, again")
    back_s, cpu_s = time.monotonic() - began_s, time.process_time() - cpu_s
    packets = _asked(hosts, "zk_packets_received") - packets
    pipeline(maker.set_async(path, b"2") for path in paths)
    _wait(lambda: watching.told >= wanted, "that each watch has told of a set")
    watching.end()
    maker.stop()
    return Again(packets / wanted, back_s, cpu_s)


def _wait(condition: Callable[[], bool], what: str) -> None:
    deadline_s = time.monotonic() + TIMEOUT_S
    while not condition():
        if time.monotonic() > deadline_s:
            raise BenchError(f"{what}: not within {TIMEOUT_S:g} s")
        time.sleep(POLL_S)


def _asked(hosts: str, what: str) -> int:
    """A number that the server tells."""
    told = four_letter_word(hosts, "mntr", ANSWER_S)  # it is busy
    found = [line.split()[1] for line in told.splitlines() if line.startswith(f"{what}\t")]
    if not found:
        raise BenchError(f"the server does not tell {what} within {ANSWER_S:g} s")
    return int(found[0])
