"""``parkazoo top``: how much each ensemble, server and client does, again and again."""

from __future__ import annotations

import json as json_module
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count as counting
from typing import Annotated

import typer
from rich.console import Console

from parkazoo.admin import TIMEOUT_S
from parkazoo.admin.hot_directories import HotDirectories
from parkazoo.admin.looking import Looker
from parkazoo.admin.rates import Rates, rates_between
from parkazoo.admin.recursive_watch import MOST_EVENTS, Followers
from parkazoo.cli.interrupting import until_interrupted
from parkazoo.cli.options import (
    Auth,
    Ca,
    Cert,
    Hosts,
    Key,
    Timeout,
    connection_options,
    split_hosts,
)
from parkazoo.cli.top_screen import SPARK_COLUMNS, screen

INTERVAL_S = 2.0


def register(app: typer.Typer) -> None:
    app.command()(top)


def top(
    hosts: Hosts,
    once: Annotated[bool, typer.Option("--once", help="Look twice, print the rates between, and end.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print a JSON document a line.")] = False,
    interval: Annotated[
        float, typer.Option(min=0.5, max=3600, metavar="SECONDS", help="Between two looks.")
    ] = INTERVAL_S,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow",
            help="Name the hottest directories, by a watch on all of each ensemble (ZooKeeper 3.6). It ends by "
            f"itself above {MOST_EVENTS:,} changes a second.",
        ),
    ] = False,
    count: Annotated[int | None, typer.Option(min=1, metavar="N", help="End after so many rates.")] = None,
    auth: Auth = None,
    timeout: Timeout = TIMEOUT_S,
    ca: Ca = None,
    cert: Cert = None,
    key: Key = None,
) -> None:
    """Show what each ensemble, server and client does, again and again, until ^C. Writes nothing."""
    if once and count is not None:
        raise typer.BadParameter("give --once or --count, not both")
    servers, _ = split_hosts(hosts)
    options = connection_options(auth, timeout, ca, cert, key)
    times = 1 if once else count
    console = Console()
    show = _print_line if json else _Screens(console, interval, clears=not once and console.is_terminal)
    with until_interrupted() as is_ended, Looker(servers, **options) as looker, ExitStack() as stack:
        followers = stack.enter_context(Followers(looker.auth, looker.options)) if follow else None
        for rates in _rates(looker, followers, interval, times, is_ended):
            show(rates)


def _rates(
    looker: Looker,
    followers: Followers | None,
    interval: float,
    times: int | None,
    is_ended: Callable[[], bool],
) -> Iterator[Rates]:
    """:param times: how often; None: until it is ended."""
    directories = HotDirectories()
    if followers is not None:
        followers.follow(looker.map)
        followers.take()
    last = looker.look(followers.sessions() if followers else ())
    for number in counting(1):
        if not is_ended():
            time.sleep(max(0.0, last.at_s + interval - time.monotonic()))
        if is_ended():
            return
        look = looker.look(followers.sessions() if followers else ())
        rates = rates_between(last, look)
        if followers is not None:
            rates = directories.add(rates, followers.take(), followers.troubles())
            followers.follow(looker.map)
        yield rates
        last = look
        if number == times:
            return


def _print_line(rates: Rates) -> None:
    typer.echo(json_module.dumps(rates.to_json()))


class _Screens:
    """Prints a screen for each, with the last ones' requests."""

    def __init__(self, console: Console, interval: float, *, clears: bool) -> None:
        self._console, self._interval, self._clears = console, interval, clears
        self._history: dict[str, deque[float | None]] = defaultdict(lambda: deque(maxlen=SPARK_COLUMNS))

    def __call__(self, rates: Rates) -> None:
        for each in rates.ensembles:
            self._history[each.ensemble].append(each.requests)
        history = {name: [*values] for name, values in self._history.items()}
        if self._clears:
            self._console.clear()
        self._console.print(screen(rates, self._console.width, self._interval, history))
