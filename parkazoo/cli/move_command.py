"""``parkazoo map move``."""

from __future__ import annotations

import math
from typing import Annotated

import typer
from rich.console import Console

from parkazoo.admin import TIMEOUT_S, abort_move, move_directory
from parkazoo.cli.behind import Behind, WouldWait
from parkazoo.cli.options import (
    Auth,
    Ca,
    Cert,
    DryRun,
    Hosts,
    Key,
    Rate,
    StrangersGone,
    Timeout,
    connection_options,
    normalised,
    split_hosts,
    verify_ensembles,
)
from parkazoo.cli.plain_text import plain
from parkazoo.cli.step_times import Steps


def register(group: typer.Typer) -> None:
    group.command()(move)


def move(
    path: Annotated[str, typer.Argument(metavar="PATH", help="A directory, below the chroot if --hosts has one.")],
    hosts: Hosts,
    to: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The ensemble that gets them; else where the map puts new directories."),
    ] = None,
    abort: Annotated[
        bool, typer.Option("--abort", help="Call a move off that has not come to its end, whoever began it.")
    ] = False,
    rate: Rate = None,
    strangers_gone: StrangersGone = False,
    dry_run: DryRun = False,
    auth: Auth = None,
    timeout: Timeout = TIMEOUT_S,
    ca: Ca = None,
    cert: Cert = None,
    key: Key = None,
) -> None:
    """Move the children of a directory to another ensemble while clients work. Safe to repeat.

    Operations on the directory and below wait for a moment, mostly less than a second, which it tells at the end.
    Data, ACLs, versions and sequence numbers are carried; czxid, mzxid, pzxid, ctime and mtime are not, and may be
    lower. A directory with TTL or container znodes is refused.
    """
    servers, chroot = split_hosts(hosts)
    directory = normalised(path, chroot)
    if to is not None:
        verify_ensembles([to])
    if abort and (to is not None or dry_run or rate):
        raise typer.BadParameter("--abort goes without --to, --dry-run and --rate")
    connection = connection_options(auth, timeout, ca, cert, key)
    console = Console()
    steps = Steps(console, dry_run)
    with console.status("calling a move off" if abort else "moving a directory") as status:
        if abort:
            abort_move(servers, directory, tell=steps, **connection)
            return
        move_directory(
            servers,
            directory,
            to,
            dry_run=dry_run,
            per_second=rate or math.inf,
            strangers_gone=strangers_gone,
            tell=steps,
            on_wait=WouldWait(console) if dry_run else Behind(console, status),
            progress=lambda done, total: status.update(f"{done:,} of {total:,} znodes copied"),
            **connection,
        )
    if steps.are_none:
        console.print(plain(f"nothing to do: the children of {directory} are there already"), soft_wrap=True)
    if dry_run:
        console.print("dry run: nothing was written")
