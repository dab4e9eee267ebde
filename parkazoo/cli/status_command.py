"""``parkazoo status``: the cluster on one screen."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated

import typer
from rich.box import SIMPLE
from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from parkazoo.admin import TIMEOUT_S, ClusterStatus, read_status
from parkazoo.admin.utc import in_words
from parkazoo.cli.explanation import explain_move
from parkazoo.cli.findings_table import findings_table, is_wrong, tell_strangers
from parkazoo.cli.interrupting import until_interrupted
from parkazoo.cli.json_documents import print_json
from parkazoo.cli.options import (
    Auth,
    Ca,
    Cert,
    ConnectionOptions,
    Hosts,
    Json,
    Key,
    Timeout,
    connection_options,
    seconds_option,
    split_hosts,
)
from parkazoo.errors import ClusterMapError


def register(app: typer.Typer) -> None:
    app.command()(status)


def status(
    hosts: Hosts,
    watch: Annotated[float | None, seconds_option("Ask again after so long, until ^C.", 0.5, most=None)] = None,
    json: Json = False,
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
        with until_interrupted() as is_ended:
            _watch(console, watch, servers, options, is_ended)
        return
    with console.status("asking every server"):
        found = read_status(servers, **options)
    if json:
        print_json(found.to_json())
    else:
        console.print(_screen(found))
    if is_wrong(found.findings):
        raise typer.Exit(1)


def _watch(
    console: Console, seconds: float, servers: str, options: ConnectionOptions, is_ended: Callable[[], bool]
) -> None:
    screen: RenderableType
    console.print("asking every server ...")
    while not is_ended():
        began_s = time.monotonic()
        try:
            screen = _screen(read_status(servers, **options))
        except ClusterMapError as error:  # it may be over the next time
            screen = Text(str(error), style="red")
        if console.is_terminal:
            console.clear()
        console.print(screen, Text(time.strftime("%H:%M:%S"), style="dim"))
        if not is_ended():  # nothing drops an exception in the sleep itself
            time.sleep(max(0.0, began_s + seconds - time.monotonic()))


def _screen(found: ClusterStatus) -> RenderableType:
    wrong = findings_table(found.findings) if found.findings else Text("nothing is wrong", style="green")
    return Group(wrong, _servers(found), *_troubles(found), _clients(found), *_strangers(found), *_moves(found))


def _servers(found: ClusterStatus) -> Table:
    table = Table(
        box=SIMPLE, padding=0, title=f"cluster {escape(found.cluster_map.cluster)}", title_justify="left"
    )
    table.add_column("ensemble", overflow="fold", min_width=len("ensemble"))
    table.add_column("server", overflow="fold")
    for name in ("role", "version"):
        table.add_column(name, no_wrap=True)
    for name in ("latency", "clients", "znodes"):
        table.add_column(name, justify="right", no_wrap=True)
    table.caption, table.caption_justify = (
        "latency: mean and longest in ms since the start; clients: connections; znodes: ParKazoo's own too",
        "left",
    )
    last = ""
    for each in found.servers:
        latency = "" if each.latency_ms is None else f"{each.latency_ms[0]:.1f}, {each.latency_ms[1]:g}"
        counts = ("" if count is None else f"{count:,}" for count in (each.connections, each.znodes))
        name = each.ensemble if each.ensemble != last else ""
        cells = (name, each.server, each.role or "?", each.version or "", latency, *counts)
        table.add_row(*(Text(cell) for cell in cells), style="" if each.serves else "red")
        last = each.ensemble
    return table


def _troubles(found: ClusterStatus) -> list[Text]:
    """Below the table: a cell is too narrow for them."""
    return [
        Text(f"{each.server} {'says nothing' if each.serves else 'does not serve'}: {each.trouble}")
        for each in found.servers
        if each.trouble
    ]


def _clients(found: ClusterStatus) -> Text:
    if not found.clients:
        return Text("registered clients: none")
    versions = _counted(client.version for client in found.clients)
    maps = _counted(client.map for client in found.clients)
    return Text(f"registered clients: {len(found.clients)}; by version: {versions}; by map: {maps}")


def _strangers(found: ClusterStatus) -> list[Text]:
    lines = [told] if (told := tell_strangers(found)) else []
    if unseen := found.unregistered.unseen:
        lines.append(f"the connections of {', '.join(unseen)} cannot be listed: `parkazoo clients` says why")
    return [Text(line) for line in lines]


def _moves(found: ClusterStatus) -> Iterator[Text]:
    for (_, time_s, user, host, pid, program, what), copied in found.moves:
        far = "" if copied is None else f", {copied:,} znodes copied"
        yield Text(f"{what}{far}: {program}, {user}@{host}, process {pid}, since {in_words(time_s)} UTC")
    move = found.cluster_map.move
    yield from map(Text, explain_move(found.cluster_map, move.directory) if move else ())


def _counted(values: Iterable[object]) -> str:
    counts = Counter("unknown" if value is None else str(value) for value in values)
    return ", ".join(f"{value} ({count})" for value, count in counts.most_common())
