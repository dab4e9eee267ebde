"""The figures of the report on Raft and of the slides on etcd beside ours: what follows from known results."""

from __future__ import annotations

import json
import unittest
from typing import Any

from bench.pages.quorum_tables import etcd_slides, raft_report
from bench.report.section import Table
from bench.statistics import NO_FIGURE
from tests.bench.test_report_tables import ABOUT, SAVED, cells, raw

LATENCY = json.loads((SAVED / "raft.json").read_text())["runs"][0]["latency"]["writes"]


def run(**entries: Any) -> dict[str, Any]:
    plan = {"measure_s": 1000.0, "size": 100, "rate_s": 240.0}
    base = {
        "plan": plan,
        "latency": {"writes": LATENCY, "reads": LATENCY},
        "limits": [],
        "failed": 0,
        "unanswered": 0,
    }
    return {**base, "shape": "1x3", "system": "kazoo", "rates": {"all": 100.0}, **entries}


def document(scenario: str, runs: list[dict[str, Any]], **entries: Any) -> dict[str, Any]:
    return {"scenario": scenario, "about": ABOUT, "runs": runs, "trials": [], **entries}


def table(make: Any, *documents: dict[str, Any]) -> Table:
    found: Table = make([raw(each) for each in documents], {})
    return found


class TestRaft(unittest.TestCase):
    def loads(self, of: str, load: str, *rates: tuple[float, float], **entries: Any) -> list[dict[str, Any]]:
        return [run(of=of, load=load, value=value, rates={"all": rate}, **entries) for value, rate in rates]

    def test_loads(self) -> None:
        """From the lowest of what is varied to the highest, for each system; busy processors are told."""
        runs = [
            *self.loads(
                "servers", "writes", (9, 50.0), (3, 200.0), (1, 900.0), limits=["processors of the machine"]
            ),
            *self.loads("servers", "writes", (9, 300.0), (27, 330.0), system="parkazoo"),
            *self.loads("size", "reads", (10, 400.0), (1_000_000, 40.0)),
            *self.loads("clients", "writes", (1, 10.0), (200, 100.0), (1000, NO_FIGURE)),
        ]
        made = table(raft_report, document("raft", runs))
        found = cells(made)
        self.assertEqual(found["figure 5: puts/s; 3 → 9 servers"], ("slightly fewer", "200 → 50: 0.25", "-"))
        _, ours, _ = found["figure 5: puts/s, ParKazooClient; 9 → 27 servers"]
        self.assertEqual(ours, "300 → 330: 1.1")
        _, ours, _ = found["figure 7: gets/s; 10 B → 1 MB"]
        self.assertEqual(ours, "400 → 40: 0.1")
        most = found["figure 17: clients at once, at most; ours, of those with a figure"]
        self.assertEqual(most, ("160", "200", "1.25"))
        alike = {row[0]: row[4] for row in made.rows}
        self.assertIn("processors were full", alike["figure 5: puts/s; 3 → 9 servers"])
        self.assertNotIn("processors", alike["figure 7: gets/s; 10 B → 1 MB"])
        self.assertNotIn("figure 6: puts/s; 0 → 2 servers crashed", found)

    def test_elections(self) -> None:
        trials = [
            {"group": group, "elected_s": elected_s, "took_s": took_s}
            for group, elected_s, took_s in (
                ("1x3, killed", 0.2, 0.5),
                ("1x25, killed", 0.3, 0.6),
                ("1x5, frozen, given up after 0.5 s", 0.2, 1.0),
                ("1x5, frozen, given up after 4 s", None, 4.5),
            )
        ]
        found = cells(table(raft_report, document("elections", [], trials=trials)))
        _, ours, _ = found["figure 1: the election, as the new leader says, ms; 3 → 25 servers"]
        self.assertEqual(ours, "200 → 300: 1.5")
        _, ours, _ = found["figure 2: from the loss of a leader to an answer, ms; 0.5 → 4 s until it is given up"]
        self.assertEqual(ours, "1,000 → 4,500: 4.5")

    def test_matrices_and_recovery(self) -> None:
        uploads = [{"hosts": 3, "one_by_one_s": 0.1}, {"hosts": 25, "one_by_one_s": 0.8}]
        trials = [
            {"missed": missed, "took_s": took_s, "followers": followers, "snapshots": snapshots}
            for missed, took_s, followers, snapshots in (
                (0, 1.0, 1, 0),
                (9000, 2.0, 1, 0),
                (0, 1.0, 2, 2),
                (5, 3.0, 2, 2),
            )
        ]
        documents = document("chaos", [], uploads=uploads), document("raft", [], trials=trials)
        found = {name: ours for name, (_, ours, _) in cells(table(raft_report, *documents)).items()}
        self.assertEqual(
            found,
            {
                "figure 9: matrices/s, uploaded one by one; 3 → 25 hosts": "10 → 1.25: 0.125",
                "figure 15: a matrix uploaded one by one, ms; 3 → 25 hosts": "100 → 800: 8",
                "figure 18: recovery of 1, with entries, s; 0 → 9,000 entries missed": "1.00 → 2.00: 2",
                "figure 18: recovery of 2, with a snapshot, s; 0 → 5 entries missed": "1.00 → 3.00: 3",
            },
        )


class TestEtcd(unittest.TestCase):
    def test_networks(self) -> None:
        """The rate that all reach, and each one's own."""
        rates = {"1x1": ((500, 500), (1000, 990)), "1x9": ((500, 490), (1000, 600))}
        runs = [
            run(loop="ten", shape=shape, target=target, rates={"all": float(rate)})
            for shape, points in rates.items()
            for target, rate in points
        ]
        runs += [run(loop="chained", chain=chain) for chain in (1, 10)]
        found = cells(table(etcd_slides, document("networks", runs, rate_bytes_s=125_000)))
        pool = "A pool of 1,000 clients, and 10 keys of 10 bytes"
        _, ours, _ = found[f"{pool}: highest target/s that is achieved"]
        self.assertEqual(ours, "kazoo 1x1 1,000, kazoo 1x9 500")
        which = f"{pool}: distribution of latency, at requests/s that all reach"
        self.assertEqual(found[which], ("5,000", "500", "0.1"))
        _, ours, _ = found["chain of dependent requests, kazoo 1x3, ms; 1 → 10 requests"]
        self.assertTrue(ours.endswith(": 1"), ours)

    def test_failures_and_processors(self) -> None:
        noticed = [{"silence_s": 0.5, "during_s": 0.6}]
        runs = [run(fault="leader killed", noticed=noticed), run(fault="leader frozen", noticed=noticed)]
        found = cells(table(etcd_slides, document("failures", runs)))
        self.assertEqual(
            found,
            {
                "leader killed, kazoo 1x3: longest silence, ms": ("a plot", "500", "-"),
                "leader killed, kazoo 1x3: 99% of latency meanwhile, ms": ("a plot", "600", "-"),
            },
        )
        runs = [run(network=network, target=20, rates={"all": 20.0}) for network in ("a slow leader", "ring")]
        found = cells(table(etcd_slides, document("topologies", runs)))
        self.assertEqual([*found], ["unequal processors: a slow leader: highest target/s that is achieved"])


if __name__ == "__main__":
    unittest.main()
