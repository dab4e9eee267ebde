"""The evaluation on machines over SSH: real ones, or fifty that are emulated. docs/guide/running-the-evaluation.md

fab --list names the tasks; fab --help TASK, what a task takes.
"""

from __future__ import annotations

import difflib
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from fabric import Connection, task
from invoke import Collection as Tasks
from invoke import Exit
from rich.console import Console
from rich.table import Table
from rich.text import Text

from bench import ROOT, chaos
from bench.hosts import deployment, zookeeper
from bench.hosts.dropping import Dropping
from bench.hosts.emulation import NAME, Emulation
from bench.hosts.fleet import Fleet, FleetError
from bench.hosts.host_lab import HostLab
from bench.hosts.inventory import Host, InventoryError, find_inventory, read_inventory
from bench.hosts.preflight import Needs, as_table, find_lacks, how_to_go_on
from bench.lab import LabError, Shape
from bench.scenarios import thesis
from bench.scenarios.catalogue import SCENARIOS, USUAL, pieces, run_scenario, title_of, verify_topology
from bench.scenarios.emulated import DISK_BYTES
from bench.scenarios.evaluation import SIZES, stem
from bench.scenarios.results import ReportError, make_report
from parkazoo.cli import INTERRUPTED

ALL = "all"
WIDTH = 120  # where no terminal has one
INVENTORY = {
    "inventory": "the file with the hosts; by default conf/emulated.toml if it exists, else conf/hosts.toml"
}
RESULTS = ROOT / "build" / "evaluation"
FOLDER = {"folder": "for results, plots and the report; by default a new one in build/evaluation"}
SHAPE = {"shape": "ensembles x servers of each"}

console = Console(width=None if Console().is_terminal else WIDTH)


def tell(text: str) -> None:
    console.print(f"  {time.strftime('%H:%M:%S')} {text}", markup=False, highlight=False, style="dim")


@contextmanager
def one_line() -> Iterator[None]:
    """Errors become what they say."""
    try:
        yield
    except (LabError, InventoryError, ReportError) as error:
        raise Exit(str(error), 1) from None
    except KeyboardInterrupt:
        raise Exit("interrupted", INTERRUPTED) from None


@contextmanager
def fleet_of(inventory: str) -> Iterator[Fleet]:
    """Connected hosts."""
    with one_line():
        path = find_inventory(inventory)
        read = read_inventory(path)
        shown = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
        console.print(f"{len(read.hosts)} hosts of {shown}", markup=False, highlight=False)
        with Fleet(read, console) as fleet:
            yield fleet


@task(help=INVENTORY, auto_shortflags=False)
def check(_: Connection, inventory: str = "") -> None:
    """Say whether the hosts can be used, and what they are."""
    with fleet_of(inventory) as fleet:
        try:
            about = deployment.probe(fleet)
        except FleetError as error:
            show_hosts(fleet.inventory.hosts, error.done, error.failures)
            raise
        show_hosts(fleet.inventory.hosts, about, {})
        deployment.see_reachable(fleet)
        machines = len({each["boot"] for each in about.values()})
        console.print(f"{len(about)} hosts on {machines} machine{'s' if machines > 1 else ''} can be used")


def show_hosts(hosts: tuple[Host, ...], about: dict[str, dict[str, Any]], failures: Mapping[str, str]) -> None:
    """
    :param failures: of hosts that cannot be used, what they lack.
    """
    table = Table("host", "address", "roles", "Python", "Java", "processors", "memory", "disk", "server")
    if failures:
        table.add_column("lacks")
    for host in hosts:
        row = [host.name, host.address, ", ".join(sorted(host.roles))]
        if each := about.get(host.name):
            row += [
                each["python"],
                str(each["java"] or "will be brought"),
                str(each["processors"]),
                f"{each['available_bytes'] / 2**30:.1f} of {each['memory_bytes'] / 2**30:.1f} GiB free",
                f"{each['free_bytes'] / 2**30:.1f} GiB free",
                each["server"],
            ]
        elif host.name in failures:
            row += [""] * 6 + [failures[host.name]]
        table.add_row(*map(Text, row), style=None if each else "red")
    console.print(table)


@task(help=INVENTORY, auto_shortflags=False)
def deploy(_: Connection, inventory: str = "") -> None:
    """Bring ZooKeeper, ParKazoo and what they need to the hosts."""
    with fleet_of(inventory) as fleet:
        deployment.deploy(fleet, tell)


@task(help=INVENTORY, auto_shortflags=False)
def clean(_: Connection, inventory: str = "") -> None:
    """Stop what runs on the hosts and remove all that was brought."""
    with fleet_of(inventory) as fleet:
        removed = deployment.clean(fleet)
        console.print(f"{len(removed)} of {len(fleet.inventory.hosts)} hosts had something to be removed")


@task(help={"folder": "by default a new one in build/evaluation", **INVENTORY}, auto_shortflags=False)
def collect(_: Connection, folder: str = "", inventory: str = "") -> None:
    """Bring the logs of the servers and of the last load home. (Results come home by themselves.)"""
    with fleet_of(inventory) as fleet:
        to = new_folder(folder, "logs-")
        console.print(f"{deployment.collect(fleet, to)} files in {to}", soft_wrap=True, highlight=False)


def new_folder(given: str, prefix: str = "") -> Path:
    return Path(given) if given else RESULTS / f"{prefix}{time.strftime('%Y%m%d-%H%M%S')}"


@task(name="start", help={**SHAPE, **INVENTORY}, auto_shortflags=False)
def start_ensembles(_: Connection, shape: str = "3x3", inventory: str = "") -> None:
    """Start new, empty ZooKeeper servers, one on a host, and wait until all serve."""
    with fleet_of(inventory) as fleet:
        ensembles = zookeeper.start(fleet, Shape.parse(shape))
        for name in ensembles.shape.names:
            console.print(f"{name}: {ensembles.hosts(name)}", highlight=False, soft_wrap=True)


@task(name="stop", help=INVENTORY, auto_shortflags=False)
def stop_ensembles(_: Connection, inventory: str = "") -> None:
    """Stop all ZooKeeper servers. Their data stay until the next start, their logs until then as well."""
    with fleet_of(inventory) as fleet:
        console.print(f"{zookeeper.stop(fleet)} servers stopped")


@task(name="status", help=INVENTORY, auto_shortflags=False)
def show_ensembles(_: Connection, inventory: str = "") -> None:
    """Show the ZooKeeper servers: who leads, who follows, who is down."""
    with fleet_of(inventory) as fleet:
        found = zookeeper.find(fleet)
        table = Table("server", "host", "address", "state")
        for host, about in found.items():
            state = about["role"] or ("does not serve" if about["is_running"] else "down")
            table.add_row(about["name"], host, f"{about['address']}:{about['ports'][0]}", state)
        console.print(table if found else "there are no servers: fab ensembles.start")


@task(name="init", help=INVENTORY, auto_shortflags=False)
def make_map(_: Connection, inventory: str = "") -> None:
    """Make the cluster map of the ensembles that run."""
    with fleet_of(inventory) as fleet:
        ensembles = zookeeper.running(fleet)
        zookeeper.make_map(fleet, ensembles)
        console.print(f"the map of {ensembles.shape} is at {ensembles.hosts()}", highlight=False, soft_wrap=True)


@task(
    name="up",
    help={"hosts": "how many", "servers": "how many of them run servers; 0: three in five"},
    auto_shortflags=False,
)
def emulate(_: Connection, hosts: str = "50", servers: str = "0") -> None:
    """Make hosts on this machine, and their inventory, conf/emulated.toml. Needs Linux and root."""
    with one_line():
        began = time.monotonic()
        Emulation().up(number("hosts", hosts), number("servers", servers) or None)
        console.print(
            f"{hosts} hosts are up after {time.monotonic() - began:.1f} s; fab emulate.down removes them"
        )


@task(
    name="down", help={"name": "of those that a killed make evaluate has left: evaluation"}, auto_shortflags=False
)
def end_emulation(_: Connection, name: str = NAME) -> None:
    """Remove the emulated hosts, all that runs on them, and their inventory."""
    with one_line():
        console.print(f"{Emulation(name).down()} emulated hosts removed")


def dropping_of(inventory: str) -> Dropping:
    """
    :raises LabError: its hosts are no emulated ones.
    """
    read = read_inventory(find_inventory(inventory))
    if not read.emulation:
        raise LabError("chaos takes root and so emulated hosts: sudo fab emulate.up. On real ones fab is no root")
    return Dropping(read.emulation, {host.name: host.inside for host in read.hosts})


FILE = {"file": "TOML or JSON, as in conf/chaos.example.toml"}


@task(name="set", positional=["file"], help={**FILE, **INVENTORY}, auto_shortflags=False)
def set_chaos(_: Connection, file: str, inventory: str = "") -> None:
    """Drop packets between hosts as a matrix says, and no others."""
    with one_line():
        dropping = dropping_of(inventory)
        matrix = chaos.read_matrix(Path(file), dropping.hosts)
        began = time.monotonic()
        dropping.set(matrix)
        ways = sum(map(len, matrix.values()))
        console.print(f"{ways} ways on {len(dropping.hosts)} hosts, after {time.monotonic() - began:.2f} s")


@task(
    name="update",
    positional=["sender", "receiver", "p"],
    help={"sender": "a host", "receiver": "a host", "p": "probability that a packet is dropped", **INVENTORY},
    auto_shortflags=False,
)
def update_chaos(_: Connection, sender: str, receiver: str, p: str, inventory: str = "") -> None:
    """Change what is dropped between two hosts, one way, and nothing else."""
    with one_line():
        dropping = dropping_of(inventory)
        dropping.update(sender, receiver, chaos.read_pair(sender, receiver, p, dropping.hosts))


@task(
    name="flap",
    positional=["file"],
    help={
        **FILE,
        "period": "seconds with the matrix, and as many without",
        "lasts": "seconds in all",
        **INVENTORY,
    },
    auto_shortflags=False,
)
def flap_chaos(_: Connection, file: str, period: str = "1", lasts: str = "30", inventory: str = "") -> None:
    """Drop packets as a matrix says, and none, in turns; none in the end."""
    with one_line():
        dropping = dropping_of(inventory)
        matrix = chaos.read_matrix(Path(file), dropping.hosts)
        period_s, lasts_s = seconds("period", period), seconds("lasts", lasts)
        chaos.flap(partial(dropping.set, matrix), dropping.clear, period_s, lasts_s)


@task(name="clear", help=INVENTORY, auto_shortflags=False)
def clear_chaos(_: Connection, inventory: str = "") -> None:
    """Drop no packets any more."""
    with one_line():
        dropping_of(inventory).clear()


HOW = {
    "size": f"of {', '.join(SIZES)}",
    "seed": "of what is drawn at random",
    "repeat": "how often each load is run; by default as often as its scenario says",
    **FOLDER,
    **INVENTORY,
}


@task(
    help={
        "scenario": f"of {', '.join(SCENARIOS)}; or all",
        "topology": "a file of unequal links, for the scenario topologies; by default conf/topology.example.json",
        "part": "of a scenario whose full size has parts, that one alone",
        **HOW,
    },
    auto_shortflags=False,
)
def run(
    _: Connection,
    scenario: str,
    size: str = "medium",
    seed: str = "1",
    repeat: str = "",
    topology: str = "",
    part: str = "",
    folder: str = "",
    inventory: str = "",
) -> None:
    """Measure a scenario on the hosts: start servers, make load, save results, make the report."""
    with one_line():
        known("scenario", scenario, [*SCENARIOS, ALL])
    names = [*USUAL] if scenario == ALL else [scenario]
    measure(names, size, seed, repeat, Path(topology) if topology else None, folder, inventory, part)


@task(help=HOW, auto_shortflags=False)
def sweep(
    _: Connection, size: str = "medium", seed: str = "1", repeat: str = "", folder: str = "", inventory: str = ""
) -> None:
    """The thesis' sweep: the best number of threads, then of processes, then of client hosts. (fab run thesis)"""
    measure([thesis.NAME], size, seed, repeat, None, folder, inventory)


def measure(
    names: list[str],
    size: str,
    seed: str,
    repeat: str,
    topology: Path | None,
    folder: str,
    inventory: str,
    part: str = "",
) -> None:
    with one_line():
        known("size", size, SIZES)
        wanted = pieces(names, size, part)
        seed_number = number("seed", seed)
        times = number("repeat", repeat) if repeat else None
        if times is not None and times < 1:
            raise LabError(f"--repeat is {times}; it must be at least 1")
        if lacks := find_lacks(Needs(False, 0, DISK_BYTES, RESULTS)):  # here, for results and plots
            console.print(as_table(lacks))
            raise LabError(how_to_go_on(lacks))
    with fleet_of(inventory) as fleet:
        if topology:
            verify_topology(topology, names, size, can_limit=bool(fleet.inventory.emulation))
        to = new_folder(folder)
        to.mkdir(parents=True, exist_ok=True)
        lab = HostLab(fleet, tell)
        try:
            for name, each in wanted:
                tell(title_of(name, each))
                run_scenario(name, lab, to, size, seed_number, tell, topology, times, each)
        finally:
            if any((to / f"{stem(*piece)}.json").exists() for piece in wanted):
                console.print(str(make_report(to)), highlight=False, soft_wrap=True)


def number(what: str, text: str) -> int:
    """
    :raises LabError: it is none.
    """
    try:
        return int(text)
    except ValueError:
        raise LabError(f"--{what} is a whole number, not {text!r}") from None


def seconds(what: str, text: str) -> float:
    """
    :raises LabError: it is no such time.
    """
    try:
        number_s = float(text)
    except ValueError:
        number_s = 0.0
    if not 0 < number_s < float("inf"):
        raise LabError(f"--{what} is a number of seconds above 0, not {text!r}")
    return number_s


def known(what: str, word: str, words: Collection[str]) -> None:
    """
    :raises LabError: it is none of them.
    """
    if word not in words:
        close = difflib.get_close_matches(word, words, n=1)
        hint = f"do you mean {close[0]}?" if close else f"there are {', '.join(words)}"
        raise LabError(f"there is no {what} {word!r}: {hint}")


@task(help=FOLDER, auto_shortflags=False)
def report(_: Connection, folder: str = "") -> None:
    """Make the report of the results in a folder again, by default of the newest."""
    with one_line():
        folders = sorted(path.parent for name in SCENARIOS for path in RESULTS.glob(f"*/{name}.json"))
        if not folder and not folders:
            raise LabError(f"there are no results in {RESULTS.relative_to(ROOT)}: fab run SCENARIO")
        console.print(str(make_report(Path(folder) if folder else folders[-1])), highlight=False, soft_wrap=True)


def part(name: str, *tasks: Any) -> Tasks:
    collection = Tasks(name)
    for each in tasks:
        collection.add_task(each)
    return collection


namespace = Tasks(check, deploy, run, sweep, report, collect, clean)
namespace.add_collection(part("ensembles", start_ensembles, stop_ensembles, show_ensembles))
namespace.add_collection(part("map", make_map))
namespace.add_collection(part("chaos", set_chaos, update_chaos, flap_chaos, clear_chaos))
namespace.add_collection(part("emulate", emulate, end_emulation))
