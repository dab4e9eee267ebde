"""The tables of ``parkazoo top``: their columns, and what a cell shows. Pure."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from parkazoo.admin.answers import NOT_LISTED
from parkazoo.admin.rates import ClientRates, ServerRates
from parkazoo.cli.plain_text import plain

SPARKS = "▁▂▃▄▅▆▇█"
SPARK_COLUMNS = 15
MARK = "▼"  # at the name of the column by which rows are sorted
WIDE = 110  # columns, from which on there is more to show
NAME_LEAST = 8  # of the first cell: before it is shorter, the last cells are left out
CELL_MOST = 24  # of another
GAP = 2  # between two cells
History = Mapping[str, Sequence[float | None]]  # requests/s of each ensemble, the last is the newest


class Column(NamedTuple):
    """:param value: of a row, a number, words or None: by it rows are sorted. :param cell: what is drawn."""

    name: str
    value: Callable[[Any], Any]
    cell: Callable[[Any], str | Text]
    is_left: bool = False


class TopTable(NamedTuple):
    """:param name: of the rows in `Rates`. :param columns: the first takes the width that others leave.
    :param wide: more, where there is room. :param key: names a row from look to look.
    :param ensembles: on which a row is.
    """

    name: str
    columns: Sequence[Column]
    key: Callable[[Any], Hashable]
    ensembles: Callable[[Any], tuple[str, ...]]
    wide: Sequence[Column] = ()
    is_away: Callable[[Any], bool] = lambda _: False

    def shown(self, is_wide: bool) -> Sequence[Column]:
        return [*self.columns, *self.wide] if is_wide else self.columns


def number(value: float | None, digits: int = 0) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


def word(value: int | str | None) -> str:
    return "-" if value is None else str(value)


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
        return on_a_line(f"not registered {client.host} {client.client}")
    return on_a_line(f"{word(client.host)}:{word(client.pid)} {client.client}")


def on_a_line(text: str) -> Text:
    """As `plain`; a line break, which would look like another row, is escaped too."""
    return plain(text.replace("\n", r"\n"))


def draw(
    table: TopTable, rows: Sequence[Any], width: int, *, sorted_by: str = "", cursor: int | None = None
) -> Table:
    """:param width: in columns. :param sorted_by: a column's name. :param cursor: the row that is marked."""
    drawn = Table(box=None, pad_edge=False, header_style="reverse", expand=True)
    columns = table.shown(width >= WIDE)
    names = [each.name + MARK if each.name == sorted_by else each.name for each in columns]
    cells = [[each.cell(row) for each in columns] for row in rows]
    fitting = _fitting([names, *cells], width)
    for each, name in zip(columns[:fitting], names, strict=False):
        is_first = each is columns[0]
        drawn.add_column(
            name,
            justify="left" if each.is_left else "right",
            no_wrap=True,
            overflow="ellipsis",
            ratio=1 if is_first else None,
            max_width=None if is_first else CELL_MOST,
        )
    for place, (row, drawn_row) in enumerate(zip(rows, cells, strict=True)):
        style = "red" if table.is_away(row) else ""
        drawn.add_row(*drawn_row[:fitting], style=f"{style} reverse" if place == cursor else style)
    return drawn


def _fitting(lines: Sequence[Sequence[str | Text]], width: int) -> int:
    """Returns how many columns there is room for, the first one included."""
    room = width - NAME_LEAST
    for number, column in enumerate(zip(*lines, strict=True)):
        if number > 0:
            room -= GAP + min(CELL_MOST, max(cell_len(str(each)) for each in column))
        if room < 0:
            return max(1, number)
    return len(lines[0])


def _text(name: str, value: Callable[[Any], str]) -> Column:
    return Column(name, value, lambda each: on_a_line(value(each)), is_left=True)


def _number(name: str, attribute: str, digits: int = 0) -> Column:
    return Column(name, attrgetter(attribute), lambda each: number(getattr(each, attribute), digits))


def _share(name: str, columns: int) -> Column:
    return Column(name, lambda each: each.share, lambda each: share(each.share, columns), is_left=True)


def _role(server: ServerRates) -> str:
    return (server.role or ("-" if NOT_LISTED in server.trouble else "away"))[:10]


REQUESTS, READS, WRITES = (
    _number("req/s", "requests"),
    _number("read/s", "reads"),
    _number("write/s", "writes"),
)
LOAD = (_number("p99 ms", "p99_ms"), _number("queue", "queue"), _number("clients", "clients"))
HELD = (_number("watches", "watches"), _number("znodes", "znodes"))

SERVERS = TopTable(
    "servers",
    [
        _text("server", lambda each: each.server),
        _text("of", lambda each: each.ensemble),
        _text("role", _role),
        *(REQUESTS, READS, WRITES),
        *LOAD,
    ],
    lambda each: each.server,
    lambda each: (each.ensemble,),
    wide=[_share("share", 8), *HELD],
    is_away=lambda each: not each.role,
)
DIRECTORIES = TopTable(
    "directories",
    [
        _text("directory", lambda each: each.directory),
        _text("on", lambda each: each.ensemble),
        _number("write/s", "writes", 1),
        _share("of its ensemble", 10),
    ],
    lambda each: (each.directory, each.ensemble),
    lambda each: (each.ensemble,),
)
CLIENTS = TopTable(
    "clients",
    [
        Column("client", lambda each: client_name(each).plain, client_name, is_left=True),
        _text("on", lambda each: " ".join(each.ensembles)),
        _number("req/s", "requests", 1),
        _share("share", 10),
    ],
    lambda each: (each.client, each.host, each.is_registered or each.ensembles),
    lambda each: each.ensembles,
)


def ensembles_table(history: History) -> TopTable:
    return TopTable(
        "ensembles",
        [
            _text("ensemble", lambda each: each.ensemble),
            Column("serve", lambda each: each.serving, lambda each: f"{each.serving}/{each.servers}"),
            *(REQUESTS, READS, WRITES),
            _share("share", 8),
            *LOAD,
        ],
        lambda each: each.ensemble,
        lambda each: (each.ensemble,),
        wide=[
            *HELD,
            Column(
                "last looks",
                lambda each: each.requests,
                lambda each: sparkline(history.get(each.ensemble, ())),
                is_left=True,
            ),
        ],
        is_away=lambda each: not each.leader,
    )
