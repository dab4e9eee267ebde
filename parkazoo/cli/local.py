"""``parkazoo local up``, ``status``, ``down``: ensembles on this machine that stay until ``down``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from parkazoo.local import LocalCluster, status, stop_detached


def default_data() -> Path:
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share", "parkazoo", "local")


STYLES = {"serving": "green", "down": "red", "no quorum": "yellow", "no answer": "yellow"}
Data = Annotated[Path, typer.Option("--data", help="Folder of the servers' files.", default_factory=default_data)]


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="Real ZooKeeper ensembles on this machine.", no_args_is_help=True)
    group.command()(up)
    group.command("status")(show)
    group.command()(down)
    app.add_typer(group, name="local")


def up(
    data: Data,
    ensembles: Annotated[int, typer.Option(min=1, max=26, help="How many ensembles.")] = 3,
    servers: Annotated[int, typer.Option(min=1, max=9, help="Servers to an ensemble.")] = 3,
) -> None:
    """Start ensembles, make their cluster map, and leave them running."""
    console = Console()
    with console.status("starting") as line:
        cluster = LocalCluster(ensembles, servers, data, progress=line.update)
        cluster.start()
        hosts = cluster.hosts
        cluster.detach()
    _print_servers(console, data)
    console.print("\nUse them:  ", end="")
    console.print(f'ParKazooClient("{hosts}")', style="bold", soft_wrap=True, highlight=False)
    console.print("Stop them: ", end="")
    console.print(f"parkazoo local down{_option(data)}", style="bold", soft_wrap=True, highlight=False)


def show(data: Data) -> None:
    """Show each server: address, process, role, and whether it serves."""
    _print_servers(Console(), data)


def down(data: Data) -> None:
    """Stop every server. The znodes stay in the folder, for the next `up`."""
    console = Console()
    with console.status("stopping"):
        stop_detached(data.expanduser().absolute())
    console.print("stopped")


def _print_servers(console: Console, data: Path) -> None:
    table = Table("ensemble", "server", "address", "pid", "role", "state", title=f"local ensembles in {data}")
    ensemble = ""
    for row in status(data.expanduser().absolute()):
        table.add_section() if ensemble and row.ensemble != ensemble else None
        first = row.ensemble if row.ensemble != ensemble else ""
        ensemble = row.ensemble
        table.add_row(first, row.name, row.address, str(row.pid), row.role, f"[{STYLES[row.state]}]{row.state}")
    console.print(table)


def _option(data: Path) -> str:
    return "" if data == default_data() else f" --data {data}"
