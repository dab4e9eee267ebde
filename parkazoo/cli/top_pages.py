"""The pages of ``parkazoo top`` with keys: which rows are shown, in which order, and details of one. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from operator import itemgetter
from typing import Any

from parkazoo.admin.rates import ClientRates, DirectoryRates, EnsembleRates, Rates, ServerRates
from parkazoo.cli.top_tables import CLIENTS, DIRECTORIES, SERVERS, History, TopTable, ensembles_table, number, word

# By the table from which a page was opened; "": the first page.
TABLES_ON: Mapping[str, Sequence[str]] = {
    "": ("ensembles", "servers", "directories", "clients"),
    "ensembles": ("directories", "clients", "servers"),
    "servers": ("ensembles",),
    "directories": ("ensembles", "servers"),
    "clients": ("ensembles",),
}


@dataclass
class Shown:
    """How a table is shown on a page. :param sorted_by: a column's name; empty: as the rates have the rows."""

    table: str
    sorted_by: str = ""
    filtered_by: str = ""
    row: int = 0
    key: Hashable = None  # of that row, once a key has moved the cursor


@dataclass
class Page:
    """:param opened: the table of the row that the page is about. :param title: names it.
    :param ensembles: on which that row was last. :param number: of the table that is shown.
    """

    opened: str = ""
    key: Hashable = None
    title: str = ""
    ensembles: tuple[str, ...] = ()
    number: int = 0
    tables: list[Shown] = field(init=False)

    def __post_init__(self) -> None:
        self.tables = [Shown(each) for each in TABLES_ON[self.opened]]


class Pages:
    """Has the newest rates, and the pages that were opened, each from the one before."""

    def __init__(self) -> None:
        self.rates: Rates | None = None
        self._history: History = {}
        self._opened = [Page()]
        self._rows: list[Any] = []

    def show(self, rates: Rates, history: History) -> None:
        self.rates, self._history = rates, history
        self._refresh()

    @property
    def page(self) -> Page:
        return self._opened[-1]

    @property
    def shown(self) -> Shown:
        return self.page.tables[self.page.number]

    @property
    def rows(self) -> Sequence[Any]:
        """Of the table that is shown."""
        return self._rows

    def path(self) -> str:
        """Names the pages, the first one first."""
        return " > ".join(each.title for each in self._opened[1:])

    def table(self, name: str = "") -> TopTable:
        """:param name: empty: the one that is shown."""
        tables = (ensembles_table(self._history), SERVERS, DIRECTORIES, CLIENTS)
        return next(each for each in tables if each.name == (name or self.shown.table))

    def counts(self) -> Mapping[str, int]:
        """By table of this page: its rows, before they are filtered."""
        return {each.table: len(self._all_rows(each.table)) for each in self.page.tables}

    def details(self) -> list[str]:
        """Tells of the row that this page is about."""
        if self.rates is None or not self.page.opened:
            return []
        row = self._subject()
        if row is None:
            return ["The last rates do not have it."]
        return DETAILS[self.page.opened](row, self.rates)

    # ---- keys --------------------------------------------------------------------------------

    def next_table(self, step: int) -> None:
        self.page.number = (self.page.number + step) % len(self.page.tables)
        self._refresh()

    def move(self, step: int) -> None:
        """:param step: by so many rows; too many lead to the first or last row."""
        if self._rows:
            self.shown.row = min(max(0, self.shown.row + step), len(self._rows) - 1)
            is_first = self.shown.row == 0  # there the cursor stays, whichever row comes first
            self.shown.key = None if is_first else self.table().key(self._rows[self.shown.row])

    def sort(self, step: int, *, is_wide: bool) -> None:
        """Sorts by the next column, after the last one by none."""
        names = ["", *(each.name for each in self.table().shown(is_wide))]
        now = self.shown.sorted_by
        self.shown.sorted_by = names[((names.index(now) if now in names else 0) + step) % len(names)]
        self._refresh()

    def filter(self, text: str) -> None:
        self.shown.filtered_by = text
        self._refresh()

    def open(self) -> None:
        """Opens a page about the row at the cursor."""
        if not self._rows:
            return
        row, table = self._rows[self.shown.row], self.table()
        title = str(table.columns[0].value(row))
        self._opened.append(Page(table.name, table.key(row), title, table.ensembles(row)))
        if not self._all_rows(self.shown.table):  # directories are seen with --follow only
            self.page.number = next(
                (n for n, each in enumerate(self.page.tables) if self._all_rows(each.table)), 0
            )
        self._refresh()

    def back(self) -> None:
        """Takes the filter away, or else goes to the page before."""
        if self.shown.filtered_by:
            self.shown.filtered_by = ""
        elif len(self._opened) > 1:
            self._opened.pop()
        self._refresh()

    # ---- rows --------------------------------------------------------------------------------

    def _refresh(self) -> None:
        shown, table = self.shown, self.table()
        wanted = shown.filtered_by.casefold()
        rows = self._all_rows(shown.table)
        self._rows = [each for each in rows if wanted in _names(table, each)] if wanted else [*rows]
        if column := next((each for each in table.shown(True) if each.name == shown.sorted_by), None):
            self._rows = _sorted(self._rows, column.value)
        keys = [table.key(each) for each in self._rows] if shown.key is not None else []
        shown.row = keys.index(shown.key) if shown.key in keys else max(0, min(shown.row, len(self._rows) - 1))

    def _all_rows(self, name: str) -> Sequence[Any]:
        if self.rates is None:
            return []
        rows: Sequence[Any] = getattr(self.rates, name)
        if not self.page.opened:
            return rows
        row = self._subject()
        if row is not None:
            self.page.ensembles = self.table(self.page.opened).ensembles(row)
        on, table = frozenset(self.page.ensembles), self.table(name)
        return [each for each in rows if not on.isdisjoint(table.ensembles(each))]

    def _subject(self) -> Any | None:
        table = self.table(self.page.opened)
        rows: Collection[Any] = getattr(self.rates, table.name)
        return next((each for each in rows if table.key(each) == self.page.key), None)


def _names(table: TopTable, row: Any) -> str:
    """All that the row says in words."""
    values = [each.value(row) for each in table.columns]
    return "\n".join(each for each in values if isinstance(each, str)).casefold()


def _sorted(rows: Sequence[Any], value: Callable[[Any], Any]) -> list[Any]:
    """Sorts numbers the largest first, words by the alphabet; what is not known comes last."""
    valued = [(value(each), each) for each in rows]
    known = [each for each in valued if each[0] is not None]
    is_in_words = any(isinstance(each, str) for each, _ in known)
    known.sort(key=itemgetter(0), reverse=not is_in_words)
    return [row for _, row in [*known, *(each for each in valued if each[0] is None)]]


# ---- details -----------------------------------------------------------------------------------


def _about_ensemble(row: EnsembleRates, rates: Rates) -> list[str]:
    return [
        f"ensemble {row.ensemble}: {row.serving} of {row.servers} servers serve; leader {row.leader or '-'}",
        f"{number(row.requests)} req/s, {number(row.reads)} read/s, {number(row.writes)} write/s: "
        f"{_part(row.share)} of all writes",
        f"p99 {number(row.p99_ms)} ms, queue {number(row.queue)}, {number(row.clients)} clients, "
        f"{number(row.watches)} watches, {number(row.znodes)} znodes",
    ]


def _about_server(row: ServerRates, rates: Rates) -> list[str]:
    return [
        f"server {row.server} of ensemble {row.ensemble}: {row.role or 'away, or not telling'}",
        f"{number(row.requests)} req/s: {_part(row.share)} of all requests",
        f"p99 {number(row.p99_ms)} ms, queue {number(row.queue)}, {number(row.clients)} clients, "
        f"{number(row.watches)} watches, {number(row.znodes)} znodes",
        *([f"not told: {row.trouble}"] if row.trouble else []),
    ]


def _about_directory(row: DirectoryRates, rates: Rates) -> list[str]:
    return [
        f"directory {row.directory}: its children are on ensemble {row.ensemble}",
        f"{number(row.writes, 1)} write/s: {_part(row.share)} of the changes there that the watch saw",
        f"the reason for its place: parkazoo where {shlex.quote(row.directory)}",
    ]


def _about_client(row: ClientRates, rates: Rates) -> list[str]:
    load = f"{number(row.requests, 1)} req/s: {_part(row.share)} of the requests of all clients"
    if not row.is_registered:
        return [
            f"session {row.client} from {row.host}, not registered: no client of ParKazoo",
            f"a session on {' '.join(row.ensembles)}",
            load,
        ]
    behind = "" if row.map == rates.map else f", the cluster has {rates.map}"
    return [
        f"client {row.client} on {word(row.host)}, pid {word(row.pid)}, ParKazoo {word(row.version)}",
        f"sessions on {len(row.ensembles)} ensembles: {' '.join(row.ensembles)}",
        f"since {word(row.since)}{_age(row.since, rates.time_s)}; map epoch {word(row.map)}{behind}",
        load,
    ]


DETAILS: Mapping[str, Callable[[Any, Rates], list[str]]] = {
    "ensembles": _about_ensemble,
    "servers": _about_server,
    "directories": _about_directory,
    "clients": _about_client,
}


def _part(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"


def _age(since: int | str | None, now_s: float) -> str:
    """How long ago; empty if its registration has no time, which any client may write."""
    try:
        age_s = round(now_s - datetime.fromisoformat(str(since)).timestamp())
        return f", {timedelta(seconds=age_s)} ago" if age_s >= 0 else ""
    except (ValueError, OverflowError, OSError):
        return ""
