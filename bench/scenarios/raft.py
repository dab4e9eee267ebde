"""What the reports on Raft measured: servers, sizes, crashes, clients, workers, and how a server catches up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.lab import Ensembles, Lab, LabError, Server
from bench.report import text
from bench.report.charts import draw_lines, make_logarithmic, make_panels
from bench.report.section import Answer, Plot, Section, Table
from bench.report.text import milliseconds, plain, rate_of
from bench.scenarios import catching_up
from bench.scenarios.caveats import caveats_of
from bench.scenarios.evaluation import READ_SHARES, Evaluation
from bench.scenarios.repetitions import times_of
from bench.scenarios.roles import LEADING, find_line, roles, wait_all_serve, wait_leader
from bench.scenarios.summary import latency_s
from bench.statistics import scaled

Runs = Sequence[Mapping[str, Any]]

NAME = "raft"
TITLE = "What the reports on Raft measured"
# A server keeps its last 500 writes in memory, twice. Values above LARGE_BYTES get servers of their own, on which
# few clients write for a short time, so that the last writes do not fill it.
LARGE_BYTES = 50_000
LARGE: dict[str, Any] = {"clients": 4, "directories": 1, "warm_up_s": 0.2, "measure_s": 0.8}


@dataclass(frozen=True)
class Size:
    """
    :param shapes: for the number of servers.
    :param shape: for everything else.
    :param clients: of all hosts together, for the number of servers, sizes and crashes.
    :param missed_s: for how long a server misses what is written, before it is restarted.
    :param repeat: how often loads on each number of servers are run; all others are run once.
    """

    shapes: Sequence[str]
    shape: str
    clients: int
    sizes: Sequence[int]
    crashes: Sequence[int]
    crowds: Sequence[int]
    workers: Sequence[int]
    entry_sizes: Sequence[int]
    missed_s: Sequence[float]
    warm_up_s: float
    measure_s: float
    repeat: int = 3


SIZES = {
    "small": Size(("1x3",), "1x3", 2, (), (1,), (), (), (), (0.5,), 0.2, 0.5, 2),
    "medium": Size(
        ("1x1", "1x3", "1x5", "1x9"),
        "1x5",
        16,
        (10, 1_000, 10_000, 100_000, 1_000_000),
        (1, 2),
        (1, 10, 100, 1_000),
        (1, 8, 64),
        (10, 10_000),
        (0, 4),
        0.5,
        1.2,
    ),
    "full": Size(
        ("1x1", "1x3", "1x5", "1x7", "1x9"),
        "1x9",
        64,
        (10, 100, 1_000, 10_000, 100_000, 1_000_000),
        (1, 2, 3, 4),
        (1, 3, 10, 30, 100, 300, 1_000),
        (1, 2, 4, 8, 16, 32, 64, 128),
        (10, 100, 1_000, 10_000),
        (0, 1, 10, 60, 300),
        5,
        30,
    ),
}


def measure(evaluation: Evaluation) -> None:
    size = SIZES[evaluation.size]
    for shape in dict.fromkeys((*size.shapes, size.shape)):
        with evaluation.ensembles(shape) as ensembles:
            evaluation.warm_up(evaluation.plan(ensembles, "kazoo", in_flight=4, **_settings(evaluation, size)))
            servers = ensembles.shape.servers
            for _ in evaluation.rounds(size.repeat) if shape in size.shapes else ():
                _run_both(evaluation, size, ensembles, "servers", servers)
            for _ in evaluation.rounds():
                if shape in size.shapes:
                    _run(evaluation, size, ensembles, "connects", servers, write="sessions")
                if shape == size.shape:
                    _measure_loads(evaluation, size, ensembles)
                    _measure_catching_up(evaluation, size, ensembles)
                    _measure_crashes(evaluation, size, ensembles)
    for each in size.sizes:
        if each > LARGE_BYTES:
            for _ in evaluation.rounds():
                with evaluation.ensembles(size.shape) as ensembles:
                    _run_both(evaluation, size, ensembles, "size", each, **LARGE, value_bytes=each)
    if size.missed_s:
        with evaluation.ensembles(size.shape, settings={"forceSnapshotSync": "true"}) as ensembles:
            for _ in evaluation.rounds():
                _measure_catching_up(evaluation, size, ensembles)


def _measure_loads(evaluation: Evaluation, size: Size, ensembles: Ensembles) -> None:
    for each in size.sizes:
        if each <= LARGE_BYTES:
            _run_both(evaluation, size, ensembles, "size", each, value_bytes=each)
    for each in size.crowds:
        _run_both(evaluation, size, ensembles, "clients", each, clients=each)
    for workers in size.workers:
        for each in size.entry_sizes:
            of = f"workers, {text.size(each)}"
            _run(evaluation, size, ensembles, of, workers, clients=workers, value_bytes=each)


def _measure_catching_up(evaluation: Evaluation, size: Size, ensembles: Ensembles) -> None:
    """Of one follower, and of two if there is a quorum without them."""
    for followers in (1, 2)[: ensembles.shape.servers // 2]:
        for missed_s in size.missed_s:
            settings = _settings(evaluation, size)
            catching_up.measure_catching_up(evaluation, ensembles, settings, missed_s, followers)


def _settings(evaluation: Evaluation, size: Size, clients: int | None = None) -> dict[str, Any]:
    """For so many clients in all; few of them are all on the first host."""
    wanted = size.clients if clients is None else clients
    nodes = len(evaluation.lab.clients) if wanted >= len(evaluation.lab.clients) else 1
    return {
        "write": "set",
        "nodes": nodes,
        "threads": max(wanted // nodes, 1),
        "warm_up_s": size.warm_up_s,
        "measure_s": size.measure_s,
    }


def _run_both(
    evaluation: Evaluation, size: Size, ensembles: Ensembles, of: str, value: float, **settings: Any
) -> None:
    """Writes, then reads."""
    for load in READ_SHARES:
        _run(evaluation, size, ensembles, of, value, load=load, **settings)


def _run(
    evaluation: Evaluation,
    size: Size,
    ensembles: Ensembles,
    of: str,
    value: float,
    *,
    clients: int | None = None,
    value_bytes: int = 1024,
    load: str = "writes",
    **settings: Any,
) -> None:
    """
    :param of: what is varied; `value` is its value.
    :param settings: of the plan.
    """
    entries = {
        **_settings(evaluation, size, clients),
        "read_share": READ_SHARES[load],
        "size": value_bytes,
        **settings,
    }
    plan = evaluation.plan(ensembles, "kazoo", **entries)
    leader = wait_leader(evaluation.lab, ensembles)
    before = _acknowledged(evaluation.lab, leader)
    run = evaluation.run(ensembles, plan, {"of": of, "value": value, "load": load})
    count, sum_ms = (now - old for now, old in zip(_acknowledged(evaluation.lab, leader), before, strict=True))
    run["replicated_s"] = sum_ms / count / 1000 if load == "writes" and count > 0 else None
    see_equal(evaluation, ensembles, plan.root)


def _acknowledged(lab: Lab, leader: Server) -> tuple[int, int]:
    """How many proposals a quorum has acknowledged, and how many ms that took for all of them together."""
    answer = lab.ask(leader, "mntr")
    count, sum_ms = (find_line(answer, f"zk_{each}_quorum_ack_latency") for each in ("cnt", "sum"))
    return int(count or "0"), int(sum_ms or "0")


def see_equal(evaluation: Evaluation, ensembles: Ensembles, root: str) -> None:
    """
    :raises LabError: two servers that serve do not have the same znodes there.
    """
    replicas: dict[tuple[int, str], list[str]] = {}
    serving = [*roles(evaluation.lab, ensembles)]
    for server, replica in zip(serving, evaluation.lab.read_replicas(serving, root), strict=True):
        replicas.setdefault(replica, []).append(server.name)
    if len(replicas) > 1:
        found = "; ".join(f"{', '.join(names)}: {znodes} znodes" for (znodes, _), names in replicas.items())
        raise LabError(f"after a load, servers of one ensemble differ below {root}: {found}")
    compared = evaluation.document.setdefault("compared", {"loads": 0, "replicas": 0})
    compared["loads"] += 1
    compared["replicas"] += sum(map(len, replicas.values()))


def _measure_crashes(evaluation: Evaluation, size: Size, ensembles: Ensembles) -> None:
    """Followers are killed, one after the other; then all come back."""
    lab = evaluation.lab
    dead: list[Server] = []
    _run_both(evaluation, size, ensembles, "crashed", 0)
    for count in size.crashes:
        while len(dead) < count:
            follower = next(each for each, mode in roles(lab, ensembles).items() if mode not in LEADING)
            lab.faults.kill(follower)
            dead.append(follower)
        _run_both(evaluation, size, ensembles, "crashed", count)
    for each in dead:
        lab.faults.start(each)
    wait_all_serve(lab, ensembles)


def show(document: Mapping[str, Any]) -> Section:
    runs = [run for run in document["runs"] if run["of"] != catching_up.CATCHING_UP]
    of = {name: [run for run in runs if run["of"] == name] for name in dict.fromkeys(run["of"] for run in runs)}
    workers = {name: some for name, some in of.items() if name.startswith("workers")}
    others = {name: some for name, some in of.items() if name not in workers}
    return Section(
        NAME,
        TITLE,
        "Plain kazoo on one ensemble. Clients make one synchronous call after the other: sets of 1 KiB, or reads, "
        "if nothing else is said. Everything but the number of servers is varied on "
        f"{SIZES[document['about']['size']].shape}. Loads were run {times_of(runs)}.",
        [_table(*each) for each in others.items()]
        + ([_worker_table(workers)] if workers else [])
        + ([catching_up.make_table(document["trials"])] if document["trials"] else []),
        [_plot(*each) for each in others.items() if len({run["value"] for run in each[1]}) > 1]
        + ([_worker_plot(workers)] if workers else [])
        + ([catching_up.make_plot(document["trials"])] if len(document["trials"]) > 1 else []),
        [
            "Catching up includes the start of a Java virtual machine: nothing missed shows how long that takes.",
            "A session is begun when the server has answered; that it is ended again is in no latency.",
            "Replicated: from a proposal until a quorum has acknowledged it, the mean, as the leader says.",
            "A snapshot is sent where servers are told to send no entries (forceSnapshotSync).",
            *_compared(document),
            "Values of 100 kB and more are written by 4 clients, and for less than a second.",
            "These are ZooKeeper's figures (ZAB), measured as Raft's were; they are not ParKazoo's.",
            *caveats_of(document),
        ],
        _answers(runs),
    )


def _answers(runs: Runs) -> list[Answer]:
    writes = {run["value"]: run for run in runs if run["of"] == "servers" and run["load"] == "writes"}
    if not writes:
        return []
    measured = ", ".join(
        f"{value:,.0f}: {plain(run['rates']['all'], '{:,.0f}'.format)}" for value, run in writes.items()
    )
    return [Answer("How many writes/s do that many servers do, as one ensemble?", "", measured)]


def _compared(document: Mapping[str, Any]) -> list[str]:
    if not (compared := document.get("compared")):
        return []
    return [
        f"After each of {compared['loads']} loads every server that served was asked for all that the load had "
        f"left, {compared['replicas']} times in all. Those of an ensemble had the same, version by version."
    ]


TITLES = {
    "servers": "number of servers",
    "connects": "number of servers: sessions that are begun and ended",
    "size": "size of the values",
    "clients": "number of clients at once",
    "crashed": "number of crashed servers",
}


def _value(of: str, value: float) -> str:
    return text.size(int(value)) if of == "size" else f"{value:,.0f}"


def _table(of: str, runs: Runs) -> Table:
    return Table(
        f"Against the {TITLES[of]}",
        (of, "load", "requests/s", "median, ms", "99%, ms", "replicated after, ms"),
        [
            [
                _value(of, run["value"]),
                run["load"],
                rate_of(run),
                milliseconds(latency_s(run, run["load"], 50)),
                milliseconds(latency_s(run, run["load"], 99)),
                milliseconds(run.get("replicated_s")),
            ]
            for run in runs
        ],
    )


def _plot(of: str, runs: Runs) -> Plot:
    figure, panels = make_panels(2)
    loads = list(dict.fromkeys(run["load"] for run in runs))
    draw_lines(
        panels[0],
        {load: [(run["value"], run["rates"]["all"]) for run in runs if run["load"] == load] for load in loads},
        "throughput",
        TITLES[of],
        "requests/s",
    )
    latencies = {
        f"{load}, {name}": [
            (run["value"], scaled(latency, 1000))
            for run in runs
            if run["load"] == load and (latency := latency_s(run, load, percentile)) is not None
        ]
        for load in loads
        for name, percentile in (("median", 50.0), ("99%", 99.0))
    }
    draw_lines(panels[1], latencies, "latency", TITLES[of], "ms")
    for panel in panels:
        panel.set_ylim(bottom=0)
        if of in ("size", "clients"):
            make_logarithmic(panel, "x")
        else:
            panel.set_xticks(sorted({run["value"] for run in runs}))
        if panel.lines:
            panel.legend(frameon=False, fontsize=8)
    return Plot(f"{NAME}-{of}", f"Throughput and latency against the {TITLES[of]}", figure)


def _worker_table(workers: Mapping[str, Runs]) -> Table:
    counts = sorted({run["value"] for runs in workers.values() for run in runs})
    rows = []
    for name, runs in workers.items():
        found = {run["value"]: run for run in runs}
        rows.append([name.partition(", ")[2], *(rate_of(found[each]) for each in counts)])
    return Table("Entries/s against workers and entry size", ("size", *(f"{each:,.0f}" for each in counts)), rows)


def _worker_plot(workers: Mapping[str, Runs]) -> Plot:
    figure, panels = make_panels(1)
    lines = {
        name.partition(", ")[2]: [(run["value"], run["rates"]["all"]) for run in runs]
        for name, runs in workers.items()
    }
    draw_lines(panels[0], lines, "", "workers", "entries/s")
    panels[0].set_ylim(bottom=0)
    make_logarithmic(panels[0], "x")
    panels[0].legend(frameon=False, fontsize=8)
    return Plot(f"{NAME}-workers", "Entries/s against workers, for some sizes of the entries", figure)
