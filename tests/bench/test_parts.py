"""The parts of long forms: each runs to its end in a lab without servers. None would take more than half an hour.

What a part would take is its windows, and what comes between them on two processors: as in `make evaluate` of
2026-11-24, or somewhat longer. The clock is that sum.
"""

from __future__ import annotations

import unittest
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

from bench.lab import Ensembles, Faults, Lab, Matrix, ProcessorTimes, Server, Shape, Told, Way
from bench.load.loops import ANSWER_TIMEOUT_S
from bench.load.plan import Plan
from bench.scenarios import (
    cuts,
    directories_moved,
    dropped_packets,
    elections,
    ensembles_added,
    failing_followers,
    failures,
    scaling,
    second_system,
    thesis_sweep,
    writes_deferred,
)
from bench.scenarios.catalogue import SCENARIOS, pieces
from bench.scenarios.evaluation import RATE_BYTES_S, WARM_UP_S, Evaluation, LoadError
from bench.statistics import encode, make_histogram

MOST_S = 30 * 60
MOST_OF_ALL_S = 375 * 60
HOSTS_S = 30.0  # of a part: hosts are made and get what they need; the report is written
START_S, SERVER_S = 4.0, 1.1  # until a shape serves, and for each of its servers; of one that is started again too
# Of a load beside its window: processes start, clients connect, results are fetched. More for each server; with
# slow links or processors; for each process but one, and each client.
RUN_S, OF_SERVER_S, SLOW_S, PROCESS_S, CLIENT_S = 1.0, 0.05, 1.2, 0.3, 0.01
REPLICA_S = 0.1
TRIAL_S = 2.0  # of an election, until all serve again
GROW_S, MOVE_S, ZNODE_S = 5.0, 10.0, 0.001  # without a load; of a znode that is made
CLIENT_HOSTS = 16
GIB = 1 << 30
FAILED = "h1: it died"
# The longest that a request takes if there is no other.
ALONE_S, ALONE_LIMITED_S = 0.002, 0.02


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
        self.rate_bytes_s = 0.0  # of each network card; 0: not limited
        self.is_slow = False

    def kill(self, server: Server) -> float:
        assert server not in self.dead, server
        self.dead.add(server)
        return 0.0

    def start(self, server: Server) -> None:
        self.dead.remove(server)
        self._clock.now_s += SERVER_S

    def limit(self, host: str, rate_bytes_s: float) -> None:
        self.rate_bytes_s = rate_bytes_s
        self.is_slow = True

    def limit_processors(self, host: str, count: float) -> None:
        self.is_slow = True

    def lift(self, host: str) -> None:
        self.rate_bytes_s = 0.0
        self.is_slow = False

    def delay(self, host: str, ways: Mapping[str, Way]) -> None:
        self.is_slow = True

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
    def __init__(self, clients: int) -> None:
        self._clients = clients
        self.clock = Clock()
        self.no_faults = NoFaults(self.clock)
        self.faults = self.no_faults

    @property
    def clients(self) -> Sequence[str]:
        return [f"c{number}" for number in range(1, self._clients + 1)]

    @property
    def is_one_machine(self) -> bool:
        return True

    def describe(self) -> dict[str, Any]:
        return {"kind": "emulated"}

    @contextmanager
    def ensembles(
        self,
        shape: Shape,
        mapped: int | None = None,
        settings: Mapping[str, str] | None = None,
        disk_wait_s: float = 0.0,
    ) -> Iterator[Ensembles]:
        self.clock.now_s += START_S + SERVER_S * shape.size
        names = [f"{ensemble}{number + 1}" for ensemble in shape.names for number in range(shape.servers)]
        yield Ensembles(shape, [Server(name, name[0], name, name, 1) for name in names])
        assert not self.no_faults.dead, "some are still dead"

    def watch(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    def etcd_clusters(self, shape: Shape) -> AbstractContextManager[Ensembles]:
        return self.ensembles(shape)

    def grow(self, ensembles: Ensembles, names: Sequence[str]) -> None:
        self.clock.now_s += GROW_S

    def move(self, ensembles: Ensembles, path: str, to: str, per_second: float | None = None) -> Told:
        self.clock.now_s += MOVE_S
        return {"why": ""}

    def rebalance(self, ensembles: Ensembles, seconds: float) -> Told:
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
    """Loads take their time by the clock alone.

    :ivar again: those whose window was too short at first.
    """

    def __init__(self, lab: NoServers, name: str, part: str, fails_each: int) -> None:
        super().__init__(lab, name, Path("/nowhere"), "full", tell=self._hear, part=part)
        self._fails_each = fails_each
        self._loads = 0
        self._lab = lab
        self._clock = lab.clock
        self.again: list[str] = []

    def _hear(self, text: str) -> None:
        if "too short" in text:
            self.again.append(text)

    def save(self) -> Path:
        return Path()

    def runs_of(self, part: str) -> list[dict[str, Any]]:
        runs: list[dict[str, Any]] = measured(self.document["scenario"], part)[1].document["runs"]
        return runs

    def raw(self, run: dict[str, Any]) -> list[Any]:
        return [run]

    def warm_up(self, plan: Plan) -> None:
        self._load(plan.warm_up_s + WARM_UP_S, plan)

    def prepare(self, plan: Plan) -> None:
        self._load(plan.directories * plan.leaves * ZNODE_S, plan)

    def _load(self, lasts_s: float, plan: Plan) -> None:
        more_s = PROCESS_S * (plan.nodes * plan.processes - 1) + CLIENT_S * plan.clients
        self._clock.now_s += RUN_S + more_s + SLOW_S * self._lab.no_faults.is_slow + lasts_s

    def _summary(self, ensembles: Ensembles, plan: Plan, label: Any, *_: Any) -> dict[str, Any]:
        self._loads += 1
        if self._fails_each and self._loads % self._fails_each == 0:
            self.not_measured("a load", FAILED, **label)
            raise LoadError(FAILED)
        self._load(plan.total_s() + OF_SERVER_S * ensembles.shape.size, plan)
        limit_bytes_s = self._lab.no_faults.rate_bytes_s
        most = capacity_s(ensembles.shape, plan, limit_bytes_s)
        outstanding = plan.clients * plan.in_flight
        rate_s = min(plan.rate_s or outstanding / (ALONE_LIMITED_S if limit_bytes_s else ALONE_S), most)
        took_s = 0.0 if plan.rate_s else outstanding / rate_s
        late_s = plan.total_s() * max(plan.rate_s / most - 1, 0)  # what came too fast is answered afterwards
        self._clock.now_s += min(late_s, plan.pool / most if plan.pool else late_s, ANSWER_TIMEOUT_S)
        self._clock.now_s += took_s
        sort = "reads" if plan.read_share == 1 else "writes"
        return {
            "plan": plan.as_json(),
            "begun_s": 0.0,
            "rates": {"all": rate_s, "writes": rate_s, "reads": rate_s},
            "latency": {sort: latency_of(took_s)},
            "failed": 0,
            "unanswered": 0,
            "errors": Counter(),
            "limits": [],
        }


@cache
def latency_of(took_s: float) -> str:
    return encode(make_histogram([int(took_s * 1e9)]))


def capacity_s(shape: Shape, plan: Plan, limit_bytes_s: float) -> float:
    """Requests/s, by and large: a leader's card carries each to all of its followers, a server's its own reads."""
    if not limit_bytes_s:
        return 4000.0 if plan.read_share == 1 else 2000.0
    of_followers, of_server = (164.0, 100.0) if plan.size > 1000 else (1000.0, 1000.0)
    of_ensemble = of_server * shape.servers if plan.read_share == 1 else of_followers / max(shape.servers - 1, 1)
    return of_ensemble * shape.ensembles * limit_bytes_s / RATE_BYTES_S


def trace(evaluation: Evaluation, ensembles: Ensembles, plan: Plan, label: Any, *_: Any) -> dict[str, Any]:
    return evaluation.run(ensembles, plan, label)


def trials(runs: Sequence[Mapping[str, Any]], _: Any) -> list[dict[str, Any]]:
    """As many as a round has time for."""
    count = int(runs[0]["plan"]["measure_s"] / TRIAL_S)
    return [{"server": "a1", "took_s": 0.5, "elected_s": 0.2}] * count


def outage(evaluation: Evaluation, size: writes_deferred.Size, ensembles: Ensembles, mode: str) -> None:
    total_s = size.outage.total_s(failing_followers.deaths_of(ensembles))
    plan = evaluation.plan(ensembles, "parkazoo", rate_s=1.0, measure_s=total_s)
    with suppress(LoadError):
        evaluation.run(ensembles, plan, {"mode": mode})


def growth(evaluation: Evaluation, _: Any, ensembles: Ensembles, settings: Mapping[str, Any], part: str) -> None:
    evaluation.run(ensembles, evaluation.plan(ensembles, "parkazoo", **settings), {"part": part}, lambda _: None)


@cache
def measured(name: str, part: str, fails_each: int = 0) -> tuple[float, Counted]:
    """The seconds that a part would take, and what it did.

    :param fails_each: each load with such a number fails.
    """
    lab = NoServers(CLIENT_HOSTS if name == "thesis" else 2)
    evaluation = Counted(lab, name, part, fails_each)
    lab.clock.now_s = HOSTS_S
    patches: list[AbstractContextManager[Any]] = [
        mock.patch("time.monotonic", lambda: lab.clock.now_s),
        mock.patch("time.sleep", lab.clock.sleep),
        mock.patch("psutil.virtual_memory", lambda: mock.Mock(available=16 * GIB)),
        mock.patch.object(elections, "times_to_serve", trials),
        mock.patch.object(ensembles_added, "_measure_growth", growth),
        mock.patch.object(directories_moved, "balance_figures", lambda *_: {}),
        mock.patch.object(directories_moved, "move_figures", lambda *_: {}),
        mock.patch.object(failures, "measure_trace", trace),
        mock.patch.object(cuts, "measure_trace", trace),
        mock.patch.object(dropped_packets, "what_is_noticed", lambda *_: [{"silence_s": 0.0}]),
        mock.patch.object(scaling, "force_ms", lambda *_: []),
        mock.patch.object(second_system, "find_costs", lambda *_: {}),
        mock.patch.object(thesis_sweep, "trace", lambda *_: {}),
        mock.patch.object(writes_deferred, "_measure_outage", outage),
    ]
    with ExitStack() as stack:
        for each in patches:
            stack.enter_context(each)
        SCENARIOS[name].measure(evaluation)
    return lab.clock.now_s, evaluation


EVERY = pieces([*SCENARIOS], "full")


def all_s() -> float:
    """Of all parts. Those of a scenario, in one command, have the same hosts."""
    return sum(measured(*each)[0] - HOSTS_S for each in EVERY) + HOSTS_S * len(SCENARIOS)


class TestParts(unittest.TestCase):
    def test_each_takes_half_an_hour_at_most(self) -> None:
        for name, part in EVERY:
            with self.subTest(name, part=part):
                took_s, evaluation = measured(name, part)
                document = evaluation.document
                self.assertTrue(document["runs"] or document["uploads"])
                self.assertEqual(document["not_measured"], [])
                self.assertLess(took_s, MOST_S)

    def test_all_take_as_long_as_is_said(self) -> None:
        self.assertLess(all_s(), MOST_OF_ALL_S)

    def test_a_load_that_fails_does_not_end_its_part(self) -> None:
        """Each second one fails. They are named, and the others run."""
        for name, part in EVERY:
            with self.subTest(name, part=part):
                document = measured(name, part, fails_each=2)[1].document
                failed = [each for each in document["not_measured"] if each["why"] == FAILED]
                self.assertIn(len(document["runs"]) - len(failed), (0, 1))

    def values(self, part: str, of: str, system: str) -> list[float]:
        """What was varied in a part of raft, once each."""
        runs = measured("raft", part)[1].document["runs"]
        return list(dict.fromkeys(run["value"] for run in runs if (run["of"], run["system"]) == (of, system)))

    def test_servers(self) -> None:
        """Kazoo on one ensemble, and the other client on several with about as many servers."""
        self.assertEqual(self.values("servers", "servers", "kazoo"), [3, 5, 7, 9, 13, 17, 25])
        self.assertEqual(self.values("servers", "servers", "parkazoo"), [9, 27])
        self.assertEqual(self.values("servers", "connects", "kazoo"), [3, 5, 7, 9, 13, 17, 25])

    def test_crashes(self) -> None:
        """As many followers of each ensemble, as long as it has a quorum without them."""
        self.assertEqual(self.values("crashes", "crashed", "kazoo"), [0, 1, 2, 6, 12])
        self.assertEqual(self.values("crashes", "crashed", "parkazoo"), [0, 5, 10])

    def test_sizes_and_clients(self) -> None:
        sizes = [10, 1_000, 10_000, 100_000, 1_000_000]  # the large ones on one ensemble alone
        for system, of_system in (("kazoo", sizes), ("parkazoo", sizes[:3])):
            self.assertEqual(self.values("sizes", "size", system), of_system)
            self.assertEqual(self.values("clients", "clients", system), [1, 10, 100, 160, 200])

    def test_five_times(self) -> None:
        """As in the report: each load, and each trial of a recovery."""
        runs = measured("raft", "sizes")[1].document["runs"]
        times = Counter((run["shape"], run["value"], run["load"]) for run in runs)
        self.assertEqual({*times.values()}, {5})
        trials = measured("raft", "recovery")[1].document["trials"]
        self.assertEqual(
            {*Counter((each["missed_s"], each["followers"]) for each in trials).values()}, {2 * 5}, "both ways"
        )

    def test_a_thousand_elections(self) -> None:
        """In two parts of five servers each."""
        trials = [each for part in ("many", "more") for each in measured("elections", part)[1].document["trials"]]
        self.assertGreaterEqual(len(trials), 1000)
        self.assertEqual({each["group"] for each in trials}, {"1x5, killed"})

    def test_targets(self) -> None:
        """At least eight of each shape in each loop; each of them as often."""
        for part, repeat in (("theirs", 1), ("keys", 2), ("open", 1)):
            runs = measured("networks", part)[1].document["runs"]
            times = Counter((run["shape"], run["target"]) for run in runs)
            self.assertEqual({*times.values()}, {repeat}, part)
            for shape, count in Counter(shape for shape, _ in times).items():
                self.assertGreaterEqual(count, 8, (part, shape))


if __name__ == "__main__":
    for each in EVERY:
        print(*each, f"{measured(*each)[0] / 60:.1f} minutes")
    print(f"all {all_s() / 60:.0f} minutes")
