"""The programs of docs/operations/monitoring.md: a real Prometheus scrapes one, and tells what it did."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import unittest
from collections import Counter
from functools import partial
from typing import Any

from bench import ROOT
from parkazoo.local import HOST, free_ports
from tests.live.prometheus_server import MISSING, PROMETHEUS, PrometheusServer
from tests.live.world import DEADLINE_S, LiveTest, end_session, wait_until

PAGE = ROOT / "docs" / "operations" / "monitoring.md"
CONFIGURATION = """\
global: {{scrape_interval: 1s}}
scrape_configs:
  - job_name: program
    static_configs: [{{targets: ["{}"]}}]
"""
# It does what the test types, and answers each line with one.
OBEYS = """
import json, sys
for line in sys.stdin:
    print(json.dumps(eval(line), default=str), flush=True)
"""
READS, FAILURES = 20, 3


def example(number: int, hosts: str) -> str:
    """A program of the page, for these servers."""
    text = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)[number]
    changed, count = re.subn(r'"a1:2181,[^"]*"', repr(hosts), text)
    assert count == 1, text
    return changed


class Program:
    """A program in a process of its own, for :meth:`do`; it ends when it is closed."""

    def __init__(self, text: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", text + OBEYS],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def do(self, expression: str) -> Any:
        """What that gives there."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{expression}\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self) -> int:
        """Its status."""
        self._process.communicate(timeout=DEADLINE_S)
        return self._process.returncode


@unittest.skipIf(PROMETHEUS is None, MISSING)
class TestScraped(LiveTest):
    def setUp(self) -> None:
        super().setUp()
        (port,) = free_ports(1)
        text = example(0, self.cluster.hosts)
        self.assertIn("start_http_server(9200)", text)
        program = Program(text.replace("9200", f"{port}, addr={HOST!r}"))
        self.addCleanup(program.close)
        self.do = program.do
        self.do("zk.join()")
        self.names = [each.name for each in self.cluster.ensembles]
        self.prometheus = PrometheusServer(CONFIGURATION.format(f"{HOST}:{port}"))
        self.prometheus.__enter__()
        self.addCleanup(self.prometheus.__exit__, None, None, None)

    def wait_for(self, expected: Any, query: str, *labels: str) -> None:
        """Wait until Prometheus has scraped these values."""
        found: list[Any] = []

        def is_as_expected() -> bool:
            found[:] = [self.prometheus.values(query, *labels)]
            return bool(found[0] == expected)

        try:
            wait_until(is_as_expected, query)
        except AssertionError:
            self.assertEqual(found[0], expected, query)

    def counted(self, field: str) -> dict[tuple[str, ...], float]:
        """What the program's client has counted, by the labels."""
        items = self.do(f"[[key, value] for key, value in zk.counters().{field}.items()]")
        return {tuple(key) if isinstance(key, list) else (key,): value for key, value in items}

    def check_totals(self) -> None:
        """What is counted is scraped."""
        requests = self.counted("requests")
        labels = "ensemble", "operation", "outcome"
        self.wait_for(requests, "parkazoo_requests_total > 0", *labels)
        by_kind: Counter[tuple[str, ...]] = Counter()
        for (*kind, _), count in requests.items():
            by_kind[tuple(kind)] += int(count)
        self.wait_for(by_kind, "parkazoo_request_duration_seconds_count", "ensemble", "operation")
        for field in ("connections_lost", "sessions_expired", "watch_events"):
            expected = {(name,): 0.0 for name in self.names} | self.counted(field)
            self.wait_for(expected, f"parkazoo_{field}_total", "ensemble")

    def test_what_the_program_did(self) -> None:
        self.do("zk.create('/metrics')")
        self.addCleanup(self.do, "zk.delete('/metrics')")
        self.do(f"[zk.get('/metrics', watch=repr if not n else None) for n in range({READS})]")
        self.do(f"[zk.set_async('/metrics', b'', 7).wait() for _ in range({FAILURES})]")
        self.do("zk.set('/metrics', b'1')")
        self.wait_for({(): 1}, "sum(parkazoo_watch_events_total)")
        self.wait_for({(): FAILURES}, "sum(parkazoo_requests_total{operation='set', outcome='bad_version'})")
        self.wait_for({(): READS}, "sum(parkazoo_requests_total{operation='get', outcome='ok'})")
        self.check_totals()
        median = "histogram_quantile(0.5, sum(parkazoo_request_duration_seconds_bucket) by (le))"
        self.assertTrue(0 < self.prometheus.values(median)[()] <= 10)
        self.wait_for({(name,): 1 for name in self.names}, "parkazoo_connected", "ensemble")
        self.wait_for({(): self.do("zk.cluster_map.epoch")}, "parkazoo_map_epoch")
        for now in ("in_flight", "queued"):
            self.wait_for({(name,): 0 for name in self.names}, f"parkazoo_{now}", "ensemble")

    def test_losses(self) -> None:
        """An ensemble freezes while requests go there; later a session is ended by another client."""
        ensemble = self.cluster.ensembles[1]
        name = ensemble.name
        ensemble.servers[0].freeze()
        self.addCleanup(ensemble.servers[0].thaw)
        waiting = f"zk.counters().in_flight[{name!r}] + zk.counters().queued[{name!r}]"
        asks = "[zk.exists_async(f'/metrics-{n}/x') and None for n in range(30)]"

        def has_seen(metric: str) -> bool:
            self.do(f"{waiting} or {asks}")
            return (name,) in self.prometheus.values(f"max_over_time(parkazoo_{metric}[1h]) > 0", "ensemble")

        for metric in ("in_flight", "queued"):
            wait_until(partial(has_seen, metric), metric)
        self.wait_for(
            {(name,): 0, **{(each,): 1 for each in self.names if each != name}}, "parkazoo_connected", "ensemble"
        )
        ensemble.servers[0].thaw()
        self.wait_for({(each,): 1 for each in self.names}, "parkazoo_connected", "ensemble")
        number, password = self.do(f"[zk.members[{name!r}].client_id[0], zk.members[{name!r}].client_id[1].hex()]")
        before = self.do(f"zk.counters().sessions_expired.get({name!r}, 0)")
        end_session((number, bytes.fromhex(password)), ensemble.hosts)
        wait_until(lambda: self.do(f"zk.counters().sessions_expired.get({name!r}, 0)") > before, "the expiry")
        wait_until(lambda: self.do(f"zk.counters().connected[{name!r}]"), "another session")
        self.assertGreaterEqual(self.counted("connections_lost")[name,], 1)
        self.check_totals()

    def test_help_texts(self) -> None:
        found = wait_until(lambda: self.prometheus.ask("metadata"), "metadata")
        ours = {name: about[0] for name, about in found.items() if name.startswith("parkazoo_")}
        self.assertEqual(len(ours), 9)
        self.assertTrue(all(each["help"] for each in ours.values()))


class TestOpenTelemetry(LiveTest):
    def test_the_example(self) -> None:
        """It runs, though the program has no MeterProvider."""
        program = Program(example(1, self.cluster.hosts))
        self.assertIsNone(program.do("zk.start()"))
        self.assertIsNone(program.do("zk.exists('/nothing')"))
        self.assertEqual(program.close(), 0)
