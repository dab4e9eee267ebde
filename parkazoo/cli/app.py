"""Puts the sub-commands together."""

from __future__ import annotations

import typer
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError
from rich.console import Console
from rich.text import Text

from parkazoo.cli import cluster_map, fsck, local
from parkazoo.local import LocalClusterError


def make_app() -> typer.Typer:
    app = typer.Typer(
        help="ZooKeeper ensembles that carry one tree.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    local.register(app)
    cluster_map.register(app)
    fsck.register(app)
    return app


def run() -> int:
    """The exit status of the command in ``sys.argv``."""
    try:
        make_app()()
    except (LocalClusterError, KazooException, KazooTimeoutError) as error:
        Console(stderr=True).print(Text("error: ", style="bold red"), Text(str(error)), sep="", soft_wrap=True)
        return 1
    return 0
