"""``parkazoo map new-identity``: a copy of a cluster becomes one of its own."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from parkazoo.admin import TIMEOUT_S, find_copied, give_new_identity
from parkazoo.cli.consent import with_consent
from parkazoo.cli.map_table import print_map
from parkazoo.cli.options import (
    Auth,
    Ca,
    Cert,
    DryRun,
    Key,
    Timeout,
    connection_options,
    parse_ensembles,
    with_ports,
)
from parkazoo.cli.step_times import Steps
from parkazoo.protocol.cluster_map import ClusterMap


def register(group: typer.Typer) -> None:
    group.command("new-identity")(new_identity)


def new_identity(
    ensemble: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=H:P,H:P", help="The copy's own servers, for each ensemble of the map. Repeatable."
        ),
    ] = None,
    hosts: Annotated[
        str | None,
        typer.Option(metavar="H:P,H:P", help="Instead of --ensemble: all servers of the copy, in any order."),
    ] = None,
    dry_run: DryRun = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask, though the original answers or a server is left out.")
    ] = False,
    auth: Auth = None,
    timeout: Timeout = TIMEOUT_S,
    ca: Ca = None,
    cert: Cert = None,
    key: Key = None,
) -> None:
    """Make a cluster of its own of a copy of another's data. Changes no other servers. Safe to repeat.

    Until then clients and commands refuse the copy, because its map leads to the original.
    """
    if bool(ensemble) is (hosts is not None):
        raise typer.BadParameter("give either --hosts or an --ensemble for each ensemble")
    options = connection_options(auth, timeout, ca, cert, key)
    given = {name: with_ports(each) for name, each in parse_ensembles("--ensemble ", ensemble or ()).items()}
    if hosts is not None:
        given = find_copied(with_ports(hosts), **options)
    console = Console()
    steps = Steps(console)

    def give(has_word: bool) -> ClusterMap:
        with console.status("giving the copy an identity of its own"):
            return give_new_identity(given, dry_run=dry_run, yes=has_word, tell=steps, **options)

    cluster_map = with_consent(give, yes)
    if dry_run and not steps.are_none:
        console.print("nothing was written")
        return
    if steps.are_none:
        console.print(
            "nothing was changed: the map names these servers already, by an earlier `parkazoo map new-identity`; "
            "no new identity was made",
            soft_wrap=True,
        )
    print_map(console, cluster_map)
