"""``parkazoo clients``: who has a session on the cluster's ensembles."""

from __future__ import annotations

import json as json_format
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from parkazoo.admin import TIMEOUT_S, RegisteredClient, list_clients
from parkazoo.cli.options import Auth, Ca, Cert, Hosts, Key, Timeout, connection_options, split_hosts


def register(app: typer.Typer) -> None:
    app.command()(clients)


def clients(
    hosts: Hosts,
    ensemble: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only clients with a session there. Repeatable.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
    auth: Auth = None,
    timeout: Timeout = TIMEOUT_S,
    ca: Ca = None,
    cert: Cert = None,
    key: Key = None,
) -> None:
    """List the clients of the cluster, as they have registered. Plain kazoo clients do not register."""
    servers, _ = split_hosts(hosts)
    console = Console()
    with console.status("reading the registrations"):
        found = list_clients(servers, ensemble or (), **connection_options(auth, timeout, ca, cert, key))
    if json:
        typer.echo(json_format.dumps([each._asdict() for each in found], indent=2))
    elif not found:
        console.print("no client is registered")
    else:
        console.print(_table(found))


def _table(found: list[RegisteredClient]) -> Table:
    table = Table("client", "host", "pid", "version", "map", "since", "sessions")
    table.title, table.title_justify = f"{len(found)} client{'s' if len(found) > 1 else ''}", "left"
    for each in found:
        sessions = "\n".join(f"{name} {session}" for name, session in each.sessions.items())
        shown = (each.client, each.host, each.pid, each.version, each.serial, each.since, sessions)
        table.add_row(*(_cell(value) for value in shown))
    return table


def _cell(value: Any) -> Text:
    return Text("?" if value is None else str(value), overflow="fold")
