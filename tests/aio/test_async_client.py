"""The life of the asyncio client: start, states, stop, on one loop and on the next."""

from __future__ import annotations

import asyncio
import contextlib
import runpy
import shutil
import socket
import ssl
import sys
import tempfile
import threading
import unittest
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from kazoo.exceptions import (
    ConfigurationError,
    ConnectionClosedError,
    ConnectionLoss,
    NoNodeError,
    SessionExpiredError,
    WriterNotClosedException,
)
from kazoo.protocol.states import EventType, KazooState

import parkazoo
from parkazoo.errors import ClusterMapError, DeferredError, ForkError
from parkazoo.kazoo_private import Close, Delete
from parkazoo.protocol.placement import MAP
from parkazoo.wire.workers import Workers
from tests.aio import aio_case
from tests.aio.aio_case import DEADLINE_S, LONG_S, AioCase, LoopsCase, needs_aio, until
from tests.fakes.zookeeper import Ensembles
from tests.kazoo_suite.certificates import Authority

CONNECTED, SUSPENDED, LOST = KazooState.CONNECTED, KazooState.SUSPENDED, KazooState.LOST


class TestStart(AioCase):
    async def test_no_thread_and_no_task(self) -> None:
        zk, before = self.client(), {*threading.enumerate()}
        async with zk:
            await asyncio.gather(*(zk.ensure_path(f"/{each}/x") for each in range(12)))
            others = [
                each for each in asyncio.all_tasks() if "Ensembles" not in repr(each)
            ]  # the servers' have theirs
            self.assertEqual(others, [asyncio.current_task()])
            self.assertLessEqual({*threading.enumerate()}, before)
            self.assertEqual((zk.connected, zk.state), (True, CONNECTED))
        self.assertEqual((zk.connected, zk.state), (False, LOST))

    async def test_again_while_it_runs(self) -> None:
        zk = await self.started()
        await asyncio.gather(zk.start(), zk.start())
        self.assertTrue(zk.connected)

    async def test_nobody_answers(self) -> None:
        self.cluster.away = {0, 1, 2}
        zk = self.client()
        with self.assertRaisesRegex(TimeoutError, "no session with .* within 0.2 s.*several in hosts"):
            await zk.start(0.2)
        self.assertEqual((zk.state, zk.client_state), (LOST, "CLOSED"))
        self.cluster.away = set()
        await zk.start(DEADLINE_S)
        self.assertTrue(zk.connected)

    async def test_without_a_limit(self) -> None:
        zk = self.client()
        async with asyncio.timeout(DEADLINE_S):
            await zk.start(timeout=None)
        self.assertTrue(zk.connected)

    async def test_a_map_that_is_missing(self) -> None:
        for at in range(3):
            self.cluster.model.execute(at, Delete(MAP, -1))
        zk = self.client()
        with self.assertRaises(ClusterMapError):
            await zk.start(DEADLINE_S)
        with self.assertRaises(ClusterMapError):
            await zk.get("/")

    async def test_again_after_it_has_failed(self) -> None:
        """By itself, while it ran."""
        zk = await self.started()
        assert zk._session is not None
        zk._session.fail(ClusterMapError("a test wants it"))
        with self.assertRaisesRegex(ClusterMapError, "a test wants it"):
            await zk.get("/")
        await zk.start(DEADLINE_S)
        self.assertEqual((await zk.get("/"))[0], b"")

    async def test_cancelled(self) -> None:
        """Nothing is left, and it can be started again."""
        self.cluster.mute = {0, 1, 2}
        zk = self.client()
        task = asyncio.create_task(zk.start())
        await asyncio.sleep(0.05)
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        self.assertEqual(zk.client_state, "CLOSED")
        self.cluster.mute = set()
        await zk.start(DEADLINE_S)
        self.assertEqual((await zk.get("/"))[0], b"")

    async def test_cancelled_at_its_end(self) -> None:
        """It is connected, and looks for its chroot."""
        zk = self.client("/root")
        with mock.patch.object(zk, "_lacks_chroot", asyncio.Event().wait):
            task = asyncio.create_task(zk.start(DEADLINE_S))
            await until(lambda: zk.connected, "it is connected")
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
        self.assertEqual(zk.client_state, "CLOSED")

    async def test_an_end_that_fails(self) -> None:
        """The error of the start counts."""
        self.cluster.away = {0, 1, 2}
        zk = self.client()
        with (
            mock.patch.object(zk, "stop", side_effect=WriterNotClosedException),
            self.assertRaisesRegex(TimeoutError, "no session with"),
        ):
            await zk.start(0.05)

    async def test_names(self) -> None:
        """They are looked up on a thread, for that may block."""
        hosts = self.cluster.hosts.replace("127.0.0.1", "localhost")
        async with aio_case.ParKazooClient(hosts) as zk:
            self.assertEqual((await zk.get("/"))[0], b"")

    async def test_requests_wait_for_the_session(self) -> None:
        zk = self.client()
        start = asyncio.create_task(zk.start(DEADLINE_S))
        await asyncio.sleep(0)
        made = zk.create_async("/a")
        self.assertEqual(await made, "/a")
        await start

    async def test_options(self) -> None:
        for error, options in (
            (ValueError, {"give_up_after": 0}),
            (ValueError, {"consistency": "eventual"}),
            (TypeError, {"handler": None}),
        ):
            with self.assertRaises(error):
                aio_case.ParKazooClient(self.cluster.hosts, **options)  # type: ignore[arg-type]  # a user's mistakes

    async def test_one_order(self) -> None:
        zk = await self.started(consistency="total")
        await asyncio.gather(*(zk.create(f"/{each}/x", b"1", makepath=True) for each in range(12)))
        values = await asyncio.gather(*(zk.get(f"/{each}/x") for each in range(12)))
        self.assertEqual({value for value, _ in values}, {b"1"})


class TestOptions(AioCase):
    async def test_an_earlier_session(self) -> None:
        """Another client goes on with it, and its ephemeral stays."""
        first = await self.started()
        await first.create("/e", ephemeral=True)
        client_id = first.client_id
        session = first._session
        assert session is not None
        session.abandon(ConnectionClosedError("its process has ended"))
        first._loop = None
        self.cluster.cut(self.ensemble_of("/e"))
        second = await self.started(client_id=client_id)
        assert client_id is not None
        assert second.client_id is not None
        self.assertEqual(second.client_id[0], client_id[0])
        stat = await second.exists("/e")
        assert stat is not None
        self.assertEqual(stat.ephemeralOwner, client_id[0])
        await second.stop()
        self.assertIsNone(second.client_id)
        self.assertFalse(any("/e" in nodes for nodes in self.cluster.model.nodes))
        await second.start(DEADLINE_S)  # a new one
        self.assertNotEqual(second.client_id[0], client_id[0])

    async def test_leave(self) -> None:
        """No session ends, whatever is under way; another client has the ephemerals."""
        first = await self.started()
        for path in ("/a", "/b", "/c"):
            await first.create(path, ephemeral=True)
        client_id = first.client_id
        assert client_id is not None
        self.cluster.mute.update(range(3))
        lost = first.get_async("/a")
        with self.assertLogs("parkazoo", "INFO") as logs:
            await first.leave()
        self.assertIn("the client leaves its session", " ".join(logs.output))
        self.assertEqual([each.levelname for each in logs.records if each.levelname != "INFO"], [])  # it is wanted
        with self.assertRaises(ConnectionLoss):
            await lost
        with self.assertRaises(ConnectionClosedError):
            await first.get("/a")
        self.cluster.mute.clear()
        second = await self.started(client_id=client_id)
        assert second.client_id is not None
        self.assertEqual(second.client_id[0], client_id[0])
        self.assertEqual(await second.get_ephemerals(), ["/a", "/b", "/c"])
        await first.leave()  # once more: nothing runs

    async def test_granted_time(self) -> None:
        zk = self.client(timeout=500)
        self.assertIsNone(zk.granted_timeout_s)
        await zk.start(DEADLINE_S)
        self.assertEqual(zk.granted_timeout_s, 500)

    async def test_options_of_sasl(self) -> None:
        with self.assertRaisesRegex(ConfigurationError, "sasl_options"):
            await self.client(sasl_options={"mechanism": "NONE"}).start()

    async def test_tls(self) -> None:
        authority, files = Authority("ours"), Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, files)
        served = authority.issue("localhost", "127.0.0.1")
        (files / "server.pem").write_bytes(served.key + served.certificate)
        (files / "ca.pem").write_bytes(authority.certificate)
        (files / "other.pem").write_bytes(Authority("another").certificate)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(files / "server.pem")
        async with Ensembles(tls=context) as cluster:
            options: dict[str, Any] = {"use_ssl": True, "check_hostname": True, "ca": str(files / "ca.pem")}
            async with aio_case.ParKazooClient(cluster.hosts, LONG_S, **options) as zk:
                values = [bytes([number]) * 300_000 for number in range(20)]
                await asyncio.gather(*(zk.create(f"/{at}", value) for at, value in enumerate(values)))
                read = await asyncio.gather(*(zk.get(f"/{at}") for at in range(20)))
                self.assertEqual([value for value, _ in read], values)
            other = aio_case.ParKazooClient(cluster.hosts, LONG_S, use_ssl=True, ca=str(files / "other.pem"))
            told, limit_s = "", 0.5
            while "certificate" not in told and limit_s < DEADLINE_S:  # a slow machine gets no further at first
                with self.assertRaises(TimeoutError) as raised:
                    await other.start(limit_s)
                told, limit_s = str(raised.exception), 4 * limit_s
            self.assertIn("certificate", told)
            for wrong in ({"ca": str(files / "none.pem")}, {"check_hostname": True, "verify_certs": False}):
                with self.assertRaises(ConfigurationError):
                    await aio_case.ParKazooClient(cluster.hosts, LONG_S, use_ssl=True, **wrong).start(DEADLINE_S)  # type: ignore[arg-type]


class TestStates(AioCase):
    async def asyncSetUp(self) -> None:
        await super().asyncSetUp()
        self.seen: list[str] = []

    async def holding(self, **options: Any) -> Any:
        """A client with an ephemeral, whose ensemble it cannot miss."""
        zk = self.client(**options)
        zk.add_listener(self.seen.append)
        await zk.start(DEADLINE_S)
        await zk.create("/e", ephemeral=True)
        return zk

    async def test_a_lost_connection(self) -> None:
        zk = await self.holding()
        self.cluster.cut(self.ensemble_of("/e"))
        await until(lambda: self.seen == [CONNECTED, SUSPENDED, CONNECTED], "it is back")
        self.assertIsNotNone(await zk.exists("/e"))

    async def test_an_expired_session(self) -> None:
        zk = await self.holding()
        told: list[Any] = []
        await zk.get("/", told.append)
        get = zk.get_async("/e")
        self.cluster.expire(self.ensemble_of("/e"))
        with self.assertRaises((ConnectionLoss, SessionExpiredError)):
            await get
        await until(lambda: self.seen[-1:] == [CONNECTED] and LOST in self.seen, "it begins anew")
        self.assertIn(self.seen[1:], ([LOST, CONNECTED], [SUSPENDED, LOST, CONNECTED]))
        self.assertEqual([each.type for each in told], ["NONE"])
        with self.assertRaises(NoNodeError):
            await zk.get("/e")

    async def test_it_gives_up(self) -> None:
        zk = await self.holding(give_up_after=0.1)
        at = self.ensemble_of("/e")
        self.cluster.away = {at}
        self.cluster.cut(at)
        await until(lambda: LOST in self.seen, "it gives up")
        self.assertEqual(zk.state, LOST)
        self.cluster.away = set()
        await until(lambda: zk.connected, "it begins anew")
        self.assertEqual(self.seen, [CONNECTED, SUSPENDED, LOST, CONNECTED])

    async def test_before_the_first_connection(self) -> None:
        """As with kazoo, it is LOST, and nobody is told so."""
        self.cluster.away = {0, 1, 2}
        zk = self.client()
        zk.add_listener(self.seen.append)
        start = asyncio.create_task(zk.start(DEADLINE_S))
        await asyncio.sleep(0.05)
        self.assertEqual((zk.client_state, zk.state, self.seen), ("CONNECTING", LOST, []))
        self.cluster.away = set()
        await start
        self.assertEqual((zk.state, self.seen), (CONNECTED, [CONNECTED]))

    async def test_a_listener_that_calls(self) -> None:
        """What it issues is not among the requests that the lost connection fails."""
        zk = await self.holding()
        issued: list[asyncio.Future[Any]] = []
        zk.add_listener(lambda state: issued.append(zk.exists_async("/e")))
        self.cluster.cut(self.ensemble_of("/e"))
        await until(lambda: self.seen == [CONNECTED, SUSPENDED, CONNECTED], "it is back")
        found = await asyncio.gather(*issued)
        self.assertEqual((len(found), None in found), (2, False))

    async def test_a_listener_that_is_removed_meanwhile(self) -> None:
        zk = await self.holding()
        zk.add_listener(lambda state: zk.remove_listener(late))
        late = mock.Mock()
        zk.add_listener(late)
        self.cluster.cut(self.ensemble_of("/e"))
        await until(lambda: self.seen == [CONNECTED, SUSPENDED, CONNECTED], "it is back")
        late.assert_not_called()

    async def test_listeners(self) -> None:
        zk = self.client()

        def once(state: str) -> bool:
            self.seen.append(state)
            return True

        def wrong(state: str) -> None:
            raise LookupError

        def cancelled(state: str) -> None:
            raise asyncio.CancelledError

        async def coroutine(state: str) -> None:
            raise AssertionError

        zk.add_listener(wrong)
        zk.add_listener(cancelled)
        zk.add_listener(once)
        with self.assertRaises(ConfigurationError):
            zk.add_listener(7)  # type: ignore[arg-type]  # a user's mistake
        with self.assertRaisesRegex(TypeError, "coroutine"):
            zk.add_listener(coroutine)
        with self.assertLogs("parkazoo", "ERROR"):
            await zk.start(DEADLINE_S)
        zk.remove_listener(wrong)
        zk.remove_listener(wrong)
        await zk.stop()
        self.assertEqual(self.seen, [CONNECTED])


class TestStop(AioCase):
    async def test_in_each_state(self) -> None:
        zk = self.client()
        await zk.stop()
        start = asyncio.create_task(zk.start(DEADLINE_S))
        await asyncio.sleep(0)
        await zk.stop()
        with self.assertRaises(ConnectionClosedError):
            await start
        await zk.start(DEADLINE_S)
        await asyncio.gather(zk.stop(), zk.stop())
        await zk.stop()
        with self.assertRaises(ConnectionClosedError):
            await zk.get("/")

    async def test_what_was_issued_is_done(self) -> None:
        zk = await self.started()
        await asyncio.gather(*(zk.create(f"/{each}") for each in range(12)))
        made = [zk.create_async(f"/{each}/x") for each in range(12)]
        await zk.stop()
        self.assertEqual([each.result() for each in made], [f"/{each}/x" for each in range(12)])

    async def test_a_watch_whose_read_was_under_way(self) -> None:
        zk = await self.started()
        told: list[Any] = []
        await asyncio.gather(zk.exists("/"), zk.exists("/new"))  # it has joined their ensembles
        reads = [zk.exists_async(each, told.append) for each in ("/", "/new")]
        await zk.stop()
        self.assertEqual([each.result() is None for each in reads], [False, True])
        await asyncio.sleep(0)
        self.assertEqual([(each.type, each.state) for each in told], 2 * [("NONE", "CLOSED")])

    async def test_one_call_of_several_requests_is_done(self) -> None:
        """Alone: between two of its requests, nothing is under way."""
        for number in range(3):
            for name, options in (
                ("create", {"makepath": True}),
                ("create_ttl", {"makepath": True, "ttl": 60}),
                ("ensure_path", {}),
            ):
                zk, path = await self.started(), f"/{number}-{name}/a/b/c"
                made = getattr(zk, f"{name}_async")(path, **options)
                await zk.stop()
                self.assertEqual(made.result(), path)
                self.assertFalse(zk._unfinished.has_any())

    async def test_a_call_of_several_requests_that_is_cancelled(self) -> None:
        zk = await self.started()
        zk.create_async("/a/b/c", makepath=True).cancel()
        await zk.stop()
        self.assertFalse(zk._unfinished.has_any())

    async def test_ephemerals_end(self) -> None:
        zk, other = await self.started(), await self.started()
        await zk.create("/e", ephemeral=True)
        await zk.stop()
        self.assertIsNone(await other.exists("/e"))

    async def test_cancelled(self) -> None:
        """It goes on by itself."""
        zk = await self.started()
        await zk.create("/e", ephemeral=True)
        stop = asyncio.create_task(zk.stop())
        await asyncio.sleep(0)
        stop.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await stop
        await until(lambda: zk.client_state == "CLOSED", "the end")
        self.assertFalse(any("/e" in nodes for nodes in self.cluster.model.nodes))
        await zk.start(DEADLINE_S)
        self.assertTrue(zk.connected)

    async def test_an_ensemble_that_is_away(self) -> None:
        """What waits for it has failed."""
        zk = await self.started()
        await zk.create("/a")
        at = self.ensemble_of("/a")
        self.cluster.away = {at}
        self.cluster.cut(at)
        await until(lambda: not self.cluster.is_connected(at), "the cut")
        change = zk.set_async("/a", b"1")
        await zk.stop()
        with self.assertRaises(ConnectionLoss):
            await change


@needs_aio
class TestLoops(unittest.TestCase):
    def setUp(self) -> None:
        self.zk = aio_case.ParKazooClient()

    async def run_once(self, *, stops: bool = True) -> None:
        async with Ensembles() as cluster:
            self.zk.hosts = aio_case.ParKazooClient(cluster.hosts).hosts
            await self.zk.start(DEADLINE_S)
            await self.zk.create("/a")
            self.assertEqual((await self.zk.get("/a"))[0], b"")
            if stops:
                await self.zk.stop()

    def test_one_after_the_other(self) -> None:
        for _ in range(2):
            asyncio.run(self.run_once(), debug=True)

    def test_a_loop_that_was_closed_before(self) -> None:
        asyncio.run(self.run_once(stops=False))
        asyncio.run(self.run_once(), debug=True)

    def test_a_stop_on_the_next_loop(self) -> None:
        asyncio.run(self.run_once(stops=False))
        asyncio.run(self.zk.stop())
        asyncio.run(self.run_once(), debug=True)

    def test_two_at_once(self) -> None:
        async def main() -> None:
            async with Ensembles() as cluster:
                zk = aio_case.ParKazooClient(cluster.hosts)
                await zk.start(DEADLINE_S)
                for call in (zk.start, zk.stop, partial(zk.get, "/")):
                    with self.assertRaisesRegex(RuntimeError, "another event loop"):
                        await asyncio.to_thread(asyncio.run, call())
                await zk.stop()

        asyncio.run(main())

    def test_recipes_of_another_loop(self) -> None:
        """Nothing is done there."""

        async def main() -> None:
            async with Ensembles() as cluster, aio_case.ParKazooClient(cluster.hosts) as zk:
                lock, party, queue = zk.Lock("/lock"), zk.Party("/party"), zk.Queue("/queue")
                barrier, entries = zk.DoubleBarrier("/barrier", 1), zk.LockingQueue("/entries")
                partitioner = zk.SetPartitioner("/work", ["a"], time_boundary=0)
                await queue.put(b"1")
                await entries.put(b"2")
                for hold in (lock.acquire, party.join, entries.get, barrier.enter, partitioner.wait_for_acquire):
                    await hold()
                calls: list[Any] = [lock.acquire, lock.release, party.leave, queue.get, entries.consume]
                calls += [barrier.leave, partitioner.wait_for_release, partitioner.release_set, partitioner.finish]
                calls += [partial(anext, zk.states()), partial(anext, zk.watch_tree("/"))]
                for call in calls:
                    with self.subTest(call), self.assertRaisesRegex(RuntimeError, "another event loop"):
                        await asyncio.to_thread(asyncio.run, awaited(call))
                self.assertTrue(lock.is_acquired and party.participating and barrier.participating)
                self.assertEqual((await queue.get(), await entries.consume(), [*partitioner]), (b"1", True, ["a"]))
                self.assertTrue(await lock.release())

        async def awaited(call: Any) -> Any:
            async with asyncio.timeout(DEADLINE_S):
                return await call()

        asyncio.run(main())

    def test_without_a_loop(self) -> None:
        with self.assertRaisesRegex(RuntimeError, "no running event loop"):
            self.zk.get_async("/")


class TestClosedLoop(LoopsCase):
    def test_what_a_closed_loop_leaves(self) -> None:
        """It hears of the end, and goes on."""
        zk = aio_case.ParKazooClient(self.hosts)
        shared, cache, later = zk.DistributedDict("/d"), zk.TreeCache("/t"), list[Any]()
        heard, told = list[str](), list[Any]()
        zk.add_listener(heard.append)

        async def begin() -> None:
            await zk.start(DEADLINE_S)
            await shared.__aenter__()
            await cache.start()
            await zk.exists("/w", told.append)
            later.append(zk.deferred())
            await later[0].add("/x")
            await later[0].barrier()

        async def go_on() -> None:
            await zk.start(DEADLINE_S)
            await zk.create("/t/a")
            await zk.create("/d/b", b"1", makepath=True)
            await until(lambda: (cache.get_children("/t"), shared.copy()) == ({"a"}, {"b": 1}), "they are kept")
            await cache.close()
            await shared.__aexit__(None, None, None)
            with self.assertRaises(DeferredError):
                await later[0].put("/x", b"1")
            await later[0].close()
            await zk.stop()

        asyncio.run(begin())
        asyncio.run(go_on())
        self.assertEqual(heard, [KazooState.CONNECTED, KazooState.LOST] * 2)
        self.assertEqual([each.type for each in told], [EventType.NONE])

    def test_tasks_that_a_closed_loop_leaves(self) -> None:
        """They never go on, and the next start does not mind."""
        zk = aio_case.ParKazooClient(self.hosts)
        partitioner = zk.SetPartitioner("/work", ["a"], time_boundary=0)
        loop = asyncio.new_event_loop()
        tasks, mistakes = list[Any](), list[Any]()

        async def hold() -> None:
            async with zk.Lock("/held"):
                await asyncio.Event().wait()

        async def divide() -> None:
            await partitioner.wait_for_acquire()
            await partitioner.wait_for_release()

        async def follow(states: Any) -> None:
            async with states as following:
                async for _ in following:
                    pass

        async def follow_changes() -> None:
            async with zk.DistributedDict("/d") as shared:
                async for _ in shared.changes():
                    pass

        def leave(work: Any) -> None:
            tasks.append(loop.create_task(work))
            tasks[-1]._log_destroy_pending = False

        async def begin() -> None:
            await zk.start(DEADLINE_S)
            leave(hold())
            leave(divide())
            leave(zk.changed(LONG_S))
            leave(zk.Lock("/held").acquire())
            for states in (zk.watch_data("/"), zk.watch_tree("/held"), contextlib.aclosing(zk.states())):
                leave(follow(states))
            leave(follow_changes())
            await until(lambda: partitioner.acquired and len(zk.losses) == 2, "both are held")
            await until(lambda: len(zk._ends) == 2, "all follow")
            leave(zk.listings.read("/free"))
            await asyncio.sleep(0)
            loop.stop()

        async def go_on() -> None:
            asyncio.get_running_loop().set_exception_handler(lambda loop, context: mistakes.append(context))
            await zk.start(DEADLINE_S)
            async with zk.Lock("/free"):
                self.assertTrue(partitioner.failed)
            await zk.stop()

        leave(begin())
        loop.run_forever()
        loop.close()
        with self.assertNoLogs("parkazoo", "ERROR"):
            asyncio.run(go_on())
        self.assertEqual(mistakes, [])


class TestFork(AioCase):
    async def test_in_the_child(self) -> None:
        """The parent's session is left alone, and nothing is sent."""
        zk = await self.started()
        self.cluster.requests.clear()
        zk.abandon()
        with self.assertRaisesRegex(ForkError, "needs a client of its own"):
            await zk.get("/")
        await zk.stop()
        self.assertEqual(self.cluster.requests, [])
        self.assertFalse(any(isinstance(each, Close) for each in self.cluster.requests))


class TestVersion(unittest.TestCase):
    def test_an_older_python(self) -> None:
        package = Path(parkazoo.__file__).parent / "aio" / "__init__.py"
        with (
            mock.patch.object(sys, "version_info", (3, 10, 13)),
            self.assertRaisesRegex(ImportError, "needs Python 3.11"),
        ):
            runpy.run_path(str(package))


@needs_aio
class TestLoop(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        self.loop = aio_case.AsyncioLoop(asyncio.get_running_loop())

    async def test_no_secret_in_the_log(self) -> None:
        def wrong(secret: str) -> None:
            raise LookupError

        with self.assertLogs("parkazoo.aio.asyncio_loop", "ERROR") as logs:
            self.loop.call(partial(wrong, "pass-word"))
            await asyncio.sleep(0)
        self.assertNotIn("pass-word", logs.records[0].getMessage())

    async def test_no_thread(self) -> None:
        workers = Workers("none")
        with (
            mock.patch.object(workers, "_start", side_effect=RuntimeError("can't start new thread")),
            mock.patch("parkazoo.aio.asyncio_loop.BLOCKING", workers),
            self.assertRaisesRegex(RuntimeError, "can't start"),
        ):
            self.loop.run_blocking(mock.Mock())

    async def test_a_closed_socket(self) -> None:
        sock = socket.socket()
        sock.close()
        with self.assertRaises(ValueError):
            self.loop.watch(sock, mock.Mock())
        with self.assertRaises(KeyError):
            self.loop.forget(sock)


class TestCancelled(AioCase):
    """What was not sent when its caller gave up is not done."""

    async def asyncSetUp(self) -> None:
        await super().asyncSetUp()
        self.zk = await self.started()
        await self.zk.create("/a")
        await asyncio.gather(*(self.zk.ensure_path(f"/{each}/x") for each in range(12)))

    async def lose(self) -> None:
        """All connections, until the test lets them come back."""
        self.cluster.away = {0, 1, 2}
        for at in range(3):
            self.cluster.cut(at)
        session = self.zk._session
        assert session is not None
        await until(lambda: not any(each.is_connected for each in session.roster.members), "the cut")

    async def test_while_there_is_no_connection(self) -> None:
        await self.lose()
        calls = [
            self.zk.create_async("/a/b"),
            self.zk.set_async("/a", b"1"),
            self.zk.create_async("/c/d", makepath=True),
            self.zk.ensure_path_async("/c/e"),
            self.zk.delete_async("/a"),
        ]
        await asyncio.sleep(0)
        for call in calls:
            call.cancel()
        self.cluster.away = set()
        stat = await self.zk.exists("/a")
        assert stat is not None
        self.assertEqual((stat.version, await self.zk.get_children("/a")), (0, []))
        self.assertIsNone(await self.zk.exists("/c"))

    async def test_a_task_in_time(self) -> None:
        """By a time-out of the caller's."""
        await self.lose()
        with self.assertRaises(TimeoutError):
            async with asyncio.timeout(0.05):
                await self.zk.create("/a/b")
        self.cluster.away = set()
        self.assertEqual(await self.zk.get_children("/a"), [])

    async def test_before_the_session(self) -> None:
        zk = self.client()
        start = asyncio.create_task(zk.start(DEADLINE_S))
        await asyncio.sleep(0)
        zk.create_async("/early").cancel()
        await start
        self.assertIsNone(await zk.exists("/early"))

    async def test_on_its_way(self) -> None:
        """It is finished, all steps: a first child takes several."""
        made = self.zk.create_async("/a/b")
        made.cancel()
        self.assertEqual(await self.zk.get_children("/a"), ["b"])
