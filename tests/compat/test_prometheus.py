"""The collector for prometheus_client, without a client: what a registry prints, and what it refuses."""

from __future__ import annotations

import subprocess
import sys
import unittest

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from parkazoo import ParKazooClient
from parkazoo.installing import command_to_add
from parkazoo.measures import MEASURES
from parkazoo.prometheus import ClientCollector
from tests.fakes.counting import LATER, CountingClient

# As a program's registry prints them, without the lines of the histogram's buckets.
PRINTED = """\
parkazoo_requests_total{ensemble="a",operation="get",outcome="connection_loss"} 0.0
parkazoo_requests_total{ensemble="a",operation="get",outcome="no_node"} 1.0
parkazoo_requests_total{ensemble="a",operation="get",outcome="ok"} 3.0
parkazoo_requests_total{ensemble="a",operation="get",outcome="session_expired"} 0.0
parkazoo_requests_total{ensemble="b",operation="set",outcome="connection_loss"} 0.0
parkazoo_requests_total{ensemble="b",operation="set",outcome="ok"} 0.0
parkazoo_requests_total{ensemble="b",operation="set",outcome="other"} 2.0
parkazoo_requests_total{ensemble="b",operation="set",outcome="session_expired"} 0.0
parkazoo_connections_lost_total{ensemble=""} 1.0
parkazoo_connections_lost_total{ensemble="a"} 0.0
parkazoo_connections_lost_total{ensemble="b"} 6.0
parkazoo_sessions_expired_total{ensemble="a"} 0.0
parkazoo_sessions_expired_total{ensemble="b"} 0.0
parkazoo_watch_events_total{ensemble="a"} 7.0
parkazoo_watch_events_total{ensemble="b"} 0.0
parkazoo_connected{ensemble="a"} 1.0
parkazoo_connected{ensemble="b"} 0.0
parkazoo_in_flight{ensemble="a"} 4.0
parkazoo_in_flight{ensemble="b"} 0.0
parkazoo_queued{ensemble="a"} 0.0
parkazoo_queued{ensemble="b"} 5.0
parkazoo_map_epoch 9.0
parkazoo_request_duration_seconds_count{ensemble="a",operation="get"} 4.0
parkazoo_request_duration_seconds_count{ensemble="b",operation="set"} 2.0
parkazoo_request_duration_seconds_sum{ensemble="a",operation="get"} 7.0062
parkazoo_request_duration_seconds_sum{ensemble="b",operation="set"} 50.0
"""


def printed(collector: ClientCollector) -> str:
    registry = CollectorRegistry()
    registry.register(collector)
    return generate_latest(registry).decode()


def values(text: str) -> dict[tuple[str, ...], float]:
    """By the name and the values of the labels, in the order of their names."""
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


class TestCollector(unittest.TestCase):
    def test_all_that_is_printed(self) -> None:
        text = printed(ClientCollector(CountingClient()))
        self.assertEqual(
            values("".join(line for line in text.splitlines(True) if "_bucket" not in line)), values(PRINTED)
        )
        buckets = [line for line in text.splitlines() if '_bucket{ensemble="a"' in line]
        self.assertEqual(len(buckets), 13)
        name = "parkazoo_request_duration_seconds_bucket"
        for bound, count in (("0.00025", 1), ("0.005", 3), ("+Inf", 4)):
            self.assertIn(f'{name}{{ensemble="a",le="{bound}",operation="get"}} {count}.0', buckets)

    def test_each_has_a_help_text_and_a_type(self) -> None:
        families = {
            each.name: each for each in text_string_to_metric_families(printed(ClientCollector(CountingClient())))
        }
        self.assertEqual(len(families), len(MEASURES) + 1)
        for each in families.values():
            self.assertTrue(each.documentation.endswith("."), each.name)
            self.assertIn(each.type, ("counter", "gauge", "histogram"))

    def test_named_clients_have_a_label(self) -> None:
        found = values(printed(ClientCollector(jobs=CountingClient(), users=CountingClient(LATER))))
        self.assertEqual(found["parkazoo_connected", "jobs", "b"], 0)
        self.assertEqual(found["parkazoo_connected", "users", "b"], 1)
        self.assertEqual(found["parkazoo_map_epoch", "users"], 10)
        self.assertEqual(found["parkazoo_request_duration_seconds_count", "users", "a", "get"], 4)

    def test_clients_without_names_are_added_up(self) -> None:
        found = values(printed(ClientCollector(CountingClient(LATER), CountingClient())))
        self.assertEqual(found["parkazoo_connected", "a"], 2)
        self.assertEqual(found["parkazoo_connected", "b"], 1)
        self.assertEqual(found["parkazoo_requests_total", "a", "get", "ok"], 6)
        self.assertEqual(found["parkazoo_request_duration_seconds_bucket", "a", "0.0025", "get"], 2)
        self.assertEqual(found["parkazoo_request_duration_seconds_count", "b", "set"], 4)
        self.assertEqual(found["parkazoo_request_duration_seconds_sum", "b", "set"], 100)
        self.assertEqual(found["parkazoo_map_epoch",], 9)

    def test_what_is_refused(self) -> None:
        registry = CollectorRegistry()
        registry.register(ClientCollector(CountingClient()))
        self.assertRaises(ValueError, registry.register, ClientCollector(CountingClient()))
        self.assertRaises(ValueError, ClientCollector)
        self.assertRaises(ValueError, ClientCollector, CountingClient(), jobs=CountingClient())
        self.assertRaisesRegex(RuntimeError, "counters=True", ClientCollector, ParKazooClient())

    def test_counters_that_fail(self) -> None:
        """The other clients' are there, and the log says it once."""
        broken, whole = CountingClient(), CountingClient()
        registry = CollectorRegistry()
        registry.register(ClientCollector(broken=broken, whole=whole))
        broken.error = ValueError("a bug")
        with self.assertLogs("parkazoo") as logs:
            texts = [generate_latest(registry).decode() for _ in range(3)]
        self.assertEqual(len(logs.records), 1)
        self.assertNotIn("broken", texts[2])
        self.assertEqual(values(texts[2])["parkazoo_map_epoch", "whole"], 9)


class TestExtras(unittest.TestCase):
    def run_python(self, code: str) -> str:
        """The last line of what it says."""
        ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        return (ended.stdout + ended.stderr).strip().rpartition("\n")[2]

    def test_the_client_imports_neither(self) -> None:
        imported = "{*sys.modules} & {'prometheus_client', 'opentelemetry'}"
        self.assertEqual(self.run_python(f"import sys, parkazoo.monitoring; print({imported})"), "set()")

    def test_without_the_extra(self) -> None:
        for module, library, extra in (
            ("prometheus", "prometheus_client", "prometheus"),
            ("otel", "opentelemetry-api", "otel"),
        ):
            imported = library.partition("-")[0]
            said = self.run_python(f"import sys; sys.modules['{imported}'] = None; import parkazoo.{module}")
            expected = f"ImportError: parkazoo.{module} needs {library}: {command_to_add(extra)}"
            self.assertEqual(said, expected)
