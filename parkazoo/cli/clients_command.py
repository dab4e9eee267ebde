"""``parkazoo clients``: who has a session on the cluster's ensembles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Annotated, TypeVar

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rich.text import Text

from parkazoo.admin import TIMEOUT_S, ClientList, RegisteredClient, count_strangers, list_clients
from parkazoo.admin.session_use import NOT_ASKED, SessionUse
from parkazoo.admin.strangers import Stranger
from parkazoo.cli.json_documents import print_json
from parkazoo.cli.options import (
    Auth,
    Ca,
    Cert,
    Hosts,
    Key,
    Timeout,
    connection_options,
    split_hosts,
    verify_ensembles,
)
from parkazoo.cli.plain_text import plain

MINUTES = len("2026-11-22T10:21")
WIDTHS = {"host": 4, "version": 7, "map": 3, "since": len("2026-11-22")}  # at least: their names, a day
T = TypeVar("T")
Users = Iterable[tuple[T, SessionUse]]


class Sort(str, Enum):
    SINCE = "since"
    REQUESTS = "requests"
    EPHEMERALS = "ephemerals"
    WATCHES = "watches"


def register(app: typer.Typer) -> None:
    app.command()(clients)


def clients(
    hosts: Hosts,
    ensemble: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only sessions there, and their clients. Repeatable.")
    ] = None,
    sort: Annotated[
        Sort,
        typer.Option(help="The oldest first, or those with the most; ephemerals and watches imply --holdings."),
    ] = Sort.SINCE,
    holdings: Annotated[
        bool,
        typer.Option(
            "--holdings",
            help="Ask for ephemerals and watches too. A server with many of them is held up while it lists them.",
        ),
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document, with each session's id.")] = False,
    auth: Auth = None,
    timeout: Timeout = TIMEOUT_S,
    ca: Ca = None,
    cert: Cert = None,
    key: Key = None,
) -> None:
    """List the clients of the cluster, as they have registered. Status 1 if an ensemble cannot be reached."""
    servers, _ = split_hosts(hosts)
    verify_ensembles(ensemble or ())
    console = Console()
    with console.status("reading the registrations"):
        found = list_clients(
            servers,
            ensemble or (),
            holdings=holdings or sort in (Sort.EPHEMERALS, Sort.WATCHES),
            **connection_options(auth, timeout, ca, cert, key),
        )
    users = _sorted(((each, found.use_of(each.sessions)) for each in found.clients), sort)
    others = _sorted(
        ((each, found.use_of({each.ensemble: each.session})) for each in found.unregistered.found.values()), sort
    )
    fullest = found.fullest()
    if json:
        print_json(
            {
                "clients": [each._asdict() | use._asdict() for each, use in users],
                "absent": found.absent,
                "unregistered": {
                    "sessions": [each._asdict() | use.numbers() for each, use in others],
                    "unseen": dict(found.unregistered.unseen),
                },
                "untold": dict(found.held.untold),
                "fullest": fullest and {"ensemble": fullest[0], **fullest[1]._asdict()},
            }
        )
    else:
        told = (
            f"no client with a session on {' or '.join(ensemble)} is known"
            if ensemble
            else "no client is registered"
        )
        console.print(_table(users, found) if users else told)
        for line in _strangers(others, found):
            console.print(Text(line), soft_wrap=True)
        if fullest is not None:
            name, full = fullest
            told = f"{full.ephemerals:,} in {full.path} on {name}, of {full.owner}"
            console.print(plain(f"most ephemerals of one client in one directory: {told}"), soft_wrap=True)
        for name, why in found.absent.items():
            told = f"the clients of ensemble {name} cannot be listed: {why}"
            console.print(Text(told, style="red"), soft_wrap=True)
    if found.absent:
        raise typer.Exit(1)


def _sorted(users: Users[T], sort: Sort) -> list[tuple[T, SessionUse]]:
    """The clients with the most first, without a number last. By default as they are."""
    if sort is Sort.SINCE:
        return list(users)
    return sorted(
        users, key=lambda each: -1 if (most := each[1].numbers()[sort.value]) is None else most, reverse=True
    )


def _table(users: Users[RegisteredClient], found: ClientList) -> Table:
    """It fits on 80 columns: holdings take the place of what `clients` without them says."""
    table = Table(box=SIMPLE, padding=0, title=f"registered clients: {len(found.clients)}", title_justify="left")
    numbers = _numbers(found)
    shown = ("client", "host", "pid", *(() if "watches" in numbers else ("version", "map", "since")))
    for name in shown:
        table.add_column(name, overflow="fold", no_wrap=name in ("client", "pid"), min_width=WIDTHS.get(name))
    table.add_column("ensembles", overflow="fold", min_width=len("ensembles"))
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    for each, use in users:
        about = each._asdict() | {"since": str(each.since)[:MINUTES].replace("T", " ")}
        ensembles = " ".join(f"{name} (away)" if name in use.away else name for name in each.sessions)
        held = (_count(use.numbers()[name]) for name in numbers)
        table.add_row(*(_cell(about[name]) for name in shown), Text(ensembles), *held)
    if any(use.away for _, use in users):
        table.caption = "away: the client has no connection to that ensemble at this moment"
        table.caption_justify = "left"
    return table


def _numbers(found: ClientList) -> tuple[str, ...]:
    """Which numbers are shown."""
    is_asked = found.held is not NOT_ASKED
    return ("requests", "ephemerals", "watches") if is_asked else ("requests",)


def _strangers(others: Users[Stranger], found: ClientList) -> Iterator[str]:
    unregistered = found.unregistered
    if unregistered.found:
        yield (
            f"{count_strangers(unregistered.found)} not registered: plain kazoo, another command, a monitor, a "
            "shell. `ss -tnp` on its host names the process"
        )
    for each, use in others:
        told = ", ".join(f"{_count(use.numbers()[name])} {name}" for name in _numbers(found))
        yield f"  {each}: {told}"
    yield from (
        f"the connections of {server} cannot be listed: {why}" for server, why in unregistered.unseen.items()
    )
    yield from (f"{what} are not known: {why}" for what, why in found.held.untold.items())


def _count(number: int | None) -> str:
    return "?" if number is None else f"{number:,}"


def _cell(value: object) -> Text:
    return Text("?" if value is None else str(value))
