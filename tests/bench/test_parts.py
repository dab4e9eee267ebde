"""The parts of long forms: each runs to its end in a lab without servers, and would take 40 minutes at most.

What a part would take is its windows, and what comes between them on two processors. The clock is that sum.
"""

from __future__ import annotations

import unittest
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

from bench.lab import Ensembles, Faults, Lab, Matrix, ProcessorTimes, Server, Shape, Way
from bench.load.plan import Plan
from bench.scenarios import dropped_packets, elections, failures
from bench.scenarios.catalogue import SCENARIOS, pieces
from bench.scenarios.evaluation import WARM_UP_S, Evaluation
from bench.statistics import encode, make_histogram

MOST_S = 40 * 60
RUN_S = 3.5  # of a load beside its window: processes start, clients connect, results are fetched
SERVER_S = 1.0  # until one more server serves; of one that is started again too
REPLICA_S = 0.1
TRIALS_OF_A_ROUND = 8
LATENCY = encode(make_histogram([1_000_000]))  # a millisecond
NAMES = ("networks", "topologies", "failures", "chaos", "elections", "raft")


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


class NoFaults(Faults):
    """Whoever was killed says nothing."""

    def __init__(self, clock: Clock) -> None:
        super().__init__("a lab without servers")
        self._clock = clock
        self.dead: set[Server] = set()

    def kill(self, server: Server) -> float:
        assert server not in self.dead, server
        self.dead.add(server)
        return 0.0

    def start(self, server: Server) -> None:
        self.dead.remove(server)
        self._clock.now_s += SERVER_S

    def limit(self, host: str, rate_bytes_s: float) -> None:
        pass

    def limit_processors(self, host: str, count: float) -> None:
        pass

    def lift(self, host: str) -> None:
        pass

    def delay(self, host: str, ways: Mapping[str, Way]) -> None:
        pass

    def lose(self, host: str, share: float) -> None:
        pass

    def join(self, host: str) -> None:
        pass

    @property
    def hosts(self) -> Sequence[str]:
        return [f"h{number}" for number in range(1, 30)]

    def drop(self, matrix: Matrix, *, one_by_one: bool = False) -> None:
        self._clock.now_s += 0.02 * len(matrix)

    def drop_between(self, sender: str, receiver: str, p: float) -> None:
        pass


class NoServers(Lab):
    def __init__(self) -> None:
        self.clock = Clock()
        self.no_faults = NoFaults(self.clock)
        self.faults = self.no_faults

    @property
    def clients(self) -> Sequence[str]:
        return ["h28", "h29"]

    @property
    def is_one_machine(self) -> bool:
        return True

    def describe(self) -> dict[str, Any]:
        return {"kind": "none"}

    @contextmanager
    def ensembles(
        self,
        shape: Shape,
        mapped: int | None = None,
        settings: Mapping[str, str] | None = None,
        disk_wait_s: float = 0.0,
    ) -> Iterator[Ensembles]:
        self.clock.now_s += SERVER_S * shape.size
        names = [f"{ensemble}{number + 1}" for ensemble in shape.names for number in range(shape.servers)]
        yield Ensembles(shape, [Server(name, name[0], name, name, 1) for name in names])
        assert not self.no_faults.dead, "some are still dead"

    def watch(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    def etcd_clusters(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    def grow(self, ensembles: Ensembles, names: Sequence[str]) -> None:
        raise NotImplementedError

    def ask(self, server: Server, word: str) -> str:
        """The first one of an ensemble leads."""
        if server in self.no_faults.dead:
            return ""
        return f"Zxid: 0x100000001\nMode: {'leader' if server.name[1:] == '1' else 'follower'}\n"

    def weigh(self, server: Server) -> dict[str, int]:
        return {}

    def read_replicas(self, servers: Sequence[Server], root: str) -> list[tuple[int, str]]:
        self.clock.now_s += REPLICA_S * len(servers)
        return [(1, "x") for _ in servers]

    def run_load(self, *_: Any, **__: Any) -> dict[str, Path]:
        raise NotImplementedError

    def processor_times(self) -> dict[str, ProcessorTimes]:
        return {}


class Counted(Evaluation):
    """Loads take their time by the clock alone."""

    def __init__(self, lab: NoServers, name: str, part: str) -> None:
        super().__init__(lab, name, Path("/nowhere"), "full", part=part)
        self._clock = lab.clock

    def warm_up(self, plan: Plan) -> None:
        self._clock.now_s += plan.warm_up_s + WARM_UP_S + RUN_S

    def run(
        self,
        ensembles: Ensembles,
        plan: Plan,
        label: dict[str, Any],
        meanwhile: Callable[[float], None] | None = None,
        *_: Any,
        **__: Any,
    ) -> dict[str, Any]:
        self._clock.now_s += plan.total_s() + RUN_S
        rate_s = min(plan.rate_s, capacity_s(ensembles.shape, is_limited=bool(self.document.get("rate_bytes_s"))))
        run = {
            **label,
            "shape": str(ensembles.shape),
            "system": plan.system,
            "plan": plan.as_json(),
            "rates": {"all": rate_s, "writes": rate_s},
            "latency": {"writes": LATENCY},
            "begun_s": 0.0,
        }
        self.document["runs"].append(run)
        return run

    def raw(self, run: dict[str, Any]) -> list[Any]:
        return []


def capacity_s(shape: Shape, *, is_limited: bool) -> float:
    """Requests/s, by and large: a leader's card carries each to all of its followers."""
    return 1000.0 * shape.ensembles / max(shape.servers - 1, 1) if is_limited else 5000.0


def trace(evaluation: Evaluation, ensembles: Ensembles, plan: Plan, label: Any, *_: Any) -> dict[str, Any]:
    return evaluation.run(ensembles, plan, label)


@cache
def measured(name: str, part: str) -> tuple[float, dict[str, Any]]:
    """The seconds that a part would take, and its document."""
    lab = NoServers()
    evaluation = Counted(lab, name, part)
    trials = [{"server": "a1", "took_s": 0.5, "elected_s": 0.2}] * TRIALS_OF_A_ROUND
    with ExitStack() as stack:
        for patched in (
            mock.patch("time.monotonic", lambda: lab.clock.now_s),
            mock.patch("time.sleep", lab.clock.sleep),
            mock.patch.object(elections, "times_to_serve", lambda *_: trials),
            mock.patch.object(failures, "measure_trace", trace),
            mock.patch.object(dropped_packets, "what_is_noticed", lambda *_: [{"silence_s": 0.0}]),
        ):
            stack.enter_context(patched)
        SCENARIOS[name].measure(evaluation)
    return lab.clock.now_s, evaluation.document


class TestParts(unittest.TestCase):
    def test_each_takes_forty_minutes_at_most(self) -> None:
        for name, part in pieces(NAMES, "full"):
            with self.subTest(name, part=part):
                took_s, document = measured(name, part)
                self.assertTrue(document["runs"] or document["uploads"])
                self.assertEqual(document["not_measured"], [])
                self.assertLess(took_s, MOST_S)

    def values(self, part: str, of: str, system: str) -> list[float]:
        """What was varied in a part of raft, once each."""
        runs = measured("raft", part)[1]["runs"]
        return list(dict.fromkeys(run["value"] for run in runs if (run["of"], run["system"]) == (of, system)))

    def test_servers(self) -> None:
        """Kazoo on one ensemble, and the other client on several with about as many servers."""
        for part in ("servers", "loaded"):
            self.assertEqual(self.values(part, "servers", "kazoo"), [3, 5, 7, 9, 13, 17, 25])
            self.assertEqual(self.values(part, "servers", "parkazoo"), [9, 25, 27])
        self.assertEqual(self.values("servers", "connects", "kazoo"), [3, 5, 7, 9, 13, 17, 25])

    def test_crashes(self) -> None:
        """As many followers of each ensemble, as long as it has a quorum without them."""
        self.assertEqual(self.values("crashes", "crashed", "kazoo"), [0, 1, 2, 4, 6, 8, 10, 12])
        self.assertEqual(self.values("crashes", "crashed", "parkazoo"), [0, 5, 10])

    def test_sizes_and_clients(self) -> None:
        for system in ("kazoo", "parkazoo"):
            self.assertEqual(self.values("sizes", "size", system), [10, 100, 1_000, 10_000, 100_000, 1_000_000])
            self.assertEqual(self.values("clients", "clients", system), [1, 3, 10, 30, 100, 160, 200])

    def test_five_times(self) -> None:
        """As in the report: each load, and each trial of a recovery."""
        runs = measured("raft", "sizes")[1]["runs"]
        times = Counter((run["shape"], run["value"], run["load"]) for run in runs)
        self.assertEqual({*times.values()}, {5})
        trials = measured("raft", "recovery")[1]["trials"]
        self.assertEqual(
            {*Counter((each["missed_s"], each["followers"]) for each in trials).values()}, {2 * 5}, "both ways"
        )

    def test_targets(self) -> None:
        """At least eight of each shape in each loop; each of them as often."""
        for part in ("theirs", "keys", "pool", "open"):
            runs = measured("networks", part)[1]["runs"]
            times = Counter((run["shape"], run["target"]) for run in runs)
            self.assertEqual({*times.values()}, {3}, part)
            for shape, count in Counter(shape for shape, _ in times).items():
                self.assertGreaterEqual(count, 8, (part, shape))


if __name__ == "__main__":
    for each in pieces(NAMES, "full"):
        print(*each, f"{measured(*each)[0] / 60:.0f} minutes")
