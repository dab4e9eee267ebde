"""How long a server that was down takes until it has what it missed. A part of scenario raft."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from bench.lab import Ensembles, Lab, Server
from bench.report import text
from bench.report.charts import add_legend, draw_lines, make_panels
from bench.report.section import Plot, Table
from bench.report.text import NOTHING, rate
from bench.scenarios.evaluation import Evaluation, LoadError
from bench.scenarios.roles import EPOCH_BITS, LEADING, find_line, roles, wait_has, wait_leader, zxid
from bench.statistics import spread

CATCHING_UP = "catching up"

Trials = Sequence[Mapping[str, Any]]


def measure_catching_up(
    evaluation: Evaluation, ensembles: Ensembles, settings: Mapping[str, Any], missed_s: float, followers: int = 1
) -> None:
    """Followers are killed, clients write, they are started: how long until all have what the leader had then?

    :param settings: of the clients' plan.
    :param missed_s: for how long they write; 0: not at all.
    """
    lab = evaluation.lab
    leader = wait_leader(lab, ensembles)
    dead = [each for each, mode in roles(lab, ensembles).items() if mode not in LEADING][:followers]
    before, snapshots = zxid(lab, leader), _snapshots(lab, leader)
    for each in dead:
        lab.faults.kill(each)
    if missed_s:
        entries = {**settings, "warm_up_s": 0.0, "measure_s": missed_s, "in_flight": 4}
        plan = evaluation.plan(ensembles, "kazoo", **entries)
        label = {"of": CATCHING_UP, "value": missed_s, "load": "writes"}
        with suppress(LoadError):  # what it has written is missed all the same
            evaluation.run(ensembles, plan, label, has_figures=False)
    wanted = zxid(lab, leader)
    began_s = time.monotonic()
    for each in dead:
        lab.faults.start(each)
    for each in dead:
        wait_has(lab, each, wanted)
    took_s = time.monotonic() - began_s
    missed = count_entries(before, wanted)
    whole = _snapshots(lab, leader) - snapshots
    trial = {
        "missed": missed,
        "took_s": took_s,
        "missed_s": missed_s,
        "followers": len(dead),
        "snapshots": whole,
    }
    evaluation.document["trials"].append(trial)
    evaluation.tell(f"  {missed:,} entries caught up with in {took_s:.1f} s, {whole} snapshots")


def _snapshots(lab: Lab, leader: Server) -> int:
    """How many it has sent to followers so far."""
    return int(find_line(lab.ask(leader, "mntr"), "zk_snap_count") or "0")


def count_entries(before: int, after: int) -> int:
    """Between two zxids. After another election they are counted from there."""
    return after - before if after >> EPOCH_BITS == before >> EPOCH_BITS else after & ((1 << EPOCH_BITS) - 1)


def folded(trials: Trials) -> list[dict[str, Any]]:
    """Their medians. Those repeat each other in which as many servers missed as long and got as many snapshots."""
    groups: dict[tuple[float, ...], list[Mapping[str, Any]]] = {}
    for number, trial in enumerate(trials):
        key = trial.get("missed_s", -1 - number), trial.get("followers", 1), trial.get("snapshots", 0)
        groups.setdefault(key, []).append(trial)
    return [
        {**some[0], **{name: spread(each[name] for each in some) for name in ("missed", "took_s")}}
        for some in groups.values()
    ]


def make_table(trials: Trials) -> Table:
    rows = [
        [
            str(trial.get("followers", 1)),
            rate(trial["missed"]),
            str(trial.get("snapshots", NOTHING)),
            text.seconds(trial["took_s"]),
        ]
        for trial in folded(trials)
    ]
    return Table("Restarted servers catch up", ("servers", "entries missed", "snapshots sent", "seconds"), rows)


def make_plot(trials: Trials) -> Plot:
    figure, panels = make_panels(1)
    lines: dict[str, list[tuple[float, float]]] = {}
    for trial in sorted(folded(trials), key=lambda each: each["missed"]):
        servers, how = trial.get("followers", 1), "a snapshot" if trial.get("snapshots") else "entries"
        lines.setdefault(f"{servers} server{'s' * (servers > 1)}, {how}", []).append(
            (trial["missed"], trial["took_s"])
        )
    draw_lines(panels[0], lines, "", "entries missed", "seconds until caught up")
    panels[0].set_ylim(bottom=0)
    add_legend(figure, panels[0])
    return Plot("raft-catching-up", "How long restarted servers take to catch up", figure)
