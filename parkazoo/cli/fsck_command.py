"""``parkazoo fsck``: finds damage in the trees of all ensembles, and mends it."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from parkazoo.admin import TIMEOUT_S
from parkazoo.cli.json_documents import print_json
from parkazoo.cli.options import Auth, Ca, Cert, Hosts, Json, Key, Timeout, connection_options, split_hosts
from parkazoo.cli.plain_text import escaped
from parkazoo.fsck import Report, Tally, check

PLACES_SHOWN = 5


def register(app: typer.Typer) -> None:
    app.command()(fsck)


def fsck(
    hosts: Hosts,
    repair: Annotated[
        bool, typer.Option("--repair", help="Repair what is safe to repair, while clients go on working.")
    ] = False,
    accept_loss: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="With --repair: let directories whose children were lost with this ensemble count as empty. "
            "Repeatable.",
        ),
    ] = None,
    json: Json = False,
    auth: Auth = None,
    timeout: Timeout = TIMEOUT_S,
    ca: Ca = None,
    cert: Cert = None,
    key: Key = None,
) -> None:
    """Look at every znode of every ensemble for what crashes left behind. Status 1 if anything is still wrong."""
    if accept_loss and not repair:
        raise typer.BadParameter("--accept-loss is for --repair: give both")
    servers, _ = split_hosts(hosts)
    told = Console(stderr=True)
    with told.status("connecting") as status:

        def show(looked_at: int, found: int) -> None:
            status.update(f"{looked_at:,} znodes looked at" + (f", {found:,} things found" if found else ""))

        report = check(
            servers,
            repair=repair,
            accept_loss=accept_loss or (),
            progress=show,
            **connection_options(auth, timeout, ca, cert, key),
        )
    if json:
        print_json(report.to_json())
    else:
        _print(Console(), report)
    if report.is_blind or report.is_wrong:
        raise typer.Exit(1)


def _print(console: Console, report: Report) -> None:
    table = Table("found", "repaired", "what and where")
    for column in table.columns[:2]:
        column.justify = "right"
    for kind, tally in report.tallies.items():
        if tally.found:
            style = "dim" if kind.is_note else ""
            repaired = "" if kind.is_note else f"{tally.repaired:,}"
            table.add_row(f"{tally.found:,}", repaired, _describe(kind.about, tally), style=style)
    if report.hidden.found:
        table.add_row(f"{report.hidden.found:,}", "", _describe("could not read", report.hidden))
    if report.undecided.found:
        table.add_row(f"{report.undecided.found:,}", "", _describe("undecided", report.undecided))
    for name, why in report.absent.items():
        console.print(Text(f"ensemble {name} could not be read: {why}", style="red"), soft_wrap=True)
    if table.row_count:
        console.print(table)
    if report.is_wrong:
        verdict = Text(f"{_count(report)} wrong", style="red")
    elif not report.is_complete:
        verdict = Text("nothing is wrong where fsck could read", style="yellow")
    else:
        verdict = Text(
            "all of it has been repaired" if _has_repaired(report) else "nothing is wrong", style="green"
        )
    console.print(verdict, Text(f"({report.looked_at:,} znodes looked at in {report.seconds:.1f} s)"))


def _describe(about: str, tally: Tally) -> Text:
    """The first places, and the remedy: once for all that need the same."""
    text = Text(about, overflow="fold")
    remedy = ""
    for found in tally.paths[:PLACES_SHOWN]:
        if remedy and found.remains != remedy:
            text.append(escaped(f"\n  -> {remedy}"), "dim")
        detail = f"  ({found.detail})" if found.detail else ""
        text.append(escaped(f"\n  {found.ensemble}  {found.path}{detail}"))
        remedy = found.remains
    if tally.found > PLACES_SHOWN:
        text.append(f"\n  and {tally.found - PLACES_SHOWN:,} more")
    if remedy:
        text.append(escaped(f"\n  -> {remedy}"), "dim")
    return text


def _count(report: Report) -> str:
    remaining = sum(tally.found - tally.repaired for kind, tally in report.tallies.items() if not kind.is_note)
    return f"{remaining:,} thing{'s are' if remaining > 1 else ' is'}"


def _has_repaired(report: Report) -> bool:
    return any(tally.repaired for tally in report.tallies.values())
