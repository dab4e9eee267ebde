"""What a command has done, step by step, with the time that each step took; or what it would do."""

from __future__ import annotations

import time

import typer
from rich.console import Console

from parkazoo.admin import DryRefusal
from parkazoo.cli.plain_text import plain


class Steps:
    """Call it after each step.

    :param dry_run: the steps are not done, and take no time.
    :ivar are_none: nothing was done. :ivar is_refused: a dry run has found that it would be refused.
    """

    def __init__(self, console: Console, dry_run: bool = False) -> None:
        self._console = console
        self._dry_run = dry_run
        self._began_s = time.monotonic()
        self.are_none = True
        self.is_refused = False

    def __call__(self, step: str) -> None:
        self.are_none = False
        self.is_refused |= isinstance(step, DryRefusal)
        now_s = time.monotonic()
        took = "" if self._dry_run else f"{now_s - self._began_s:7.2f} s  "
        self._console.print(plain(f"{took}{step}"), soft_wrap=True)
        self._began_s = now_s

    def print_end_of_dry_run(self) -> None:
        """:raises Exit: the command would be refused."""
        self._console.print("dry run: nothing was written")
        if self.is_refused:
            raise typer.Exit(1)
