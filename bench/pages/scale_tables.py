"""Tables of bench.scale."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.table import Table as RichTable

from bench.pages.raw import Raw
from bench.report.section import Table
from bench.scale.tables import comebacks_table, fates_table, loads_table

Options = Mapping[str, str]
Records = Sequence[Mapping[str, Any]]
ROLES = ("home", "leader", "other")


def costs(raws: Sequence[Raw], options: Options) -> Table:
    """What an operation costs the session's own server, the leader, and the third.

    :param options: ``layout``: of the servers.
    """
    of_step: dict[str, dict[str, Mapping[str, Any]]] = {}
    for each in raws[-1].document["costs"]:
        if each["layout"] == options["layout"]:
            of_step.setdefault(each["step"], {})[each["role"]] = each
    return Table(
        "",
        ("operation", "CPU µs", "leader", "third", "heap bytes", "leader", "third", "a second"),
        [
            [
                step,
                *(str(round(of[role]["cpu_us"])) for role in ROLES),
                *(f"{round(of[role]['heap_bytes']):,}" for role in ROLES),
                f"{round(of[ROLES[0]]['per_s']):,}",
            ]
            for step, of in of_step.items()
        ],
    )


def loads(raws: Sequence[Raw], options: Options) -> Table:
    """
    :param options: fields of the records that are wanted: ``servers=3``.
    """
    return _chosen(raws, options, "loads", lambda some: loads_table(some, ""))


def comebacks(raws: Sequence[Raw], options: Options) -> Table:
    """As `loads`."""
    return _chosen(raws, options, "comebacks", lambda some: comebacks_table(some, ""))


def fates(raws: Sequence[Raw], options: Options) -> Table:
    """As `loads`."""
    return _chosen(raws, options, "fates", lambda some: fates_table(some, ""))


def _chosen(raws: Sequence[Raw], options: Options, name: str, make: Callable[[Records], RichTable]) -> Table:
    records = raws[-1].document[name]
    wanted = {key: value for key, value in options.items() if key != "columns"}
    return _of_rich(
        make([each for each in records if all(str(each[key]) == value for key, value in wanted.items())])
    )


def _of_rich(table: RichTable) -> Table:
    columns = [[str(cell) for cell in column.cells] for column in table.columns]
    return Table("", [str(column.header) for column in table.columns], list(zip(*columns, strict=True)))
