"""Tables of the evaluation: its conclusions, those of the report, and the requests of recipes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from bench.pages.chosen import folded
from bench.pages.client_ratios import medians
from bench.pages.raw import Raw
from bench.published import RECIPE_CALLS
from bench.recipe_requests import AGAIN
from bench.report.section import Table
from bench.scenarios.conclusions import answers_of
from bench.scenarios.results import show

Options = Mapping[str, str]
OURS = {
    "Barrier": ("Barrier", "DoubleBarrier"),
    "Counter": ("Counter",),
    "Lock": ("Lock", "ReadLock", "WriteLock"),
    "Semaphore": ("Semaphore",),
    "Partitioner": ("SetPartitioner",),
    "Party": ("Party", "ShallowParty"),
    "Queue": ("Queue", "LockingQueue"),
    "Watcher": ("DataWatch", "ChildrenWatch"),
}


def scenario(raws: Sequence[Raw], options: Options) -> Table:
    """One table of each file; those of several parts of a scenario, one after the other.

    :param options: ``title``: how the table's title begins in the report; ``rows``: how the first cell of its rows
        begins, if not all are wanted.
    """
    found = [[each for each in _tables(raw.path) if each.title.startswith(options["title"])] for raw in raws]
    if odd := [len(each) for each in found if len(each) != 1]:
        raise ValueError(f"{odd[0]} tables have a title that begins so")
    tables = [table for (table,) in found]
    if len({tuple(table.columns) for table in tables}) != 1:
        raise ValueError("the tables have different columns")
    beginnings = tuple(options.get("rows", "").split(";"))
    rows = [row for table in tables for row in table.rows if row[0].startswith(beginnings)]
    return Table(tables[0].title, tables[0].columns, rows)


@cache
def _tables(path: Path) -> Sequence[Table]:
    return show(json.loads(path.read_text())).tables


def recipe_calls(raws: Sequence[Raw], _: Options) -> Table:
    """The thesis' table 5.1, and the requests of our recipes, each after its first time."""
    records = [each for each in raws[-1].document["recipes"] if each["time"] == AGAIN]
    rows = []
    for theirs, calls in RECIPE_CALLS.items():
        ours = list(dict.fromkeys(each["recipe"] for each in records if each["recipe"] in OURS[theirs]))
        if len(ours) != len(OURS[theirs]):
            raise ValueError(f"not all of {', '.join(OURS[theirs])} are there")
        for name in ours:
            of_system = {each["system"]: each["requests"] for each in records if each["recipe"] == name}
            cells = [_counted(of_system[system]) for system in ("kazoo", "parkazoo")]
            rows.append([theirs, calls, name, *cells])
    return Table("", ("thesis", "calls, table 5.1", "recipe", "requests of kazoo", "requests of ParKazoo"), rows)


def _counted(requests: Mapping[str, int]) -> str:
    return ", ".join(f"{kind} {count}" for kind, count in sorted(requests.items()))


def conclusions(raws: Sequence[Raw], _: Options) -> Table:
    """Does it scale, what does it cost, when does it not help: a sentence each, from the newest good results."""
    answers = answers_of(folded(raws), medians([raw for raw in raws if "comparisons" in raw.document]))
    return Table("", ("", ""), [[f"**{asked}**", answer] for asked, answer in answers.items()])
