"""Elections: how long an ensemble serves no writes when its leader has died, or is frozen."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, NamedTuple

from bench.lab import Ensembles, Lab, Server
from bench.load.record import ANSWERED
from bench.load.result import Result, join
from bench.published import ZATT_ELECTIONS
from bench.report.charts import add_legend, draw_lines, label, make_panels
from bench.report.section import Answer, Plot, Section, Table
from bench.report.text import NOTHING, milliseconds, ranged, rate
from bench.scenarios.caveats import caveats_of
from bench.scenarios.evaluation import VALUE_BYTES, Evaluation, LoadError, Parts
from bench.scenarios.repetitions import times_of
from bench.scenarios.roles import LEADING, find_line, wait_all_serve, wait_leader, wait_until
from bench.statistics import first_after, quantiles, spread

NAME = "elections"
TITLE = "Elections: how long there is no leader"
KILLED, FROZEN = "killed", "frozen"
# So long after the leader is given up, or half a round, before the end of a round none is begun any more.
LAST_TRIAL_S = 4.0
AGAINST = {
    "servers": (re.compile(r"1x(\d+), killed"), "servers of which the leader is killed"),
    "timeout": (re.compile(r"given up after ([\d.]+) s"), "seconds after which a silent leader is given up"),
}
MEASURED = {
    "took_s": "until a write is answered again",
    "elected_s": "the election, as the new leader says",
}
ELECTED = re.compile(r"^zk_(cnt|sum)_election_time\s+(\d+)", re.MULTILINE)

Trials = Mapping[str, Sequence[Mapping[str, Any]]]


class Group(NamedTuple):
    """Trials that have all in common.

    :param tick_ms: ZooKeeper's unit of time; a silent leader is given up after `sync_limit` of them.
    """

    shape: str
    way: str
    tick_ms: int = 1000
    sync_limit: int = 4

    @property
    def silent_s(self) -> float:
        """After which a silent leader is given up; one that has died is missed at once."""
        return self.tick_ms * self.sync_limit / 1000 if self.way == FROZEN else 0.0

    def __str__(self) -> str:
        silent = f", given up after {self.silent_s:g} s" if self.silent_s else ""
        return f"{self.shape}, {self.way}{silent}"


@dataclass(frozen=True)
class Size:
    """
    :param trials: of each group, each time; fewer if they take more than `most_s` seconds.
    :param round_s: of the load during which leaders are killed one after the other.
    :param rate_s: writes/s of all clients together, far less than what the ensemble can do.
    :param repeat: how often all of that is done, on the same servers.
    """

    groups: Sequence[Group]
    trials: int
    most_s: float
    round_s: float
    threads: int
    rate_s: float
    repeat: int = 1


GROUPS = [Group(shape, KILLED) for shape in ("1x3", "1x5", "1x7", "1x9", "1x13", "1x17", "1x25")]
# A silent leader is given up after 0.5, 1, 1.5, 2, 3 and 4 s.
TIMEOUTS = [
    Group("1x5", FROZEN, tick_ms, sync_limit)
    for tick_ms, sync_limit in ((250, 2), (250, 4), (500, 3), (500, 4), (1000, 3), (1000, 4))
]
SIZES: dict[str, Any] = {
    "small": Size((Group("1x3", KILLED), Group("1x3", FROZEN, 250)), 1, 20, 5, 2, 60, 2),
    "medium": Size(
        [
            *(Group(shape, KILLED) for shape in ("1x3", "1x5", "1x9")),
            *(Group("1x3", FROZEN, tick_ms) for tick_ms in (1000, 250)),
        ],
        100,
        10,
        24,
        4,
        240,
    ),
    "full": Parts(
        # Each time one round, in which there is time for some trials.
        servers=Size(GROUPS, 8, 0, 16, 4, 240, 5),
        timeouts=Size(TIMEOUTS, 8, 0, 16, 4, 240, 5),
        # Zatt's 1,000 in two parts, which a report takes together.
        **dict.fromkeys(("many", "more"), Size([Group("1x5", KILLED)], 500, 25 * 60, 240, 4, 240)),
    ),
}


class Loss(NamedTuple):
    """Of a leader.

    :param lost_s: when, in seconds since the epoch.
    :param elected_s: how long the election took, as the new leader says itself; None if it does not.
    :param rounds: how many elections one of the other servers went through, at most. More than one: it was elected
        by servers that then followed another, or followed such a one.
    """

    server: str
    lost_s: float
    elected_s: float | None = None
    rounds: int = 1


def measure(evaluation: Evaluation) -> None:
    size = evaluation.chosen(SIZES)
    for group in size.groups:
        of_servers = {"tickTime": str(group.tick_ms), "syncLimit": str(group.sync_limit)}
        with evaluation.ensembles(group.shape, settings=of_servers) as ensembles:
            for repetition in evaluation.rounds(size.repeat):
                _measure_group(evaluation, ensembles, size, group, repetition)


def _measure_group(
    evaluation: Evaluation, ensembles: Ensembles, size: Size, group: Group, repetition: int
) -> None:
    """Leaders are lost one after the other, while clients write."""
    lab = evaluation.lab
    losses: list[Loss] = []
    trials: list[dict[str, Any]] = []
    last_s = min(LAST_TRIAL_S + group.silent_s, size.round_s / 2)
    round_s = size.round_s
    deadline = time.monotonic() + size.most_s
    settings = {
        "write": "set",
        "size": VALUE_BYTES,
        "threads": size.threads,
        "rate_s": size.rate_s,
        "warm_up_s": 0.5,
    }

    def lose_leaders(begun_s: float) -> None:
        losses.clear()
        while time.time() < begun_s + round_s - last_s and len(trials) + len(losses) < size.trials:
            losses.append(_lose_leader(lab, ensembles, group.way))

    while len(trials) < size.trials:
        plan = evaluation.plan(ensembles, "kazoo", measure_s=round_s, **settings)
        found: list[dict[str, Any]] = []
        with suppress(LoadError):
            run = evaluation.run(ensembles, plan, {"group": str(group)}, lose_leaders)
            about = {"group": str(group), "repetition": repetition}
            found = [about | each for each in times_to_serve(evaluation.raw(run), losses)]
        trials += found
        evaluation.document["trials"] += found
        if time.monotonic() > deadline:
            break
        if found:  # the last round ends with its last trial, about
            round_s = min(size.round_s, last_s + (size.trials - len(trials)) * round_s / len(found))


def _lose_leader(lab: Lab, ensembles: Ensembles, way: str) -> Loss:
    """Until all serve again."""
    leader = wait_leader(lab, ensembles)
    others = [server for server in ensembles.of(leader.ensemble) if server != leader]
    before = {server: _elections(lab, server) for server in others}
    lost_s = (lab.faults.kill if way == KILLED else lab.faults.freeze)(leader)

    def look() -> Server | None:
        return next((each for each in others if find_line(lab.ask(each, "srvr"), "Mode:") in LEADING), None)

    new = wait_until(look, "there is no new leader")
    count, sum_ms = (after - old for after, old in zip(_elections(lab, new), before[new], strict=True))
    (lab.faults.start if way == KILLED else lab.faults.thaw)(leader)
    wait_all_serve(lab, ensembles)
    rounds = max(_elections(lab, each)[0] - before[each][0] for each in others)
    return Loss(leader.name, lost_s, sum_ms / count / 1000 if count else None, rounds)


def _elections(lab: Lab, server: Server) -> tuple[int, int]:
    """How many it has seen, and their milliseconds."""
    found = {name: int(value) for name, value in ELECTED.findall(lab.ask(server, "mntr"))}
    return found.get("cnt", 0), found.get("sum", 0)


def times_to_serve(results: Sequence[Result], losses: Sequence[Loss]) -> list[dict[str, Any]]:
    """From each loss until the first answer to a write that was begun after it."""
    columns = join(results)
    begun = columns["begun_ns"] / 1e9
    ended = begun + columns["took_ns"] / 1e9
    is_answered = columns["outcome"] == ANSWERED
    trials = []
    for server, lost_s, elected_s, rounds in losses:
        served_s = first_after(ended[is_answered & (begun > lost_s)], lost_s)
        if served_s is not None:
            found = {"took_s": served_s - lost_s, "elected_s": elected_s, "rounds": rounds}
            trials.append({"server": server, **found})
    return trials


def show(document: Mapping[str, Any]) -> Section:
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for trial in document["trials"]:
        groups.setdefault(trial["group"], []).append(trial)
    if not groups:
        return Section(NAME, TITLE, "No trial was measured.", caveats=caveats_of(document))
    return Section(
        NAME,
        TITLE,
        f"Leaders are lost one after the other, while clients write (sets of {VALUE_BYTES} bytes, at random "
        "times at a fixed rate). A leader is killed, and starts again when there is another; or it is frozen "
        f"until then. Groups were measured {times_of(document['runs'])}.",
        [make_table(groups), _elected_table(groups)],
        [make_plot(groups, NAME), *_plots_against(groups)],
        [
            "What clients see has three parts. Servers notice that the leader is gone: at once if it has died, "
            "after syncLimit x tickTime if it is silent. They elect another. Clients connect again, because "
            "servers close their connections during an election; kazoo's clients pause before they try.",
            "What servers say of an election begins when they look for a leader and ends when they have one, in "
            "whole milliseconds.",
            *_again(document["trials"]),
            *caveats_of(document),
        ],
        make_answers(groups),
    )


def _again(trials: Sequence[Mapping[str, Any]]) -> list[str]:
    """What is to be said of trials with several rounds; older results have no number of them."""
    again = [each["took_s"] for each in trials if each.get("rounds", 1) > 1]
    if not again:
        return []
    return [
        f"In {len(again)} of {len(trials)} trials a server looked for a leader twice: the first one did not lead "
        "yet, or too few followed it, for which it waits initLimit x tickTime (ZOOKEEPER-3109). The longest of "
        f"these took {max(again):.2f} s."
    ]


def make_answers(groups: Trials) -> list[Answer]:
    answers = []
    for name, trials in groups.items():
        shortest, median, longest = quantiles([each["took_s"] for each in trials], (0, 0.5, 1))
        answers.append(
            Answer(
                f"How long until a write is answered when a leader is lost: {name}?",
                "",
                f"median {median:.2f} s, {shortest:.2f} to {longest:.2f} s in {len(trials)} trials",
            )
        )
    return answers


def make_table(groups: Trials) -> Table:
    return Table(
        "Seconds from the loss of a leader until a write was answered again",
        ("", "trials", "shortest", "5%", "median", "95%", "longest"),
        [
            [
                name,
                rate(len(trials)),
                *(ranged(each, "{:.2f}".format) for each in _quantiles(trials, "took_s", (0, 0.05, 0.5, 0.95, 1))),
            ]
            for name, trials in groups.items()
        ],
    )


def _elected_table(groups: Trials) -> Table:
    rows = []
    for name, trials in groups.items():
        said = [each for each in trials if each["elected_s"] is not None]
        took = [each["elected_s"] for each in said]
        row = [name, rate(len(took))]
        if took:
            row += [milliseconds(each) for each in _quantiles(said, "elected_s", (0, 0.5, 0.95, 1))]
            row += [f"{sum(each < soon_s for each in took) / len(took):.0%}" for soon_s in ZATT_ELECTIONS]
        rows.append(row + [NOTHING] * (8 - len(row)))
    soon = (f"under {1000 * each:g} ms" for each in ZATT_ELECTIONS)
    return Table(
        "Milliseconds that the election itself took, as the new leader says",
        ("", "trials", "shortest", "median", "95%", "longest", *soon),
        rows,
    )


def _quantiles(trials: Sequence[Mapping[str, Any]], name: str, shares: Sequence[float]) -> list[float]:
    """Of what a group's trials have by that name: of repetitions their median, with its range."""
    of: dict[int, list[float]] = {}
    for trial in trials:
        of.setdefault(trial.get("repetition", 0), []).append(trial[name])
    return [spread(each) for each in zip(*(quantiles(some, shares) for some in of.values()), strict=True)]


def _plots_against(groups: Trials) -> list[Plot]:
    """Against the number of servers, and against the time after which a silent leader is given up."""
    plots = []
    for name, (pattern, x) in AGAINST.items():
        found = sorted(
            ((float(match[1]), trials) for group, trials in groups.items() if (match := pattern.search(group))),
            key=itemgetter(0),
        )
        if len(found) < 2:
            continue
        figure, panels = make_panels(2)
        for panel, (measured, title) in zip(panels, MEASURED.items(), strict=True):
            points = [
                (at, _quantiles(said, measured, (0.5,))[0])
                for at, trials in found
                if (said := [each for each in trials if each[measured] is not None])
            ]
            draw_lines(panel, {"median": points}, title, x, "s")
            panel.set_ylim(bottom=0)
        plots.append(Plot(f"{NAME}-{name}", f"Elections against {x}: medians", figure))
    return plots


def make_plot(groups: Trials, scenario: str) -> Plot:
    """
    :param scenario: its name.
    """
    figure, panels = make_panels(1)
    lines = {}
    for name, trials in groups.items():
        found = sorted(each["took_s"] for each in trials)
        lines[name] = [(found[0], 0.0), *((each, place / len(found)) for place, each in enumerate(found, 1))]
    draw_lines(panels[0], lines, "", "", "", marker="", drawstyle="steps-post")
    panels[0].set_ylim(0, 1.02)
    label(panels[0], "", "seconds until a write is answered again", "share of the trials")
    add_legend(figure, panels[0], 3)
    return Plot(f"{scenario}-elections", "Time from the loss of a leader until a write is answered", figure)
