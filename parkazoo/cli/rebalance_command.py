"""``parkazoo map rebalance``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from parkazoo.admin import TIMEOUT_S, RebalancePlan, rebalance
from parkazoo.admin.advise import FOLLOW_S
from parkazoo.admin.rebalance_plan import NEAR, pause_ms
from parkazoo.admin.rebalancing import MOST_PAUSE_MS, WRITES
from parkazoo.cli.interrupting import interrupted_by_signals
from parkazoo.cli.move_command import shown_moves, tell_moves
from parkazoo.cli.options import (
    Auth,
    Ca,
    Cert,
    DryRun,
    Hosts,
    Key,
    Rate,
    StrangersGone,
    Timeout,
    connection_options,
    seconds_option,
    split_hosts,
)
from parkazoo.cli.plain_text import plain
from parkazoo.cli.step_times import Steps

LARGE_SHOWN = 5


def register(group: typer.Typer) -> None:
    group.command("rebalance")(balance)


def balance(
    hosts: Hosts,
    seconds: Annotated[float, seconds_option("How long writes are counted.", least=1)] = FOLLOW_S,
    max_pause: Annotated[
        int,
        typer.Option(
            min=1,
            metavar="MS",
            help="Leave out directories whose move would have operations wait longer, by an estimate: "
            f"{pause_ms(0):g} ms, and {pause_ms(1_000) - pause_ms(0):g} for each 1,000 znodes.",
        ),
    ] = int(MOST_PAUSE_MS),
    rate: Rate = None,
    strangers_gone: StrangersGone = False,
    dry_run: DryRun = False,
    auth: Auth = None,
    timeout: Timeout = TIMEOUT_S,
    ca: Ca = None,
    cert: Cert = None,
    key: Key = None,
) -> None:
    """Move directories so that each ensemble has the part of the writes that its weight says. Safe to repeat.

    It counts writes, prints which moves bring the most for the fewest znodes, and makes them, as `map move` does;
    if hardly anything is written, znodes count. Status 1 if a directory could not move.

    ^C pauses it: the move under way is taken back, what has moved stays, and the next one counts and plans anew.
    If a command has died, the next one first ends its move; `map move PATH --abort` takes that back.
    """
    servers, _ = split_hosts(hosts)
    connection = connection_options(auth, timeout, ca, cert, key)
    console = Console()
    steps = Steps(console, dry_run)
    with interrupted_by_signals(steps), console.status("counting writes") as status:

        def on_plan(plan: RebalancePlan) -> None:
            for table in _tables(plan):
                console.print(table)
            for line in _about(plan, max_pause):
                console.print(plain(line), soft_wrap=True)
            status.update("moving directories")

        found = rebalance(
            servers,
            seconds=seconds,
            most_pause_ms=max_pause,
            strangers_gone=strangers_gone,
            on_plan=on_plan,
            **shown_moves(console, status, steps, rate=rate, dry_run=dry_run),
            **connection,
        )
    if dry_run:
        steps.print_end_of_dry_run()
    else:
        tell_moves(console, found, steps)


def _tables(plan: RebalancePlan) -> Iterator[Table]:
    if plan.moves:
        table = Table("from", "to", "directory", title="moves, each with all below", title_justify="left")
        columns = [plan.unit] if plan.unit == "znodes" else [plan.unit, "znodes"]
        for each in columns:
            table.add_column(each, justify="right")
        for branch, to in plan.moves:
            figures = [_load(plan, branch.load), f"{branch.znodes:,}"][: len(columns)]
            table.add_row(branch.ensemble, to, plain(branch.directory, folds=True), *figures)
        yield table
    table = Table("ensemble", title=f"{plan.unit} of each ensemble", title_justify="left")
    for each in ("weight", "share", "now", "then"):
        table.add_column(each, justify="right")
    for name, weight in plan.weights.items():
        loads = [_load(plan, of[name]) for of in (plan.shares, plan.before, plan.after)]
        table.add_row(name, str(weight), *loads)
    yield table


def _load(plan: RebalancePlan, load: float) -> str:
    return f"{load:,.1f}" if plan.unit == WRITES else f"{load:,.0f}"


def _about(plan: RebalancePlan, max_pause: int) -> Iterator[str]:
    if plan.is_too_little:
        yield "nothing is moved: there is too little to plan by"
        return
    if plan.is_even() and not plan.moves:
        yield f"nothing to do: each ensemble has its share, to within {NEAR:.0%}"
    for each in plan.indivisible:
        part = each.own / sum(plan.before.values())
        yield (
            f"{each.directory} alone has {part:.0%} of all {plan.unit}, more than any ensemble's share: no move "
            "can spread it. client.Spread can"
        )
    if plan.too_large:
        shown = ", ".join(f"{each.directory} ({each.znodes:,} znodes)" for each in plan.too_large[:LARGE_SHOWN])
        more = f" and {len(plan.too_large) - LARGE_SHOWN:,} more" if len(plan.too_large) > LARGE_SHOWN else ""
        yield f"left out by --max-pause {max_pause}: {shown}{more}"
    if not plan.is_whole:
        yield "these are the first moves: run the command again for more"
    elif not plan.is_even():
        yield "no other move would bring the loads nearer to their shares"
