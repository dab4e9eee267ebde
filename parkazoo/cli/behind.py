"""Whom ``parkazoo map grow`` waits for."""

from __future__ import annotations

from rich.console import Console
from rich.status import Status
from rich.text import Text

from parkazoo.admin import RegisteredClient, Waiting

CLIENTS_SHOWN = 20


class Behind:
    """Shows the clients that have not followed: how many all the time, and who when that has changed.

    :param status: the line that says what goes on.
    """

    def __init__(self, console: Console, status: Status) -> None:
        self._console = console
        self._status = status
        self._shown: list[str] = []

    def __call__(self, waiting: Waiting) -> None:
        behind = sum(len(each.sessions) for each in waiting.behind)
        said, form = waiting.sessions - behind, f"form {waiting.form.word}"
        self._status.update(f"{form}: {said:,} of {waiting.sessions:,} sessions say it")
        lines = [describe(each) for each in waiting.behind[:CLIENTS_SHOWN]]
        if lines == self._shown:
            return
        self._shown = lines
        self._console.print(
            f"{form}: waiting for {len(waiting.behind):,} clients, until each says it or its sessions end. "
            "You may stop here: nothing is lost, and the same command goes on",
            soft_wrap=True,
        )
        for line in lines:
            self._console.print(Text(f"  {line}"), soft_wrap=True)
        if len(waiting.behind) > CLIENTS_SHOWN:
            self._console.print(
                f"  and {len(waiting.behind) - CLIENTS_SHOWN:,} more: `parkazoo clients` lists them"
            )


def describe(client: RegisteredClient) -> str:
    sessions = ", ".join(client.sessions)
    says = f"says map {client.epoch}" if client.epoch is not None else "says no map"
    return f"{client.client} on {client.host}, pid {client.pid}, since {client.since}: on {sessions} it {says}"
