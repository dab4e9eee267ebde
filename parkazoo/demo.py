"""``python -m parkazoo.demo``: three ensembles of three real servers, and what ParKazoo does on them.

Needs the extra ``local``. Each part checks what it shows; the exit status is 0 only if all of it happened.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import EventType, WatchedEvent

from parkazoo import CrossEnsembleError, ParKazooClient
from parkazoo.cli import INTERRUPTED
from parkazoo.installing import command_to_add
from parkazoo.local import LocalCluster, LocalClusterError
from parkazoo.protocol.where.places import Places
from parkazoo.types import ZnodeStat

try:
    from rich import box
    from rich.console import Console, RenderableType
    from rich.padding import Padding
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.table import Table
    from rich.text import Text
except ImportError:
    sys.exit(f"The demonstration needs rich: {command_to_add('local')}")

ENSEMBLES, SERVERS = 3, 3
COLOURS = ("cyan", "magenta", "yellow")
TIMEOUT_S = 20.0  # for whatever is waited for; each takes milliseconds, unless the machine is very busy
LOCK_TURNS = 3
LOCK_HELD_S = 0.03
BARRIER_CLOSED_S = 0.2
BAR = 40  # characters
HOLDS, WAITS = "█░" if "utf" in (sys.stdout.encoding or "").lower() else "#."
NTH = ("1st", "2nd", "3rd")
TREE = (
    "/shop",
    "/shop/config",
    "/shop/config/db",
    "/shop/orders",
    "/shop/orders/1001",
    "/shop/orders/1001/items",
    "/shop/orders/1002",
    "/shop/stock",
    "/shop/stock/boots",
    "/shop/workers",
)
T = TypeVar("T")


class DemoError(Exception):
    """Something that was to be shown did not happen."""


def expect(is_so: bool, claim: str) -> None:
    """
    :raises DemoError: if it is not so.
    """
    if not is_so:
        raise DemoError(f"this should be so, and is not: {claim}")


def in_background(function: Callable[[], T]) -> Future[T]:
    """A daemon thread, so that Ctrl-C need not wait for it."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(function())
        except Exception as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def table(*columns: str) -> Table:
    return Table(*columns, box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="dim")


class Demo:
    """The parts, in the order of their definition. Each returns what it has to show."""

    def __init__(self, anna: ParKazooClient, ben: ParKazooClient) -> None:
        assert anna.cluster_map is not None
        self.anna = anna
        self.ben = ben
        self.map = anna.cluster_map
        self.places = Places(self.map.make_placement())

    # ---- where a znode is ----------------------------------------------------------------------

    def home(self, path: str) -> str:
        """The name of the ensemble that holds the znode."""
        return self.map.names[self.places.known(path).home.ensemble]

    def of_children(self, path: str) -> str:
        return self.map.names[self.places.known(path).mirror.ensemble]

    def text(self, name: str) -> Text:
        return Text(name, COLOURS[self.map.names.index(name)])

    def holders(self, path: str) -> list[str]:
        """The ensembles on whose servers the znode is found."""
        stored = self.places.known(path).home.path
        return [name for name, member in self.anna.members.items() if member.exists(stored)]

    # ---- the parts -----------------------------------------------------------------------------

    def cluster_map(self) -> tuple[str, RenderableType]:
        shown = table("ensemble", "servers", "")
        for name in self.map.ensembles:
            is_bootstrap = name == self.map.bootstrap
            servers = self.map.ensembles[name].replace(",", "  ")
            shown.add_row(self.text(name), servers, "holds the map" if is_bootstrap else "")
        expect(self.ben.cluster_map == self.map, "both clients work by the same map")
        return "each ensemble is an ordinary ZooKeeper of three servers", shown

    def tree(self) -> tuple[str, RenderableType]:
        """Anna makes a tree, Ben reads it, and plain clients look what each ensemble holds."""
        shown = table("znode", "lives on", "its children live on")
        for path in TREE:
            expect(self.anna.create(path, path.encode()) == path, f"{path} is made")
        for path in TREE:
            expect(self.ben.get(path)[0] == path.encode(), f"the other client reads what {path} holds")
            expect(self.holders(path) == [self.home(path)], f"{path} is on ensemble {self.home(path)} alone")
            depth = path.count("/") - 1
            children = self.ben.get_children(path)
            expected = [each.rpartition("/")[2] for each in TREE if each.rpartition("/")[0] == path]
            expect(sorted(children) == expected, f"{path} has the children {expected}")
            name = Text("  " * depth + (path if depth == 0 else path.rpartition("/")[2]))
            shown.add_row(name, self.text(self.home(path)), self.text(self.of_children(path)) if children else "")
        expect(len({self.home(path) for path in TREE}) > 1, "the tree spans ensembles")
        return "siblings stay together; their parent's path says where", shown

    def lock(self) -> tuple[str, RenderableType]:
        """Both clients take the same lock, several times each."""
        start = threading.Barrier(2)
        began = time.monotonic()
        clients = {"anna": self.anna, "ben": self.ben}

        def contend(name: str) -> list[tuple[float, float, float]]:
            lock = clients[name].Lock("/shop/lock", name)
            turns = []
            start.wait(TIMEOUT_S)
            for _ in range(LOCK_TURNS):
                asked = time.monotonic()
                lock.acquire(timeout=TIMEOUT_S)
                held = time.monotonic()
                time.sleep(LOCK_HELD_S)  # the work, which only the holder of the lock may do
                turns.append((asked - began, held - began, time.monotonic() - began))
                lock.release()
            return turns

        running = {name: in_background(partial(contend, name)) for name in clients}
        turns = {name: future.result(TIMEOUT_S) for name, future in running.items()}
        held = sorted((from_s, to_s) for each in turns.values() for _, from_s, to_s in each)
        expect(len(held) == 2 * LOCK_TURNS, "every turn came")
        expect(all(first[1] <= second[0] for first, second in pairwise(held)), "one holds it at a time")
        shown = table("client", f"{HOLDS} holds the lock   {WAITS} waits", "held from - to, ms")
        for name, each in turns.items():
            shown.add_row(
                name, bar(each, held[-1][1]), "  ".join(f"{1e3 * h:.0f}-{1e3 * e:.0f}" for _, h, e in each)
            )
        return f"two clients want /shop/lock, {LOCK_TURNS} times each", shown

    def queue(self) -> tuple[str, RenderableType]:
        """Anna puts, both get."""
        anna, ben = self.anna.Queue("/shop/jobs"), self.ben.Queue("/shop/jobs")
        put = (("paint", 100), ("polish", 100), ("urgent", 1))
        for item, priority in put:
            anna.put(item.encode(), priority)
        shown = table("item", "put", "priority", "got")
        order = ((put[2], "ben", ben), (put[0], "anna", anna), (put[1], "ben", ben))
        for turn, (entry, name, queue) in enumerate(order):
            item, priority = entry
            expect(queue.get() == item.encode(), f"{name} gets {item} from the Queue")
            shown.add_row(item, f"{NTH[put.index(entry)]}, by anna", str(priority), f"{NTH[turn]}, by {name}")
        expect(ben.get() is None and len(anna) == 0, "the Queue is empty then")
        return "an item is given once, the most urgent first", shown

    def locking_queue(self) -> tuple[str, RenderableType]:
        """Ben's session ends while he holds an item: Anna gets it."""
        anna, ben = self.anna.LockingQueue("/shop/parcels"), self.ben.LockingQueue("/shop/parcels")
        anna.put_all([b"boots", b"shirt"])
        expect(ben.get(TIMEOUT_S) == b"boots", "ben gets boots from the LockingQueue")
        expect(anna.get(TIMEOUT_S) == b"shirt" and anna.consume(), "anna gets shirt, as boots is locked")
        self.ben.stop()
        expect(anna.get(TIMEOUT_S) == b"boots" and anna.consume(), "anna gets boots once ben's session has ended")
        expect(len(anna) == 0, "the LockingQueue is empty then")
        self.ben.start(TIMEOUT_S)
        shown = table("item", "put by", "got by")
        shown.add_row("boots", "anna", "ben, whose session ends before he is done; so then anna")
        shown.add_row("shirt", "anna", "anna")
        return "an item comes back if its holder goes away", shown

    def barrier(self) -> tuple[str, RenderableType]:
        """Ben waits until Anna removes the barrier."""
        began = time.monotonic()
        anna, ben = self.anna.Barrier("/shop/gate"), self.ben.Barrier("/shop/gate")
        anna.create()
        expect(not ben.wait(0), "the barrier is closed for ben")

        def wait() -> tuple[float, bool, float]:
            return time.monotonic(), ben.wait(TIMEOUT_S), time.monotonic()

        waiting = in_background(wait)
        time.sleep(BARRIER_CLOSED_S)  # what Anna does before she lets others go on
        removed = time.monotonic()
        expect(anna.remove(), "anna removes the barrier")
        came, has_passed, passed = waiting.result(TIMEOUT_S)
        expect(has_passed and passed >= removed, "ben passes when anna has removed the barrier, not before")
        shown = table("ms", "client", "")
        for at, name, what in (
            (came, "ben", "comes to the barrier and waits"),
            (removed, "anna", "removes it"),
            (passed, "ben", "goes on"),
        ):
            shown.add_row(f"{1e3 * (at - began):.0f}", name, what)
        return "one client waits at /shop/gate until another opens it", shown

    def watch(self) -> tuple[str, RenderableType]:
        """Ben watches the children of a znode that lives elsewhere than they do."""
        parent, child = "/shop/workers", "/shop/workers/anna"
        expect(self.home(parent) != self.home(child), f"{parent} lives on another ensemble than its children")
        fired: Future[WatchedEvent] = Future()
        expect(self.ben.get_children(parent, watch=fired.set_result) == [], "no client works yet")
        self.anna.create(child, ephemeral=True)
        event = fired.result(TIMEOUT_S)
        expect((event.type, event.path) == (EventType.CHILD, parent), f"{event} is a CHILD event of {parent}")
        expect(self.ben.get_children(parent) == ["anna"], "ben sees who works")
        shown = table("client", "does or sees", "that znode lives on")
        shown.add_row("ben", f"watches the children of {parent}", self.text(self.home(parent)))
        shown.add_row("anna", f"creates {child}, an ephemeral", self.text(self.home(child)))
        shown.add_row("ben", f"gets {event.type} of {event.path}", self.text(self.home(parent)))
        return "a parent and its children on different ensembles: the watch fires", shown

    def transaction(self) -> tuple[str, RenderableType]:
        """Siblings change together."""
        one, two, three = (f"/shop/orders/{number}" for number in (1001, 1002, 1003))
        transaction = self.anna.transaction()
        transaction.check(one, 0)
        transaction.set_data(one, b"paid")
        transaction.delete(two)
        transaction.create(three, b"new")
        results = transaction.commit()
        expect(
            not any(isinstance(each, Exception) for each in results), f"the transaction commits, not: {results}"
        )
        expect(self.ben.get(one)[0] == b"paid", f"{one} is set")
        expect(
            sorted(self.ben.get_children("/shop/orders")) == ["1001", "1003"], f"{two} is gone, {three} is there"
        )
        shown = table("operation", "znode", "lives on", "result")
        for operation, path, result in zip(
            ("check", "set_data", "delete", "create"), (one, one, two, three), results, strict=True
        ):
            said = f"version {result.version}" if isinstance(result, ZnodeStat) else str(result)
            shown.add_row(operation, path, self.text(self.home(path)), said)
        return "all or nothing, for znodes that share an ensemble", shown

    def cross_ensemble(self) -> tuple[str, RenderableType]:
        """A transaction that ZooKeeper could not make atomic is refused."""
        transaction = self.anna.transaction()
        transaction.set_data("/shop/config", b"sale")
        transaction.create("/shop/orders/1004")
        try:
            transaction.commit()
        except CrossEnsembleError as error:
            expect(self.ben.get("/shop/config")[0] != b"sale", "nothing of a refused transaction is done")
            expect(self.ben.exists("/shop/orders/1004") is None, "nothing of a refused transaction is done")
            return "refused at once, instead of half done", Text(f"{type(error).__name__}: {error}")
        raise DemoError("a transaction across ensembles was not refused")

    def parts(self) -> Sequence[tuple[str, Callable[[], tuple[str, RenderableType]]]]:
        return (
            ("The cluster map", self.cluster_map),
            ("A tree of znodes", self.tree),
            ("Lock", self.lock),
            ("Queue", self.queue),
            ("LockingQueue", self.locking_queue),
            ("Barrier", self.barrier),
            ("Child watch", self.watch),
            ("Transaction", self.transaction),
            ("Transaction across ensembles", self.cross_ensemble),
        )


def bar(turns: Sequence[tuple[float, float, float]], end_s: float) -> Text:
    """When a client waited for the lock and when it held it, from 0 to `end_s`."""
    cells = [" "] * BAR
    for asked_s, held_s, released_s in turns:
        asked, held, released = (round(at / end_s * BAR) for at in (asked_s, held_s, released_s))
        cells[asked:held] = WAITS * (held - asked)
        cells[held:released] = HOLDS * (released - held)
    return Text("".join(cells), "green")


@contextmanager
def connected(hosts: str) -> Iterator[ParKazooClient]:
    client = ParKazooClient(hosts)
    try:
        client.start(TIMEOUT_S)
        client.join(timeout=TIMEOUT_S)
        yield client
    finally:
        client.stop()
        client.close()


@contextmanager
def progress(console: Console) -> Iterator[Callable[[str], None]]:
    """A function that says what is going on: in one changing line on a terminal, else in lines on stderr."""
    console = console if console.is_terminal else Console(stderr=True, soft_wrap=True)
    if not console.is_terminal:
        yield console.print
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as line:
        task = line.add_task("")
        yield lambda text: line.update(task, description=text)


def show(console: Console) -> None:
    """The whole demonstration.

    :raises DemoError: if something did not come out as it should.
    """
    began = time.monotonic()
    with progress(console) as say, LocalCluster(ENSEMBLES, SERVERS, progress=say) as cluster:
        try:
            say("connecting two clients")
            with connected(cluster.hosts) as anna, connected(cluster.hosts) as ben:
                say("running the demonstration")
                parts = Demo(anna, ben).parts()
                for title, part in parts:
                    try:
                        about, shown = part()
                    except (DemoError, KazooException, KazooTimeoutError, TimeoutError) as error:
                        raise DemoError(f"{title}: {described(error)}") from error
                    console.print(Text.assemble((title, "bold"), "  ", (about, "dim")))
                    console.print(Padding(shown, (0, 0, 0, 2), expand=False))
                    console.print()
        finally:
            say("stopping the servers")
    seconds = time.monotonic() - began
    console.print(f"All {len(parts)} parts came out right, in {seconds:.0f} s; what was started is stopped again.")
    command = Path(sys.executable).with_name("parkazoo")
    if command.is_relative_to(Path.cwd()):
        command = command.relative_to(Path.cwd())
    console.print(f"To go on: [bold]{command} local up[/] and the programs of recipes/", soft_wrap=True)


def described(error: Exception) -> str:
    if isinstance(error, (DemoError, LocalClusterError)):
        return str(error)
    return f"{type(error).__name__}: {error}".rstrip(": ")


def is_interrupt(error: BaseException | None) -> bool:
    """Whether it is Ctrl-C, or what came of Ctrl-C in the middle of a clean-up."""
    return error is not None and (isinstance(error, KeyboardInterrupt) or is_interrupt(error.__context__))


def main() -> int:
    """The exit status."""
    try:
        show(Console(highlight=False))
    except (Exception, KeyboardInterrupt) as error:
        console = Console(stderr=True, soft_wrap=True)
        if is_interrupt(error):
            console.print("interrupted; what was started is stopped")
            return INTERRUPTED
        if isinstance(error, (DemoError, LocalClusterError, KazooException, KazooTimeoutError)):
            console.print(Text.assemble(("error: ", "bold red"), described(error)))
            return 1
        raise
    return 0


if __name__ == "__main__":
    sys.exit(main())
