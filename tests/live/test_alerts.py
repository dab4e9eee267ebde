"""conf/prometheus-alerts.yml: each alert fires in its world, by both spellings of the servers' metrics."""

from __future__ import annotations

import json
import re
import tempfile
import unittest
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.live.prometheus_server import ALERTS, MISSING, PROMTOOL, run_promtool

PROGRAM = {"job": "program", "instance": "app1:9200"}
SERVER = {"job": "zookeeper", "instance": "b1:7000"}
WEEK = 7 * 24 * 60
ALERT = re.compile(r"- alert: (\w+)")
FIRING = 'group by (alertname) (ALERTS{alertstate="firing"})'
World = Mapping[str, str]


class Clock(NamedTuple):
    """Minutes: between two values of a series, between two evaluations, and until the alerts are looked at."""

    interval: int = 1
    evaluation: int = 1
    until: int = 90


# By alert: the series of a world, with their values. The metrics of servers are in mntr's spelling. Series are of
# PROGRAM or of SERVER, unless their labels say otherwise.
WORLDS: Mapping[str, World] = {
    "ParKazooEnsembleAway": {  # for more than an hour
        "parkazoo_connected{ensemble=b}": "1+0x10 0+0x100",
        "parkazoo_connections_lost_total{ensemble=b}": "0+0x10 1+0x100",
    },
    "ParKazooConnectionsLost": {"parkazoo_connections_lost_total{ensemble=b}": "0+1x100"},
    "ParKazooSessionsExpired": {"parkazoo_sessions_expired_total{ensemble=b}": "0+1x100"},
    "ParKazooUnanswered": {
        "parkazoo_requests_total{ensemble=b, operation=get, outcome=ok}": "0+98x100",
        "parkazoo_requests_total{ensemble=b, operation=get, outcome=connection_loss}": "0+2x100",
    },
    "ParKazooSlow": {
        "parkazoo_request_duration_seconds_bucket{ensemble=b, operation=get, le=0.1}": "0+98x100",
        "parkazoo_request_duration_seconds_bucket{ensemble=b, operation=get, le=0.5}": "0+100x100",
        "parkazoo_request_duration_seconds_bucket{ensemble=b, operation=get, le=+Inf}": "0+100x100",
    },
    "ParKazooOldMap": {"parkazoo_map_epoch{}": "3+0x100", "parkazoo_map_epoch{instance=app2:9200}": "4+0x100"},
    "ZooKeeperNotServing": {"up{ensemble=b}": "1+0x100"},
    "ZooKeeperServerMissing": {
        "zk_quorum_size{ensemble=b}": "3+0x100",
        "zk_synced_followers{ensemble=b}": "2+0x80 1+0x100",
    },
    "ZooKeeperUnreachable": {
        "up{ensemble=b}": "0+0x100",
        "zk_znode_count{ensemble=b, instance=b2:7000}": "9+0x100",
    },
    "ZooKeeperQueue": {"zk_outstanding_requests{ensemble=b}": "11+0x100"},
    "ZooKeeperSlowWrites": {
        "zk_cnt_updatelatency{ensemble=b}": "0+10x100",
        "zk_sum_updatelatency{ensemble=b}": "0+1010x100",
    },
    "ZooKeeperSlowDisk": {
        "zk_cnt_fsynctime{ensemble=b}": "0+10x100",
        "zk_sum_fsynctime{ensemble=b}": "0+510x100",
    },
    "ZooKeeperUneven": {
        "zk_cnt_updatelatency{ensemble=a}": "0+300x100",
        "zk_cnt_updatelatency{ensemble=b}": "0+10x100",
        "zk_cnt_updatelatency{ensemble=c}": "0+20x100",
        "zk_outstanding_requests{ensemble=a}": "10+0x9 20+0x1 10+0x38 20+0x1 10+0x60",
    },
    "ZooKeeperFiles": {
        "zk_open_file_descriptor_count{ensemble=b}": "81+0x100",
        "zk_max_file_descriptor_count{ensemble=b}": "100+0x100",
    },
    "ZooKeeperGrows": {"zk_znode_count{ensemble=b}": "100+0x2520 201+0x30"},
    "ZooKeeperDamaged": {"zk_digest_mismatches_count{ensemble=b}": "0+0x80 1+0x100"},
}
CLOCKS = {"ZooKeeperGrows": Clock(4, 20, WEEK + 100)}
# Nothing here is worth an alert, though most of it is near.
HEALTHY: World = {
    "parkazoo_connected{ensemble=a}": "1+0x100",
    "parkazoo_connected{ensemble=b}": "1+0x20 0+0x65 1+0x100",
    "parkazoo_connected{ensemble=a, instance=app3:9200}": "1+0x60 0+0x100",  # it began anew
    "parkazoo_connected{ensemble=c}": "0+0x50 1+0x50",
    "parkazoo_connections_lost_total{ensemble=a}": "0+0x85 2+0x100",
    "parkazoo_connections_lost_total{ensemble=b}": "0+0x20 1+0x100",
    "parkazoo_connections_lost_total{ensemble=c}": "0+0x100",
    "parkazoo_connections_lost_total{ensemble=a, instance=app3:9200}": "1+0x60 0+0x100",
    "parkazoo_sessions_expired_total{ensemble=a}": "0+0x85 2+0x100",
    "parkazoo_requests_total{ensemble=a, operation=get, outcome=ok}": "0+1000x100",
    "parkazoo_requests_total{ensemble=a, operation=get, outcome=connection_loss}": "0+9x100",
    "parkazoo_request_duration_seconds_bucket{ensemble=a, operation=get, le=0.1}": "0+1000x100",
    "parkazoo_request_duration_seconds_bucket{ensemble=a, operation=get, le=+Inf}": "0+1009x100",
    "parkazoo_map_epoch{}": "3+0x40 4+0x100",
    "parkazoo_map_epoch{instance=app2:9200}": "3+0x100",
    "up{ensemble=a}": "1+0x87 0+0x100",
    "up{ensemble=a, instance=a2:7000}": "1+0x100",
    "zk_quorum_size{ensemble=a}": "3+0x100",
    "zk_synced_followers{ensemble=a}": "2+0x87 1+0x100",
    "zk_outstanding_requests{ensemble=a}": "10+0x87 20+0x100",
    "zk_cnt_updatelatency{ensemble=a}": "0+20x100",
    "zk_sum_updatelatency{ensemble=a}": "0+1900x100",
    "zk_cnt_updatelatency{ensemble=b}": "0+10x100",
    "zk_cnt_fsynctime{ensemble=a}": "0+10x100",
    "zk_sum_fsynctime{ensemble=a}": "0+490x100",
    "zk_open_file_descriptor_count{ensemble=a}": "79+0x100",
    "zk_max_file_descriptor_count{ensemble=a}": "100+0x100",
    "zk_znode_count{ensemble=a}": "100+1x100",
    "zk_digest_mismatches_count{ensemble=a}": "0+0x100",
    "zk_unrecoverable_error_count{ensemble=a}": "0+0x100",
}


def by_provider(name: str) -> str:
    """A name of mntr's as PrometheusMetricsProvider spells it."""
    found = re.fullmatch(r"zk_(?:(cnt|sum)_)?(\w+)", name)
    if found is None:
        return name
    return found[2] + {None: "", "cnt": "_count", "sum": "_sum"}[found[1]]


def series(world: World, *, is_provider: bool) -> Iterator[dict[str, str]]:
    """As promtool reads them."""
    for each, values in world.items():
        name, labels = each.rstrip("}").split("{")
        found = dict(PROGRAM if name.startswith("parkazoo") else SERVER)
        found |= dict(label.split("=") for label in labels.split(", ") if label)
        written = ", ".join(f'{label}="{value}"' for label, value in found.items())
        yield {"series": f"{by_provider(name) if is_provider else name}{{{written}}}", "values": values}


def verify(expected: Mapping[str, World], clock: Clock, *, is_provider: bool) -> None:
    """:param expected: by the alert that fires, or "", its world.
    :raises AssertionError: another one fires, or none.
    """
    trials: list[dict[str, Any]] = []
    for alert, world in expected.items():
        samples = [{"labels": f'{{alertname="{alert}"}}', "value": 1}] if alert else []
        looked = {"expr": FIRING, "eval_time": f"{clock.until}m", "exp_samples": samples}
        given = [*series(world, is_provider=is_provider)]
        trials.append({"interval": f"{clock.interval}m", "input_series": given, "promql_expr_test": [looked]})
    document = {"rule_files": [str(ALERTS)], "evaluation_interval": f"{clock.evaluation}m", "tests": trials}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "trials.json")
        file.write_text(json.dumps(document))
        run_promtool("test", "rules", str(file))


@unittest.skipIf(PROMTOOL is None, MISSING)
class TestAlerts(unittest.TestCase):
    def test_the_rules_are_valid(self) -> None:
        self.assertIn("SUCCESS", run_promtool("check", "rules", str(ALERTS)))

    def test_each_has_its_world(self) -> None:
        self.assertEqual(sorted(WORLDS), sorted(ALERT.findall(ALERTS.read_text())))

    def test_each_fires(self) -> None:
        usual = {alert: world for alert, world in WORLDS.items() if alert not in CLOCKS}
        for is_provider in (False, True):
            with self.subTest(is_provider=is_provider):
                verify(usual, Clock(), is_provider=is_provider)
                for alert, clock in CLOCKS.items():
                    verify({alert: WORLDS[alert]}, clock, is_provider=is_provider)

    def test_none_fires_without_need(self) -> None:
        for is_provider in (False, True):
            with self.subTest(is_provider=is_provider):
                verify({"": HEALTHY}, Clock(), is_provider=is_provider)

    def test_a_wrong_expectation_fails(self) -> None:
        with self.assertRaisesRegex(AssertionError, "ZooKeeperQueue"):
            verify({"": WORLDS["ZooKeeperQueue"]}, Clock(), is_provider=False)
