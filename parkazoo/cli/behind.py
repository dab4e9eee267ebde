"""Runs commands that wait for clients, and shows for which."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.console import Console
from rich.status import Status
from rich.text import Text

from parkazoo.admin import RegisteredClient, Waiting, describe_client
from parkazoo.cli.consent import with_consent
from parkazoo.cli.step_times import Steps
from parkazoo.protocol.cluster_map import ClusterMap

CLIENTS_SHOWN = 20


def run_growth(
    console: Console, command: Callable[..., ClusterMap], yes: bool, dry_run: bool
) -> tuple[ClusterMap, Steps]:
    """Run a command that may wait for clients, and show its steps; ask the user if it needs consent.

    :param command: of `parkazoo.admin`; it takes `yes`, `dry_run`, `tell` and `on_wait`.
    :returns: the map, and what was done, or would be.
    """

    def run(agrees: bool) -> tuple[ClusterMap, Steps]:
        steps = Steps(console, dry_run)
        with console.status("changing the cluster map") as status:
            on_wait = shown_waiting(console, status, dry_run)
            after = command(yes=agrees, dry_run=dry_run, tell=steps, on_wait=on_wait)
        return after, steps

    return with_consent(run, yes)


def print_end(console: Console, steps: Steps, dry_run: bool) -> None:
    """:raises Exit: a dry run has found that the command would be refused."""
    if dry_run:
        steps.print_end_of_dry_run()
    elif not steps.are_none:
        console.print("`parkazoo map epochs` shows which clients work by it", soft_wrap=True)


def shown_waiting(console: Console, status: Status, dry_run: bool) -> Behind | WouldWait:
    """Shows for whom a command waits, or would wait: its `on_wait`."""
    return WouldWait(console) if dry_run else Behind(console, status)


class Behind:
    """Shows the clients that have not followed: how many all the time, and who when that has changed.

    :param status: the line that says what goes on.
    """

    def __init__(self, console: Console, status: Status) -> None:
        self._console = console
        self._status = status
        self._shown: list[str] = []

    def __call__(self, waiting: Waiting) -> None:
        said = waiting.sessions - sum(len(each.sessions) for each in waiting.behind)
        self._status.update(f"{said:,} of {waiting.sessions:,} sessions work by map {waiting.map}")
        lines = [describe_client(each) for each in waiting.behind[:CLIENTS_SHOWN]]
        if lines == self._shown:
            return
        self._shown = lines
        self._console.print(
            f"waiting for {_many(waiting.behind)} to work by map {waiting.map}, or for their sessions to end. Let "
            "a frozen process go on (kill -CONT), or end it: its sessions expire in time. You may interrupt: "
            "nothing is lost, and the same command goes on",
            soft_wrap=True,
        )
        _print(self._console, waiting.behind)


class WouldWait:
    """Shows whom the command would wait for."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def __call__(self, waiting: Waiting) -> None:
        self._console.print(f"registered clients, for which it would wait: {len(waiting.behind):,}")
        _print(self._console, waiting.behind)


def _many(clients: Sequence[RegisteredClient]) -> str:
    return f"{len(clients):,} client{'' if len(clients) == 1 else 's'}"


def _print(console: Console, clients: Sequence[RegisteredClient]) -> None:
    for each in clients[:CLIENTS_SHOWN]:
        console.print(Text(f"  {describe_client(each)}"), soft_wrap=True)
    if len(clients) > CLIENTS_SHOWN:
        console.print(f"  and {len(clients) - CLIENTS_SHOWN:,} more: `parkazoo clients` lists them")
