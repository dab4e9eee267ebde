"""What the reports on Raft measured: servers, sizes, crashes, clients, workers, and how a server catches up.

Kazoo on one ensemble, and ParKazooClient on several with about as many servers in all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.lab import Ensembles, Lab, LabError, Server
from bench.report import text
from bench.report.charts import add_legend, draw_lines, make_logarithmic, make_panels
from bench.report.section import Answer, Plot, Section, Table
from bench.report.text import NOTHING, milliseconds, plain, rate_of
from bench.scenarios import catching_up
from bench.scenarios.caveats import caveats_of
from bench.scenarios.curves import subject
from bench.scenarios.evaluation import READ_SHARES, Evaluation, LoadError, Parts
from bench.scenarios.repetitions import times_of
from bench.scenarios.roles import LEADING, find_line, roles, wait_all_serve, wait_leader
from bench.scenarios.summary import latency_s
from bench.statistics import scaled

Runs = Sequence[Mapping[str, Any]]

NAME = "raft"
TITLE = "What the reports on Raft measured"
# A server keeps its last 500 writes in memory, twice, and takes no commitLogCount below that. So values above
# LARGE_BYTES get one ensemble of their own each time, on which few clients write for a short time.
LARGE_BYTES = 50_000
LARGE_CLIENTS = 4
LARGE: dict[str, Any] = {"directories": 1, "warm_up_s": 0.2, "measure_s": 0.8}
KAZOO = "kazoo"
PLOT_HEIGHT = 6.0


@dataclass(frozen=True)
class Size:
    """
    :param clients: of all hosts together, for the number of servers, sizes and crashes.
    :param counted: what is measured on which shapes, for the number of servers.
    :param fixed: the same, for everything else.
    :param crashes: crashed followers of each ensemble, as far as it has a quorum without them.
    :param missed_s: for how long a server misses what is written, before it is restarted.
    :param repeat: how often loads on each number of servers are run; `repeat_fixed`, all others.
    """

    clients: int
    warm_up_s: float
    measure_s: float
    counted: Mapping[str, str] = field(default_factory=dict)
    fixed: Mapping[str, str] = field(default_factory=dict)
    sizes: Sequence[int] = ()
    crashes: Sequence[int] = ()
    crowds: Sequence[int] = ()
    workers: Sequence[int] = ()
    entry_sizes: Sequence[int] = ()
    missed_s: Sequence[float] = ()
    repeat: int = 3
    repeat_fixed: int = 1


ODD = {f"1x{servers}": KAZOO for servers in (3, 5, 7, 9, 13, 17, 25)}
SEVERAL = dict.fromkeys(("3x3", "9x3"), "parkazoo")
TWENTY_FIVE = {"1x25": KAZOO, "5x5": "parkazoo"}
FIVE_TIMES: dict[str, Any] = {"warm_up_s": 0.5, "measure_s": 2, "repeat": 5, "repeat_fixed": 5}
SIZES: dict[str, Any] = {
    "small": Size(2, 0.2, 0.5, {"1x3": KAZOO}, {"1x3": KAZOO}, crashes=(1,), missed_s=(0.5,), repeat=2),
    "medium": Size(
        16,
        0.5,
        1.2,
        {"1x3": KAZOO, "1x5": KAZOO, "1x9": KAZOO, "3x3": "parkazoo"},
        {"1x5": KAZOO},
        sizes=(10, 1_000, 10_000, 100_000, 1_000_000),
        crashes=(1, 2),
        crowds=(1, 10, 100, 200),
        workers=(1, 8, 64),
        entry_sizes=(10, 10_000),
        missed_s=(0, 4),
    ),
    # Captions and section IV of the report on Raft have 25 servers. It does not say how many clients, but
    # where they are varied: one here.
    "full": Parts(
        servers=Size(1, counted={**ODD, **SEVERAL}, **FIVE_TIMES),
        sizes=Size(1, fixed=TWENTY_FIVE, sizes=(10, 1_000, 10_000, 100_000, 1_000_000), **FIVE_TIMES),
        crashes=Size(1, fixed=TWENTY_FIVE, crashes=(1, 2, 6, 12), **FIVE_TIMES),
        clients=Size(1, fixed=TWENTY_FIVE, crowds=(1, 10, 100, 160, 200), **FIVE_TIMES),
        recovery=Size(16, fixed={"1x25": KAZOO}, missed_s=(0, 1, 5), **FIVE_TIMES),
    ),
}


def measure(evaluation: Evaluation) -> None:
    size = evaluation.chosen(SIZES)
    for shape, system in {**size.counted, **size.fixed}.items():
        with evaluation.ensembles(shape) as ensembles:
            evaluation.warm_up(evaluation.plan(ensembles, system, in_flight=4, **_settings(evaluation, size)))
            servers = ensembles.shape.size
            for _ in evaluation.rounds(size.repeat) if shape in size.counted else ():
                _run_both(evaluation, size, ensembles, system, "servers", servers)
            for _ in evaluation.rounds(size.repeat_fixed):
                if shape in size.counted and system == KAZOO:
                    _run(evaluation, size, ensembles, system, "connects", servers, write="sessions")
                if shape in size.fixed:
                    _measure_loads(evaluation, size, ensembles, system)
                    _measure_catching_up(evaluation, size, ensembles)
                    _measure_crashes(evaluation, size, ensembles, system)
    for shape, system in size.fixed.items():
        for each in (each for each in size.sizes if each > LARGE_BYTES and system == KAZOO):
            for _ in evaluation.rounds(size.repeat_fixed):
                with evaluation.ensembles(shape) as ensembles:
                    settings = {**LARGE, "clients": min(LARGE_CLIENTS, size.clients), "value_bytes": each}
                    _run_both(evaluation, size, ensembles, system, "size", each, **settings)
        if size.missed_s:
            with evaluation.ensembles(shape, settings={"forceSnapshotSync": "true"}) as ensembles:
                for _ in evaluation.rounds(size.repeat_fixed):
                    _measure_catching_up(evaluation, size, ensembles)


def _measure_loads(evaluation: Evaluation, size: Size, ensembles: Ensembles, system: str) -> None:
    for each in size.sizes:
        if each <= LARGE_BYTES:
            _run_both(evaluation, size, ensembles, system, "size", each, value_bytes=each)
    for each in size.crowds:
        _run_both(evaluation, size, ensembles, system, "clients", each, clients=each)
    for workers in size.workers:
        for each in size.entry_sizes:
            of = f"workers, {text.size(each)}"
            _run(evaluation, size, ensembles, system, of, workers, clients=workers, value_bytes=each)


def _measure_catching_up(evaluation: Evaluation, size: Size, ensembles: Ensembles) -> None:
    """Of one follower of ensemble a, and of two if there is a quorum without them."""
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
    evaluation: Evaluation, size: Size, ensembles: Ensembles, system: str, of: str, value: float, **settings: Any
) -> None:
    """Writes, then reads."""
    for load in READ_SHARES:
        _run(evaluation, size, ensembles, system, of, value, load=load, **settings)


def _run(
    evaluation: Evaluation,
    size: Size,
    ensembles: Ensembles,
    system: str,
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
    plan = evaluation.plan(ensembles, system, **entries)
    leaders = [wait_leader(evaluation.lab, ensembles, name) for name in ensembles.shape.names]
    before = _acknowledged(evaluation.lab, leaders)
    try:
        run = evaluation.run(ensembles, plan, {"of": of, "value": value, "load": load})
    except LoadError:
        return
    after = _acknowledged(evaluation.lab, leaders)
    count, sum_ms = (now - old for now, old in zip(after, before, strict=True))
    run["replicated_s"] = sum_ms / count / 1000 if load == "writes" and count > 0 else None
    if system == KAZOO:  # ParKazooClient's directories are not below that path on every ensemble
        see_equal(evaluation, ensembles, plan.root)


def _acknowledged(lab: Lab, leaders: Sequence[Server]) -> tuple[int, int]:
    """How many proposals a quorum has acknowledged, and how many ms that took for all of them together."""
    answers = [lab.ask(leader, "mntr") for leader in leaders]
    count, sum_ms = (
        sum(int(find_line(answer, f"zk_{each}_quorum_ack_latency") or "0") for answer in answers)
        for each in ("cnt", "sum")
    )
    return count, sum_ms


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


def _measure_crashes(evaluation: Evaluation, size: Size, ensembles: Ensembles, system: str) -> None:
    """Followers are killed, as many of each ensemble; then all come back."""
    lab, names = evaluation.lab, ensembles.shape.names
    dead: list[Server] = []
    crashes = [count for count in size.crashes if count <= ensembles.shape.servers // 2]
    for count in (0, *crashes) if crashes else ():
        for name in names:
            alive = [each for each, mode in roles(lab, ensembles, name).items() if mode not in LEADING]
            missing = count - sum(each.ensemble == name for each in dead)
            for each in alive[:missing]:
                lab.faults.kill(each)
                dead.append(each)
        _run_both(evaluation, size, ensembles, system, "crashed", len(dead))
    for each in dead:
        lab.faults.start(each)
    for name in names:
        wait_all_serve(lab, ensembles, name)


def show(document: Mapping[str, Any]) -> Section:
    runs = [run for run in document["runs"] if run["of"] != catching_up.CATCHING_UP]
    of = {name: [run for run in runs if run["of"] == name] for name in dict.fromkeys(run["of"] for run in runs)}
    workers = {name: some for name, some in of.items() if name.startswith("workers")}
    others = {name: some for name, some in of.items() if name not in workers}
    return Section(
        NAME,
        TITLE,
        "Clients make one synchronous call after the other: sets of 1 KiB, or reads, if nothing else is said. "
        f"{_on(runs)}Loads were run {times_of(runs)}.",
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
            f"Values of 100 kB and more are written by {LARGE_CLIENTS} clients at most, on servers of their own.",
            "Figures of plain kazoo are ZooKeeper's (ZAB), not Raft's.",
            *caveats_of(document),
        ],
        _answers(runs),
    )


def _answers(runs: Runs) -> list[Answer]:
    writes = {subject(run): run for run in runs if run["of"] == "servers" and run["load"] == "writes"}
    if not writes:
        return []
    measured = ", ".join(f"{name} {plain(run['rates']['all'], '{:,.0f}'.format)}" for name, run in writes.items())
    return [Answer("How many writes/s do that many servers do?", "", measured)]


def _on(runs: Runs) -> str:
    """On what everything but the number of servers was varied."""
    found = dict.fromkeys(subject(run) for run in runs if run["of"] not in COUNTED)
    return f"Everything but the number of servers was varied with {' and '.join(found)}. " if found else ""


def _compared(document: Mapping[str, Any]) -> list[str]:
    if not (compared := document.get("compared")):
        return []
    return [
        f"After each of {compared['loads']} loads every server that served was asked for all that the load had "
        f"left, {compared['replicas']} times in all. Those of an ensemble had the same, version by version."
    ]


COUNTED = ("servers", "connects")  # what is varied is the number of servers
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
        (of, "", "load", "requests/s", "median, ms", "99%, ms", "replicated after, ms"),
        [
            [
                _value(of, run["value"]),
                subject(run),
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
    figure, panels = make_panels(2, PLOT_HEIGHT, rows=2)
    lines: dict[str, list[Mapping[str, Any]]] = {}
    for run in runs:
        lines.setdefault(f"{run['system']}, {run['load']}", []).append(run)

    def draw(panel: Any, title: str, y: str, value: Callable[[Mapping[str, Any]], float | None]) -> None:
        points = {
            name: [(run["value"], found) for run in some if (found := value(run)) is not None]
            for name, some in lines.items()
        }
        draw_lines(panel, points, title, TITLES[of], y)
        panel.set_ylim(bottom=0)
        if of in ("size", "clients"):
            make_logarithmic(panel, "x")
        else:
            panel.set_xticks(sorted({run["value"] for run in runs}))

    draw(panels[0], "throughput", "requests/s", lambda run: run["rates"]["all"])
    draw(panels[1], "median latency", "ms", lambda run: _in_ms(latency_s(run, run["load"], 50)))
    draw(panels[2], "99th percentile of latency", "ms", lambda run: _in_ms(latency_s(run, run["load"], 99)))
    draw(panels[3], "replicated after", "ms", lambda run: _in_ms(run.get("replicated_s")))
    add_legend(figure, panels[0])
    return Plot(f"{NAME}-{of}", f"Throughput and latency against the {TITLES[of]}", figure)


def _in_ms(seconds: float | None) -> float | None:
    return None if seconds is None else scaled(seconds, 1000)


def _worker_table(workers: Mapping[str, Runs]) -> Table:
    counts = sorted({run["value"] for runs in workers.values() for run in runs})
    rows = []
    for name, runs in workers.items():
        found = {run["value"]: run for run in runs}
        rows.append(
            [name.partition(", ")[2], *(rate_of(found[each]) if each in found else NOTHING for each in counts)]
        )
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
