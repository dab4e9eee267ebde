"""What ``parkazoo top`` shows at one moment."""

from __future__ import annotations

import time
from collections import defaultdict, deque

from rich.console import Group, RenderableType
from rich.text import Text

from parkazoo.admin.rates import Rates
from parkazoo.cli.plain_text import escaped
from parkazoo.cli.top_tables import (
    CLIENTS,
    DIRECTORIES,
    SERVERS,
    SPARK_COLUMNS,
    WIDE,
    History,
    draw,
    ensembles_table,
    number,
)

CLIENTS_SHOWN = 10
DIRECTORIES_SHOWN = 10


class PastRequests:
    """Keeps each ensemble's requests/s of the last looks."""

    def __init__(self) -> None:
        self._kept: dict[str, deque[float | None]] = defaultdict(lambda: deque(maxlen=SPARK_COLUMNS))

    def add(self, rates: Rates) -> History:
        for each in rates.ensembles:
            self._kept[each.ensemble].append(each.requests)
        return {name: [*values] for name, values in self._kept.items()}


def screen(rates: Rates, width: int, about: str, history: History | None = None, hint: str = "") -> RenderableType:
    """Draws all tables, one below the other.

    :param width: in columns. :param about: how they came about. :param hint: the last line, if there is one.
    """
    parts: list[RenderableType] = [
        header(rates, about),
        draw(ensembles_table(history or {}), rates.ensembles, width),
    ]
    if width >= WIDE or len(rates.servers) > len(rates.ensembles):
        parts += [Text(), draw(SERVERS, rates.servers, width)]
    if rates.directories:
        parts += [Text(), draw(DIRECTORIES, rates.directories[:DIRECTORIES_SHOWN], width)]
    if rates.clients:
        parts += [Text(), draw(CLIENTS, rates.clients[:CLIENTS_SHOWN], width)]
    lines = remarks(rates)
    if len(rates.clients) > CLIENTS_SHOWN:
        lines.append(f"{len(rates.clients) - CLIENTS_SHOWN:,} more clients: --json has all")
    if hint:
        lines.append(hint)
    return Group(*parts, Text(), *(Text(line, style="dim") for line in lines))


def header(rates: Rates, about: str) -> Text:
    serving = sum(each.serving for each in rates.ensembles)
    clock = time.strftime("%H:%M:%S", time.localtime(rates.time_s))
    told = (
        f"parkazoo top  map {rates.map}  {serving} of {len(rates.servers)} servers  "
        f"{number(rates.requests())} req/s  {number(rates.writes())} writes/s\n{clock}  {about}"
    )
    return Text(told, style="bold")


def remarks(rates: Rates) -> list[str]:
    """Says what the figures do not show."""
    silent: dict[str, list[str]] = defaultdict(list)
    for each in rates.servers:
        if each.trouble:
            silent[each.trouble].append(each.server)
    lines = [f"not told by {', '.join(servers)}: {trouble}" for trouble, servers in silent.items()]
    if rates.directories_s is not None:
        lines.append(f"directories: changes in the last {rates.directories_s:.0f} s, seen by a watch")
    lines += rates.unseen
    return [escaped(line) for line in [*lines, "p99: of writes, since the server's start; -: not known"]]
