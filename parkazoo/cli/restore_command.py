"""``parkazoo map accept-restore``: an ensemble may be what an older copy of its data has made of it."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from parkazoo.admin import TIMEOUT_S, accept_restore
from parkazoo.cli.options import Auth, Ca, Cert, Hosts, Key, Timeout, connection_options, split_hosts


def register(group: typer.Typer) -> None:
    group.command("accept-restore")(accept)


def accept(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The ensemble that has gone back.")],
    hosts: Hosts,
    auth: Auth = None,
    timeout: Timeout = TIMEOUT_S,
    ca: Ca = None,
    cert: Cert = None,
    key: Key = None,
) -> None:
    """Accept that an ensemble was restored from an older copy: the checks no longer report it. Safe to repeat."""
    servers, _ = split_hosts(hosts)
    console = Console()
    with console.status("accepting the restore"):
        found = accept_restore(servers, name, **connection_options(auth, timeout, ca, cert, key))
    for each in found:
        console.print(Text(f"accepted on {name}: {each}"), soft_wrap=True)
    if not found:
        console.print(Text(f"nothing to do: no client has noted that {name} went back"), soft_wrap=True)
