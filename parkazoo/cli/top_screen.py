"""What ``parkazoo top`` shows at one moment."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from parkazoo.admin.answers import NOT_LISTED
from parkazoo.admin.rates import ClientRates, Rates
from parkazoo.cli.plain_text import escaped, plain

WIDE = 110  # columns, from which on there is more to show
CLIENTS_SHOWN = 10
DIRECTORIES_SHOWN = 10
SPARKS = "▁▂▃▄▅▆▇█"
SPARK_COLUMNS = 15
History = Mapping[str, Sequence[float | None]]  # requests/s of each ensemble, the last is the newest


def screen(rates: Rates, width: int, about: str, history: History | None = None) -> RenderableType:
    """Draws all tables, one below the other. :param width: in columns. :param about: how they came about."""
    is_wide = width >= WIDE
    parts: list[RenderableType] = [header(rates, about), _ensembles(rates, is_wide, history or {})]
    if is_wide or len(rates.servers) > len(rates.ensembles):
        parts += [Text(), _servers(rates, is_wide)]
    if rates.directories:
        parts += [Text(), _directories(rates)]
    if rates.clients:
        parts += [Text(), _clients(rates)]
    return Group(*parts, Text(), *(Text(line, style="dim") for line in remarks(rates)))


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
    if len(rates.clients) > CLIENTS_SHOWN:
        lines.append(f"{len(rates.clients) - CLIENTS_SHOWN:,} more clients: --json has all")
    if rates.directories_s is not None:
        lines.append(f"directories: changes in the last {rates.directories_s:.0f} s, seen by a watch")
    lines += rates.unseen
    return [escaped(line) for line in [*lines, "p99: of writes, since the server's start; -: not known"]]


def number(value: float | None, digits: int = 0) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


def share(value: float | None, columns: int) -> str:
    """As a percentage and a bar."""
    return "-" if value is None else f"{value:4.0%} {'█' * round(min(1.0, value) * columns)}"


def sparkline(values: Sequence[float | None]) -> str:
    last = [each or 0.0 for each in values[-SPARK_COLUMNS:]]
    most = max(last, default=0.0) or 1.0
    return "".join(SPARKS[min(len(SPARKS) - 1, int(each / most * len(SPARKS)))] for each in last)


def client_name(client: ClientRates) -> Text:
    """Names it by where it runs, and its id."""
    if not client.is_registered:
        return plain(f"not registered {client.host} {client.client}")
    return plain(f"{client.host}:{client.pid} {client.client}")


def _table(names: Sequence[str], left: Sequence[str]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="reverse", expand=True)
    for name in names:
        is_first = name == names[0]
        table.add_column(
            name,
            justify="left" if name in left else "right",
            no_wrap=True,
            overflow="ellipsis" if is_first else "crop",
            ratio=1 if is_first else None,
        )
    return table


def _ensembles(rates: Rates, is_wide: bool, history: History) -> Table:
    more = ["watches", "znodes", "last looks"] if is_wide else []
    names = ["ensemble", "serve", "req/s", "read/s", "write/s", "share", "p99 ms", "queue", "clients", *more]
    table = _table(names, ("ensemble", "share", "last looks"))
    for each in rates.ensembles:
        cells = [
            f"{each.serving}/{each.servers}",
            *map(number, (each.requests, each.reads, each.writes)),
            share(each.share, 8),
            *map(number, (each.p99_ms, each.queue, each.clients)),
        ]
        if is_wide:
            cells += [*map(number, (each.watches, each.znodes)), sparkline(history.get(each.ensemble, ()))]
        table.add_row(plain(each.ensemble), *cells, style="" if each.leader else "red")
    return table


def _servers(rates: Rates, is_wide: bool) -> Table:
    more = ["share", "watches", "znodes"] if is_wide else []
    names = ["server", "of", "role", "req/s", "read/s", "write/s", "p99 ms", "queue", "clients", *more]
    table = _table(names, ("server", "of", "role", "share"))
    for each in rates.servers:
        cells: list[RenderableType] = [
            plain(each.ensemble),
            plain((each.role or ("-" if NOT_LISTED in each.trouble else "away"))[:10]),
            *map(number, (each.requests, each.reads, each.writes, each.p99_ms, each.queue, each.clients)),
        ]
        if is_wide:
            cells += [share(each.share, 8), number(each.watches), number(each.znodes)]
        table.add_row(plain(each.server), *cells, style="" if each.role else "red")
    return table


def _directories(rates: Rates) -> Table:
    table = _table(("directory", "on", "write/s", "of its ensemble"), ("directory", "on", "of its ensemble"))
    for each in rates.directories[:DIRECTORIES_SHOWN]:
        table.add_row(plain(each.directory), plain(each.ensemble), number(each.writes, 1), share(each.share, 10))
    return table


def _clients(rates: Rates) -> Table:
    table = _table(("client", "on", "req/s", "share"), ("client", "on", "share"))
    for each in rates.clients[:CLIENTS_SHOWN]:
        table.add_row(
            client_name(each), plain(" ".join(each.ensembles)), number(each.requests, 1), share(each.share, 10)
        )
    return table
