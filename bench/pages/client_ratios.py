"""Tables of what the client costs, from results of bench.client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bench.client.crowd import Crowd
from bench.client.far_start import FAR_START
from bench.client.measure import CPU, LATENCY
from bench.client.measured import Figure
from bench.client.outcomes import QUIET_SHARE
from bench.pages.raw import Raw
from bench.report.section import Table
from bench.report.text import MARK

Options = Mapping[str, str]

LIMIT, TOO = ", beyond the limit", ", by bare sockets too"  # how a verdict ends, there and here


def ratios(raws: Sequence[Raw], options: Options) -> Table:
    """A row for each load: the ratios with their quartiles, and the goals. Of several files the newest counts.

    :param options: ``loads``: how the names of the loads begin.
    """
    beginnings = tuple(options.get("loads", "").split(","))
    found = {name: each for name, each in _newest(raws).items() if name.startswith(beginnings)}
    if not found:
        raise ValueError("no such load")
    rows = [_ratio_row(raw, each) for raw, each in found.values()]
    return Table("", ("`--load`", "load", "pairs", "speed", "CPU", "goals", "bare sockets"), rows)


def _newest(raws: Sequence[Raw]) -> dict[str, tuple[Raw, Mapping[str, Any]]]:
    """By load, the newest file that has it, and the load there."""
    return {each["name"]: (raw, each) for raw in raws for each in raw.document["comparisons"] if not each["error"]}


def medians(raws: Sequence[Raw]) -> dict[str, float]:
    """Of each load, the median ratio of its speed or latency beside what it is compared with.

    Without comparisons with an older client.
    """
    return {
        name: result["ratio"]["median"]
        for name, (_, comparison) in _newest([raw for raw in raws if not raw.document["about"]["old"]]).items()
        for result in comparison["results"]
        if result["measure"] != CPU.name
    }


def _ratio_row(raw: Raw, comparison: Mapping[str, Any]) -> list[str]:
    cells = {"speed": "", "CPU": ""}
    goals, limits = [], []
    mark = MARK if comparison["others_share"] > QUIET_SHARE else ""
    for each in comparison["results"]:
        is_cpu, spread = each["measure"] == CPU.name, each["ratio"]
        name = "latency " if each["measure"] == LATENCY.name else ""
        text = f"{name}**{_figure(spread['median'])}** ({_figure(spread['low'])} to {_figure(spread['high'])})"
        cells["CPU" if is_cpu else "speed"] = text + mark
        if each["goal"] is not None:
            verdict = each["verdict"].removeprefix("met").replace("MISSED", " missed").replace(LIMIT, TOO)
            goals.append(f"{'CPU ' if is_cpu else ''}{each['goal']:.3g}{verdict}")
        if each["limit"]:
            limits.append(_figure(each["limit"]["median"]))
    return [
        f"`{comparison['name']}`",
        comparison["about"],
        str(raw.document["about"]["pairs"]),
        cells["speed"],
        cells["CPU"],
        "; ".join(goals),
        ", CPU ".join(limits),
    ]


def _figure(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio >= 0.1 else f"{ratio:.2g}"


def measured(raws: Sequence[Raw], options: Options) -> Table:
    """A row for each figure that is not compared, beside its goal. Of several files the newest counts.

    :param options: ``loads``: how the names of the loads begin.
    """
    beginnings = tuple(options.get("loads", "").split(","))
    wholes = {name: whole for raw in raws for name, whole in raw.document["wholes"].items() if "figures" in whole}
    found = [whole for name, whole in wholes.items() if name.startswith(beginnings)]
    rows = [
        ["" if number else whole["about"], *Figure(**each).row()]
        for whole in found
        for number, each in enumerate(whole["figures"])
    ]
    return Table("", ("load", "", "figure", "goal", ""), rows)


def crowds(raws: Sequence[Raw], _: Options) -> Table:
    """A column for each crowd of the newest file."""
    found = [Crowd(**each) for name, each in raws[-1].document["wholes"].items() if name != FAR_START]
    columns = [
        f"{each.ensembles} ensembles, {'all' if each.used == each.ensembles else each.used} used" for each in found
    ]
    rows = zip(*(each.results() for each in found), strict=True)
    return Table(
        "",
        [f"{found[0].clients:,} clients in one process", *columns, "goals"],
        [
            [row[0][0], *(figure for _, figure, *_ in row), " and ".join(dict.fromkeys(each[2] for each in row))]
            for row in rows
        ],
    )
