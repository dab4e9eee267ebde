"""``parkazoo top``: how much each ensemble, server and client does, again and again."""

from __future__ import annotations

import json as json_module
import math
import sys
import time
from collections import deque
from collections.abc import Callable, Generator
from contextlib import ExitStack, closing
from functools import partial
from importlib.util import find_spec
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
from parkazoo.cli.top_looking import Looking, Pauses, Source
from parkazoo.cli.top_screen import PastRequests, screen
from parkazoo.cli.top_web import WebPage
from parkazoo.installing import command_to_add

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
        about: Callable[[Rates], str] = _recorded
        every_s, about_page = math.inf, f"{replay.name}, a look every {interval:g} s"
        pause_s = interval if is_live or web is not None else 0.0
        source: Source = partial(_replayed, replay, pause_s, once, count)
    else:
        if hosts is None:
            raise typer.BadParameter("give --hosts, or --replay")
        servers, _ = split_hosts(hosts)
        looker = partial(Looker, servers, **connection_options(auth, timeout, ca, cert, key))
        source = partial(_looked, looker, follow, record, interval, 1 if once else count)
        every_s, about_page = interval, f"every {interval:g} s"
        about = lambda _: about_page  # noqa: E731 - as `_recorded`
    is_interactive = is_live and _is_on_a_terminal() and not console.is_dumb_terminal
    has_keys = is_interactive and web is None and count is None and not console.options.ascii_only
    if has_keys and find_spec("textual") is not None:
        from parkazoo.cli.top_app import show  # noqa: PLC0415 - an extra, and slow to import

        is_replayed = replay is not None
        return show(Looking(source, repeats=not is_replayed, holds=is_replayed), about, every_s)
    hint = f"for keys that sort, filter and open rows: {command_to_add('top')}" if has_keys else ""
    tell: Callable[[Rates], None] = _print_line if json else _Screens(console, about, clears=is_live, hint=hint)
    with until_interrupted() as is_ended, ExitStack() as stack:
        if web is not None:
            tell = stack.enter_context(_serve(web, about_page, every_s))
        for rates in stack.enter_context(closing(source(Pauses(is_ended, time.sleep)))):
            tell(rates)
        while replay is not None and web is not None and not is_ended():
            time.sleep(interval)  # a page that has all goes on until ^C
    return None


def _is_on_a_terminal() -> bool:
    """Whether all three are: Textual reads stdin, and writes to stderr."""
    return all(each is not None and each.isatty() for each in (sys.stdin, sys.stdout, sys.stderr))


def _looked(
    new_looker: Callable[[], Looker],
    follows: bool,
    record: Path | None,
    interval: float,
    times: int | None,
    pauses: Pauses,
) -> Generator[Rates, None, None]:
    """:raises ClusterMapError: as `Looker`, or as `Recorder.add`. :raises WrongArgumentError: as `Recorder`."""
    with ExitStack() as stack:
        recorder = stack.enter_context(Recorder(record)) if record is not None else None
        looker = stack.enter_context(new_looker())
        followers = stack.enter_context(Followers(looker.auth, looker.options)) if follows else None
        for rates in _rates(looker, followers, interval, times, pauses):
            if recorder is not None:
                recorder.add(rates)
            yield rates


def _rates(
    looker: Looker,
    followers: Followers | None,
    interval: float,
    times: int | None,
    pauses: Pauses,
) -> Generator[Rates, None, None]:
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
        if not pauses.is_ended():
            pauses.sleep(pause_s)
        if pauses.is_ended():
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
    file: Path, pause_s: float, is_last_alone: bool, most: int | None, pauses: Pauses
) -> Generator[Rates, None, None]:
    """:param pause_s: between two. :param most: how many; None: all.

    :raises WrongArgumentError: as `read_recorded`, or there are none.
    """
    recorded = read_recorded(file)
    number = 0
    for number, rates in enumerate(deque(recorded, 1) if is_last_alone else islice(recorded, most), 1):
        if number > 1 and not pauses.is_ended():
            pauses.sleep(pause_s)
        if pauses.is_ended():
            return
        yield rates
    if number == 0:
        raise WrongArgumentError(f"{file} has no rates yet")


def _recorded(rates: Rates) -> str:
    return time.strftime("on %Y-%m-%d", time.localtime(rates.time_s))


def _serve(address: str, about: str, every_s: float) -> WebPage:
    page = WebPage(address, about, every_s)
    typer.echo(f"{page.url} until ^C")
    return page


def _print_line(rates: Rates) -> None:
    typer.echo(json_module.dumps(rates.to_json()))


class _Screens:
    """Prints a screen for each, with the last ones' requests. :param about: as for `screen`; hint too."""

    def __init__(self, console: Console, about: Callable[[Rates], str], *, clears: bool, hint: str) -> None:
        self._console, self._about, self._clears, self._hint = console, about, clears, hint
        self._past = PastRequests()

    def __call__(self, rates: Rates) -> None:
        history = self._past.add(rates)
        if self._clears:
            self._console.clear()
        self._console.print(screen(rates, self._console.width, self._about(rates), history, self._hint))
