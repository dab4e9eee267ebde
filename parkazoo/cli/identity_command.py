"""``parkazoo map new-identity``: a copy of a cluster becomes one of its own."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from parkazoo.admin import TIMEOUT_S, give_new_identity
from parkazoo.cli.map_table import print_map
from parkazoo.cli.options import Auth, Ca, Cert, Key, Timeout, connection_options, parse_ensembles, with_ports
from parkazoo.cli.step_times import Steps


def register(group: typer.Typer) -> None:
    group.command("new-identity")(new_identity)


def new_identity(
    ensemble: Annotated[
        list[str],
        typer.Option(
            metavar="NAME=H:P,H:P", help="The copy's own servers, for each ensemble of the map. Repeatable."
        ),
    ],
    auth: Auth = None,
    timeout: Timeout = TIMEOUT_S,
    ca: Ca = None,
    cert: Cert = None,
    key: Key = None,
) -> None:
    """Make a cluster of its own of a copy of another's data. Uses no other servers. Safe to repeat.

    Until then clients and commands refuse the copy, because its map leads to the original.
    """
    given = {name: with_ports(hosts) for name, hosts in parse_ensembles("--ensemble ", ensemble).items()}
    console = Console()
    steps = Steps(console)
    with console.status("giving the copy an identity of its own"):
        cluster_map = give_new_identity(given, tell=steps, **connection_options(auth, timeout, ca, cert, key))
    if steps.are_none:
        console.print(
            "nothing was changed: the map names these servers already, by an earlier `parkazoo map new-identity`; "
            "no new identity was made",
            soft_wrap=True,
        )
    print_map(console, cluster_map)
