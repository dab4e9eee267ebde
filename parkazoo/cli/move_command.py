"""``parkazoo map move``, and how it moves several directories."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.status import Status

from parkazoo.admin import TIMEOUT_S, SeveralMoves, abort_move, move_below, move_directory
from parkazoo.cli.behind import shown_waiting
from parkazoo.cli.interrupting import interrupted_by_signals
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
    below: Annotated[
        bool, typer.Option("--below", help="All directories below it too, one after the other.")
    ] = False,
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
    lower. Containers and znodes with a TTL become ordinary: servers do not tell which they are. With --below:
    status 1 if some stay.

    ^C takes back what has not moved yet, and the same command begins that directory anew. If a command has died,
    the same command goes on, and --abort takes it back. `parkazoo status` tells which moves are under way.
    """
    servers, chroot = split_hosts(hosts)
    directory = normalised(path, chroot)
    if to is not None:
        verify_ensembles([to])
    if abort and (below or dry_run):
        raise typer.BadParameter("--abort goes without --below and --dry-run")
    connection = connection_options(auth, timeout, ca, cert, key)
    if below:
        moves = partial(move_below, servers, directory, to)
        run_moves(moves, rate=rate, strangers_gone=strangers_gone, dry_run=dry_run, **connection)
        return
    console = Console()
    steps = Steps(console, dry_run)
    with (
        interrupted_by_signals(steps),
        console.status("calling a move off" if abort else "moving a directory") as status,
    ):
        if abort:
            abort_move(servers, directory, tell=steps, **connection)
            return
        move_directory(
            servers,
            directory,
            to,
            strangers_gone=strangers_gone,
            **shown_moves(console, status, steps, rate=rate, dry_run=dry_run),
            **connection,
        )
    if steps.are_none:
        console.print(plain(f"nothing to do: the children of {directory} are there already"), soft_wrap=True)
    if dry_run:
        steps.print_end_of_dry_run()


def run_moves(command: Callable[..., SeveralMoves], *, rate: int | None, dry_run: bool, **options: Any) -> None:
    """Run a command that moves several directories, and tell why some stay, with status 1.

    :param command: of `parkazoo.admin`; it takes `dry_run`, `tell`, `on_wait`,
        `progress`, `per_second` and `options`.
    """
    console = Console()
    steps = Steps(console, dry_run)
    with interrupted_by_signals(steps), console.status("moving directories") as status:
        found = command(**shown_moves(console, status, steps, rate=rate, dry_run=dry_run), **options)
    tell_moves(console, found, steps, dry_run)


def tell_moves(console: Console, found: SeveralMoves, steps: Steps, dry_run: bool = False) -> None:
    """:raises Exit: some stay, or a dry run has found that the command would be refused."""
    directories = "directory" if found.moved == 1 else "directories"
    console.print(f"{found.moved:,} {directories} {'would move' if dry_run else 'moved'}")
    if found.stayed:
        console.print(f"{len(found.stayed):,} {'would stay' if dry_run else 'stayed'}:")
        for path, why in found.stayed.items():
            console.print(plain(f"  {path}: {why}"), soft_wrap=True)
    if dry_run:
        steps.print_end_of_dry_run()
    if found.stayed:
        raise typer.Exit(1)


def shown_moves(
    console: Console, status: Status, steps: Steps, *, rate: int | None, dry_run: bool
) -> dict[str, Any]:
    """Returns arguments for a command that moves directories: how it shows what goes on, and what it may write."""
    return {
        "dry_run": dry_run,
        "per_second": rate or math.inf,
        "tell": steps,
        "on_wait": shown_waiting(console, status, dry_run),
        "progress": lambda done, total: status.update(f"{done:,} of {total:,} znodes copied"),
    }
