"""``parkazoo top``: how much each ensemble, server and client does, again and again."""

from __future__ import annotations

import json as json_module
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count as counting
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from parkazoo.admin import TIMEOUT_S
from parkazoo.admin.arguments import WrongArgumentError
from parkazoo.admin.hot_directories import HotDirectories
from parkazoo.admin.looking import Looker
from parkazoo.admin.rates import ClusterLook, Rates, rates_between
from parkazoo.admin.recorded_rates import Recorder, read_recorded
from parkazoo.admin.recursive_watch import MOST_EVENTS, Followers
from parkazoo.cli.interrupting import until_interrupted
from parkazoo.cli.options import (
    FILE,
    HOSTS,
    Auth,
    Ca,
    Cert,
    Key,
    Timeout,
    connection_options,
    seconds_option,
    split_hosts,
)
from parkazoo.cli.top_screen import SPARK_COLUMNS, screen
from parkazoo.cli.top_web import WebPage

INTERVAL_S = 2.0
PAUSE = 0.5  # at least, of a look's own time


def register(app: typer.Typer) -> None:
    app.command()(top)


def top(
    hosts: Annotated[str | None, HOSTS] = None,
    once: Annotated[
        bool,
        typer.Option("--once", help="Look twice, print the rates between, and end; of a file the last ones."),
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print a JSON document a line.")] = False,
    interval: Annotated[
        float,
        seconds_option("Between two looks, or two screens of a file.", 0.5),
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
    record: Annotated[
        Path | None,
        typer.Option(
            dir_okay=False, metavar="FILE", help="Append what is shown to a file, as a JSON document a line."
        ),
    ] = None,
    replay: Annotated[
        Path | None,
        typer.Option(**FILE, metavar="FILE", help="Show what --record has written. No server is asked."),
    ] = None,
    web: Annotated[
        str | None,
        typer.Option(metavar="[ADDRESS:]PORT", help="Show it as a page in a browser, served on loopback."),
    ] = None,
    auth: Auth = None,
    timeout: Timeout = TIMEOUT_S,
    ca: Ca = None,
    cert: Cert = None,
    key: Key = None,
) -> None:
    """Show what each ensemble, server and client does, again and again, until ^C. Changes no znode."""
    if once and count is not None:
        raise typer.BadParameter("give --once or --count, not both")
    console = Console()
    if web is not None and (once or json):
        raise typer.BadParameter("give --web without --once and --json")
    is_live = not once and not json and console.is_terminal
    if replay is not None:
        if record is not None or follow:
            raise typer.BadParameter("give --replay without --record and --follow: no server is asked")
        show: Callable[[Rates], None] = _print_line if json else _Screens(console, _recorded, clears=is_live)
        with until_interrupted() as is_ended, ExitStack() as stack:
            if web is not None:
                show = stack.enter_context(_serve(web, f"{replay.name}, a look every {interval:g} s"))
            for rates in _replayed(replay, interval if is_live or web is not None else 0.0, once, count, is_ended):
                show(rates)
            while web is not None and not is_ended():
                time.sleep(interval)  # a page that has all goes on until ^C
        return
    if hosts is None:
        raise typer.BadParameter("give --hosts, or --replay")
    servers, _ = split_hosts(hosts)
    options = connection_options(auth, timeout, ca, cert, key)
    times = 1 if once else count
    about = f"every {interval:g} s"
    show = _print_line if json else _Screens(console, lambda _: about, clears=is_live)
    with until_interrupted() as is_ended, ExitStack() as stack:
        if web is not None:
            show = stack.enter_context(_serve(web, about))
        recorder = stack.enter_context(Recorder(record)) if record is not None else None
        looker = stack.enter_context(Looker(servers, **options))
        followers = stack.enter_context(Followers(looker.auth, looker.options)) if follow else None
        for rates in _rates(looker, followers, interval, times, is_ended):
            if recorder is not None:
                recorder.add(rates)
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
    taken_s = time.monotonic()

    def look_now() -> tuple[ClusterLook, float]:
        """The look, and how long to pause after it: a look that is slow is a load."""
        began_s = time.monotonic()
        look = looker.look(followers.sessions().values() if followers else ())
        ended_s = time.monotonic()
        return look, max(look.at_s + interval - ended_s, PAUSE * (ended_s - began_s), 0.0)

    last, pause_s = look_now()
    for number in counting(1):
        if not is_ended():
            time.sleep(pause_s)
        if is_ended():
            return
        look, pause_s = look_now()
        rates = rates_between(last, look)
        if followers is not None:
            seen, before_s, taken_s = followers.take(), taken_s, time.monotonic()
            rates = directories.add(rates, taken_s - before_s, seen, followers.troubles())
            followers.follow(looker.map)
        yield rates
        last = look
        if number == times:
            return


def _replayed(
    file: Path, pause_s: float, is_last_alone: bool, most: int | None, is_ended: Callable[[], bool]
) -> Iterator[Rates]:
    """:param pause_s: between two. :param most: how many; None: all.

    :raises WrongArgumentError: as `read_recorded`, or there are none.
    """
    recorded = read_recorded(file)
    number = 0
    for number, rates in enumerate(deque(recorded, 1) if is_last_alone else islice(recorded, most), 1):
        if number > 1 and not is_ended():
            time.sleep(pause_s)
        if is_ended():
            return
        yield rates
    if number == 0:
        raise WrongArgumentError(f"{file} has no rates yet")


def _recorded(rates: Rates) -> str:
    return time.strftime("on %Y-%m-%d", time.localtime(rates.time_s))


def _serve(address: str, about: str) -> WebPage:
    page = WebPage(address, about)
    typer.echo(f"{page.url} until ^C")
    return page


def _print_line(rates: Rates) -> None:
    typer.echo(json_module.dumps(rates.to_json()))


class _Screens:
    """Prints a screen for each, with the last ones' requests. :param about: as for `screen`."""

    def __init__(self, console: Console, about: Callable[[Rates], str], *, clears: bool) -> None:
        self._console, self._about, self._clears = console, about, clears
        self._history: dict[str, deque[float | None]] = defaultdict(lambda: deque(maxlen=SPARK_COLUMNS))

    def __call__(self, rates: Rates) -> None:
        for each in rates.ensembles:
            self._history[each.ensemble].append(each.requests)
        history = {name: [*values] for name, values in self._history.items()}
        if self._clears:
            self._console.clear()
        self._console.print(screen(rates, self._console.width, self._about(rates), history))
