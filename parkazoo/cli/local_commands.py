"""``parkazoo local``: ensembles on this machine that stay from ``up`` until ``down``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from parkazoo.cli.belonging import find_belonging
from parkazoo.cli.json_documents import print_json
from parkazoo.cli.options import Json
from parkazoo.local import (
    LocalClusterError,
    LocalServerStatus,
    start_detached,
    start_named,
    status,
    stop_detached,
    stop_named,
)


def default_data() -> Path:
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share", "parkazoo", "local")


STYLES = {"serving": "green", "down": "red", "no quorum": "yellow", "no answer": "yellow"}
Data = Annotated[Path, typer.Option("--data", help="Folder of the servers' files.", default_factory=default_data)]

Name = Annotated[str, typer.Argument(metavar="NAME", help="An ensemble, as b, or a server, as b2.")]


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="Real ZooKeeper ensembles on this machine.", no_args_is_help=True)
    group.command()(up)
    group.command("status")(show)
    group.command()(stop)
    group.command()(start)
    group.command()(down)
    app.add_typer(group, name="local")


def up(
    data: Data,
    ensembles: Annotated[
        int | None, typer.Option(min=1, max=26, help="How many ensembles: 3, if the folder has no others.")
    ] = None,
    servers: Annotated[
        int | None, typer.Option(min=1, max=9, help="Servers to an ensemble: 3, if the folder has no others.")
    ] = None,
    plain: Annotated[bool, typer.Option("--plain", help="Make no cluster map: plain, empty ZooKeepers.")] = False,
) -> None:
    """Start ensembles, make their cluster map, and leave them running. Does nothing if they run already.

    The map is made when the folder is new. Later starts leave it as it is then, or without one.
    """
    console = Console()
    with console.status("starting") as line:
        is_new = start_detached(data.expanduser().absolute(), ensembles, servers, line.update, make_map=not plain)
    rows = _print_servers(console, data)
    if lost := [row.name for row in rows if row.state != "serving"]:
        raise LocalClusterError(
            f"they were up already, but not all of them serve: {', '.join(lost)}. To start one that is down: "
            f"parkazoo local start {lost[0]}{_option(data)}; to start all of them again: "
            f"parkazoo local down{_option(data)}, then up"
        )
    if not is_new:
        console.print("\nThey were up already.")
    _print_clients(console, rows)
    console.print("Stop them: ", end="")
    console.print(Text(f"parkazoo local down{_option(data)}", style="bold"), soft_wrap=True)


def show(data: Data, json: Json = False) -> None:
    """Show each server: address, process, role, and whether it serves."""
    if json:
        print_json({"servers": [row._asdict() for row in status(data.expanduser().absolute())]})
    else:
        _print_servers(Console(), data)


def stop(name: Name, data: Data) -> None:
    """Stop an ensemble or a server, to see what clients do without it."""
    console = Console()
    with console.status("stopping"):
        stop_named(data.expanduser().absolute(), name)
    _print_servers(console, data)


def start(name: Name, data: Data) -> None:
    """Start an ensemble or a server that was stopped, or has ended."""
    console = Console()
    with console.status("starting"):
        start_named(data.expanduser().absolute(), name)
    _print_servers(console, data)


def down(data: Data) -> None:
    """Stop every server. The znodes stay in the folder, for the next `up`."""
    console = Console()
    with console.status("stopping"):
        stop_detached(data.expanduser().absolute())
    console.print("stopped")


def _print_servers(console: Console, data: Path) -> list[LocalServerStatus]:
    table = Table("ensemble", "server", "address", "pid", "role", "state")
    table.title = f"local ensembles in {escape(str(data))}"
    ensemble = ""
    rows = status(data.expanduser().absolute())
    for row in rows:
        table.add_section() if ensemble and row.ensemble != ensemble else None
        first = row.ensemble if row.ensemble != ensemble else ""
        ensemble = row.ensemble
        pid = "" if row.state == "down" else str(row.pid)
        table.add_row(first, row.name, row.address, pid, row.role, f"[{STYLES[row.state]}]{row.state}")
    console.print(table)
    return rows


def _print_clients(console: Console, rows: Sequence[LocalServerStatus]) -> None:
    """How to use the ensembles: together if they are of a cluster, else each by itself."""
    names = dict.fromkeys(row.ensemble for row in rows)
    hosts = {name: ",".join(row.address for row in rows if row.ensemble == name) for name in names}
    members, lines = find_belonging(hosts)
    console.print()
    for line in lines:
        console.print(line, soft_wrap=True, highlight=False, markup=False)
    if not members:
        console.print("They are plain ZooKeepers: there is no cluster map.")
    plain = (f'KazooClient("{each}")' for name, each in hosts.items() if name not in members)
    ours = ",".join(_to_begin_with([row for row in rows if row.ensemble in members]))
    clients = [f'ParKazooClient("{ours}")'] if ours else []
    for number, client in enumerate((*clients, *plain)):
        console.print("           " if number else "Use them:  ", end="")
        console.print(client, style="bold", soft_wrap=True, highlight=False)
    if ours:
        console.print("Commands:  ", end="")
        console.print(f"export PARKAZOO_HOSTS={ours}", style="bold", soft_wrap=True, highlight=False)


def _to_begin_with(rows: Sequence[LocalServerStatus]) -> list[str]:
    """A server of each ensemble, since a client can start on any; all servers if there is one ensemble."""
    first = {row.ensemble: row.address for row in reversed(rows)}
    return [first[name] for name in sorted(first)] if len(first) > 1 else [row.address for row in rows]


def _option(data: Path) -> str:
    return "" if data == default_data() else f" --data {data}"
