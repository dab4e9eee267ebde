"""``parkazoo import``: a file of ``parkazoo export`` goes into a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from parkazoo.admin import TIMEOUT_S
from parkazoo.admin.transfer.import_tree import Imported, import_tree
from parkazoo.cli.options import FILE, Auth, Ca, Cert, DryRun, Hosts, Key, Timeout, connection_options, split_hosts
from parkazoo.cli.plain_text import plain


def register(app: typer.Typer) -> None:
    app.command("import")(import_file)


def import_file(
    file: Annotated[Path, typer.Argument(**FILE, metavar="FILE", help="From `parkazoo export`.")],
    hosts: Hosts,
    overwrite: Annotated[
        bool,
        typer.Option("--overwrite", help="Give znodes that exist and differ the file's data and ACLs."),
    ] = False,
    dry_run: DryRun = False,
    auth: Auth = None,
    timeout: Timeout = TIMEOUT_S,
    ca: Ca = None,
    cert: Cert = None,
    key: Key = None,
) -> None:
    """Create the znodes of a file, and verify them. Run it again after an interruption: it goes on."""
    servers, chroot = split_hosts(hosts)
    told = Console(stderr=True)
    with told.status("connecting") as status, file.open("rb") as opened:

        def show(step: str, znodes: int, last: str) -> None:
            status.update(plain(f"{step}: {znodes:,} znodes, {last}"))

        imported = import_tree(
            servers + chroot,
            opened,
            overwrite=overwrite,
            dry_run=dry_run,
            progress=show,
            **connection_options(auth, timeout, ca, cert, key),
        )
    _tell(Console(), imported, dry_run)


def _tell(console: Console, imported: Imported, dry_run: bool) -> None:
    verb = "to create" if dry_run else "created"
    lines = [f"{imported.created:,} znodes {verb}", f"{imported.equal:,} there and equal"]
    if imported.overwritten:
        lines.append(f"{imported.overwritten:,} {'to overwrite' if dry_run else 'overwritten'}")
    if imported.beside:
        lines.append(f"{imported.beside:,} below {imported.header.path} that the file does not have")
    console.print(plain(", ".join(lines)), soft_wrap=True)
    if not dry_run:
        console.print(
            plain(f"{imported.raised:,} counters raised; read back: digest {imported.content}, as in the file"),
            soft_wrap=True,
        )
