"""``parkazoo export``: a subtree as a file."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from parkazoo.admin import TIMEOUT_S
from parkazoo.admin.transfer.export_file import ExportFileError
from parkazoo.admin.transfer.export_tree import Exported, export_tree, find_changes, resume_export
from parkazoo.cli.options import (
    FILE,
    Auth,
    Ca,
    Cert,
    Hosts,
    Key,
    Timeout,
    connection_options,
    normalised,
    split_hosts,
)
from parkazoo.cli.plain_text import plain

STDOUT = "stdout"


def register(app: typer.Typer) -> None:
    app.command()(export)


def export(
    path: Annotated[
        str, typer.Argument(metavar="PATH", help="The top of the subtree, below the chroot if --hosts has one.")
    ],
    hosts: Hosts,
    is_plain: Annotated[
        bool, typer.Option("--plain", help="The hosts are of a ZooKeeper without ParKazoo.")
    ] = False,
    resume: Annotated[
        Path | None, typer.Option(**FILE, help="Continue an interrupted export in this file, not on stdout.")
    ] = None,
    changes: Annotated[
        Path | None, typer.Option(**FILE, help="Print only what has changed since this file was exported.")
    ] = None,
    auth: Auth = None,
    timeout: Timeout = TIMEOUT_S,
    ca: Ca = None,
    cert: Cert = None,
    key: Key = None,
) -> None:
    """Write data, ACLs and sequence counters of a subtree to stdout. Status 1 if some znode could not be read."""
    if resume is not None and changes is not None:
        raise typer.BadParameter("--resume and --changes are two commands: give one")
    servers, chroot = split_hosts(hosts)
    normalised(path, chroot)  # refuses a reserved one
    told = Console(stderr=True)
    with told.status("connecting") as status:

        def show(znodes: int, last: str) -> None:
            status.update(plain(f"{znodes:,} znodes, {last}"))

        options: dict[str, Any] = {
            "is_plain": is_plain,
            "progress": show,
            **connection_options(auth, timeout, ca, cert, key),
        }
        where = servers + chroot, normalised(path)
        if changes is not None:
            console, has_changed = Console(), False
            with changes.open("rb") as since:
                for change in find_changes(*where, since, **options):
                    has_changed = True
                    console.print(plain(f"{change.what:<13} {change.path}"), soft_wrap=True)
            if has_changed:
                raise typer.Exit(1)
            return
        if resume is not None:
            with _writing(str(resume)), resume.open("r+b") as file:
                exported = resume_export(*where, file, **options)
        else:
            exported = export_tree(*where, _write, **options)
            with _writing(STDOUT):
                sys.stdout.flush()
    _tell(told, exported)
    if exported.sums["unread"]:
        raise typer.Exit(1)


@contextmanager
def _writing(name: str) -> Iterator[None]:
    """An error of writing is one message. A pipe that nobody reads any more is left to typer."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        if name == STDOUT:
            _drop_output()
        raise ExportFileError(f"{name} cannot be written: {error.strerror or error}") from None


def _drop_output() -> None:
    """Lets the end of the process not try once more to write the rest."""
    with suppress(OSError, ValueError), Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


def _write(line: bytes) -> None:
    with _writing(STDOUT):
        sys.stdout.write(line.decode())


def _tell(told: Console, exported: Exported) -> None:
    sums = exported.sums
    told.print(
        plain(f"{sums['znodes']:,} znodes, {sums['bytes']:,} bytes, digest {exported.content}"), soft_wrap=True
    )
    if sums["ephemerals"]:
        told.print(f"ephemerals left out: {sums['ephemerals']:,}")
    for each in exported.unread:
        told.print(plain(f"{each.path}: {each.why}", "red"), soft_wrap=True)
    if exported.unread:
        told.print(
            plain(
                f"{sums['unread']:,} could not be read: import refuses this file. Use an identity that may", "red"
            ),
            soft_wrap=True,
        )
