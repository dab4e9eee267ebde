"""etcd beside ZooKeeper: what is worked out and shown, and a run on real servers where there are both."""

from __future__ import annotations

import json
import shutil
import socket
import tempfile
import unittest
from pathlib import Path
from typing import Any

from bench.etcd_server import PROGRAM, Member, command_of
from bench.lab import Shape
from bench.loopback import Loopback
from bench.scenarios import second_system
from bench.scenarios.catalogue import SCENARIOS, USUAL, run_scenario
from bench.scenarios.results import show
from bench.scenarios.second_system import ETCD, FREE, LIMITED, LOADS, SIZES, WRITES, ZOOKEEPER, find_costs

SAVED = Path(__file__).with_name("saved") / "second-system.json"
MOST_S = 30 * 60


def saved() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(SAVED.read_text())
    return document


class TestCosts(unittest.TestCase):
    RUN = {  # noqa: RUF012
        "rates": {"all": 100.0},
        "plan": {"warm_up_s": 1, "measure_s": 4},
        "cpu_share": 0.2,
        "over_time": {"ensembles": [{"answered": [100, 150]}, {"answered": [250, 0]}]},
    }

    def weights(self, at_s: float, **servers: tuple[int, int, int]) -> dict[str, dict[str, float]]:
        """:param servers: their milliseconds, and the bytes that they have sent and received."""
        names = "cpu_ms", "card_sent_bytes", "card_received_bytes"
        return {name: {"at_s": at_s, **dict(zip(names, each, strict=True))} for name, each in servers.items()}

    def test_costs(self) -> None:
        """Of all servers the time; of each ensemble the card that carries most, in one direction."""
        before = self.weights(10.0, a1=(0, 0, 0), a2=(0, 0, 0), b1=(5, 5, 5))
        after = self.weights(12.0, a1=(1000, 40_000, 90_000), a2=(600, 99_000, 0), b1=(405, 101_005, 5))
        self.assertEqual(
            find_costs(self.RUN, before, after),
            {
                "servers_us": (500 + 300 + 200) * 1000 / 100,
                "generator_us": 0.2 * 5 * 1e6 / 500,
                "card_bytes": (49_500 + 50_500) / 100,
            },
        )

    def test_without_cards(self) -> None:
        before, after = {"a1": {"at_s": 1.0, "cpu_ms": 0}}, {"a1": {"at_s": 2.0, "cpu_ms": 50}}
        self.assertEqual(sorted(find_costs(self.RUN, before, after)), ["generator_us", "servers_us"])

    def test_nothing_answered(self) -> None:
        self.assertEqual(find_costs({**self.RUN, "rates": {"all": 0}}, {}, {}), {})


class TestShown(unittest.TestCase):
    def test_tables(self) -> None:
        section = show(saved())
        limited, free, generator, latency = section.tables
        self.assertEqual(limited.title, "At 1 Mbit/s for each server")
        subjects = ["zookeeper 1x3", "etcd 1x3", "zookeeper 3x3", "parkazoo 3x3", "etcd 3x3"]
        for table in (limited, free, generator):
            self.assertEqual([row[0] for row in table.rows], subjects)
        self.assertEqual([row[4] for row in limited.rows], ["2,300"] * 5)
        self.assertEqual(limited.columns[4], "bytes on the busiest card, a write")
        self.assertEqual(
            [limited.rows[3][2], limited.rows[3][5]], ["-", "-"]
        )  # no such reads by ParKazoo's client
        self.assertEqual(
            [row[:3] for row in latency.rows[:2]], [["zookeeper 1x3", WRITES, f"{each}%"] for each in (50, 80)]
        )
        (answer,) = section.answers
        self.assertIn("zookeeper 1x3", answer.measured)

    def test_in_whose_favour(self) -> None:
        for factor, said in (
            (1.0, "writes 100 and 100 µs, 1.00 times, even; linearizable reads 100 and 100"),
            (3.0, "local reads 100 and 300 µs, 3.00 times, in favour of zookeeper"),
            (0.2, "writes 100 and 20 µs, 0.20 times, in favour of etcd"),
        ):
            document = saved()
            of = {ZOOKEEPER: 100.0, ETCD: 100.0 * factor}
            for run in document["runs"]:
                if "costs" in run:
                    run["costs"]["generator_us"] = of.get(run["system"], 1.0)
            with self.subTest(factor):
                self.assertIn(said, show(document).caveats[0])

    def test_lost_requests_are_told(self) -> None:
        document = saved()
        self.assertFalse([each for each in show(document).caveats if "no answer" in each])
        document["runs"][0]["unanswered"] = 3
        self.assertIn("In the closed loop 3 requests had no answer, or an error.", show(document).caveats)

    def test_one_system_alone(self) -> None:
        """As of a run that was ended."""
        document = saved()
        document["runs"] = [run for run in document["runs"] if run["system"] == ZOOKEEPER and run["part"] == FREE]
        section = show(document)
        self.assertEqual(len(section.tables), 2)
        self.assertNotIn("load generator", section.caveats[0])

    def test_parts(self) -> None:
        self.assertEqual({run["part"] for run in saved()["runs"]}, {FREE, LIMITED})


class TestSizes(unittest.TestCase):
    def test_how_long_it_takes(self) -> None:
        self.assertLess(SIZES["full"].about_s(), MOST_S)

    def test_it_is_asked_for_by_name_alone(self) -> None:
        """Because it needs a program that the others do not."""
        self.assertEqual({*SCENARIOS} - {*USUAL}, {second_system.NAME})


class TestCommand(unittest.TestCase):
    def test_cluster(self) -> None:
        cluster = {"a1": Member("h1", 2181, 2182), "a2": Member("h2", 2181, 2182)}
        command = command_of("a2", cluster)
        self.assertEqual(command[0], PROGRAM)
        for each in (
            "--listen-client-urls=http://h2:2181",
            "--initial-advertise-peer-urls=http://h2:2182",
            "--initial-cluster=a1=http://h1:2182,a2=http://h2:2182",
        ):
            self.assertIn(each, command)


@unittest.skipIf(shutil.which(PROGRAM) is None, "there is no etcd here: apt-get install etcd-server")
class TestReal(unittest.TestCase):
    def test_small(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            run_scenario(second_system.NAME, Loopback(1), Path(folder), "small", seed=1)
            document = json.loads(Path(folder, "second-system.json").read_text())
        runs = document["runs"]
        self.assertEqual({run["system"] for run in runs}, {"zookeeper", "parkazoo", "etcd"})
        self.assertEqual({run["load"] for run in runs}, {*LOADS})
        self.assertEqual({run["share"] for run in runs}, {0.0, 0.5})
        for run in runs:
            self.assertEqual((run["failed"], run["unanswered"], run["errors"]), (0, 0, {}), run["load"])
            self.assertEqual(run["shape"], "1x1")
        section = show(document)
        self.assertEqual(section.tables[0].title, "Without a limit")
        self.assertTrue(section.plots)

    def test_nothing_is_left(self) -> None:
        lab = Loopback(1)
        with lab.etcd_clusters(Shape(2, 1)) as ensembles:
            self.assertEqual([server.name for server in ensembles.servers], ["a1", "b1"])
            places = [(server.address, server.port) for server in ensembles.servers]
            for place in places:
                socket.create_connection(place).close()
            self.assertGreater(lab.weigh(ensembles.servers[0])["memory_bytes"], 1 << 20)
        for place in places:
            self.assertRaises(ConnectionRefusedError, socket.create_connection, place)
