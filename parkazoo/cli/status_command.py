"""``parkazoo status``: the cluster on one screen."""

from __future__ import annotations

import json as json_format
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import Annotated, Any

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from parkazoo.admin import TIMEOUT_S, ClusterStatus, read_status
from parkazoo.cli.findings_table import findings_table
from parkazoo.cli.options import Auth, Ca, Cert, Hosts, Key, Timeout, connection_options, split_hosts
from parkazoo.errors import ClusterMapError


def register(app: typer.Typer) -> None:
    app.command()(status)


def status(
    hosts: Hosts,
    watch: Annotated[
        float | None, typer.Option(min=0.5, metavar="SECONDS", help="Ask again after so long, until ^C.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
    auth: Auth = None,
    timeout: Timeout = TIMEOUT_S,
    ca: Ca = None,
    cert: Cert = None,
    key: Key = None,
) -> None:
    """Show what is wrong, every server, and the clients. Status 1 if more than a warning is found."""
    if json and watch is not None:
        raise typer.BadParameter("give --json or --watch, not both")
    servers, _ = split_hosts(hosts)
    options = connection_options(auth, timeout, ca, cert, key)
    console = Console()
    if watch is not None:
        with suppress(KeyboardInterrupt), Live(console=console, auto_refresh=False) as live:
            show = partial(live.update, refresh=True) if console.is_terminal else console.print
            while True:
                show(_current_screen(servers, options))
                time.sleep(watch)
        return
    with console.status("asking every server"):
        found = read_status(servers, **options)
    if json:
        typer.echo(json_format.dumps(found.to_json(), indent=2))
    else:
        console.print(_screen(found))
    if not all(finding.is_warning for finding in found.findings):
        raise typer.Exit(1)


def _current_screen(servers: str, options: dict[str, Any]) -> RenderableType:
    """With the time; an error instead if the map cannot be read, which may be over the next time."""
    screen: RenderableType
    try:
        screen = _screen(read_status(servers, **options))
    except ClusterMapError as error:
        screen = Text(str(error), style="red")
    return Group(screen, Text(time.strftime("%H:%M:%S"), style="dim"))


def _screen(found: ClusterStatus) -> RenderableType:
    parts: list[RenderableType] = [findings_table(found.findings), Text()] if found.findings else []
    return Group(*parts, _servers(found), Text(), _clients(found))


def _servers(found: ClusterStatus) -> Table:
    table = Table("ensemble", "server", "role", "version", "latency", "connections", "znodes")
    table.title, table.title_justify = f"cluster {found.cluster_map.cluster}", "left"
    table.caption, table.caption_justify = "latency: mean and longest since the server's start, in ms", "left"
    last = ""
    for each in found.servers:
        latency = "" if each.latency_ms is None else f"{each.latency_ms[0]:.1f} / {each.latency_ms[1]:g}"
        counts = ("" if count is None else f"{count:,}" for count in (each.connections, each.znodes))
        name = each.ensemble if each.ensemble != last else ""
        cells = (name, each.server, each.role, each.version or "", latency, *counts)
        table.add_row(*(Text(cell, overflow="fold") for cell in cells), style="" if each.serves else "red")
        last = each.ensemble
    return table


def _clients(found: ClusterStatus) -> Text:
    if not found.clients:
        return Text("registered clients: none")
    versions = _counted(client.version for client in found.clients)
    serials = _counted(client.serial for client in found.clients)
    return Text(
        f"registered clients: {len(found.clients)}; by version: {versions}; by serial of the map: {serials}"
    )


def _counted(values: Iterable[Any]) -> str:
    counts = Counter("unknown" if value is None else str(value) for value in values)
    return ", ".join(f"{value} ({count})" for value, count in counts.most_common())
