"""What the tests of the asyncio client share: ensembles in memory, on the loop of the test."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
import time
import unittest
from collections.abc import Callable
from functools import partial
from typing import Any

from parkazoo.protocol.cluster_map import Form
from tests.fakes.zookeeper import Ensembles

if sys.version_info >= (3, 11):
    from parkazoo.aio import ParKazooClient
    from parkazoo.aio.asyncio_loop import AsyncioLoop  # noqa: F401 - for the tests that import this

needs_aio = unittest.skipIf(sys.version_info < (3, 11), "parkazoo.aio needs Python 3.11")
DEADLINE_S = 60.0
LONG_S = 600.0
POLL_S = 0.002


async def until(condition: Callable[[], Any], what: str) -> None:
    """Waits until a condition holds."""
    deadline_s = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > deadline_s:
            raise AssertionError(f"{what}: not within {DEADLINE_S:g} s")
        await asyncio.sleep(POLL_S)


@needs_aio
class AioCase(unittest.IsolatedAsyncioTestCase):
    """Each test has ensembles of its own, and clients that end with it. Its loop is in debug mode."""

    ensembles = 3
    form = Form.PLAIN  # of the cluster map

    async def asyncSetUp(self) -> None:
        self.stack = contextlib.AsyncExitStack()
        self.addAsyncCleanup(self.stack.aclose)
        self.cluster = await self.stack.enter_async_context(Ensembles(self.ensembles, self.form))
        self.mistakes: list[dict[str, Any]] = []  # what nobody has caught
        asyncio.get_running_loop().set_exception_handler(self.note)
        self.addCleanup(lambda: self.assertEqual(self.mistakes, []))

    def note(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if (
            "incoming connection" not in context["message"]
        ):  # of a server, whose client did not like its certificate
            self.mistakes.append(context)

    def client(self, chroot: str = "", **options: Any) -> ParKazooClient:
        options.setdefault("timeout", LONG_S)  # servers are on the same loop, and answer late if that is busy
        client = ParKazooClient(self.cluster.hosts + chroot, **options)
        self.stack.push_async_callback(client.stop)
        return client

    async def started(self, chroot: str = "", **options: Any) -> ParKazooClient:
        client = self.client(chroot, **options)
        await client.start(DEADLINE_S)
        return client

    def ensemble_of(self, path: str) -> int:
        """Where a znode is."""
        return next(at for at, nodes in enumerate(self.cluster.model.nodes) if path in nodes)


@needs_aio
class LoopsCase(unittest.TestCase):
    """Its ensembles are on a thread of their own, so that a test can have one loop after the other.

    :ivar hosts: of the ensembles.
    """

    ensembles = 3

    def setUp(self) -> None:
        hosts, ends = list[str](), list[Callable[[], Any]]()

        async def serve() -> None:
            async with Ensembles(self.ensembles) as self.cluster:
                end = asyncio.Event()
                ends.append(partial(asyncio.get_running_loop().call_soon_threadsafe, end.set))
                hosts.append(self.cluster.hosts)
                await end.wait()

        servers = threading.Thread(target=asyncio.run, args=(serve(),))
        servers.start()
        self.addCleanup(servers.join)
        asyncio.run(until(lambda: hosts, "the servers"))
        self.addCleanup(ends[0])
        self.hosts = hosts[0]
