"""``parkazoo advise``: what the writes need, in words."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from parkazoo.admin import TIMEOUT_S
from parkazoo.admin.advice import Advice, describe_age, describe_asker, describe_directory
from parkazoo.admin.advise import FOLLOW_S, SAMPLE_S, find_advice
from parkazoo.cli.json_documents import print_json
from parkazoo.cli.options import (
    HOSTS,
    Auth,
    Ca,
    Cert,
    Json,
    Key,
    Timeout,
    connection_options,
    seconds_option,
    split_hosts,
)
from parkazoo.cli.plain_text import plain

ROWS = 5


def register(app: typer.Typer) -> None:
    app.command()(advise)


def advise(
    context: typer.Context,
    hosts: Annotated[str | None, HOSTS] = None,
    unmapped: Annotated[
        str | None,
        typer.Option("--plain", metavar="H:P,H:P", help="Instead: all servers of a ZooKeeper without a map."),
    ] = None,
    sample: Annotated[
        bool,
        typer.Option(
            "--sample",
            help="Look twice at each znode, 500 a second, instead of following changes (ZooKeeper 3.6).",
        ),
    ] = False,
    seconds: Annotated[
        float | None,
        seconds_option(
            f"How long writes are counted: {FOLLOW_S:g} by default, {SAMPLE_S:g} with --sample.", least=1
        ),
    ] = None,
    json: Json = False,
    auth: Auth = None,
    timeout: Timeout = TIMEOUT_S,
    ca: Ca = None,
    cert: Cert = None,
    key: Key = None,
) -> None:
    """Say which ensemble and directories are hot, by whom, and what growing would bring. Writes nothing.

    Status 1 if the directories of an ensemble were not all seen, or not half of its writes, or nothing could be
    measured; 2 for wrong arguments.
    """
    asked = unmapped or hosts
    if asked is None:
        raise typer.BadParameter("give --hosts, or --plain for a ZooKeeper without a map")
    source = context.get_parameter_source("hosts")
    if unmapped and source is not None and source.name == "COMMANDLINE":
        raise typer.BadParameter("give --hosts or --plain, not both")
    servers, _ = split_hosts(asked)
    connection = connection_options(auth, timeout, ca, cert, key)
    console = Console()
    with console.status("counting writes"):
        advice = find_advice(servers, is_plain=bool(unmapped), samples=sample, seconds=seconds, **connection)
    if json:
        print_json(advice.to_json())
    else:
        _print(console, advice)
    if advice.is_blind():
        raise typer.Exit(1)


def _print(console: Console, advice: Advice) -> None:
    for each in advice.sentences:
        console.print(plain(each.text), soft_wrap=True)
    directories = advice.measured.directories[:ROWS]
    if directories:
        table = Table("share", "write/s", "on", "age", "directory", box=None, pad_edge=False)
        for row in directories:
            share, age_s = advice.share(row), advice.age_s(row)
            table.add_row(
                "-" if share is None else f"{share:.0%}",
                f"{row.writes:,.1f}",
                plain(row.ensemble),
                "-" if age_s is None else describe_age(age_s),
                plain(describe_directory(row), folds=True),
            )
        console.print()
        console.print(table)
    if advice.measured.rates.clients:
        table = Table("share", "req/s", "client", box=None, pad_edge=False)
        for asker in advice.measured.rates.clients[:ROWS]:
            table.add_row(
                "-" if asker.share is None else f"{asker.share:.0%}",
                "-" if asker.requests is None else f"{asker.requests:,.1f}",
                plain(describe_asker(asker), folds=True),
            )
        console.print()
        console.print(table)
