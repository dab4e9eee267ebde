"""Cuts: what servers and clients do when some do not hear some others, one way or both, at once or in turns."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from bench.chaos import bridge, crash, flap, one_way
from bench.chaos import partial as both_ways
from bench.lab import Ensembles, Matrix, NotPossible
from bench.load.plan import Plan
from bench.report.section import Answer, Section, Table
from bench.report.text import NOTHING, rate
from bench.scenarios.caveats import caveats_of
from bench.scenarios.evaluation import VALUE_BYTES, Evaluation, LoadError, sleep_until
from bench.scenarios.noticing import Size, answer_of_others, measure_trace, trace_plot, trace_table
from bench.scenarios.repetitions import times_of
from bench.scenarios.roles import epoch, find_line, roles, wait_all_serve, wait_leader

NAME = "cuts"
TITLE = "Cuts: some do not hear some others"
FLAP_S = 1.0


class Place(NamedTuple):
    """Hosts, by the roles of their servers in ensemble a."""

    leader: str
    followers: Sequence[str]
    clients: Sequence[str]


def _column(matrix: Matrix) -> Matrix:
    """Sender and receiver change places."""
    ((sender, row),) = matrix.items()
    return {receiver: {sender: p} for receiver, p in row.items()}


class Cut(NamedTuple):
    """
    :param about: who does not hear whom.
    :param flaps: it is there for a second, and not there for a second, in turns.
    """

    about: str
    make: Callable[[Place], Matrix]
    flaps: bool = False


CUTS = {
    "follower deaf": Cut("a follower does not hear the leader", lambda at: one_way([at.leader, at.followers[0]])),
    "follower mute": Cut("the leader does not hear a follower", lambda at: one_way([at.followers[0], at.leader])),
    "leader mute": Cut("no follower hears the leader", lambda at: one_way([at.leader, *at.followers])),
    "leader deaf": Cut("the leader hears no follower", lambda at: _column(one_way([at.leader, *at.followers]))),
    "partial": Cut(
        "the leader and a follower do not hear each other", lambda at: both_ways([at.leader, at.followers[0]])
    ),
    "followers partial": Cut("two followers do not hear each other", lambda at: both_ways(at.followers[:2])),
    "bridge": Cut(
        "a follower hears all; of the others, the half with the leader and the other half do not hear each other",
        lambda at: bridge([at.leader, *at.followers]),
    ),
    "clients deaf": Cut("clients do not hear the leader", lambda at: one_way([at.leader, *at.clients])),
    "clients mute": Cut("the leader does not hear clients", lambda at: _column(one_way([at.leader, *at.clients]))),
    "partial, flapping": Cut(
        "the leader and a follower do not hear each other every other second",
        lambda at: both_ways([at.leader, at.followers[0]]),
        flaps=True,
    ),
    "leader, flapping": Cut(
        "the leader and its followers do not hear each other every other second",
        lambda at: crash([at.leader, *at.followers]),
        flaps=True,
    ),
}


ON_THREE = [name for name in CUTS if name != "bridge"]
ON_SEVERAL = ("leader mute", "clients mute")
SIZES = {
    "small": Size({"1x3": "kazoo"}, {"1x3": ("leader mute", "partial, flapping")}, 2, 60, 0.5, 1.5, 0.5),
    "medium": Size(
        {"1x3": "kazoo", "1x5": "kazoo", "3x3": "parkazoo"},
        {"1x3": ON_THREE, "1x5": ("bridge",), "3x3": ON_SEVERAL},
        4,
        240,
        2,
        10,
        1,
    ),
    "full": Size(
        {"1x3": "kazoo", "1x5": "kazoo", "3x3": "parkazoo"},
        {"1x3": ON_THREE, "1x5": ("bridge", "leader, flapping"), "3x3": ON_SEVERAL},
        4,
        480,
        3,
        12,
        5,
    ),
}


def measure(evaluation: Evaluation) -> None:
    size = SIZES[evaluation.size]
    try:
        len(evaluation.lab.faults.hosts)
    except NotPossible as error:
        evaluation.not_measured("cuts", error)
        return
    for shape, system in size.systems.items():
        with evaluation.ensembles(shape) as ensembles:
            settings = {**size.plan(1.0 if size.before_s > 1 else 0.5), "rate_s": size.rate_s}
            evaluation.warm_up(evaluation.plan(ensembles, system, **settings))
            for _ in evaluation.rounds(size.repeat):
                for name in size.faults[shape]:
                    _measure_cut(evaluation, size, ensembles, evaluation.plan(ensembles, system, **settings), name)


def _measure_cut(evaluation: Evaluation, size: Size, ensembles: Ensembles, plan: Plan, name: str) -> None:
    lab, cut = evaluation.lab, CUTS[name]
    leader = wait_leader(lab, ensembles)
    followers = [server.host for server in ensembles.of(leader.ensemble) if server != leader]
    matrix = cut.make(Place(leader.host, followers, lab.clients))
    before = epoch(lab, ensembles)
    seen: dict[str, Any] = {}

    def carry_out() -> None:
        until_s = time.time() + size.lasts_s
        connections = find_line(lab.ask(leader, "srvr"), "Connections:")
        seen["connections"] = int(connections) - 1  # without this one
        if cut.flaps:
            flap(partial(lab.faults.drop, matrix), partial(lab.faults.drop, {}), FLAP_S, size.lasts_s - FLAP_S)
        else:
            lab.faults.drop(matrix)
            sleep_until(until_s - size.lasts_s / 4)
            seen["serving"] = len(roles(lab, ensembles))
            sleep_until(until_s)
            lab.faults.drop({})

    try:
        run = measure_trace(evaluation, ensembles, plan, {"fault": name}, size.before_s, carry_out)
    except LoadError:
        return
    finally:
        wait_all_serve(lab, ensembles)
    run |= {
        "server": leader.name,
        **seen,
        "new_leaders": epoch(lab, ensembles) - before,
        "same_leader": wait_leader(lab, ensembles) == leader,
    }


def show(document: Mapping[str, Any]) -> Section:
    runs = document["runs"]
    return Section(
        NAME,
        TITLE,
        f"Requests (sets of {VALUE_BYTES} bytes) come at random times at a fixed rate, spread evenly over the "
        "ensembles, whether earlier ones were answered or not. Meanwhile packets between some hosts of ensemble a "
        "and its clients are dropped, all of them, one way or both. Latency counts from the time that a request "
        "was meant for. "
        f"Each cut was made: {times_of(runs)}.",
        [_table(runs), trace_table(runs)],
        [trace_plot(run, NAME, CUTS[run["fault"]].about) for run in runs],
        [
            "Packets are dropped, not messages. Where one way is cut, the other one carries what is sent until a "
            "window is full, because nothing is acknowledged; and no connection comes about, in either direction.",
            "An ensemble gives up a silent server after four seconds here (tickTime 1000, syncLimit 4). A client "
            "leaves a silent one after two thirds of its session timeout (10 s).",
            "Ensembles b and c are not touched.",
            "Of repetitions, whether the old one leads is that of the one in the middle.",
            *caveats_of(document),
        ],
        [
            Answer(
                "What share of the requests to ensemble a is answered in time while some do not hear some others?",
                "",
                "; ".join(
                    f"{run['shape']}, {run['fault']}: {run['noticed'][0]['answered_share']:.0%}" for run in runs
                ),
            ),
            *answer_of_others(runs, "some of ensemble a do not hear some others"),
        ],
    )


def _table(runs: Sequence[Mapping[str, Any]]) -> Table:
    return Table(
        "What the servers of ensemble a do: how many serve while it lasts; how often one came to lead, until all "
        "serve again; and how many clients were connected to the leader when it began",
        ("cut", "", "serve", "new leaders", "the old one leads", "clients on it"),
        [
            [
                f"{run['shape']}, {run['fault']}",
                CUTS[run["fault"]].about,
                f"{rate(run['serving'])} of {run['shape'].partition('x')[2]}" if "serving" in run else NOTHING,
                rate(run["new_leaders"]),
                "yes" if run["same_leader"] else "no",
                rate(run.get("connections")),
            ]
            for run in runs
        ],
    )
