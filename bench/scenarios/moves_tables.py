"""The results of scenario moves as tables, plots and answers."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from bench.report.charts import add_legend, draw_lines, make_panels
from bench.report.section import Answer, Plot, Table, goal_is_met
from bench.report.text import NOTHING, milliseconds, ranged, rate, ratio
from bench.scenarios.caveats import caveats_of
from bench.scenarios.moves_figures import BUCKET_S
from bench.scenarios.moves_sizes import HOTTEST, PAUSE, RATE, REBALANCE
from bench.scenarios.repetitions import times_of
from bench.scenarios.summary import SORTS
from bench.statistics import ratio as ratio_of

LEAST_TIMES = 2.5  # the writes/s after a rebalancing, of those before
MEDIAN_PAUSE_S, MOST_PAUSE_S = 0.5, 1.0
MOST_P99_HELD = 1.2  # of others, of that before
MOST_P99_COPIED = 2.0  # of all, of that before
NEAR_RATE = 0.9  # of the rate that a move may have
MOST_TRIES = 3
MOST_CALLED_OFF_S = 1.0
Run = Mapping[str, Any]
count = "{:.0f}".format


class _Shown(NamedTuple):
    """How the run of a part is shown."""

    about: Callable[[Run], str]
    tables: Callable[[Run], list[Table]]
    plot: Callable[[Run, str], Plot]
    answers: Callable[[Run], list[Answer]]


def parts_of(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Of the section all but its name and title."""
    runs = document["runs"]
    shown = [(run, _SHOWN[run["part"]]) for run in runs]
    return {
        "about": " ".join([*(each.about(run) for run, each in shown), f"They were run {times_of(runs)}."]),
        "tables": [table for run, each in shown for table in each.tables(run)],
        "plots": [each.plot(run, f"{name}-{run['part']}") for run, each in shown],
        "caveats": [
            "The command that moves directories, its clients and all servers share the processors: what it costs "
            "others is more here than where each has its own machine.",
            *caveats_of(document),
        ],
        "answers": [answer for run, each in shown for answer in each.answers(run)],
    }


# ---- many directories --------------------------------------------------------------------------------


def times_of_writes(run: Run) -> float:
    """The writes/s after a rebalancing, as a multiple of those before."""
    before, *_, after = run["felt"]
    return ratio_of(after["writes"]["rate"], before["writes"]["rate"])


def _about_balance(run: Run) -> str:
    plan, limit = run["plan"], run["rate_bytes_s"]
    bandwidth = f" Each server's network card carries {limit * 8 / 1e6:g} Mbit/s." if limit else ""
    return (
        f"{plan['directories']} old directories are on one ensemble; clients have one request in flight in each, "
        "four of five are writes. `parkazoo map grow` adds the other ensembles, and `parkazoo map rebalance` "
        f"moves directories there.{bandwidth}"
    )


def _balance_tables(run: Run) -> list[Table]:
    before = run["felt"][0]
    phases = [
        [
            each["when"],
            ranged(each["seconds"], "{:.1f}".format),
            rate(each["writes"]["rate"]),
            ratio(each["writes"]["rate"], before["writes"]["rate"]),
            *(milliseconds(each[sort]["p99_s"]) if sort in each else NOTHING for sort in SORTS),
            milliseconds(each["all"]["longest_s"]),
        ]
        for each in run["felt"]
        if "writes" in each
    ]
    columns = ("", "seconds", "writes/s", "times", "99% of writes, ms", "99% of reads, ms", "longest, ms")
    moves = [
        [
            each["directory"].rpartition("/")[2],
            each["target"] or "stays",
            rate(each["znodes"]),
            ranged(each["tries"], count),
            milliseconds(each["held_s"]),
            milliseconds(each["longest_s"]),
        ]
        for each in run["moved"]
    ]
    return [
        Table(f"Old directories on one ensemble, then on {run['shape']}; {run['failed']} failed", columns, phases),
        Table(
            "Directories that `map rebalance` has moved, in their order",
            ("directory", "to", "znodes", "tries", "held, ms", "longest, ms"),
            moves,
        ),
    ]


def _balance_plot(run: Run, name: str) -> Plot:
    figure, (writes, slowest) = make_panels(2)
    _draw(writes, "writes", run["writes_s"], "writes/s")
    _draw(
        slowest, "99th percentile", [1000 * each if each is not None else None for each in run["slowest_s"]], "ms"
    )
    first_s = run["begun_s"] + run["plan"]["warm_up_s"]
    grow, rebalance = run["commands"]
    for panel in (writes, slowest):
        for command, colour, label in ((grow, "0.92", "map grow"), (rebalance, "0.8", "map rebalance")):
            panel.axvspan(command["began_s"] - first_s, command["ended_s"] - first_s, color=colour, label=label)
    add_legend(figure, writes)
    return Plot(name, "Writes/s and the 99th percentile of latency while directories are spread", figure)


def _balance_answers(run: Run) -> list[Answer]:
    if "writes" not in run["felt"][0] or "writes" not in run["felt"][-1]:
        return []
    times = times_of_writes(run)
    asked = "How many times the writes/s, when `map rebalance` has spread old directories over three ensembles?"
    return [Answer(asked, f"at least {LEAST_TIMES:g}", ratio(times, 1), goal_is_met([times], LEAST_TIMES))]


# ---- one directory -----------------------------------------------------------------------------------


def clients_of(run: Run) -> int:
    """Those of a load, with those that only have sessions."""
    plan = run["plan"]
    return int(plan["nodes"] * plan["processes"] * (plan["threads"] + plan["idle"]))


def times_as_late(run: Run, who: str) -> dict[str, float]:
    """Of each phase after the first, the 99th percentile as a multiple of that in the first one."""
    phases = [each for each in run["felt"] if each["who"] == who and "all" in each]
    if not phases or phases[0]["when"] != "before":
        return {}
    before, *others = phases
    return {each["when"]: ratio_of(each["all"]["p99_s"], before["all"]["p99_s"]) for each in others}


def _about_moves(run: Run) -> str:
    plan, znodes = run["plan"], max(each["znodes"] for each in run["moved"])
    if run["part"] == HOTTEST:
        sent = plan["in_flight"] * plan["threads"] * plan["nodes"]
        return f"A directory moves {len(run['moved'])} times with {sent} creates and deletes in flight, all in it."
    return (
        f"A directory of {znodes:,.0f} znodes moves {len(run['moved'])} times between two ensembles, while "
        f"{plan['rate_s']:g} requests/s come, a quarter of them in it, and {clients_of(run):,} clients have "
        "sessions on both."
    )


def _move_tables(run: Run) -> list[Table]:
    return [_phases(run), _moves(run)]


def _phases(run: Run) -> Table:
    rows = []
    for each in run["felt"]:
        if "all" not in each:
            continue
        before = next(phase for phase in run["felt"] if phase["who"] == each["who"])
        felt = each["all"]
        rows.append(
            [
                each["who"],
                each["when"],
                rate(felt["requests"]),
                rate(felt["rate"]),
                milliseconds(felt["median_s"]),
                milliseconds(felt["p99_s"]),
                ratio(felt["p99_s"], before["all"]["p99_s"]) if "all" in before else NOTHING,
                milliseconds(felt["longest_s"]),
            ]
        )
    columns = (
        "requests in",
        "while it is",
        "requests",
        "requests/s",
        "median, ms",
        "99%, ms",
        "of before",
        "longest",
    )
    return Table(f"{TITLES[run['part']]}: latency; {run['failed']} failed", columns, rows)


def _moves(run: Run) -> Table:
    columns = (
        "to",
        "znodes",
        "copied/s",
        "tries",
        "held, ms",
        "longest, ms",
        "longest of others that were called off",
    )
    rows = [
        [
            each["target"] or "stays",
            rate(each["znodes"]),
            rate(each["copied_s"]),
            ranged(each["tries"], count),
            milliseconds(each["held_s"]),
            milliseconds(each["longest_s"]),
            milliseconds(each["called_off_s"]),
        ]
        for each in run["moved"]
    ]
    return Table(f"{TITLES[run['part']]}: moves", columns, rows)


def _move_plot(run: Run, name: str) -> Plot:
    figure, (panel,) = make_panels(1)
    _draw_slowest(panel, run)
    first_s = run["begun_s"] + run["plan"]["warm_up_s"]
    for number, command in enumerate(run["commands"]):
        span = command["began_s"] - first_s, command["ended_s"] - first_s
        panel.axvspan(*span, color="0.85", label=None if number else "map move")
    add_legend(figure, panel)
    return Plot(name, f"{TITLES[run['part']]}: the 99th percentile of latency in each second", figure)


def _pause_answers(run: Run) -> list[Answer]:
    pauses = [each["longest_s"] for each in run["moved"] if each["target"] and each["longest_s"] is not None]
    held = times_as_late(run, "others").get("held")
    znodes = max(each["znodes"] for each in run["moved"])
    answers = []
    if pauses:
        median_s, most_s = statistics.median(pauses), max(pauses)
        answers.append(
            Answer(
                f"How long does an operation wait at most for the move of {znodes:,.0f} znodes, with "
                f"{clients_of(run):,} clients?",
                f"median {milliseconds(MEDIAN_PAUSE_S)} ms, at most {milliseconds(MOST_PAUSE_S)}",
                f"median {milliseconds(float(median_s))} ms, at most {milliseconds(float(most_s))}",
                median_s <= MEDIAN_PAUSE_S and most_s <= MOST_PAUSE_S,
            )
        )
    if held is not None:
        answers.append(
            Answer(
                "How many times as late is the 99th percentile elsewhere while a directory is held?",
                f"at most {MOST_P99_HELD:g}",
                f"{held:.2f}",
                held <= MOST_P99_HELD,
            )
        )
    return answers


def _rate_answers(run: Run) -> list[Answer]:
    limited = [each for each in run["moved"] if each["per_second"] and each["copied_s"] is not None]
    if not limited:
        return []
    wanted, reached = limited[0]["per_second"], statistics.median(each["copied_s"] for each in limited)
    times = [
        each
        for who in ("the directory", "others")
        for when, each in times_as_late(run, who).items()
        if when.startswith("copied, at most")
    ]
    if not times:
        return []
    return [
        Answer(
            f"How many times as late is the 99th percentile while {wanted:,.0f} znodes/s are copied (--rate)?",
            f"at most {MOST_P99_COPIED:g}, at {NEAR_RATE * wanted:,.0f} znodes/s or more",
            f"{max(times):.2f}, at {reached:,.0f} znodes/s",
            max(times) <= MOST_P99_COPIED and reached >= NEAR_RATE * wanted,
        )
    ]


def _hottest_answers(run: Run) -> list[Answer]:
    tries = [each["tries"] if each["target"] else None for each in run["moved"]]
    costs = [each["called_off_s"] for each in run["moved"] if each["called_off_s"] is not None]
    return [
        Answer(
            "After how many tries has the hottest directory moved?",
            f"at most {MOST_TRIES}",
            ", ".join("not at all" if each is None else count(each) for each in tries),
            all(each is not None and each <= MOST_TRIES for each in tries),
        ),
        Answer(
            "How long does an operation take that waits in a try that is called off?",
            f"at most {milliseconds(MOST_CALLED_OFF_S)} ms",
            f"at most {milliseconds(float(max(costs)))} ms" if costs else "none was called off",
            max(costs, default=0.0) <= MOST_CALLED_OFF_S,
        ),
    ]


def _draw_slowest(panel: Any, run: Run) -> None:
    values = [None if each is None else 1000 * each for each in run["slowest_s"]]
    _draw(panel, "99th percentile", values, "latency, ms")


def _draw(panel: Any, name: str, values: Sequence[float | None], unit: str) -> None:
    points = [((place + 0.5) * BUCKET_S, each) for place, each in enumerate(values) if each is not None]
    draw_lines(panel, {name: points}, "", "seconds", unit, marker="")
    panel.set_ylim(bottom=0)


TITLES = {
    PAUSE: "A directory with many clients",
    RATE: "Copies at a rate, and without one",
    HOTTEST: "The hottest directory",
}
_SHOWN = {
    REBALANCE: _Shown(_about_balance, _balance_tables, _balance_plot, _balance_answers),
    PAUSE: _Shown(_about_moves, _move_tables, _move_plot, _pause_answers),
    RATE: _Shown(_about_moves, _move_tables, _move_plot, _rate_answers),
    HOTTEST: _Shown(_about_moves, _move_tables, _move_plot, _hottest_answers),
}
