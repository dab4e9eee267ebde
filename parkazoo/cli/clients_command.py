"""``parkazoo clients``: who has a session on the cluster's ensembles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rich.text import Text

from parkazoo.admin import TIMEOUT_S, RegisteredClient, Strangers, count_strangers, list_clients
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

MINUTES = len("2026-11-22T10:21")


def register(app: typer.Typer) -> None:
    app.command()(clients)


def clients(
    hosts: Hosts,
    ensemble: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only sessions there, and their clients. Repeatable.")
    ] = None,
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
        found = list_clients(servers, ensemble or (), **connection_options(auth, timeout, ca, cert, key))
    if json:
        print_json(
            {
                "clients": [each._asdict() for each in found.clients],
                "absent": found.absent,
                "unregistered": found.unregistered.to_json(),
            }
        )
    else:
        told = (
            f"no client with a session on {' or '.join(ensemble)} is known"
            if ensemble
            else "no client is registered"
        )
        console.print(_table(found.clients) if found.clients else told)
        for line in _strangers(found.unregistered):
            console.print(Text(line), soft_wrap=True)
        for name, why in found.absent.items():
            told = f"the clients of ensemble {name} cannot be listed: {why}"
            console.print(Text(told, style="red"), soft_wrap=True)
    if found.absent:
        raise typer.Exit(1)


def _table(found: Sequence[RegisteredClient]) -> Table:
    table = Table(
        box=SIMPLE, padding=(0, 1, 0, 0), title=f"registered clients: {len(found)}", title_justify="left"
    )
    table.add_column("client", no_wrap=True)
    for name in ("host", "pid", "version", "map", "since", "ensembles"):
        table.add_column(name, overflow="fold")
    for each in found:
        since = str(each.since)[:MINUTES].replace("T", " ")
        about = (each.client, each.host, each.pid, each.version, each.map, since)
        table.add_row(*(_cell(value) for value in about), Text(" ".join(each.sessions)))
    return table


def _strangers(unregistered: Strangers) -> Iterator[str]:
    if unregistered.found:
        yield f"{count_strangers(unregistered.found)} not registered: plain kazoo, a monitor, a shell"
        yield from (f"  {each}" for each in unregistered.found.values())
    yield from (
        f"the connections of {server} cannot be listed: {why}" for server, why in unregistered.unseen.items()
    )


def _cell(value: object) -> Text:
    return Text("?" if value is None else str(value))
