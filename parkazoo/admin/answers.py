"""What servers answer to four-letter words, and an AdminServer to a GET, as values. Pure.

The formats are ZooKeeper's, 3.5 to 3.9.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import NamedTuple

CONNECTION = re.compile(r"^ [^/\n]*/(.+?)\[[0-9a-f]+\]\((.*)\)\r?$", re.MULTILINE)
EPHEMERALS = "ephemeral nodes dump:"
CONNECTIONS = "Connections dump:"  # behind them, since 3.5
VOTER = re.compile(r"^server\.\d+=(?!.*:observer\b)", re.MULTILINE)
NOT_ALLOWED = "is not in the whitelist"
NOT_LISTED = "it is not in its 4lw.commands.whitelist"
MOST_TOLD = 80  # letters, of text that is no answer
OK = re.compile(r"^HTTP/1\.[01] 200 ")


class ServerConnection(NamedTuple):
    """Describes a connection, as its server lists it by ``cons``.

    :param address: of the client's end.
    :param session: its id, as ZooKeeper's logs write it; None for a connection without one, as `cons` itself has.
    :param requests: so many have come since the connection was made, pings included.
    :param established_ms: when it was made, since the epoch, by the server's clock; None if that is not said.
    """

    address: str
    session: str | None
    requests: int
    established_ms: int | None


def parse_connections(said: str) -> list[ServerConnection]:
    """Returns the connections in an answer to ``cons``."""
    found = []
    for address, about in CONNECTION.findall(said):
        fields = dict(each.split("=", 1) for each in about.split(",") if "=" in each)
        established = _whole(fields.get("est", ""))
        found.append(
            ServerConnection(address, fields.get("sid"), _whole(fields.get("recved", "")) or 0, established)
        )
    return found


def parse_configuration(said: str) -> dict[str, str]:
    """Returns the settings in an answer to ``conf``; the ensemble's servers are among them, as ``server.1``."""
    lines = (line.partition("=") for line in said.splitlines())
    return {name: value.strip() for name, separator, value in lines if separator}


def count_voters(said: str) -> int | None:
    """Returns how many voting members an answer to ``conf`` lists; None: none, as a standalone server's."""
    return len(VOTER.findall(said)) or None


def parse_monitor(said: str) -> dict[str, str]:
    """Returns the values in an answer to ``mntr`` by name, without the ``zk_`` before it."""
    lines = (line.partition("\t") for line in said.splitlines())
    return {name[3:]: value.strip() for name, tab, value in lines if tab and name.startswith("zk_")}


def number_of(values: Mapping[str, str] | None, *names: str) -> float | None:
    """Returns the first of these that is there, and is a number; with Prometheus' provider, some names differ.

    :param values: as `parse_monitor` or `parse_configuration` returns them.
    """
    for name in names:
        with suppress(KeyError, ValueError):
            number = float((values or {})[name])
            return number if math.isfinite(number) else None
    return None


def parse_server(said: str) -> dict[str, str]:
    """Returns the values in an answer to ``srvr`` by name: ``Mode``, ``Received``."""
    lines = (line.partition(": ") for line in said.splitlines())
    return {name: value.strip() for name, separator, value in lines if separator}


def count_ephemerals(said: str) -> dict[str, int]:
    """Returns the number of ephemerals of each session, from an answer to ``dump``."""
    return dict(Counter(session for session, _ in _by_session(_ephemerals(said))))


def count_in_directories(said: str) -> Counter[tuple[str, str]]:
    """Returns the number of ephemerals of each session in each directory, by its physical path, from the same."""
    found = _by_session(_ephemerals(said))
    return Counter((session, path.rpartition("/")[0] or "/") for session, path in found)


def count_watches(said: str) -> dict[str, int]:
    """Returns the number of paths that each session watches, from an answer to ``wchc``."""
    return dict(Counter(session for session, _ in _by_session(said)))


def _ephemerals(said: str) -> str:
    return said.partition(EPHEMERALS)[2].partition(CONNECTIONS)[0]


def _by_session(said: str) -> Iterator[tuple[str, str]]:
    """Each session is in a line of its own, and below it are its paths, indented."""
    session = ""
    for line in said.splitlines():
        if line.startswith("0x"):
            session = line.strip().removesuffix(":")
        elif line.startswith("\t/") and session:
            yield session, line[1:]


def answers_word(word: str, said: str) -> bool:
    """Whether `said` answers a four-letter word."""
    if word == "cons":
        return CONNECTION.search(said) is not None  # the connection that asks is among them
    if word == "srvr":
        return "\nMode: " in said
    if word == "conf":
        return "clientPort=" in said
    if word == "mntr":
        return "zk_" in said
    if word == "dump":
        return EPHEMERALS in said
    return not is_forbidden(said) and "not currently serving" not in said  # wchc: nobody may watch


def why_unanswered(word: str, said: str) -> str:
    """Returns why `said` does not answer a four-letter word; empty if it does."""
    if answers_word(word, said):
        return ""
    if is_forbidden(said):
        return NOT_LISTED
    return " ".join(said.split())[:MOST_TOLD] or "it closed the connection"


def is_forbidden(said: str) -> bool:
    """Whether a server answers that a word is not in its 4lw.commands.whitelist."""
    return NOT_ALLOWED in said


class AdminAnswer(NamedTuple):
    """:param values: by name. :param date: of the server, to the second; None if it does not say it."""

    values: Mapping[str, object]
    date: datetime | None


def parse_admin_answer(said: str) -> AdminAnswer | None:
    """Returns an AdminServer's answer to HTTP/1.0; None for anything else, an error included."""
    head, separator, body = said.partition("\r\n\r\n")
    if not separator or not OK.match(head):
        return None
    values: object = None
    with suppress(ValueError, RecursionError):
        values = json.loads(body)
    if not isinstance(values, dict) or "command" not in values or values.get("error"):
        return None
    date = re.search(r"^Date: ([ -~]+)$", head.replace("\r", ""), re.MULTILINE | re.IGNORECASE)
    told = None
    if date:
        with suppress(ValueError):
            told = parsedate_to_datetime(date[1])
    return AdminAnswer(values, told)


def _whole(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() else None
