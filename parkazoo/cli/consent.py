"""Asks the user before a command does what no command takes back."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeVar

import typer
from rich.console import Console
from rich.text import Text

from parkazoo.admin import UnconfirmedError
from parkazoo.errors import ClusterMapError

T = TypeVar("T")


def with_consent(command: Callable[[bool], T], has_word: bool) -> T:
    """Run the command; if it needs the user's consent, ask on the terminal, and run it with that.

    :param command: takes whether the user agrees.
    :param has_word: the option that says so was given.
    :raises ClusterMapError: there is no terminal. It names the option.
    :raises typer.Exit: the user says no.
    """
    try:
        return command(has_word)
    except UnconfirmedError as error:
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise ClusterMapError(f"{error.about}. If that is meant, give --{error.word}") from None
        about = error.about
    console = Console(stderr=True)
    console.print(Text(about), soft_wrap=True)
    if not typer.confirm("Go on?", err=True):
        console.print("nothing was changed")
        raise typer.Exit(1)
    return command(True)
