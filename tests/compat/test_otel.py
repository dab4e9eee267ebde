"""Counts and durations for OpenTelemetry, without a client: what its SDK collects in memory."""

from __future__ import annotations

import logging
import unittest
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import Gauge, Histogram, InMemoryMetricReader, Metric, Sum

from parkazoo.compat.monitor import make_monitor
from parkazoo.kazoo_private import GetData
from parkazoo.measures import MEASURES
from parkazoo.monitoring import BUCKETS_S, Connected, OperationEnded, RequestEnded
from parkazoo.otel import OperationDurations, RequestDurations, observe
from tests.fakes.counting import LATER, CountingClient
from tests.handlers import make_handler

LONG_S = 60.0


class OtelTest(unittest.TestCase):
    def setUp(self) -> None:
        self.reader = InMemoryMetricReader()
        self.provider = MeterProvider([self.reader])
        self.addCleanup(self.provider.shutdown)

    def collect(self) -> dict[str, Metric]:
        data = self.reader.get_metrics_data()
        assert data is not None
        (resource,) = data.resource_metrics
        (scope,) = resource.scope_metrics
        self.assertEqual(scope.scope.name, "parkazoo")
        return {each.name: each for each in scope.metrics}

    def values(self, name: str, *labels: str) -> dict[tuple[Any, ...], Any]:
        """:param labels: attributes; "-" stands for one that is missing."""
        points = self.collect()[name].data.data_points
        for each in points:
            self.assertEqual(each.attributes["db.system.name"], "zookeeper")
        return {tuple(each.attributes.get(label, "-") for label in labels): each.value for each in points}


class TestCounts(OtelTest):
    def test_all_of_them(self) -> None:
        observe(CountingClient(), meter_provider=self.provider)
        found = self.collect()
        self.assertEqual({*found}, {f"parkazoo.{each.name}" for each in MEASURES})
        for each in MEASURES:
            metric = found[f"parkazoo.{each.name}"]
            self.assertEqual(metric.description, each.about)
            self.assertRegex(metric.unit, r"^\{\w+\}$")
            self.assertIsInstance(metric.data, Sum if each.is_sum else Gauge)
            self.assertEqual(getattr(metric.data, "is_monotonic", False), each.grows)

    def test_requests(self) -> None:
        observe(CountingClient(), meter_provider=self.provider)
        self.assertEqual(
            self.values("parkazoo.requests", "parkazoo.ensemble", "db.operation.name", "error.type"),
            {
                ("a", "get", "-"): 3,
                ("a", "get", "no_node"): 1,
                ("a", "get", "connection_loss"): 0,
                ("a", "get", "session_expired"): 0,
                ("b", "set", "-"): 0,
                ("b", "set", "_OTHER"): 2,
                ("b", "set", "connection_loss"): 0,
                ("b", "set", "session_expired"): 0,
            },
        )
        self.assertEqual(self.values("parkazoo.connected", "parkazoo.ensemble"), {("a",): 1, ("b",): 0})
        self.assertEqual(self.values("parkazoo.map_epoch", "parkazoo.ensemble"), {("-",): 9})

    def test_named_clients(self) -> None:
        observe(jobs=CountingClient(), users=CountingClient(LATER), meter_provider=self.provider)
        found = self.values("parkazoo.connected", "parkazoo.client", "parkazoo.ensemble")
        self.assertEqual(found, {("jobs", "a"): 1, ("jobs", "b"): 0, ("users", "a"): 1, ("users", "b"): 1})

    def test_clients_without_names(self) -> None:
        observe(CountingClient(), CountingClient(LATER), meter_provider=self.provider)
        self.assertEqual(self.values("parkazoo.watch_events", "parkazoo.ensemble"), {("a",): 14, ("b",): 0})
        self.assertEqual(self.values("parkazoo.map_epoch"), {(): 9})

    def test_counters_that_fail(self) -> None:
        client = CountingClient()
        observe(client, meter_provider=self.provider)
        client.error = ValueError("a bug")
        with self.assertLogs() as logs:
            for _ in range(3):
                self.reader.get_metrics_data()
        self.assertEqual([each.name for each in logs.records], ["parkazoo"])


class TestDurations(OtelTest):
    def histogram(self, name: str) -> list[Any]:
        metric = self.collect()[name]
        self.assertEqual(metric.unit, "s")
        assert isinstance(metric.data, Histogram)
        return list(metric.data.data_points)

    def test_operations(self) -> None:
        listener = OperationDurations(self.provider)
        for outcome, seconds in (("ok", 0.002), ("ok", 7.0), ("no_node", 0.02), ("other", 11.0)):
            listener.operation_ended(OperationEnded("get", outcome, seconds, "", 1))
        found = {
            each.attributes.get("error.type"): each for each in self.histogram("db.client.operation.duration")
        }
        self.assertEqual({*found}, {None, "no_node", "_OTHER"})
        self.assertEqual(found[None].attributes, {"db.system.name": "zookeeper", "db.operation.name": "get"})
        self.assertEqual(found[None].explicit_bounds, (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10))
        self.assertEqual((found[None].count, found[None].sum), (2, 7.002))
        self.assertEqual(tuple(found["_OTHER"].bucket_counts), (*[0] * 9, 1))

    def test_requests(self) -> None:
        listener = RequestDurations(self.provider)
        listener.request_ended(RequestEnded("a", "get", "connection_loss", 4.0, ""))
        listener.connected(Connected("a", "zk1:2181", 0.0))
        listener.connected(Connected("b", "[::1]:2182", 0.0))
        for ensemble in "ab":
            listener.request_ended(RequestEnded(ensemble, "set", "ok", 0.0003, ""))
        unknown, a, b = (dict(each.attributes) for each in self.histogram("parkazoo.request.duration"))
        usual = {"db.system.name": "zookeeper", "db.operation.name": "set"}
        self.assertEqual(unknown["error.type"], "connection_loss")
        self.assertNotIn("server.address", unknown)
        self.assertEqual(a, {**usual, "parkazoo.ensemble": "a", "server.address": "zk1"})
        self.assertEqual(b, {**usual, "parkazoo.ensemble": "b", "server.address": "::1", "server.port": 2182})
        self.assertEqual(self.histogram("parkazoo.request.duration")[0].explicit_bounds, BUCKETS_S)

    def test_an_error_of_recording(self) -> None:
        """It changes nothing, and the log says it once."""

        class Broken:
            def record(self, *_: object) -> None:
                raise ValueError("a bug")

        listener = OperationDurations(self.provider)
        listener._durations = Broken()
        monitor = make_monitor([listener], False, make_handler(), str, logging.getLogger("parkazoo"))
        assert monitor is not None and monitor.operation_meter is not None
        with self.assertLogs("parkazoo") as logs:
            for _ in range(3):
                monitor.operation_meter(GetData("/a", None), None, 0.1, 1)
            monitor.wait(LONG_S)
        self.assertEqual(len(logs.records), 1)
