"""Puts the sub-commands together."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer
from kazoo.exceptions import ConfigurationError, KazooException
from kazoo.handlers.threading import KazooTimeoutError
from rich.console import Console
from rich.text import Text

from parkazoo import __version__
from parkazoo.admin.arguments import WrongArgumentError
from parkazoo.cli import (
    advise_command,
    backup_command,
    check_command,
    clients_command,
    export_command,
    fsck_command,
    gateway_command,
    import_command,
    local_commands,
    map_commands,
    ready_command,
    status_command,
    top_command,
    where_command,
)
from parkazoo.cli.plain_text import plain, write_anything
from parkazoo.errors import ClusterMapError
from parkazoo.local import LocalClusterError


def make_app() -> typer.Typer:
    app = typer.Typer(
        help="ZooKeeper ensembles that carry one tree.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
    )

    @app.callback()
    def options(
        version: Annotated[
            bool, typer.Option("--version", is_eager=True, callback=_tell_version, help="Tell the version.")
        ] = False,
    ) -> None:
        pass

    local_commands.register(app)
    map_commands.register(app)
    where_command.register(app)
    status_command.register(app)
    top_command.register(app)
    advise_command.register(app)
    check_command.register(app)
    ready_command.register(app)
    clients_command.register(app)
    fsck_command.register(app)
    backup_command.register(app)
    export_command.register(app)
    import_command.register(app)
    gateway_command.register(app)
    return app


def _tell_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"parkazoo {__version__}")
        raise typer.Exit


def run() -> int:
    """The exit status of the command in ``sys.argv``."""
    for each in (sys.stdout, sys.stderr):
        write_anything(each)
    try:
        make_app()(prog_name="parkazoo")  # completion of a shell needs it, and python -m has another
    except (LocalClusterError, KazooException, KazooTimeoutError) as error:
        told = str(error) or type(error).__name__
        Console(stderr=True).print(Text("error: ", style="bold red"), plain(told), sep="", soft_wrap=True)
        if "--json" in sys.argv:
            typer.echo(json.dumps({"error": told}))  # one line, as the documents of `top`
        return exit_status(error)
    return 0


def exit_status(error: Exception) -> int:
    """2 for arguments that are wrong whatever the cluster is, as if typer refuses them; otherwise 1."""
    is_argument = isinstance(error, ConfigurationError) and not isinstance(error, ClusterMapError)
    return 2 if is_argument or isinstance(error, WrongArgumentError) else 1
