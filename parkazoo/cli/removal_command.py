"""``parkazoo map remove``."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from parkazoo.admin import TIMEOUT_S, remove_ensemble
from parkazoo.cli.behind import shown_waiting
from parkazoo.cli.options import (
    Auth,
    Ca,
    Cert,
    DryRun,
    Hosts,
    Key,
    StrangersGone,
    Timeout,
    connection_options,
    split_hosts,
    verify_ensembles,
)
from parkazoo.cli.step_times import Steps


def register(group: typer.Typer) -> None:
    group.command()(remove)


def remove(
    name: Annotated[str, typer.Argument(metavar="NAME", help="An ensemble of the map.")],
    hosts: Hosts,
    strangers_gone: StrangersGone = False,
    dry_run: DryRun = False,
    auth: Auth = None,
    timeout: Timeout = TIMEOUT_S,
    ca: Ca = None,
    cert: Cert = None,
    key: Key = None,
) -> None:
    """Take an ensemble without directories out of the map, and say when its servers may stop. Safe to repeat.

    If it still has directories, it lists some, and changes nothing.
    """
    verify_ensembles([name])
    servers, _ = split_hosts(hosts)
    connection = connection_options(auth, timeout, ca, cert, key)
    console = Console()
    steps = Steps(console, dry_run)
    with console.status("changing the cluster map") as status:
        remove_ensemble(
            servers,
            name,
            dry_run=dry_run,
            strangers_gone=strangers_gone,
            tell=steps,
            on_wait=shown_waiting(console, status, dry_run),
            **connection,
        )
    if dry_run:
        steps.print_end_of_dry_run()
