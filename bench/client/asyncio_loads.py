"""Loads of asyncio clients. Their loop has a thread of its own, so that pings are answered between turns."""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from itertools import cycle, islice
from typing import Any

import aiozk
import uvloop
from kazoo.client import KazooClient

from bench.bare_requests import CLOSE, INT, REPLY, SESSION_TIMEOUT_MS, BareError, connect, frame, get_data
from bench.client.paths import MOST_IN_FLIGHT, VALUE, make_leaves, spread_directories
from bench.client.workload import START_TIMEOUT_S, Load
from parkazoo.aio import ParKazooClient

ROOT = "/bench-asyncio"  # of all these clients

NewLoop = Callable[[], asyncio.AbstractEventLoop]


class AsyncioClient(ABC):
    """What a load needs of one. A call issues its request now."""

    def __init__(self, hosts: str) -> None:
        self.hosts = hosts

    @abstractmethod
    async def start(self) -> None: ...

    @abstractmethod
    def get(self, path: str) -> Awaitable[Any]: ...

    @abstractmethod
    def set(self, path: str) -> Awaitable[Any]: ...

    @abstractmethod
    async def stop(self) -> None: ...


class OurClient(AsyncioClient):
    """ParKazoo's."""

    def __init__(self, hosts: str) -> None:
        super().__init__(hosts)
        self._client = ParKazooClient(hosts)

    async def start(self) -> None:
        await self._client.start(START_TIMEOUT_S)

    def get(self, path: str) -> Awaitable[Any]:
        return self._client.get_async(path)

    def set(self, path: str) -> Awaitable[Any]:
        return self._client.set_async(path, VALUE)

    async def stop(self) -> None:
        await self._client.stop()


class AiozkClient(AsyncioClient):
    """aiozk's, which has coroutines alone: what is in flight beside other calls is a task."""

    async def start(self) -> None:
        self._client = aiozk.ZKClient(self.hosts)
        await self._client.start()

    def get(self, path: str) -> Awaitable[Any]:
        call: Coroutine[Any, Any, Any] = self._client.get_data(path)
        return asyncio.ensure_future(call)

    def set(self, path: str) -> Awaitable[Any]:
        call: Coroutine[Any, Any, Any] = self._client.set_data(path, VALUE, force=True)
        return asyncio.ensure_future(call)

    async def stop(self) -> None:
        await self._client.close()


class BareClient(AsyncioClient, asyncio.Protocol):
    """The least: requests as bytes. It sends no pings, so it must be used or closed within its session."""

    def __init__(self, hosts: str) -> None:
        super().__init__(hosts)
        self._rest = b""
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._xid = 0

    async def start(self) -> None:
        host, _, port = self.hosts.partition(",")[0].rpartition(":")
        self._loop = asyncio.get_running_loop()
        self._transport, _ = await self._loop.create_connection(lambda: self, host, int(port))
        await self._send(connect(SESSION_TIMEOUT_MS))

    def _send(self, data: bytes) -> asyncio.Future[None]:
        answer: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append(answer)
        self._transport.write(data)
        return answer

    def data_received(self, data: bytes) -> None:
        data, begin = self._rest + data, 0
        while len(data) - begin >= REPLY.size:
            length, _, _, error = REPLY.unpack_from(data, begin)
            if len(data) - begin < INT.size + length:
                break
            begin += INT.size + length
            answer = self._waiting.popleft()
            if error and self._xid:  # the first answer is that to the handshake
                answer.set_exception(BareError(f"error {error}"))
            else:
                answer.set_result(None)
        self._rest = data[begin:]

    def get(self, path: str) -> Awaitable[Any]:
        self._xid += 1
        return self._send(frame(self._xid, *get_data(path)))

    def set(self, path: str) -> Awaitable[Any]:
        raise NotImplementedError

    async def stop(self) -> None:
        self._xid += 1
        await self._send(frame(self._xid, CLOSE))
        self._transport.close()


class LoopThread:
    """A loop that runs in a thread."""

    def __init__(self, new_loop: NewLoop) -> None:
        self._loop = new_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class LoopLoad(Load):
    """With a client, and znodes to read and write.

    :param make: a client of the hosts.
    :param hosts: of each ensemble; the client is given the first ones.
    """

    def __init__(self, make: Callable[[str], AsyncioClient], new_loop: NewLoop, hosts: Sequence[str]) -> None:
        maker = KazooClient(hosts[0])
        maker.start(START_TIMEOUT_S)
        self._paths = make_leaves(maker, spread_directories(ROOT))
        maker.stop()
        self._thread = LoopThread(new_loop)
        self.client = self._thread.wait(self._start(make, hosts[0]))

    async def _start(self, make: Callable[[str], AsyncioClient], hosts: str) -> AsyncioClient:
        client = make(hosts)
        await client.start()
        return client

    def run(self, operations: int) -> None:
        self._thread.wait(self.work(list(islice(cycle(self._paths), operations))))

    async def work(self, paths: Sequence[str]) -> None:
        raise NotImplementedError

    def close(self) -> None:
        self._thread.wait(self.client.stop())
        self._thread.end()


async def in_flight(issued: Iterable[Awaitable[Any]]) -> None:
    """Draw calls that are issued, always as many in flight as there may be, and wait for all."""
    waiting: deque[Awaitable[Any]] = deque()
    for each in issued:
        waiting.append(each)
        if len(waiting) == MOST_IN_FLIGHT:
            await waiting.popleft()
    for each in waiting:
        await each


class LoopGet(LoopLoad):
    async def work(self, paths: Sequence[str]) -> None:
        await in_flight(map(self.client.get, paths))


class LoopSet(LoopLoad):
    async def work(self, paths: Sequence[str]) -> None:
        await in_flight(map(self.client.set, paths))


class LoopOneGet(LoopLoad):
    """One at a time."""

    async def work(self, paths: Sequence[str]) -> None:
        for path in paths:
            await self.client.get(path)


new_asyncio, new_uvloop = asyncio.SelectorEventLoop, uvloop.new_event_loop
