"""The commands of a page of docs/, as an operator types them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

COMMAND = re.compile(r"^ {4,}(?:\$ )?parkazoo (.+?)(?: +\|\| .*| {2,}\S.*)?$", re.MULTILINE)
IN_TEXT = re.compile(r"`parkazoo ([^`]+)`")
CONTINUED = re.compile(r" *\\\n +")


def commands(page: str, values: Mapping[str, str]) -> list[list[str]]:
    """Returns the arguments of each `parkazoo` in the page's blocks, without the words behind two spaces.

    :param values: of the shell's variables, by name.
    """
    found = COMMAND.findall(CONTINUED.sub(" ", page))
    for name, value in values.items():
        found = [each.replace(f"${name}", value) for each in found]
    return [shlex.split(each, comments=True) for each in found]


def commands_in_text(page: str) -> list[list[str]]:
    """Returns the arguments of each `parkazoo` in the page's sentences and tables."""
    return [shlex.split(" ".join(each.split())) for each in IN_TEXT.findall(page)]


def addressed(arguments: Sequence[str], addresses: Mapping[str, str]) -> list[str]:
    """Returns the arguments with the addresses of servers in place of their names.

    :param addresses: ``"host:port"`` by name.
    """
    return [",".join(addresses.get(each, each) for each in argument.split(",")) for argument in arguments]
