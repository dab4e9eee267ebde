"""``parkazoo ready``: whether ensembles can be read and written at this moment."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from parkazoo.admin.readiness import READY_S, find_unready
from parkazoo.cli.options import (
    Auth,
    Ca,
    Cert,
    Hosts,
    Key,
    connection_options,
    seconds_option,
    split_hosts,
    verify_ensembles,
)
from parkazoo.cli.plain_text import plain


def register(app: typer.Typer) -> None:
    app.command()(ready)


def ready(
    hosts: Hosts,
    ensemble: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this one. Repeatable; all by default.")
    ] = None,
    auth: Auth = None,
    timeout: Annotated[
        float,
        seconds_option("Ask again until then. The default outlasts most elections; 60 waits for a start.", 0.1),
    ] = READY_S,
    ca: Ca = None,
    cert: Cert = None,
    key: Key = None,
) -> None:
    """Tell whether each ensemble can be read and written now: a quorum begins a session. It writes no znode.

    Status 0 if all can, 1 if one cannot, or without a map, 2 for wrong arguments.
    """
    servers, _ = split_hosts(hosts)
    verify_ensembles(ensemble or ())
    names, unready = find_unready(servers, ensemble or (), **connection_options(auth, timeout, ca, cert, key))
    console = Console()
    for name, why in unready.items():
        console.print(plain(f"not ready: {name}: {why}"), soft_wrap=True)
    if unready:
        raise typer.Exit(1)
    console.print(plain(f"ready: {', '.join(names)}"), soft_wrap=True)
