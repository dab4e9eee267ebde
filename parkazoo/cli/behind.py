"""Whom ``parkazoo map grow`` waits for."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.status import Status
from rich.text import Text

from parkazoo.admin import RegisteredClient, Waiting, describe_client

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
        lines = [describe_client(each) for each in waiting.behind[:CLIENTS_SHOWN]]
        if lines == self._shown:
            return
        self._shown = lines
        self._console.print(
            f"{form}: waiting for {_many(waiting.behind)}, until each says it or its sessions end. "
            "You may stop here: nothing is lost, and the same command goes on",
            soft_wrap=True,
        )
        _print(self._console, waiting.behind)


class WouldWait:
    """Shows whom the command would wait for."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def __call__(self, waiting: Waiting) -> None:
        self._console.print(f"would wait for all that are registered: {_many(waiting.behind)}")
        _print(self._console, waiting.behind)


def _many(clients: Sequence[RegisteredClient]) -> str:
    return f"{len(clients):,} client{'' if len(clients) == 1 else 's'}"


def _print(console: Console, clients: Sequence[RegisteredClient]) -> None:
    for each in clients[:CLIENTS_SHOWN]:
        console.print(Text(f"  {describe_client(each)}"), soft_wrap=True)
    if len(clients) > CLIENTS_SHOWN:
        console.print(f"  and {len(clients) - CLIENTS_SHOWN:,} more: `parkazoo clients` lists them")
