"""The asyncio client within what programs run it with: other loops, servers for the web, test runners; and its end
in each state.
"""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from kazoo.exceptions import ConnectionClosedError, ConnectionLoss, NoNodeError
from kazoo.protocol.states import KazooState

from parkazoo import ParKazooClient
from tests.aio import aio_case
from tests.aio.aio_case import needs_aio, until
from tests.live.world import DEADLINE_S, shared_cluster

if sys.version_info >= (3, 11):
    from builtins import ExceptionGroup

    from parkazoo.aio import LockLostError

SUSPENDED, LOST = KazooState.SUSPENDED, KazooState.LOST
RUN_S = 120.0
SOON_S = 0.1
FOLDERS = 9  # on all ensembles, nearly certainly
PROGRAM = """
import asyncio
import logging
import sys

from parkazoo.aio import LockLostError, ParKazooClient

async def work(zk, root):
    await asyncio.gather(*(zk.create(f"{root}/{each}/x", b"1", makepath=True) for each in range(9)))
    async with asyncio.TaskGroup() as group:
        for each in range(9):
            group.create_task(zk.set(f"{root}/{each}/x", b"2"))
    async with zk.watch_data(f"{root}/0/x") as states:
        assert (await anext(states))[0] == b"2"
    async with zk.Lock(f"{root}/lock"):
        waiting = asyncio.create_task(zk.Lock(f"{root}/lock").acquire())
        while len(await zk.get_children(f"{root}/lock")) < 2:
            await asyncio.sleep(0.01)
        waiting.cancel()
        zk.get_async("/missing-" + root[1:]).cancel()
        zk._session.drop_connections()
        try:
            await zk.get(f"{root}/0/x")
        except Exception as error:
            assert "ConnectionLoss" in repr(error), error
    try:
        async with zk.Lock(f"{root}/lock"):
            zk._session.expire("a test wants it")
            await asyncio.sleep(60)
    except LockLostError:
        pass
    async for state in zk.states():
        if state == "CONNECTED":
            break
    await zk.delete(root, recursive=True)

async def main():
    logging.getLogger("parkazoo").setLevel(logging.ERROR)  # it warns of what is done here
    asyncio.get_running_loop().slow_callback_duration = 60  # others use this machine
    hosts, root = sys.argv[1:]
    zk = ParKazooClient(hosts)
    for _ in range(2):
        async with zk:
            await work(zk, root)
        await zk.stop()

for _ in range(2):
    asyncio.run(main())
print("done")
"""
TESTS = """
import asyncio
import os

import pytest
import pytest_asyncio

from parkazoo.aio import ParKazooClient

pytestmark = pytest.mark.asyncio(loop_scope="module")

@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def zk():
    async with ParKazooClient(os.environ["HOSTS"]) as client:
        yield client

async def test_write(zk):
    await zk.create(os.environ["ROOT"], b"1", makepath=True)

async def test_read(zk):
    assert (await zk.get(os.environ["ROOT"]))[0] == b"1"
    await zk.delete(os.environ["ROOT"])

@pytest.mark.asyncio(loop_scope="function")
async def test_a_client_of_its_own():
    async with ParKazooClient(os.environ["HOSTS"]) as client:
        assert await client.exists(os.environ["ROOT"]) is None
"""


def needs(package: str) -> Any:
    return unittest.skipUnless(find_spec(package), f"{package} is not installed")


class FrameworkTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.cluster = shared_cluster()

    def setUp(self) -> None:
        self.root = f"/{uuid.uuid4().hex}"

    def client(self, **options: Any) -> Any:
        return aio_case.ParKazooClient(self.cluster.hosts, **options)

    async def use(self, zk: Any) -> None:
        """On all ensembles, with a watch, a lock and a lost connection."""
        paths = [f"{self.root}/{each}/x" for each in range(FOLDERS)]
        await asyncio.gather(*(zk.create(path, b"1", makepath=True) for path in paths))
        async with zk.watch_data(paths[0]) as states, zk.Lock(f"{self.root}/lock"):
            self.assertEqual((await anext(states))[0], b"1")
            zk._session.drop_connections()
            await until(lambda: not zk.connected, "the loss")
            await until(lambda: zk.connected, "it is back")
            await zk.set(paths[0], b"2")
            self.assertEqual((await anext(states))[0], b"2")
        await zk.delete(self.root, recursive=True)


@needs_aio
class TestLoops(FrameworkTest):
    async def once(self, zk: Any) -> None:
        async with zk:
            await self.use(zk)

    def test_two_runs(self) -> None:
        """One client, on one loop after the other."""
        zk = self.client()
        for _ in range(2):
            asyncio.run(self.once(zk), debug=True)

    @needs("uvloop")
    def test_uvloop(self) -> None:
        import uvloop  # noqa: PLC0415 - not on every platform

        zk = self.client()
        with asyncio.Runner(loop_factory=uvloop.new_event_loop, debug=True) as runner:
            runner.run(self.once(zk))
        asyncio.run(self.once(zk))

    def test_a_loop_that_is_blocked(self) -> None:
        """For longer than the session timeout: the session is lost. Listeners and a lock's body hear of it."""
        other = ParKazooClient(self.cluster.hosts)
        self.addCleanup(other.close)
        self.addCleanup(other.stop)
        other.start(DEADLINE_S)
        seen: list[str] = []

        async def main() -> None:
            async with self.client(timeout=4) as zk:
                zk.add_listener(seen.append)
                with self.assertRaises(LockLostError):
                    async with zk.Lock(f"{self.root}/lock") as lock:
                        while other.exists(f"{self.root}/lock/{lock.node}"):
                            time.sleep(SOON_S)
                        await asyncio.sleep(DEADLINE_S)
                await until(lambda: zk.connected, "it begins anew")
                self.assertIn(LOST, seen)
                self.assertEqual(await zk.get_children(f"{self.root}/lock"), [])
                await zk.delete(self.root, recursive=True)

        asyncio.run(main())


@needs_aio
class TestStop(FrameworkTest):
    """Nothing is left, and the client can be started again."""

    def run_with(self, zk: Any, stop: Callable[[Any], Coroutine[Any, Any, None]]) -> None:
        async def main() -> None:
            await stop(zk)
            self.assertEqual((zk.state, zk.client_state), (LOST, "CLOSED"))
            with self.assertRaises(ConnectionClosedError):
                await zk.get("/")
            others = asyncio.all_tasks() - {asyncio.current_task()}
            self.assertEqual(others, set())
            zk.hosts = self.client().hosts
            async with zk:
                await zk.get("/")

        asyncio.run(main(), debug=True)

    def test_before_start(self) -> None:
        async def stop(zk: Any) -> None:
            await zk.stop()
            await asyncio.gather(zk.stop(), zk.stop())

        self.run_with(self.client(), stop)

    def test_while_it_connects(self) -> None:
        """To a server that does not answer."""
        with socket.create_server(("127.0.0.1", 0)) as silent:
            zk = aio_case.ParKazooClient(f"127.0.0.1:{silent.getsockname()[1]}")

            async def stop(zk: Any) -> None:
                start = asyncio.create_task(zk.start(DEADLINE_S))
                await asyncio.get_running_loop().run_in_executor(None, silent.accept)
                early = zk.get_async("/")
                await zk.stop()
                for each in (start, early):
                    with self.assertRaises(ConnectionClosedError):
                        await each

            self.run_with(zk, stop)

    def test_while_it_is_suspended(self) -> None:
        """What waits for the ensemble that is away has failed."""
        server = self.cluster.ensembles[1].servers[0]
        found: list[Any] = []

        async def stop(zk: Any) -> None:
            await zk.start(DEADLINE_S)
            paths = [f"{self.root}/{each}/x" for each in range(FOLDERS)]
            await asyncio.gather(*(zk.create(path, ephemeral=True, makepath=True) for path in paths))
            server.kill()
            await until(lambda: zk.state == SUSPENDED, "the loss")
            waiting = [zk.get_async(path) for path in paths]
            await zk.stop()
            found.extend(await asyncio.gather(*waiting, return_exceptions=True))
            server.start()
            await asyncio.to_thread(server.wait_serving)

        self.run_with(self.client(), stop)
        self.assertEqual({type(each) for each in found}, {tuple, ConnectionLoss})

    def test_twice_at_once_and_cancelled(self) -> None:
        async def stop(zk: Any) -> None:
            await zk.start(DEADLINE_S)
            made = zk.create_async(f"{self.root}/a/b/c", ephemeral=True, makepath=True)
            stops = [asyncio.create_task(zk.stop()) for _ in range(3)]
            await asyncio.sleep(0)
            stops[1].cancel()
            await asyncio.wait(stops)
            self.assertEqual([each.cancelled() for each in stops], [False, True, False])
            self.assertEqual(made.result(), f"{self.root}/a/b/c")
            await zk.stop()

        self.run_with(self.client(), stop)

    def test_cancelled_alone(self) -> None:
        """It goes on by itself."""

        async def stop(zk: Any) -> None:
            await zk.start(DEADLINE_S)
            await zk.create(self.root, ephemeral=True)
            task = asyncio.create_task(zk.stop())
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            await until(lambda: zk.client_state == "CLOSED", "its end")

        self.run_with(self.client(), stop)


@needs_aio
class TestFrameworks(FrameworkTest):
    def test_task_groups(self) -> None:
        """One that fails cancels the others; what was not sent by then is not done."""

        async def main() -> None:
            async with self.client() as zk:
                await zk.ensure_path(self.root)
                async with asyncio.TaskGroup() as group:
                    made = [group.create_task(zk.create(f"{self.root}/{each}")) for each in range(FOLDERS)]
                self.assertEqual(
                    [each.result() for each in made], [f"{self.root}/{each}" for each in range(FOLDERS)]
                )
                with self.assertRaises(ExceptionGroup) as caught:
                    async with zk.watch_data(self.root) as states, asyncio.TaskGroup() as group:
                        group.create_task(anext(states))
                        group.create_task(zk.Lock(f"{self.root}/0").acquire())
                        waits = group.create_task(zk.Lock(f"{self.root}/0").acquire())
                        group.create_task(zk.get(f"{self.root}/missing"))
                self.assertEqual([type(each) for each in caught.exception.exceptions], [NoNodeError])
                self.assertTrue(waits.cancelled())
                await zk.delete(self.root, recursive=True)

        asyncio.run(main())

    @needs("fastapi")
    @needs("httpx")
    def test_fastapi(self) -> None:
        from fastapi import FastAPI, Request  # noqa: PLC0415 - an extra
        from httpx import ASGITransport, AsyncClient  # noqa: PLC0415 - an extra

        zk = self.client()

        @asynccontextmanager
        async def lifespan(app: Any) -> AsyncIterator[None]:
            async with zk:
                await zk.create(self.root, b"1")
                app.state.zk = zk
                yield

        app = FastAPI(lifespan=lifespan)

        async def read(request: Request) -> str:
            data, _ = await request.app.state.zk.get(self.root)
            return str(data.decode())

        read.__annotations__["request"] = Request
        app.get("/")(read)

        async def main() -> None:
            async with app.router.lifespan_context(app):
                async with AsyncClient(transport=ASGITransport(app), base_url="http://test") as web:
                    answers = await asyncio.gather(*(web.get("/") for _ in range(20)))
                self.assertEqual([each.json() for each in answers], ["1"] * 20)
            self.assertFalse(zk.connected)

        asyncio.run(main(), debug=True)

    @needs("aiohttp")
    def test_aiohttp(self) -> None:
        from aiohttp import ClientSession, web  # noqa: PLC0415 - an extra

        zk = self.client()

        async def connect(app: Any) -> AsyncIterator[None]:
            async with zk:
                await zk.create(self.root, b"1")
                yield

        async def read(request: Any) -> Any:
            return web.Response(body=(await zk.get(self.root))[0])

        async def main() -> None:
            app = web.Application()
            app.cleanup_ctx.append(connect)
            app.router.add_get("/", read)
            runner = web.AppRunner(app)
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            host, port = runner.addresses[0]
            async with ClientSession() as session:
                for _ in range(3):
                    async with session.get(f"http://{host}:{port}/") as answer:
                        self.assertEqual(await answer.read(), b"1")
            await runner.cleanup()
            self.assertFalse(zk.connected)

        asyncio.run(main(), debug=True)

    @needs("pytest_asyncio")
    def test_pytest_asyncio(self) -> None:
        """A fixture and tests on one loop, and a client of a test's own."""
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder) / "test_program.py"
            program.write_text(TESTS)
            scope = "asyncio_default_fixture_loop_scope=function"  # without it, it warns
            arguments = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", scope, "-W", "error", str(program))
            out = self.run_python(*arguments, folder=folder)
        self.assertIn("3 passed", out)

    def test_no_warning(self) -> None:
        """In debug mode, with each warning an error: no word of the interpreter's, whatever happens."""
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder) / "program.py"
            program.write_text(PROGRAM)
            out = self.run_python(
                "-X", "dev", "-W", "error", str(program), self.cluster.hosts, self.root, folder=folder
            )
        self.assertEqual(out, "done\n")

    def run_python(self, *arguments: str, folder: str) -> str:
        """What it prints; it says nothing else, and succeeds."""
        path = str(Path(__file__).parents[2])
        process = subprocess.run(
            [sys.executable, *arguments],
            cwd=folder,
            env={"HOSTS": self.cluster.hosts, "ROOT": self.root, "PYTHONPATH": path},
            capture_output=True,
            check=False,
            text=True,
            timeout=RUN_S,
        )
        self.assertEqual((process.returncode, process.stderr), (0, ""), process.stdout)
        return process.stdout
