"""An evaluation: a lab, a folder, and the document of one scenario that grows with each run."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.documents import as_text
from bench.lab import Ensembles, Lab, LabError, NotPossible, Server, Shape
from bench.load.plan import BARE, BETWEEN_ENSEMBLES, Plan
from bench.load.result import Result, read_result
from bench.report.text import TOO_SHORT
from bench.scenarios.busy import BusyWatch
from bench.scenarios.host_record import HostRecord
from bench.scenarios.roles import wait_caught_up
from bench.scenarios.summary import is_too_short, longer_window_s, summarise

SIZES = ("small", "medium", "full")
LARGE = "large"  # of scenario scaling alone
READ_SHARES = {"writes": 0.0, "reads": 1.0}  # of loads that do one thing alone
VALUE_BYTES = 100  # what a client writes, where the size does not matter
BUCKET_S = 1.0
WARM_UP_S = 5.0  # of new servers, before their bandwidth is limited
# On one machine processors would be the limit. So much bandwidth of each server's network card is one long before.
RATE_BYTES_S = 125_000.0
UNSEEN = "processors, which were too busy to say so"  # of the limits
MOST_WINDOW_S = 30.0  # of a load that is measured once more, because its window was too short


class LoadError(LabError):
    """A load has failed; the document says so. The next one may be run."""


class Parts(dict[str, Any]):
    """In place of a size that takes hours: sizes by name, each measured on its own, with its own results."""


def stem(scenario: str, part: str = "") -> str:
    """How the names of its files begin."""
    return f"{scenario}-{part}" if part else scenario


def sets(threads: int, warm_up_s: float, measure_s: float) -> dict[str, Any]:
    """Entries of a plan: clients set values of VALUE_BYTES."""
    return {
        "write": "set",
        "size": VALUE_BYTES,
        "threads": threads,
        "warm_up_s": warm_up_s,
        "measure_s": measure_s,
    }


def sleep_until(moment_s: float) -> None:
    """:param moment_s: since the epoch."""
    time.sleep(max(0.0, moment_s - time.time()))


class Evaluation:
    """Runs the loads of a scenario.

    :param folder: for the document, SCENARIO.json, and the raw results, in raw/.
    :param size: ``small`` shows that everything runs; ``medium`` is for one machine and some minutes; ``full`` for
        machines of one's own, and hours.
    :param tell: called with a line of text when something begins.
    :param topology: a file (topology.py), for the scenario that has unequal links; None: the example of conf/.
    :param repeat: how often each run is to be repeated; None: as often as the scenario's size says.
    :param part: of a size that has parts.
    """

    def __init__(
        self,
        lab: Lab,
        scenario: str,
        folder: Path,
        size: str = "medium",
        seed: int = 1,
        tell: Callable[[str], None] = lambda _: None,
        topology: Path | None = None,
        repeat: int | None = None,
        part: str = "",
    ) -> None:
        self.lab = lab
        self.topology = topology
        self._repeat = repeat
        self._round = 0
        self._first: dict[str, int] = {}  # of each label, the run that the next one with it repeats
        self._windows: dict[Plan, float] = {}  # of each load that needed a longer one
        self.size = size
        self.seed = seed
        self.tell = tell
        self._part = part
        self._folder = folder
        self._stem = stem(scenario, part)
        self._begun_s = time.monotonic()
        self.document: dict[str, Any] = {
            "scenario": scenario,
            **({"part": part} if part else {}),
            "about": {
                "date": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
                "size": size,
                "seed": seed,
                "lab": lab.describe(),
                "is_one_machine": lab.is_one_machine,
                "clients": len(lab.clients),
            },
            "runs": [],
            "trials": [],
            "not_measured": [],
        }

    def chosen(self, sizes: Mapping[str, Any]) -> Any:
        """Of a scenario's sizes the one that is measured, or its part."""
        size = sizes[self.size]
        return size[self._part] if isinstance(size, Parts) else size

    def runs_of(self, part: str) -> list[dict[str, Any]]:
        """Those that the folder has of another part; none if that was not measured."""
        path = self._folder / f"{stem(self.document['scenario'], part)}.json"
        if not path.exists():
            return []
        runs: list[dict[str, Any]] = json.loads(path.read_text())["runs"]
        return runs

    def save(self) -> Path:
        self.document["about"]["took_s"] = round(time.monotonic() - self._begun_s, 1)
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / f"{self._stem}.json"
        path.write_text(as_text(self.document))
        return path

    @contextmanager
    def watched(self) -> Iterator[None]:
        """What each host does is recorded each second, as long as the context."""
        folder = self._folder / "raw"
        folder.mkdir(parents=True, exist_ok=True)
        lost: list[str] = []
        record = HostRecord(folder / f"{self._stem}-hosts.npz")
        try:
            with self.lab.watch(record.add, lost.append):
                yield
        finally:
            self.document["hosts"] = {"raw": str(record.path.relative_to(self._folder)), **record.close()}
            for why in lost:
                self.not_measured("what each host does, from some moment on", why)

    def not_measured(self, what: str, why: object, **label: object) -> None:
        """Say in the document, and by `tell`, that something is missing.

        :param label: that the run would have had, if it is a single one.
        """
        self.document["not_measured"].append({"what": what, "why": str(why), **label})
        self.tell(f"not measured: {what}: {why}")

    @contextmanager
    def ensembles(
        self,
        shape: str,
        mapped: int | None = None,
        settings: Mapping[str, str] | None = None,
        disk_wait_s: float = 0.0,
    ) -> Iterator[Ensembles]:
        """
        :param mapped: so many of them are in the cluster map; None: all.
        :param settings: of the servers.
        :param disk_wait_s: what each fsync of a server takes; 0: as the lab has it.
        """
        self.tell(f"starting {shape}")
        with self.lab.ensembles(Shape.parse(shape), mapped, settings, disk_wait_s) as ensembles:
            yield ensembles

    @contextmanager
    def etcd_clusters(self, shape: str) -> Iterator[Ensembles]:
        self.tell(f"starting {shape} of etcd")
        with self.lab.etcd_clusters(Shape.parse(shape)) as ensembles:
            yield ensembles

    def rounds(self, usual: int = 1) -> Iterator[int]:
        """Of repetitions: what is run in a later one repeats what was run with the same label in the first one.

        :param usual: so many, if the user has not said otherwise.
        :returns: their numbers, from 0.
        """
        count = self._repeat or usual
        try:
            for self._round in range(count):
                if self._round:
                    self.tell(f"repetition {self._round + 1} of {count}")
                yield self._round
        finally:
            self._round = 0

    def plan(self, ensembles: Ensembles, system: str, /, **settings: Any) -> Plan:
        """A plan for all client hosts, if `nodes` does not say otherwise.

        :param settings: other entries of Plan.
        """
        count = settings.get("ensembles") or (1 if system == "kazoo" else ensembles.shape.ensembles)
        number = len(self.document["runs"])
        base: dict[str, Any] = {
            "ensembles": count,
            "nodes": len(self.lab.clients),
            "directories": 12 * count,
            "seed": self.seed + number,
        }
        entries = {**base, **settings}
        hashed = "-hashed" if entries.get("is_hashed") else ""
        return Plan(
            system=system,
            hosts=BETWEEN_ENSEMBLES.join(ensembles.all_hosts()) if system in BARE else ensembles.hosts(),
            root=f"/bench-{system}-{entries.get('size', Plan.size)}-{entries['directories']}{hashed}",
            name=f"run{number}-{time.time_ns() % 1_000_000_000}",
            **entries,
        )

    def run(
        self,
        ensembles: Ensembles,
        plan: Plan,
        label: dict[str, Any],
        meanwhile: Callable[[float], None] | None = None,
        bucket_s: float = BUCKET_S,
        has_figures: bool = True,
    ) -> dict[str, Any]:
        """Run a load, and add it to the document. In the closed loop, if its window is too short, once more.

        :param label: what distinguishes it from other runs of the scenario.
        :param meanwhile: called when the load has begun, with the time of that, in seconds since the epoch. The
            load is not run once more then.
        :param has_figures: its rates and latencies are shown; if not, it is not run once more.
        :returns: its summary.
        :raises LoadError: it fails.
        """
        about = {**label, "shape": str(ensembles.shape), "system": plan.system}
        may_last = has_figures and not (meanwhile or plan.rate_s)
        load = replace(plan, name="", seed=0, measure_s=0.0)
        if may_last:
            plan = replace(plan, measure_s=max(plan.measure_s, self._windows.get(load, 0.0)))
        summary = self._summary(ensembles, plan, label, meanwhile, bucket_s)
        longer_s = longer_window_s(summary) if may_last else None
        if longer_s and longer_s <= MOST_WINDOW_S:
            self.tell(f"  a window of {plan.measure_s:g} s is too short; once more, for {longer_s:g} s")
            self._windows[load] = longer_s
            plan = replace(plan, measure_s=longer_s, name=f"{plan.name}-longer")
            summary = self._summary(ensembles, plan, label, meanwhile, bucket_s)
        run = {**about, "repeats": self._repeats(about), **summary}
        self.document["runs"].append(run)
        self.save()
        limits = f"; limit: {', '.join(run['limits'])}" if run["limits"] else ""
        failed = f"; {run['failed']:,} failed" if run["failed"] else ""
        rate = TOO_SHORT if is_too_short(run) else f"{run['rates']['all']:,.0f} requests/s"
        self.tell(f"  {rate}{limits}{failed}")
        return run

    def _summary(
        self,
        ensembles: Ensembles,
        plan: Plan,
        label: dict[str, Any],
        meanwhile: Callable[[float], None] | None,
        bucket_s: float,
    ) -> dict[str, Any]:
        """Of a load that is run."""
        results, busy, files = self._run(ensembles, plan, label, meanwhile)
        summary = {**summarise(results, busy or {}, bucket_s), "raw": files}
        if busy is None:
            summary["limits"].append(UNSEEN)
        return summary

    def _repeats(self, about: Mapping[str, Any]) -> int:
        """The number of the run that the next one with this label repeats; its own if that is the first one."""
        number, key = len(self.document["runs"]), json.dumps(about, sort_keys=True)
        if not self._round:
            self._first[key] = number
        return self._first.setdefault(key, number)

    def warm_up(self, plan: Plan) -> None:
        """Run a load for some time, which is not measured: new servers are slow."""
        if self.size == "small":
            return
        self.tell("warming up")
        try:
            self.prepare(replace(plan, name=plan.name + "-warm-up", measure_s=WARM_UP_S))
        except LabError as error:
            self.not_measured(f"{plan.system}, after a warm-up", error)

    def prepare(self, plan: Plan) -> None:
        """Run a load whose requests are not kept.

        :raises LabError: it fails.
        """
        self.lab.run_load(self._shares(plan), self._folder / "raw" / f"{self._stem}-warm-up")

    def raw(self, run: dict[str, Any]) -> list[Result]:
        """The requests of a run."""
        return [read_result(self._folder / name) for name in run["raw"]]

    def _run(
        self,
        ensembles: Ensembles,
        plan: Plan,
        label: dict[str, Any],
        meanwhile: Callable[[float], None] | None,
    ) -> tuple[list[Result], dict[str, float] | None, list[str]]:
        about = ", ".join(str(value) for value in label.values() if not isinstance(value, bool))
        clients = f"{plan.nodes} x {plan.processes} x {plan.threads} clients"
        try:
            wait_caught_up(self.lab, ensembles)
        except LabError as error:
            self.not_measured(f"{about}, without what an earlier load has left to do", error)
        self.tell(f"{plan.system} on {ensembles.shape}, {clients}: {about}")
        watch = BusyWatch(self.lab, plan)
        folder = self._folder / "raw" / f"{self._stem}-{len(self.document['runs']):03}"
        with ThreadPoolExecutor(1) as pool:
            beside = []

            def hear(_: str, line: str) -> None:
                begun_s = float(json.loads(line)["begun_s"])
                watch.begin()
                if meanwhile:
                    beside.append(pool.submit(meanwhile, begun_s))

            try:
                paths = self.lab.run_load(self._shares(plan), folder, hear)
            except LabError as error:
                self.not_measured(f"{plan.system} on {ensembles.shape}, {clients}: {about}", error, **label)
                raise LoadError(str(error)) from error
            for each in beside:
                each.result()
        try:
            busy = watch.shares()
        except LabError as error:
            busy = None
            self.not_measured(f"how busy the machines were: {about}", error)
        results = [read_result(path) for path in paths.values()]
        return results, busy, [str(path.relative_to(self._folder)) for path in paths.values()]

    def _shares(self, plan: Plan) -> dict[str, dict[str, Any]]:
        """The plan of each host."""
        hosts = self.lab.clients[: plan.nodes]
        return {host: replace(plan, node=node).as_json() for node, host in enumerate(hosts)}

    @contextmanager
    def limited(self, servers: Sequence[Server], rate_bytes_s: float = RATE_BYTES_S) -> Iterator[float | None]:
        """The bandwidth of the servers' hosts is limited, if they share a machine and the lab can do it.

        :returns: the limit; None if there is none.
        """
        if not self.lab.is_one_machine:
            yield None
            return
        hosts = sorted({server.host for server in servers})
        try:
            for host in hosts:
                self.lab.faults.limit(host, rate_bytes_s)
        except NotPossible as error:
            self.not_measured("equal bandwidth for each host", error)
            yield None
            return
        try:
            yield rate_bytes_s
        finally:
            for host in hosts:
                self.lab.faults.lift(host)
