"""``parkazoo check``: whether a cluster is in order, for people, programs and Nagios."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import Enum
from functools import partial
from typing import Annotated, NamedTuple, NoReturn

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rich.text import Text

from parkazoo.admin.arguments import WrongArgumentError
from parkazoo.admin.clients import NoRightError, UnreadableError
from parkazoo.admin.health import (
    FINE,
    LEVELS,
    TOPICS,
    UNKNOWN,
    UNTOLD,
    WARNING,
    WRONG,
    Health,
    HealthFinding,
    check_cluster,
)
from parkazoo.admin.inquiry import ADMIN_PORT
from parkazoo.admin.stopping import StopAnswer, may_stop
from parkazoo.cli.findings_table import tell_strangers
from parkazoo.cli.json_documents import print_json
from parkazoo.cli.options import (
    Auth,
    Ca,
    Cert,
    ConnectionOptions,
    Hosts,
    Json,
    Key,
    connection_options,
    seconds_option,
    split_hosts,
    with_ports,
)
from parkazoo.cli.plain_text import escaped, plain
from parkazoo.errors import ClusterMapError
from parkazoo.protocol.epochs import Form

QUESTION_S = 5.0
STYLES = {WRONG: "bold red", WARNING: "yellow", UNKNOWN: "magenta", FINE: "green"}
NAGIOS_WORDS = ("OK", "WARNING", "CRITICAL", "UNKNOWN")  # by exit status
OK, NAGIOS_WARNING, CRITICAL, NAGIOS_UNKNOWN = range(4)
STOP_STATUS = {True: (OK, 0), False: (CRITICAL, 1), None: (NAGIOS_UNKNOWN, 3)}  # the word, the exit status
PAUSE_S = 1.0  # between two questions whether a server may stop
MOST_CHARACTERS = 300  # of the one line, without its figures


class Format(str, Enum):
    TEXT = "text"
    NAGIOS = "nagios"


def register(app: typer.Typer) -> None:
    app.command()(check)


def check(
    hosts: Hosts,
    strict: Annotated[bool, typer.Option("--strict", help="Warnings and unknowns count as wrong.")] = False,
    json: Json = False,
    format: Annotated[
        Format, typer.Option(help="nagios: one line with figures, and exit status 0 to 3.")
    ] = Format.TEXT,
    admin_port: Annotated[
        int,
        typer.Option(min=0, max=65535, metavar="PORT", help="Of the servers' AdminServers; 0: do not ask them."),
    ] = ADMIN_PORT,
    stop: Annotated[
        str | None,
        typer.Option(
            "--stop", metavar="H:P", help="Only: may this server be stopped now? 0: yes, 1: no, 3: unknown."
        ),
    ] = None,
    wait: Annotated[
        float, seconds_option("With --stop: ask again until it may, so long at most.", 0, 86400)
    ] = 0.0,
    auth: Auth = None,
    timeout: Annotated[
        float,
        seconds_option(
            "How long a server may take to answer. The command ends within 4 times that and 20 s.", 0.1, 600
        ),
    ] = QUESTION_S,
    ca: Ca = None,
    cert: Cert = None,
    key: Key = None,
) -> None:
    """Ask every server whether the cluster is in order: map, quorums, disks, versions, clocks, settings. Writes
    nothing.

    Status 0 if nothing is wrong, warnings or not; 1 if something is; 2 for wrong arguments. With --format nagios:
    0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN.
    """
    if json and format is not Format.TEXT:
        raise typer.BadParameter("give --json or --format, not both")
    if stop is not None:
        if json or strict or format is not Format.TEXT or admin_port != ADMIN_PORT:
            raise typer.BadParameter("give --stop without --json, --strict, --format and --admin-port")
        _tell_stop(hosts, stop, wait, connection_options(auth, timeout, ca, cert, key))
    if wait:
        raise typer.BadParameter("--wait belongs to --stop")
    is_nagios = format is Format.NAGIOS
    screen = _Screen(Console(), is_nagios, json)
    asking = screen.console.status("asking every server")
    limit_s = _limit_s(timeout)
    partly: list[Health] = []

    def tell_late() -> int:
        asking.stop()
        return screen.tell_late(limit_s, partly)

    with _ended_in_time(limit_s, tell_late, NAGIOS_UNKNOWN if is_nagios else 1):
        try:
            servers, _ = split_hosts(hosts)
            options = connection_options(auth, timeout, ca, cert, key)
            with asking:
                found = check_cluster(servers, admin_port=admin_port, partly=partly.append, **options)
        except ClusterMapError as error:
            if not is_nagios:
                raise
            status = NAGIOS_UNKNOWN if isinstance(error, WrongArgumentError) else CRITICAL
            typer.echo(nagios_line(status, str(error)))
            raise typer.Exit(status) from None
    if status := screen.tell(found, strict):
        raise typer.Exit(status)


class _Screen(NamedTuple):
    """Tells what was found, and returns the exit status."""

    console: Console
    is_nagios: bool
    is_json: bool

    def tell(self, found: Health, strict: bool) -> int:
        if self.is_nagios:
            status, line = nagios(found, strict)
            typer.echo(line)
            return status
        if self.is_json:
            print_json(found.to_json())
        else:
            _print(self.console, found)
        return int(found.verdict() == WRONG or (strict and found.verdict() != FINE))

    def tell_late(self, limit_s: float, partly: Sequence[Health]) -> int:
        """:param partly: what was known before the time was over; the last counts."""
        if not partly:
            return _tell_late(limit_s, self.is_nagios)
        status = self.tell(partly[-1], strict=True)  # something is unknown
        return status if self.is_nagios else _tell_late(limit_s, is_nagios=False)


def _tell_stop(hosts: str, server: str, wait_s: float, options: ConnectionOptions) -> NoReturn:
    """Ends the command with the answer whether `server` may be stopped."""
    servers, _ = split_hosts(hosts)
    server = with_ports(server)
    deadline = time.monotonic() + wait_s
    limit_s = _limit_s(options["timeout_s"])
    while True:
        with _ended_in_time(limit_s, partial(_tell_late, limit_s, is_nagios=True), NAGIOS_UNKNOWN):
            answer = _ask_stop(servers, server, options)
        if answer.is_safe or not answer.may_change or time.monotonic() + PAUSE_S >= deadline:
            status, exit_status = STOP_STATUS[answer.is_safe]
            typer.echo(nagios_line(status, answer.told))
            raise typer.Exit(exit_status)
        time.sleep(PAUSE_S)


def _ask_stop(hosts: str, server: str, options: ConnectionOptions) -> StopAnswer:
    try:
        return may_stop(hosts, server, **options)
    except WrongArgumentError:
        raise
    except ClusterMapError as error:
        may_change = isinstance(error, UnreadableError) and not isinstance(error, NoRightError)
        return StopAnswer(None, str(error), may_change)


def _limit_s(timeout_s: float) -> float:
    """How long one check may take."""
    return 4 * timeout_s + 20


@contextmanager
def _ended_in_time(
    limit_s: float, tell_late: Callable[[], int], status: int, end: Callable[[int], object] = os._exit
) -> Iterator[None]:
    """Ends the process if the block does not end: a monitor must not wait for a network that swallows packets.

    :param tell_late: tells what is known by then, and returns the exit status. :param status: if it cannot.
    """
    only_one = threading.Lock()  # goes on, the block or the end

    def give_up() -> None:
        if not only_one.acquire(blocking=False):
            return
        ended = status
        with suppress(OSError):  # a reader that is gone, a full disk
            ended = tell_late()
        end(ended)
        only_one.release()

    timer = threading.Timer(limit_s, give_up)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        only_one.acquire()
        timer.cancel()


def _tell_late(limit_s: float, is_nagios: bool) -> int:
    """Returns the exit status."""
    told = f"the check has not ended within {limit_s:g} s"
    if is_nagios:
        print(nagios_line(NAGIOS_UNKNOWN, told), flush=True)
        return NAGIOS_UNKNOWN
    told += ": give a longer --timeout; `parkazoo status` tells less, and has no limit"
    print(f"error: {told}", file=sys.stderr, flush=True)
    return 1


# ---- for people ----------------------------------------------------------------------------------


def _print(console: Console, found: Health) -> None:
    cluster_map = found.status.cluster_map
    serving = sum(each.serves for each in found.status.servers)
    console.print(
        plain(
            f"cluster {cluster_map.cluster}, map {cluster_map.epoch}: {serving} of {len(found.status.servers)} "
            f"servers serve; asked in {found.seconds:.1f} s"
        ),
        soft_wrap=True,
    )
    table = Table(box=SIMPLE, padding=(0, 1, 0, 0), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    for topic in TOPICS:
        verdict = found.verdict(topic)
        table.add_row(topic, Text(verdict, STYLES[verdict]))
    console.print(table)
    for name, findings in _grouped(found):
        console.print(Text(f"ensemble {name}" if name else "the cluster", "bold"))
        for each in findings:
            _print_finding(console, each, [each.ensemble] if each.ensemble and not name else [])
    may_lose = len(cluster_map.ensembles) > 1 and cluster_map.form < Form.GUARDED  # later it is a finding
    if may_lose and (told := tell_strangers(found.status)):
        console.print(told, soft_wrap=True)
    console.print(f"No server tells {UNTOLD}: look into each zoo.cfg", style="dim", soft_wrap=True)


def _grouped(found: Health) -> Iterator[tuple[str, Sequence[HealthFinding]]]:
    """The findings of several ensembles or none, without a name, then each ensemble's."""
    groups: dict[str, list[HealthFinding]] = {name: [] for name in ("", *found.status.cluster_map.ensembles)}
    for each in found.findings:
        groups[each.ensemble if each.ensemble in groups else ""].append(each)
    yield from ((name, findings) for name, findings in groups.items() if findings)


def _print_finding(console: Console, each: HealthFinding, ensembles: Sequence[str]) -> None:
    where = " ".join((*ensembles, *each.servers))
    told = f"{each.topic}: {where}" if where else each.topic
    console.print(Text(each.level, STYLES[each.level]), plain(told), soft_wrap=True)
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for what, about in (("seen", each.seen), ("means", each.meaning), ("do", each.remedy)):
        grid.add_row(f"  {what}", plain(about))
    console.print(grid)


# ---- for Nagios ----------------------------------------------------------------------------------


def nagios(found: Health, strict: bool) -> tuple[int, str]:
    """Returns the exit status and the line for a check that could ask. With `strict` an unknown is UNKNOWN."""
    verdict = found.verdict()
    status = {WRONG: CRITICAL, WARNING: NAGIOS_WARNING, UNKNOWN: NAGIOS_UNKNOWN if strict else OK, FINE: OK}[
        verdict
    ]
    servers = found.status.servers
    cluster_map = found.status.cluster_map
    if status == OK:
        told = f"map {cluster_map.epoch}, {len(cluster_map.ensembles)} ensembles, {len(servers)} servers"
    else:
        first = found.findings[0]
        told = f"{' '.join((first.ensemble, *first.servers))}: {first.seen}"
    if len(found.findings) > (status != OK):
        told += f" (and {len(found.findings) - (status != OK)} more: parkazoo check)"
    counts = {level: sum(each.level == level for each in found.findings) for level in LEVELS if level != FINE}
    figures = {
        "servers": len(servers),
        "serving": sum(each.serves for each in servers),
        **counts,
        "clients": len(found.status.clients),
        "znodes": sum(
            max((each.znodes or 0 for each in servers if each.ensemble == name), default=0)
            for name in cluster_map.ensembles
        ),
    }
    return status, nagios_line(status, told, figures, found.seconds)


def nagios_line(
    status: int, told: str, figures: dict[str, int] | None = None, seconds: float | None = None
) -> str:
    """Returns a line as Nagios reads it: ``PARKAZOO OK - text | name=figure``."""
    text = escaped(" ".join(told.split()))[:MOST_CHARACTERS].replace("|", "/")
    line = f"PARKAZOO {NAGIOS_WORDS[status]} - {text}"
    if figures is None:
        return line
    return f"{line} | {' '.join(f'{name}={number}' for name, number in figures.items())} time={seconds:.3f}s"
