"""How long a client takes to start, and to be answered, when one of three ensembles is far away."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from multiprocessing.connection import Connection
from typing import Any

from bench.client.paths import ENSEMBLES, make_leaves, spread_directories
from bench.client.side import Child, run_alone
from bench.client.workload import START_TIMEOUT_S
from parkazoo import ParKazooClient
from parkazoo.admin import init_map
from parkazoo.local import HOST
from parkazoo.wire.loop import READ_BYTES

AWAY_S = 0.005  # one way
STARTS = 40
FAR_START = "far-start"


@dataclass(frozen=True)
class Took:
    """Milliseconds, the median of several clients.

    :param start: until the client is connected.
    :param near: a get on an ensemble that is near, behind the start.
    :param far: then one on the ensemble that may be far away.
    """

    start: float
    near: float
    far: float


@dataclass(frozen=True)
class FarStart:
    """
    :param all_near: with three ensembles alike.
    :param one_far: with the third one away by `away_s`.
    """

    clients: int
    away_s: float
    all_near: Took
    one_far: Took

    def rows(self) -> list[tuple[str, str, str]]:
        """What was measured, with all near, with one far away."""
        names = {"start": "start", "near": "first get on a near ensemble", "far": "first get on the third"}
        return [
            (about, f"{getattr(self.all_near, name):.1f} ms", f"{getattr(self.one_far, name):.1f} ms")
            for name, about in names.items()
        ]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def measure_far_start(hosts: Sequence[str], clients: int) -> FarStart:
    """
    :param hosts: of three ensembles without a map.
    :raises BenchError: it cannot be measured.
    """
    relay = Child("the way to the third ensemble", _relay, hosts[-1])
    try:
        relay.tell(0.0)
        third = f"{HOST}:{relay.hear()}"
        init_map(hosts[0], {"a": hosts[0], "b": hosts[1], "c": third})
        all_near = Took(*run_alone(_take_times, hosts[0], clients))
        relay.tell(AWAY_S)
        relay.hear()
        one_far = Took(*run_alone(_take_times, hosts[0], clients))
    finally:
        relay.end()
    return FarStart(clients, AWAY_S, all_near, one_far)


def _take_times(hosts: str, clients: int) -> list[float]:
    first = ParKazooClient(hosts)
    first.start(START_TIMEOUT_S)
    near, _, far = make_leaves(first, spread_directories("/bench-far", ENSEMBLES))[:ENSEMBLES]
    first.stop()
    times = []
    for _ in range(clients):
        client = ParKazooClient(hosts)
        marks = [time.perf_counter()]
        client.start(START_TIMEOUT_S)
        marks.append(time.perf_counter())
        for path in (near, far):
            client.get(path)
            marks.append(time.perf_counter())
        client.stop()
        times.append([(end - begin) * 1000 for begin, end in pairwise(marks)])
    return [statistics.median(each) for each in zip(*times, strict=True)]


class _Way:
    """Bytes wait for `delay_s` in each direction; those of a new connection for a round trip more."""

    def __init__(self, target: str) -> None:
        self._host, _, self._port = target.rpartition(":")
        self.delay_s = 0.0

    async def open(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(2 * self.delay_s)
        try:
            far_reader, far_writer = await asyncio.open_connection(self._host, int(self._port))
        except OSError:
            writer.close()
            return
        await asyncio.gather(self._carry(reader, far_writer), self._carry(far_reader, writer))

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        try:
            while data := await reader.read(READ_BYTES):
                loop.call_later(self.delay_s, writer.write, data)
        except OSError:
            pass
        loop.call_later(self.delay_s, writer.close)


def _relay(pipe: Connection, target: str) -> None:
    """Takes the delay in seconds, again and again, and tells its port."""
    asyncio.run(_serve(pipe, _Way(target)))


async def _serve(pipe: Connection, way: _Way) -> None:
    server = await asyncio.start_server(way.open, HOST)
    port = server.sockets[0].getsockname()[1]
    loop = asyncio.get_running_loop()
    is_over = loop.create_future()

    def take_order() -> None:
        try:
            way.delay_s = pipe.recv()
            pipe.send(port)
        except (EOFError, OSError):
            loop.remove_reader(pipe.fileno())
            is_over.set_result(None)

    loop.add_reader(pipe.fileno(), take_order)
    await is_over
