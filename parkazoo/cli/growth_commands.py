"""``parkazoo map grow`` and its like: the ensembles of a map, and their shares."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from parkazoo.admin import (
    TIMEOUT_S,
    Left,
    MapSpread,
    RegisteredClient,
    abort_growth,
    change_weights,
    describe_rule,
    find_left,
    grow_map,
    move_off,
    read_spread,
)
from parkazoo.cli.behind import CLIENTS_SHOWN, print_end, run_growth
from parkazoo.cli.json_documents import map_document, print_json
from parkazoo.cli.map_table import shares_table
from parkazoo.cli.move_command import run_moves
from parkazoo.cli.options import (
    Auth,
    Ca,
    Cert,
    DryRun,
    Hosts,
    Json,
    Key,
    Rate,
    StrangersGone,
    Timeout,
    Yes,
    connection_options,
    parse_ensembles,
    parse_weights,
    split_hosts,
    verify_ensembles,
    with_ports,
)
from parkazoo.cli.plain_text import plain
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.epochs import Epoch

SO_ALREADY = "nothing to do: that is so already"


def register(group: typer.Typer) -> None:
    group.command()(grow)
    group.command()(drain)
    group.command("weight")(weigh)
    group.command()(epochs)
    group.command()(abort)


def grow(
    hosts: Hosts,
    ensemble: Annotated[
        list[str] | None, typer.Option(metavar="NAME=H:P,H:P", help="An ensemble that comes, empty. Repeatable.")
    ] = None,
    weight: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=WEIGHT", help="Its share of new directories: 0 to 100, else 1. Repeatable."),
    ] = None,
    yes: Yes = False,
    strangers_gone: StrangersGone = False,
    dry_run: DryRun = False,
    auth: Auth = None,
    timeout: Timeout = TIMEOUT_S,
    ca: Ca = None,
    cert: Cert = None,
    key: Key = None,
) -> None:
    """Add ensembles to the map while clients work. Safe to repeat.

    Without --ensemble only the clients get ready for rules and weights, for good: it asks first; without a
    terminal it wants --yes.
    """
    servers, _ = split_hosts(hosts)
    ensembles = {name: with_ports(each) for name, each in parse_ensembles("--ensemble ", ensemble or ()).items()}
    weights = parse_weights("--weight ", weight or ())
    connection = connection_options(auth, timeout, ca, cert, key)
    command = partial(grow_map, servers, ensembles, weights, strangers_gone=strangers_gone, **connection)
    has = f"has {', '.join(ensembles)}" if ensembles else "can gain ensembles"
    _change(command, yes, dry_run, f"nothing to do: the map {has} already")


def drain(
    name: Annotated[str, typer.Argument(metavar="NAME", help="An ensemble of the map.")],
    hosts: Hosts,
    move: Annotated[
        bool, typer.Option("--move", help="Then move each directory that is there to where new ones go.")
    ] = False,
    rate: Rate = None,
    yes: Yes = False,
    strangers_gone: StrangersGone = False,
    dry_run: DryRun = False,
    auth: Auth = None,
    timeout: Timeout = TIMEOUT_S,
    ca: Ca = None,
    cert: Cert = None,
    key: Key = None,
) -> None:
    """Give an ensemble weight 0: no new directory goes there. What is there stays, without --move. Safe to repeat.

    It asks before the first change of the cluster's rules or weights; without a terminal it wants --yes. With
    --move it does as `map move` for one directory after the other; status 1 if some stay.
    """
    verify_ensembles([name])
    if rate and not move:
        raise typer.BadParameter("--rate goes with --move")
    connection = connection_options(auth, timeout, ca, cert, key)
    servers, _ = split_hosts(hosts)
    command = partial(change_weights, servers, {name: 0}, strangers_gone=strangers_gone, **connection)

    def tell() -> str:
        left = find_left(servers, name, **connection)
        if left is None:
            return f"the directories that are left on {name} cannot be counted: it cannot be reached"
        return "\n".join(_left(left, name))

    if not move:
        _change(command, yes, dry_run, SO_ALREADY, tell)
        return
    would_be = _change(command, yes, dry_run, SO_ALREADY)
    moves = partial(move_off, servers, name, would_be=would_be if dry_run else None)
    run_moves(moves, rate=rate, strangers_gone=strangers_gone, dry_run=dry_run, **connection)


def _left(left: Left, name: str) -> Iterator[str]:
    directories = "1 directory has its" if left.number == 1 else f"{left.number:,} directories have their"
    keep = "keeps" if left.number == 1 else "keep"
    yield f"{directories} place on {name}, and {keep} it{':' if left.shown else ''}"
    for path, children in left.shown:
        yield f"  {path}: {children:,} {'child' if children == 1 else 'children'}"
    if left.number > len(left.shown):
        among = f", of the first {left.looked:,} by path" if left.looked < left.number else ""
        yield f"  and {left.number - len(left.shown):,} more; these have the most children{among}"
    yield f"children that are on {name} beside their parents are not counted: --move --dry-run lists all"


def weigh(
    weight: Annotated[
        list[str], typer.Argument(metavar="NAME=WEIGHT", help="An ensemble, and its weight from now on: 0 to 100.")
    ],
    hosts: Hosts,
    yes: Yes = False,
    strangers_gone: StrangersGone = False,
    dry_run: DryRun = False,
    auth: Auth = None,
    timeout: Timeout = TIMEOUT_S,
    ca: Ca = None,
    cert: Cert = None,
    key: Key = None,
) -> None:
    """Give ensembles other shares of the new directories. What is there stays. Safe to repeat.

    It asks before the first change of the cluster's rules or weights; without a terminal it wants --yes.
    """
    servers, _ = split_hosts(hosts)
    connection = connection_options(auth, timeout, ca, cert, key)
    weights = parse_weights("", weight)
    command = partial(change_weights, servers, weights, strangers_gone=strangers_gone, **connection)
    _change(command, yes, dry_run, SO_ALREADY)


def _change(
    command: Callable[..., ClusterMap],
    yes: bool,
    dry_run: bool,
    nothing: str,
    about: Callable[[], str] = lambda: "",
) -> ClusterMap:
    """Run a command that changes shares, and print them. Returns the map, or the one that would be.

    :param nothing: printed if there was nothing to do.
    :param about: called behind the change; returns lines to print, if any.
    """
    console = Console()
    after, steps = run_growth(console, command, yes, dry_run)
    if steps.are_none:
        console.print(nothing, soft_wrap=True)
    console.print(shares_table(after))
    if told := about():
        console.print(plain(told), soft_wrap=True)
    print_end(console, steps, dry_run)
    return after


def abort(
    hosts: Hosts,
    auth: Auth = None,
    timeout: Timeout = TIMEOUT_S,
    ca: Ca = None,
    cert: Cert = None,
    key: Key = None,
) -> None:
    """Undo a `map grow` that did not come to its end: take out the ensembles that no epoch names."""
    servers, _ = split_hosts(hosts)
    console = Console()
    with console.status("changing the cluster map"):
        done = abort_growth(servers, **connection_options(auth, timeout, ca, cert, key))
    for step in done:
        console.print(Text(step), soft_wrap=True)


def epochs(
    hosts: Hosts,
    json: Json = False,
    auth: Auth = None,
    timeout: Timeout = TIMEOUT_S,
    ca: Ca = None,
    cert: Cert = None,
    key: Key = None,
) -> None:
    """List the map's epochs, and how far the newest map has come. Status 1 if an ensemble cannot be reached."""
    servers, _ = split_hosts(hosts)
    console = Console()
    with console.status("asking all ensembles"):
        found = read_spread(servers, **connection_options(auth, timeout, ca, cert, key))
    if json:
        print_json(_document(found))
    else:
        _print(console, found)
    if found.absent:
        raise typer.Exit(1)


def _document(found: MapSpread) -> dict[str, object]:
    """:returns: for each copy its number, or None, and a remark."""
    copies = {
        name: {"map": copy.map and copy.map.epoch, "is_wrong": copy.is_wrong, "about": copy.about}
        for name, copy in found.copies.items()
    }
    clients = [client._asdict() for client in found.clients]
    return map_document(found.cluster_map) | {"copies": copies, "absent": dict(found.absent), "clients": clients}


def _print(console: Console, found: MapSpread) -> None:
    console.print(_epochs_table(found.cluster_map.epochs))
    if unused := found.cluster_map.unused:
        console.print(f"no epoch names {', '.join(unused)}: `parkazoo map grow` again, or `parkazoo map abort`")
    for line in (*_copies(found), *_clients(found)):
        console.print(Text(line), soft_wrap=True)


def _epochs_table(found: Iterable[Epoch]) -> Table:
    table, last, before = Table("epoch", "weights", "rules"), None, 0
    for epoch in found:
        if epoch.number > before + 1:
            table.add_row("...", "no longer in the map", "")
        before = epoch.number
        weights = ", ".join(f"{name} {weight}" for name, weight in epoch.weights.items())
        rules = "\n".join(f"{rule.prefix}: {describe_rule(rule)}" for rule in epoch.rules)
        if rules and epoch.rules == last:
            rules = "the same"
        last = epoch.rules
        table.add_row(str(epoch.number), Text(weights, overflow="fold"), Text(rules, overflow="fold"))
    return table


def _copies(found: MapSpread) -> Iterator[str]:
    by_number: dict[int, list[str]] = defaultdict(list)
    for name, copy in found.copies.items():
        if copy.map is not None and not copy.is_wrong:
            by_number[copy.map.epoch].append(name)
    yield f"copies: {_numbered(found, by_number)}"
    for name, copy in found.copies.items():
        if copy.map is None or copy.is_wrong:
            yield f"copy on {name}: {copy.about}; see `parkazoo map check`"
    for name, why in found.absent.items():
        yield f"copy on {name}: not read: {why}"


def _clients(found: MapSpread) -> Iterator[str]:
    by_number: dict[int, list[RegisteredClient]] = defaultdict(list)
    silent = 0
    for client in found.clients:
        if isinstance(client.map, int):
            by_number[client.map].append(client)
        else:
            silent += 1
    counts = {number: [f"{len(clients):,}"] for number, clients in by_number.items()}
    told = _numbered(found, counts) if counts else "none"
    yield f"registered clients: {told}{f'; {silent} that do not say' if silent else ''}"
    behind = [
        client for number in sorted(by_number) for client in by_number[number] if number < found.cluster_map.epoch
    ]
    for client in behind[:CLIENTS_SHOWN]:
        yield f"  map {client.map}: {client.client} on {client.host}, pid {client.pid}"
    if len(behind) > CLIENTS_SHOWN:
        yield f"  and {len(behind) - CLIENTS_SHOWN:,} more: `parkazoo clients` lists them"


def _numbered(found: MapSpread, by_number: dict[int, list[str]]) -> str:
    newest = found.cluster_map.epoch
    return "; ".join(
        f"map {number}{', the newest' if number == newest else ''}: {', '.join(by_number[number])}"
        for number in sorted(by_number, reverse=True)
    )
