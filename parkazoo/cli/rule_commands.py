"""``parkazoo map rule``: where new directories below a path go."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from parkazoo.admin import (
    TIMEOUT_S,
    Elsewhere,
    Rule,
    add_rule,
    find_elsewhere,
    remove_rule,
)
from parkazoo.admin.arguments import arguments_alone
from parkazoo.cli.behind import print_end, run_growth
from parkazoo.cli.map_table import read
from parkazoo.cli.options import (
    Auth,
    Ca,
    Cert,
    DryRun,
    Hosts,
    Key,
    StrangersGone,
    Timeout,
    Yes,
    connection_options,
    split_hosts,
    verify_ensembles,
)
from parkazoo.cli.plain_text import plain
from parkazoo.cli.step_times import Steps
from parkazoo.errors import ClusterMapError
from parkazoo.protocol.epochs import EACH, verify_pattern

Pattern = Annotated[
    str,
    typer.Argument(
        metavar="PATTERN",
        help="A path, below the chroot if --hosts has one; with /* at its end: each child of it.",
    ),
]


def register(group: typer.Typer) -> None:
    rule = typer.Typer(help="Where new directories at and below a path go.", no_args_is_help=True)
    rule.command()(add)
    rule.command("list")(show)
    rule.command()(remove)
    group.add_typer(rule, name="rule")


def add(
    pattern: Pattern,
    hosts: Hosts,
    on: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only on this ensemble. Repeatable.")
    ] = None,
    apart: Annotated[
        bool, typer.Option("--apart", help="Not all on one ensemble: each directory goes where its own bid leads.")
    ] = False,
    yes: Yes = False,
    strangers_gone: StrangersGone = False,
    dry_run: DryRun = False,
    auth: Auth = None,
    timeout: Timeout = TIMEOUT_S,
    ca: Ca = None,
    cert: Cert = None,
    key: Key = None,
) -> None:
    """Keep new directories at and below a path together, or on some ensembles. What is there stays where it is.

    It asks before the first change of the cluster's rules or weights; without a terminal it wants --yes.
    """
    servers, chroot = split_hosts(hosts)
    if several := [each for each in on or () if "," in each]:
        raise typer.BadParameter(f"give {' '.join(f'--on {name}' for name in several[0].split(','))}")
    verify_ensembles(on or ())
    rule = Rule(_prefix(pattern, chroot), tuple(on or ()), not apart)
    connection = connection_options(auth, timeout, ca, cert, key)
    console = Console()
    command = partial(add_rule, servers, rule, strangers_gone=strangers_gone, **connection)
    after, steps = run_growth(console, command, yes, dry_run)
    if steps.are_none:
        console.print(plain(f"nothing to do: the map has this rule for {rule.prefix} already"), soft_wrap=True)
    if rule.together and not rule.prefix.endswith(EACH):
        goes_to = after.names[after.make_guess().of_children(rule.prefix)]
        console.print(plain(f"new directories at and below {rule.prefix}: on {goes_to}"), soft_wrap=True)
    with console.status("counting the directories that are elsewhere"):
        found = find_elsewhere(after, rule.prefix, **connection)
    _tell_elsewhere(console, rule.prefix, found, lists=dry_run)
    print_end(console, steps, dry_run)


@arguments_alone()
def _prefix(pattern: str, chroot: str) -> str:
    """What the rule is for, in the whole tree. A wrong pattern could look right behind a chroot."""
    if chroot and pattern == "/":
        raise ClusterMapError(
            f"a rule cannot be for '/' below a chroot: for {chroot} itself, give that, and --hosts without it"
        )
    verify_pattern(pattern)
    return chroot + pattern


def _tell_elsewhere(console: Console, prefix: str, found: Elsewhere, *, lists: bool) -> None:
    if found.number:
        many = "directories were" if found.number > 1 else "directory was"
        told = f"{found.number:,} {many} decided before at or below {prefix}, and stay elsewhere"
        console.print(plain(told if found.number > 1 else told.replace("stay", "stays")), soft_wrap=True)
    else:
        console.print(plain(f"no directory at or below {prefix} is elsewhere"), soft_wrap=True)
    if found.hidden:
        console.print(f"{found.hidden:,} znodes could not be looked at", soft_wrap=True)
    if lists:
        for path, name in found.shown:
            console.print(plain(f"  {path}: on {name}"), soft_wrap=True)
        if found.number > len(found.shown):
            console.print(f"  and {found.number - len(found.shown):,} more")


def show(
    hosts: Hosts,
    auth: Auth = None,
    timeout: Timeout = TIMEOUT_S,
    ca: Ca = None,
    cert: Cert = None,
    key: Key = None,
) -> None:
    """List the rules of the newest epoch."""
    servers, _ = split_hosts(hosts)
    newest = read(servers, connection_options(auth, timeout, ca, cert, key)).epochs[-1]
    console = Console()
    if not newest.rules:
        console.print(f"epoch {newest.number} has no rules: weights alone decide")
        return
    table = Table("path", "directories", "on", title=f"rules of epoch {newest.number}", title_justify="left")
    for rule in newest.rules:
        together = "together" if rule.together else "apart"
        table.add_row(plain(rule.prefix, folds=True), together, " ".join(rule.on) or "any ensemble")
    console.print(table)


def remove(
    pattern: Pattern,
    hosts: Hosts,
    auth: Auth = None,
    timeout: Timeout = TIMEOUT_S,
    ca: Ca = None,
    cert: Cert = None,
    key: Key = None,
) -> None:
    """Take a rule away. What it has placed stays where it is."""
    servers, chroot = split_hosts(hosts)
    prefix = _prefix(pattern, chroot)
    console = Console()
    steps = Steps(console)
    with console.status("removing a rule"):
        remove_rule(servers, prefix, tell=steps, **connection_options(auth, timeout, ca, cert, key))
    if steps.are_none:
        console.print(plain(f"nothing to do: the map has no rule for {prefix} any more"), soft_wrap=True)
    print_end(console, steps, dry_run=False)
