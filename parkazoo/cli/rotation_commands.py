"""``parkazoo map identity``: the identity that the clients of a closed cluster share."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated

import typer
from rich.console import Console

from parkazoo.admin import TIMEOUT_S, add_identity, remove_identity
from parkazoo.cli.consent import with_consent
from parkazoo.cli.options import Auth, Ca, Cert, DryRun, Hosts, Key, Timeout, connection_options, split_hosts
from parkazoo.cli.step_times import Steps

Identity = Annotated[
    str,
    typer.Argument(
        envvar="PARKAZOO_IDENTITY",
        metavar="SCHEME:CREDENTIAL",
        help="digest:user:password; of x509 or sasl what servers write into ACLs, as x509:CN=app. `ps` shows an "
        "argument: give a password by the variable.",
    ),
]


def register(group: typer.Typer) -> None:
    commands = typer.Typer(help="The identity that the clients of a closed cluster share.", no_args_is_help=True)
    commands.command()(add)
    commands.command()(remove)
    group.add_typer(commands, name="identity")


def add(
    identity: Identity,
    hosts: Hosts,
    dry_run: DryRun = False,
    auth: Auth = None,
    timeout: Timeout = TIMEOUT_S,
    ca: Ca = None,
    cert: Cert = None,
    key: Key = None,
) -> None:
    """Let clients with one more identity use a closed cluster, beside those that may. Safe to repeat."""
    servers, _ = split_hosts(hosts)
    connection = connection_options(auth, timeout, ca, cert, key)
    _run(
        partial(add_identity, servers, _parsed(identity), dry_run=dry_run, **connection),
        "nothing to do: this identity has all rights already",
        dry_run,
    )


def remove(
    identity: Identity,
    hosts: Hosts,
    yes: Annotated[
        bool, typer.Option("--yes", help="Nobody needs the identity any more: remove it without a question.")
    ] = False,
    dry_run: DryRun = False,
    auth: Auth = None,
    timeout: Timeout = TIMEOUT_S,
    ca: Ca = None,
    cert: Cert = None,
    key: Key = None,
) -> None:
    """Let clients that have only this identity no longer use a closed cluster. Safe to repeat.

    It asks if a registered client has it, or does not say which ones it has, or if nobody else has some right to a
    znode; without a terminal it wants --yes.
    """
    servers, _ = split_hosts(hosts)
    connection = connection_options(auth, timeout, ca, cert, key)
    command = partial(remove_identity, servers, _parsed(identity), dry_run=dry_run, **connection)
    with_consent(
        lambda agrees: _run(
            partial(command, yes=agrees),
            "nothing to do: no znode names this identity. If that is a surprise, look at the user and password",
            dry_run,
        ),
        yes,
    )


def _parsed(identity: str) -> tuple[str, str]:
    scheme, _, credential = identity.partition(":")
    return scheme, credential


def _run(command: Callable[..., None], nothing: str, dry_run: bool) -> None:
    """Runs a command, and shows how far it is.

    :param nothing: printed if there was nothing to do.
    """
    console = Console()
    steps = Steps(console, dry_run)
    with console.status("connecting") as status:

        def show(name: str, looked_at: int, changed: int) -> None:
            status.update(f"ensemble {name}: {looked_at:,} znodes looked at, {changed:,} ACLs changed")

        command(tell=steps, progress=show)
    if steps.are_none:
        console.print(nothing, soft_wrap=True)
    if dry_run:
        console.print("dry run: nothing was written")
