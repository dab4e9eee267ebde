"""``parkazoo backup``: a list of all directories beside the servers' own snapshots, and what is lost since."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from parkazoo.admin import TIMEOUT_S
from parkazoo.admin.backup.looks import Compared, compare_with, count_hidden, make_backup
from parkazoo.admin.backup.manifest import FILE_NAME, ClusterState
from parkazoo.cli.json_documents import map_document, print_json
from parkazoo.cli.options import Auth, Ca, Cert, Hosts, Json, Key, Timeout, connection_options, split_hosts
from parkazoo.cli.plain_text import plain


def register(app: typer.Typer) -> None:
    app.command()(backup)


def backup(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The backup's folder.", file_okay=False)],
    hosts: Hosts,
    has_to_compare: Annotated[
        bool,
        typer.Option("--compare", help="Write nothing: list the directories that are lost since this backup."),
    ] = False,
    json: Json = False,
    auth: Auth = None,
    timeout: Timeout = TIMEOUT_S,
    ca: Ca = None,
    cert: Cert = None,
    key: Key = None,
) -> None:
    """Write a list of all directories into DIR; it has no data. Status 1 if some cannot be read, or are lost."""
    servers, _ = split_hosts(hosts)
    options = connection_options(auth, timeout, ca, cert, key)
    with Console(stderr=True).status("connecting") as status:

        def show(ensemble: str, znodes: int) -> None:
            status.update(f"ensemble {ensemble}: {znodes:,} znodes")

        if has_to_compare:
            compared = compare_with(folder, servers, progress=show, **options)
        else:
            state = make_backup(folder, servers, progress=show, **options)
    if has_to_compare:
        if json:
            print_json(_compared_document(compared))
        else:
            _tell_compared(Console(), compared)
        if not compared.is_fine:
            raise typer.Exit(1)
        return
    if json:
        print_json({"file": str(folder / FILE_NAME), **_document(state)})
    else:
        _tell(Console(), state, folder)
    if count_hidden(state):
        raise typer.Exit(1)


def _tell(console: Console, state: ClusterState, folder: Path) -> None:
    for name, each in state.ensembles.items():
        console.print(f"ensemble {name}: {each.znodes:,} znodes, zxid {each.zxid:#x}")
    console.print(plain(f"{folder / FILE_NAME}: all directories, as of {state.at}"), soft_wrap=True)
    console.print(
        "It holds no data: that is in the servers' own snapshots and logs, or use `parkazoo export`.",
        soft_wrap=True,
    )
    if hidden := count_hidden(state):
        console.print(f"{hidden:,} znodes may not be read by this identity, nor those below", style="red")


def _tell_compared(console: Console, compared: Compared) -> None:
    lost, older, unknown = compared.differences
    for each in lost:
        console.print(plain(f"{each.what:<17} lost by {each.ensemble}  {each.path}"), soft_wrap=True)
    for one in older:
        now = f"{one.then:,} children at the backup, {one.now:,} now"
        console.print(plain(f"{'older':<17} on {one.ensemble}  {one.path}  ({now})"), soft_wrap=True)
    for name, why in compared.now.absent.items():
        console.print(plain(f"ensemble {name} could not be read: {why}", "red"), soft_wrap=True)
    if unknown:
        console.print(f"unknown without it: {len(unknown):,} directories; --json lists them", style="red")
    if compared.hidden:
        console.print(f"{compared.hidden:,} znodes could not be read, then or now", style="red")
    since = f"since the backup of {compared.then.at}"
    if lost or older:
        console.print(plain(f"{len(lost):,} directories are lost, {len(older):,} are older, {since}", "red"))
        console.print("It does not know what came after the backup.", style="red")
    elif not compared.is_fine:
        console.print(plain(f"no directory is lost {since}, as far as could be read", "yellow"))
    else:
        same = "; all directories are as they were" if compared.is_same else ""
        console.print(plain(f"no directory is lost {since}{same}", "green"))


def _document(state: ClusterState) -> dict[str, object]:
    return {
        "at": state.at,
        "cluster": state.cluster_map.cluster,
        "map": map_document(state.cluster_map),
        "digest": state.digest(),
        "ensembles": {
            name: {
                "zxid": f"{each.zxid:#x}",
                "znodes": each.znodes,
                "hidden": each.hidden,
                "directories": len(each.listed),
            }
            for name, each in state.ensembles.items()
        },
        "absent": dict(state.absent),
    }


def _compared_document(compared: Compared) -> dict[str, object]:
    lost, older, unknown = compared.differences
    return {
        "fine": compared.is_fine,
        "same": compared.is_same,
        "lost": [each._asdict() for each in lost],
        "older": [each._asdict() for each in older],
        "unknown": unknown,
        "then": _document(compared.then),
        "now": _document(compared.now),
    }
