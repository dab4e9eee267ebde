"""docs/guide/outages.md: what recipes and structures do while a whole ensemble is away."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from kazoo.exceptions import ConnectionLoss
from kazoo.protocol.states import KazooState

from parkazoo import ParKazooClient
from parkazoo.kazoo_private import SESSION_EXPIRED
from tests.live.test_client_waits import Outcome
from tests.live.world import LiveTest, wait_until

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "outages.md"
HOME, CHILDREN, OTHER = range(3)  # the ensembles of a folder, and one that has nothing of it
TITLES = {
    HOME: "The home's ensemble is away",
    CHILDREN: "The children's ensemble is away",
    OTHER: "Another one is away",
}
TIMEOUT_S = 8.0  # a machine that stands still for half of it ends no session
QUIET_S = 1.5 * TIMEOUT_S
Client = ParKazooClient


@dataclass(frozen=True)
class Recipe:
    """
    :param folders: with children, relative to the path, which is the first part of each.
    :param take: makes the recipe's object, takes what can be held of it, and returns it.
    :param release: gives that back; None if nothing is held.
    :param hold: whether it is known to be held, or what there is can be read.
    :param fill: makes what is taken.
    """

    folders: tuple[str, ...]
    take: Callable[[Client, str], Any]
    release: Callable[[Any], Any] | None = None
    hold: Callable[[Client, str, Any], Any] | None = None
    fill: Callable[[Client, str], Any] = lambda client, path: client.ensure_path(path)


def acquired(name: str) -> Callable[[Client, str], Any]:
    def take(client: Client, path: str) -> Any:
        lock = getattr(client, name)(path)
        return lock if lock.acquire() else None

    return take


def is_connected(client: Client, path: str, _: Any) -> bool:
    return client.state_of(f"{path}/x") == KazooState.CONNECTED


def locked(client: Client, path: str) -> Any:
    """As one that has been used."""
    with client.Lock(path):
        pass


def leased(client: Client, path: str) -> Any:
    with client.Semaphore(path):
        pass


def joined(name: str) -> Callable[[Client, str], Any]:
    def take(client: Client, path: str) -> Any:
        party = getattr(client, name)(path, "me")
        party.join()
        return party

    return take


def entered(client: Client, path: str) -> Any:
    barrier = client.DoubleBarrier(path, 1)
    barrier.enter()
    return barrier if barrier.participating else None


def blocked(client: Client, path: str) -> Any:
    barrier = client.Barrier(path)
    barrier.create()
    return barrier


def partitioned(client: Client, path: str) -> Any:
    partitioner = client.SetPartitioner(path, ("x",), time_boundary=0)
    while not partitioner.acquired:
        if partitioner.failed:
            raise ConnectionLoss
        if partitioner.release:
            partitioner.release_set()
        partitioner.wait_for_acquire(None)
    return partitioner


def led(client: Client, path: str) -> Any:
    election = client.Election(path)
    election.lock.acquire()  # as run() does
    return election


def written(client: Client, path: str) -> Any:
    with client.deferred() as later:
        later.put(f"{path}/x", b"2")
    return later


def shared(client: Client, path: str) -> Any:
    entries = client.DistributedDict(path)
    entries["x"] = 1
    return entries


def put_into(name: str) -> Callable[[Client, str], Any]:
    def fill(client: Client, path: str) -> Any:
        queue = getattr(client, name)(path)
        queue.put(b"1")
        queue.put(b"2")

    return fill


def got(client: Client, path: str) -> Any:
    queue = client.LockingQueue(path)
    return queue if queue.get() else None


RECIPES: dict[str, Recipe] = {
    "Lock": Recipe(("",), acquired("Lock"), lambda lock: lock.release(), is_connected, locked),
    "ReadLock": Recipe(("",), acquired("ReadLock"), lambda lock: lock.release(), is_connected, locked),
    "WriteLock": Recipe(("",), acquired("WriteLock"), lambda lock: lock.release(), is_connected, locked),
    "Election": Recipe(("",), led, lambda election: election.lock.release(), is_connected, locked),
    "Semaphore": Recipe(
        ("-__lock__", ""), acquired("Semaphore"), lambda lock: lock.release(), is_connected, leased
    ),
    "Lease": Recipe(
        ("",),
        lambda client, path: client.NonBlockingLease(path, timedelta(hours=1), "me") or None,
        fill=locked,
    ),
    "Party": Recipe(("",), joined("Party"), lambda party: party.leave() is not None, is_connected, locked),
    "ShallowParty": Recipe(
        ("",), joined("ShallowParty"), lambda party: party.leave() is not None, is_connected, locked
    ),
    "DoubleBarrier": Recipe(("",), entered, lambda barrier: barrier.leave() is None, is_connected, locked),
    "SetPartitioner": Recipe(
        ("", "/party", "/locks", "/locks/x"),
        partitioned,
        lambda each: each.finish() is None,
        is_connected,
        lambda client, path: partitioned(client, path).finish(),
    ),
    "LockingQueue": Recipe(
        ("", "/entries"),
        got,
        lambda queue: queue.consume(),
        lambda client, path, _: client.state_of(f"{path}/entries/x") == KazooState.CONNECTED,
        put_into("LockingQueue"),
    ),
    "Queue": Recipe(
        ("",),
        lambda client, path: client.Queue(path).get(),
        hold=lambda client, path, _: len(client.Queue(path)),
        fill=put_into("Queue"),
    ),
    "Counter": Recipe(
        ("",),
        lambda client, path: client.Counter(path) + 1,
        hold=lambda client, path, _: client.Counter(path).value is not None,
    ),
    "Barrier": Recipe(("",), blocked, lambda barrier: barrier.remove()),
    "DistributedDict": Recipe(("",), shared, hold=lambda client, path, entries: entries["x"], fill=shared),
    "deferred": Recipe(("",), written, fill=lambda client, path: client.create(f"{path}/x", makepath=True)),
    "once": Recipe(
        ("",),
        lambda client, path: client.once(client.create, f"{path}/x-", sequence=True),
        fill=lambda client, path: client.create(f"{path}/x", makepath=True),
    ),
}


class OutageTest(LiveTest):
    """Two holders, of which one loses its session while the ensemble is away, and a client that held nothing."""

    def setUp(self) -> None:
        super().setUp()
        names = (f"/outage-{number}" for number in count())
        self.setup = self.joined()
        self.root = next(
            path for path in names if self.placement.of_children(path) == HOME and not self.setup.exists(path)
        )
        self.addCleanup(self.setup.delete, self.root, recursive=True)
        self.numbers = count()
        self.holder, self.loser, self.rival = (self.joined(timeout=TIMEOUT_S) for _ in range(3))

    def path(self, recipe: Recipe) -> str:
        """Of a folder with its home on HOME and its children on CHILDREN; it has had children."""
        paths = (f"{self.root}/{number}" for number in self.numbers)
        path = next(
            path
            for path in paths
            if {self.placement.of_children(path + folder) for folder in recipe.folders} == {CHILDREN}
        )
        recipe.fill(self.setup, path)
        return path

    @contextmanager
    def away(self, ensemble: int) -> Iterator[None]:
        server = self.cluster.ensembles[ensemble].servers[0]
        server.kill()
        try:
            for client in (self.holder, self.loser, self.rival):
                member = self.member(client, ensemble)
                wait_until(lambda m=member: not m.connected, "the client has noticed")
            yield
        finally:
            server.start()
            server.wait_serving()

    def check(self, ensemble: int) -> None:
        expected = read_page(TITLES[ensemble])
        self.assertCountEqual(expected, RECIPES)
        begun = {name: self.begin(recipe) for name, recipe in RECIPES.items()}
        with self.away(ensemble):
            number = self.loser.session_number
            self.loser._call(SESSION_EXPIRED, None)
            wait_until(lambda: self.loser.session_number > number, "LOST")
            outcomes = {
                (name, what): (Outcome(client, call), expected[name][what])
                for name, calls in begun.items()
                for what, (client, call) in calls.items()
            }
            for (name, what), (outcome, cell) in outcomes.items():
                if cell != WAITS:
                    with self.subTest(TITLES[ensemble], recipe=name, what=what):
                        wait_until(lambda o=outcome: len(o), cell)
                        self.assertEqual(cell_of(outcome), cell)
            waiting = {key: outcome for key, (outcome, cell) in outcomes.items() if cell == WAITS}
            if waiting:
                self.holder.handler.sleep_func(QUIET_S)
            for (name, what), outcome in waiting.items():
                with self.subTest(TITLES[ensemble], recipe=name, what=what):
                    self.assertEqual(outcome, [])
        for (name, what), outcome in waiting.items():
            with self.subTest(TITLES[ensemble], recipe=name, what=what, when="it is back"):
                wait_until(lambda o=outcome: len(o), "it has ended")
                self.assertIn(cell_of(outcome), (YES, ENDED) if name in ONCE else (YES,))
        for name, cells in expected.items():
            self.assertEqual({what for what, cell in cells.items() if cell != NOTHING}, {*begun[name]}, name)

    def begin(self, recipe: Recipe) -> dict[str, tuple[Client, Callable[[], Any]]]:
        """Take what is held; the calls to make while the ensemble is away, and by whom."""
        paths = [self.path(recipe) for _ in range(5)]
        held = recipe.take(self.holder, paths[0])
        calls = {
            TAKE: (self.rival, partial(recipe.take, self.rival, paths[1])),
            TAKE_ANEW: (self.loser, partial(recipe.take, self.loser, paths[2])),
        }
        if recipe.hold is not None:
            calls[HOLD] = self.holder, partial(recipe.hold, self.holder, paths[0], held)
        if recipe.release is not None:
            other, given_up = recipe.take(self.holder, paths[3]), recipe.take(self.loser, paths[4])
            last = self.path(recipe)
            recipe.take(self.loser, last)
            calls[RELEASE] = self.holder, partial(recipe.release, other)
            calls[RELEASE_LOST] = self.loser, partial(recipe.release, given_up)
            calls[TAKE_OVER] = self.rival, partial(recipe.take, self.rival, last)
        return calls

    def test_home(self) -> None:
        self.check(HOME)

    def test_children(self) -> None:
        self.check(CHILDREN)

    def test_another(self) -> None:
        self.check(OTHER)


HOLD, RELEASE, TAKE, RELEASE_LOST = COLUMNS = "hold", "release", "take", "LOST: release"
TAKE_OVER, TAKE_ANEW = "LOST: others take", "LOST: take again"  # the page says of both what it says of TAKE
YES, NO, WAITS, FAILS, ENDED, NOTHING = "yes", "no", "waits", "fails", "SessionExpiredError", "-"
ONCE = ("Queue", "Counter", "deferred", "once")  # their errors say that the session has ended


def cell_of(outcome: Outcome) -> str:
    (result,) = outcome
    if isinstance(result, type):
        return FAILS if result is ConnectionLoss else result.__name__
    return YES if result else NO


def read_page(title: str) -> dict[str, dict[str, str]]:
    """The table below a heading: what is expected, by recipe and call. A row may have several recipes."""
    section = PAGE.read_text().split(f"## {title}\n")[1].split("\n## ")[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in re.findall(r"^\|.*\|$", section, re.M)
    ]
    (_, *columns), _, *cells = rows
    assert tuple(columns) == COLUMNS, columns
    found: dict[str, dict[str, str]] = {}
    for names, *row in cells:
        expected = dict(zip(columns, row, strict=True))
        expected[TAKE_ANEW] = expected[TAKE]
        expected[TAKE_OVER] = NOTHING if expected[RELEASE] == NOTHING else expected[TAKE]
        for name in names.split(", "):
            assert name not in found, f"{name} has two rows"
            found[name] = expected
    return found
