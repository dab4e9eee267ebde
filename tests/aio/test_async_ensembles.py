"""What the asyncio client shows of its ensembles: join, states, counters, listeners."""

from __future__ import annotations

import asyncio
import threading
from typing import Any
from unittest import mock

from kazoo.exceptions import ConnectionClosedError, ConnectionLoss, NoNodeError

from parkazoo.monitoring import Connected, Listener, OperationEnded, StateChanged
from parkazoo.otel import observe
from parkazoo.prometheus import ClientCollector
from tests.aio.aio_case import AioCase, until


class Hearing(Listener):
    """Remembers, and is slow at the end."""

    def __init__(self) -> None:
        self.heard: list[Any] = []
        self.threads: set[int] = set()

    def connected(self, event: Connected) -> None:
        self.heard.append(event)

    def state_changed(self, event: StateChanged) -> None:
        self.heard.append(event)

    def operation_ended(self, event: OperationEnded) -> None:
        self.threads.add(threading.get_ident())
        self.heard.append(event)


class TestEnsembles(AioCase):
    async def test_join(self) -> None:
        zk = self.client(counters=True)
        with self.assertRaises(ConnectionClosedError):
            await zk.join()
        await zk.start()
        assert zk.cluster_map is not None
        self.assertEqual(sum(zk.counters().connected.values()), 1)
        with self.assertRaisesRegex(ValueError, "no ensemble 'x' in the cluster map: a, b, c"):
            await zk.join("x")
        await zk.join("a", "b")
        await zk.join()
        self.assertEqual(zk.counters().connected, {"a": True, "b": True, "c": True})

    async def test_join_of_one_that_is_away(self) -> None:
        zk = await self.started(timeout=4)
        self.cluster.away = away = {each for each in range(3) if not self.cluster.is_connected(each)}
        with self.assertRaisesRegex(TimeoutError, "Connection time-out: no session with "):
            await zk.join(timeout=0.05)
        with self.assertRaisesRegex(ConnectionLoss, "no session with "):
            await zk.join()
        away.clear()
        await zk.join()

    async def test_state_of(self) -> None:
        zk = self.client()
        self.assertEqual(zk.state_of("/"), "LOST")
        await zk.start()
        await zk.join()
        await zk.create("/d/x", makepath=True)
        assert zk._session is not None and zk._session.driver is not None
        at = zk._session.driver.context.known("/d/x").home.ensemble
        self.assertEqual(zk.state_of("/d/x"), "CONNECTED")
        self.cluster.away = {at}
        self.cluster.cut(at)
        await until(lambda: zk.state_of("/d/x") == "SUSPENDED", "it is away")
        self.assertEqual(zk.state, "CONNECTED")
        with self.assertRaisesRegex(TypeError, "path"):
            zk.state_of(7)  # type: ignore[arg-type]  # a user's mistake
        self.cluster.away = set()
        await until(lambda: zk.state_of("/d/x") == "CONNECTED", "it is back")
        await zk.stop()
        self.assertEqual(zk.state_of("/d/x"), "LOST")


class TestCounters(AioCase):
    ensembles = 1

    async def test_they_count(self) -> None:
        zk = await self.started(counters=True)
        await zk.create("/x")
        with self.assertRaises(NoNodeError):
            await zk.get("/none")
        under_way = zk.get_async("/x", lambda event: None)
        self.assertEqual(zk.counters().in_flight["a"], 1)
        await under_way
        await zk.set("/x", b"1")
        counters = zk.counters()
        self.assertEqual(counters.requests["a", "create", "ok"], 1)
        self.assertEqual(counters.requests["a", "get", "no_node"], 1)
        self.assertEqual((counters.map_epoch, counters.watch_events), (1, {"a": 1}))
        self.cluster.cut(0)
        await until(lambda: zk.counters().connections_lost == {"a": 1}, "it is counted")
        with self.assertRaisesRegex(RuntimeError, "does not count"):
            (await self.started()).counters()

    async def test_for_prometheus_and_opentelemetry(self) -> None:
        zk = await self.started(counters=True)
        await zk.create("/x")
        found = {
            (sample.name, *sample.labels.values()): sample.value
            for metric in ClientCollector(zk).collect()
            for sample in metric.samples
        }
        self.assertEqual(found["parkazoo_requests_total", "a", "create", "ok"], 1)
        provider = mock.Mock()
        observe(zk, meter_provider=provider)
        self.assertIn("parkazoo.requests", str(provider.mock_calls))

    async def test_listeners(self) -> None:
        hearing = Hearing()
        zk = await self.started(listeners=[hearing])
        await zk.create("/x")
        await zk.stop()
        kinds = [type(each).__name__ for each in hearing.heard]
        self.assertEqual(kinds[0], "Connected")
        self.assertIn(StateChanged("LOST", "CONNECTED", "a"), hearing.heard)
        self.assertEqual(hearing.heard[-1], StateChanged("CONNECTED", "LOST", ""))
        ended = [each for each in hearing.heard if isinstance(each, OperationEnded)]
        self.assertEqual([(each.operation, each.outcome, each.requests) for each in ended], [("create", "ok", 1)])
        self.assertNotIn(threading.get_ident(), hearing.threads)
        with self.assertRaises(TypeError):
            self.client(listeners=[7])

    async def test_stop_waits_for_no_listener_for_long(self) -> None:
        has_come, may_go = threading.Event(), threading.Event()

        class Slow(Listener):
            def operation_ended(self, event: OperationEnded) -> None:
                has_come.set()
                may_go.wait()

        zk = await self.started(listeners=[Slow()])
        await zk.create("/x")
        await asyncio.to_thread(has_come.wait)
        with mock.patch("parkazoo.aio.async_client.LISTENERS_S", 0.01):
            await zk.stop()
        may_go.set()
