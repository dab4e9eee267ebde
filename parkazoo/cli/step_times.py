"""What a command has done, step by step, with the time that each step took."""

from __future__ import annotations

import time

from rich.console import Console
from rich.text import Text


class Steps:
    """Call it after each step.

    :ivar are_none: nothing was done.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._began_s = time.monotonic()
        self.are_none = True

    def __call__(self, step: str) -> None:
        self.are_none = False
        now_s = time.monotonic()
        self._console.print(Text(f"{now_s - self._began_s:7.2f} s  {step}"), soft_wrap=True)
        self._began_s = now_s
