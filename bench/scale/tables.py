"""The results as tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

Rows = Iterable[Mapping[str, Any]]
MIB = 1 << 20


def print_all(console: Console, document: Mapping[str, Any]) -> None:
    assumed = document["assumed"]
    clients, ensembles = f"{assumed['clients']:,} clients", f"{assumed['ensembles']} ensembles"
    about = document["about"]
    for table in (
        _costs(document["costs"]),
        storms_table(document["storms"], document["storms_simulated"]),
        loads_table(document["loads"], f"{clients} x {ensembles}: the fullest ensemble, by arithmetic"),
        comebacks_table(document["comebacks"], "All sessions of that ensemble come back, simulated; 3 servers"),
        fates_table(document["fates"], f"What outages of {ensembles} do to a client in a year, simulated"),
    ):
        console.print(table)
    console.print(
        f"the processors were busy {about['busy_share']:.0%} of the time of measuring; load average before "
        f"{about['load_average_before']:.1f}; seed {assumed['seed']}",
        highlight=False,
        style="dim",
    )


def _table(title: str, texts: Sequence[str], figures: Sequence[str]) -> Table:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for each in texts:
        table.add_column(each)
    for each in figures:
        table.add_column(each, justify="right")
    return table


def _costs(costs: Rows) -> Table:
    table = _table(
        "What one operation costs a server",
        ("servers", "operation", "server"),
        ("CPU us", "heap B", "a second", "clients' CPU"),
    )
    for each in costs:
        table.add_row(
            each["layout"],
            each["step"],
            each["role"],
            f"{each['cpu_us']:.0f}",
            f"{each['heap_bytes']:,.0f}",
            f"{each['per_s']:,.0f}",
            f"{each['client_share']:.0%}",
        )
    return table


def storms_table(storms: Rows, simulated: Rows) -> Table:
    table = _table(
        "Killed and started again: real sockets, and the simulation of the same",
        (),
        (
            "servers",
            "sessions",
            "away s",
            "half back s",
            "simulated",
            "all back s",
            "simulated",
            "expired",
        ),
    )
    for real, told in zip(storms, simulated, strict=True):
        table.add_row(
            str(real["servers"]),
            f"{real['sessions']:,}",
            f"{real['away_s']:.1f}",
            f"{real['half_s']:.1f}",
            f"{told['half_s']:.1f}",
            f"{real['all_s']:.1f}",
            f"{told['all_s']:.1f}",
            f"{real['expired']:,} and {told['expired']:,}",
        )
    return table


def loads_table(loads: Rows, title: str) -> Table:
    table = _table(
        title,
        ("uses", "begins on"),
        (
            "servers",
            "of a client",
            "ensemble",
            "server",
            "pings/s",
            "CPU",
            "heap MiB",
            "start",
            "map s",
            "list KiB",
        ),
    )
    for each in loads:
        table.add_row(
            each["use"],
            each["hosts"],
            str(each["servers"]),
            f"{each['of_client']:g}",
            f"{each['sessions']:,.0f}",
            f"{each['of_server']:,.0f}",
            f"{each['pings_s']:,.0f}",
            f"{each['ping_cpu']:.1%}",
            f"{each['heap_bytes'] / MIB:,.1f}",
            f"{each['start']:.1%}",
            f"{each['told_s']:.1f}",
            f"{each['listing_bytes'] / 1024:,.0f}",
        )
    return table


def comebacks_table(comebacks: Rows, title: str) -> Table:
    table = _table(
        title,
        ("uses", "begins on", "outage"),
        ("sessions", "half back s", "all back s", "watches set s", "expired", "too late", "missing"),
    )
    for each in comebacks:
        table.add_row(
            each["use"],
            each["hosts"],
            f"{'cut' if each['is_silent'] else 'restart'} {each['away_s']:g} s",
            f"{each['sessions']:,}",
            "-" if 2 * each["missing"] > each["sessions"] else f"{each['half_s']:.1f}",
            "-" if each["missing"] else f"{each['all_s']:.1f}",
            "-" if each["missing"] else f"{each['at_work_s']:.1f}",
            f"{each['expired']:,}",
            f"{each['abandoned']:,}",
            f"{each['missing']:,}",
        )
    return table


def fates_table(fates: Rows, title: str) -> Table:
    table = _table(
        title,
        (),
        ("holds on", "SUSPENDED", "LOST", "a month", "formula", "LOST", "formula", "hours", "at once", "no start"),
    )
    for each in fates:
        table.add_row(
            str(each["held"]),
            f"{each['suspended']:.3g}",
            f"{each['lost']:.3g}",
            *(
                f"{each[name]:.1%}"
                for name in ("month", "month_by_formula", "lost_month", "lost_month_by_formula")
            ),
            f"{each['hours']:.2f}",
            f"{each['at_once']:.1%}",
            f"{each['start_fails']:.3%}",
        )
    return table
