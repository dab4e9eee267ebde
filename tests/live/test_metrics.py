"""The programs of docs/operations/monitoring.md: a real Prometheus scrapes one, and tells what it did."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
import threading
import unittest
from collections import Counter
from collections.abc import Mapping
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any

from bench import ROOT
from parkazoo.local import HOST, free_ports
from tests.entered import entered
from tests.live.prometheus_server import ALERTS, MISSING, PROMETHEUS, PrometheusServer
from tests.live.world import DEADLINE_S, LiveTest, end_session, wait_until

PAGE = ROOT / "docs" / "operations" / "monitoring.md"
DASHBOARD = ROOT / "conf" / "grafana-dashboard.json"
# The lines that alerts and dashboard need, of a leader: ZooKeeper 3.9.5, PrometheusMetricsProvider 3.9.4.
MNTR, PROVIDER = (ROOT / "tests" / "live" / "zookeeper_metrics" / name for name in ("mntr.txt", "provider.txt"))
COUNTER = re.compile(
    r"^(zk_(?:cnt|sum)_\w+|\w+latency_(?:count|sum)|fsynctime_(?:count|sum)) ([\d.]+)$", re.MULTILINE
)
# It does what the test types, and answers each line with one.
OBEYS = """
import json, sys, traceback
for line in sys.stdin:
    try:
        answer = [eval(line), None]
    except Exception:
        answer = [None, traceback.format_exc()]
    print(json.dumps(answer, default=str), flush=True)
"""
HOSTS = "a1:2181,b1:2181,c1:2181"
PATIENT = {"zk.start()": f"zk.start({DEADLINE_S})"}  # on a machine that others use
READS, FAILURES = 20, 3


def example(number: int, changes: Mapping[str, str], language: str = "python") -> str:
    """An example of the page.

    :param changes: from what it has to what this test needs.
    """
    found = re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    text: str = found[number]
    for old, new in changes.items():
        assert old in text, text
        text = text.replace(old, new)
    return text


class Exposed:
    """An HTTP server on loopback with a text of metrics, whose counters grow with each scrape.

    :ivar address: of the server.
    """

    def __init__(self, text: str) -> None:
        scrapes = count()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                number = next(scrapes)
                grown = COUNTER.sub(lambda found: f"{found[1]} {float(found[2]) + number}", text)
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.end_headers()
                self.wfile.write(grown.encode())

            def log_message(self, *_: object) -> None: ...

        self._server = ThreadingHTTPServer((HOST, 0), Handler)
        self.address = f"{HOST}:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


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
        """What that gives there.

        :raises AssertionError: it raises something.
        """
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{expression}\n")
        self._process.stdin.flush()
        value, error = json.loads(self._process.stdout.readline())
        assert error is None, error
        return value

    def close(self) -> int:
        """Its status."""
        self._process.communicate(timeout=DEADLINE_S)
        return self._process.returncode


@unittest.skipIf(PROMETHEUS is None, MISSING)
class TestScraped(LiveTest):
    def setUp(self) -> None:
        super().setUp()
        (port,) = free_ports(1)
        program = Program(example(0, {HOSTS: self.cluster.hosts, "9200": f"{port}, addr={HOST!r}", **PATIENT}))
        self.addCleanup(program.close)
        self.do = program.do
        self.do(f"zk.join(timeout={DEADLINE_S})")
        self.do("zk.retry(zk.ensure_path, '/metrics')")
        self.addCleanup(self.do, "zk.retry(zk.delete, '/metrics')")
        self.names = [each.name for each in self.cluster.ensembles]
        mntr = Exposed(MNTR.read_text().replace("\t", " "))
        provider = Exposed(PROVIDER.read_text())
        for each in (mntr, provider):
            self.addCleanup(each.close)
        changes = {
            "15s": "1s",
            "[prometheus-alerts.yml]": f"[{ALERTS}]",
            '"app1:9200", "app2:9200"': f'"{HOST}:{port}"',
            '"a1:7000", "a2:7000", "a3:7000"': f'"{mntr.address}"',
            '"b1:7000", "b2:7000", "b3:7000"': f'"{provider.address}"',
        }
        self.prometheus = entered(self, PrometheusServer(example(0, changes, "yaml")))

    def wait_for(self, expected: Any, query: str, *labels: str) -> None:
        """Wait until Prometheus has scraped these values, or what a function returns by then."""
        found: list[Any] = []

        def is_as_expected() -> bool:
            found[:] = self.prometheus.values(query, *labels), expected() if callable(expected) else expected
            return bool(found[0] == found[1])

        try:
            wait_until(is_as_expected, query)
        except AssertionError:
            self.assertEqual(*found, query)

    def counted(self, field: str) -> dict[tuple[str, ...], float]:
        """What the program's client has counted, by the labels."""
        items = self.do(f"[[key, value] for key, value in zk.counters().{field}.items()]")
        return {tuple(key) if isinstance(key, list) else (key,): value for key, value in items}

    def check_totals(self) -> None:
        """What is counted is scraped."""
        labels = "ensemble", "operation", "outcome"
        self.wait_for(lambda: self.counted("requests"), "parkazoo_requests_total > 0", *labels)
        self.wait_for(self.by_kind, "parkazoo_request_duration_seconds_count", "ensemble", "operation")
        for field in ("connections_lost", "sessions_expired", "watch_events"):
            none = {(name,): 0.0 for name in self.names}
            self.wait_for(
                lambda none=none, field=field: none | self.counted(field), f"parkazoo_{field}_total", "ensemble"
            )

    def by_kind(self) -> Counter[tuple[str, ...]]:
        """The requests that it has counted, however they ended."""
        found: Counter[tuple[str, ...]] = Counter()
        for (*kind, _), number in self.counted("requests").items():
            found[tuple(kind)] += int(number)
        return found

    def test_what_the_program_did(self) -> None:
        self.do(f"[zk.retry(zk.get, '/metrics', repr if not n else None) for n in range({READS})]")
        self.do(f"[zk.set_async('/metrics', b'', 7).wait() for _ in range({FAILURES})]")
        self.do("zk.retry(zk.set, '/metrics', b'1')")
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

    def test_each_panel_shows_something(self) -> None:
        """Those of servers show both of them, one of either spelling."""
        panels = [each for each in json.loads(DASHBOARD.read_text())["panels"] if each["type"] != "row"]
        self.assertGreater(len(panels), 20)
        for panel in panels:
            for target in panel["targets"]:
                query = target["expr"].replace("$__rate_interval", "10s").replace("$job", ".*")
                labels = re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])
                with self.subTest(panel["title"], query=query):
                    found = wait_until(partial(self.seen, query, *labels), query)
                    self.assertTrue(all(map(all, found)), "a label of the legend is missing")
                    if "zookeeper" in query:
                        wait_until(lambda q=query: {("a",), ("b",)} <= {*self.seen(q, "ensemble")}, query)

    def seen(self, query: str, *labels: str) -> list[tuple[str, ...]]:
        """The labels of the numbers that a query gives, while the program works."""
        self.do("zk.retry(zk.get, '/') and zk.retry(zk.set, '/metrics', b'') and None")
        return [key for key, value in self.prometheus.values(query, *labels).items() if not math.isnan(value)]

    def test_each_alert_is_evaluated(self) -> None:
        def rules() -> list[Any]:
            return [rule for group in self.prometheus.ask("rules")["groups"] for rule in group["rules"]]

        wait_until(lambda: {rule["health"] for rule in rules()} == {"ok"}, "all rules evaluated")
        self.assertEqual(len(rules()), ALERTS.read_text().count("alert:"))

    def test_help_texts(self) -> None:
        def texts() -> list[str]:
            found = self.prometheus.ask("metadata")
            return [about[0]["help"] for name, about in found.items() if name.startswith("parkazoo_")]

        wait_until(lambda: len(texts()) == 9, "the metadata of each metric")
        self.assertTrue(all(texts()))


class TestOpenTelemetry(LiveTest):
    def test_the_example(self) -> None:
        """It runs, though the program has no MeterProvider."""
        program = Program(example(1, {HOSTS: self.cluster.hosts}))
        self.assertIsNone(program.do(f"zk.start({DEADLINE_S})"))
        self.assertIsNone(program.do("zk.retry(zk.exists, '/nothing')"))
        self.assertEqual(program.close(), 0)
