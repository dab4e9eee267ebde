"""What is compared with what, and the goals."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

from kazoo.client import KazooClient

from bench.client.bare_socket import (
    BareAsyncGet,
    BareAsyncSet,
    BareBothGet,
    BareRoundGet,
    BareSyncCreateDelete,
    BareSyncGet,
    BareSyncSet,
    BareThreadsGet,
    BareThreadsSet,
)
from bench.client.deferred_loads import AsyncSetOf1, AsyncSetOf16, DeferredCall, DeferredSet, GetBesideDeferred
from bench.client.directories import FirstChild, LeafGet, MirroredGet, NextChild
from bench.client.grown_map import AdoptedCreate, ColdGet, MissingExists
from bench.client.listening import CountingClient, HeardClient
from bench.client.measure import CPU, LATENCY, RATE, Measure
from bench.client.ordered import OrderedClient, StayingGet
from bench.client.recipe_loads import DataWatches, LockingQueue
from bench.client.side import Side
from bench.client.single_client import (
    AsyncGet,
    AsyncGetSet,
    AsyncSet,
    SyncCreateDelete,
    SyncGet,
    SyncGetSet,
    SyncSet,
)
from bench.client.threads import CLIENTS, SHARING, ClientsGet, ClientsSet, SharedGet
from bench.client.workload import ClientLoad
from parkazoo import ParKazooClient

if sys.version_info >= (3, 11):  # for parkazoo.aio
    from bench.client.asyncio_loads import (
        AiozkClient,
        BareClient,
        LoopGet,
        LoopLoad,
        LoopOneGet,
        LoopSet,
        NewLoop,
        OurClient,
        new_asyncio,
        new_uvloop,
    )

MOST_WITH_OLD = 1.03  # of the CPU: 0.97 of the speed


@dataclass(frozen=True)
class Comparison:
    """
    :param about: for people.
    :param subject: the table has its ratio to `base`.
    :param limit: what could be had at best, where that is known.
    :param operations: of one turn.
    :param goals: for each measure the ratio to reach, at least or at most; None where there is no goal.
    """

    name: str
    about: str
    subject: Side
    base: Side
    limit: Side | None
    operations: int
    goals: dict[Measure, float | None]

    @property
    def sides(self) -> list[Side]:
        return [self.base, self.subject, *([self.limit] if self.limit else [])]


def kazoo(load: type[ClientLoad], ensembles: int = 1) -> Side:
    return Side("kazoo", partial(load, KazooClient), ensembles)


def parkazoo(load: type[ClientLoad], ensembles: int = 1, name: str = "ParKazoo") -> Side:
    return Side(name, partial(load, ParKazooClient), ensembles)


def one_order(load: type[ClientLoad]) -> Side:
    return Side("one order", partial(load, OrderedClient), 3)


def told(
    name: str, about: str, client: type[ParKazooClient], load: type[ClientLoad], most: float | None
) -> Comparison:
    """A client that tells of each request, beside one that does not.

    :param most: of its CPU.
    """
    side = Side(name.partition("-")[0], partial(load, client))
    return Comparison(name, about, side, parkazoo(load, name="untold"), None, 12000, {RATE: None, CPU: most})


def grown(load: type[ClientLoad]) -> Side:
    return Side("grown", partial(load, ParKazooClient), 3, has_grown=True)


def after_growth(name: str, about: str, load: type[ClientLoad], operations: int) -> Comparison:
    base = parkazoo(load, 3, "plain")
    return Comparison(
        f"grown-{name}",
        f"{about}, grown map : plain",
        grown(load),
        base,
        None,
        operations,
        {LATENCY: None, CPU: None},
    )


def deferred(
    name: str,
    about: str,
    base: type[ClientLoad],
    goals: dict[Measure, float | None],
    load: type[ClientLoad] = DeferredSet,
    operations: int = 3000,
) -> Comparison:
    """Deferred writes beside others, of one client on one ensemble."""
    return Comparison(
        f"deferred-{name}", about, parkazoo(load, name="deferred"), parkazoo(base), None, operations, goals
    )


def threads(load: type[BareThreadsGet], count: int, ensembles: int = 1) -> Side:
    return Side("bare sockets", partial(load, count), ensembles)


def with_old(checkout: str) -> list[Comparison]:
    """This version beside another one, in kazoo's place. A load that it does not know has no result."""
    return [
        replace(
            each,
            base=replace(each.subject, name="old", checkout=checkout),
            goals={**dict.fromkeys(each.goals), CPU: MOST_WITH_OLD},
        )
        for each in COMPARISONS
        if not each.name.startswith("bare-")  # without a client of either version
    ]


def of_asyncio() -> Iterator[Comparison]:
    """The asyncio client beside others; none if this Python is too old for it."""
    if sys.version_info < (3, 11):
        return

    def ours(load: type[LoopLoad], new_loop: NewLoop = new_asyncio) -> Side:
        return Side("asyncio", partial(load, OurClient, new_loop))

    def beside(
        name: str, about: str, subject: Side, base: Side, goals: dict[Measure, float | None], operations: int
    ) -> Comparison:
        return Comparison(f"aio-{name}", about, subject, base, None, operations, goals)

    many: tuple[tuple[str, type[LoopLoad], type[ClientLoad]], ...] = (
        ("get", LoopGet, AsyncGet),
        ("set", LoopSet, AsyncSet),
    )
    for name, load, of_threads in many:
        aiozks = Side("aiozk", partial(load, AiozkClient, new_asyncio))
        threaded = parkazoo(of_threads, name="threads")
        most_of: tuple[tuple[str, str, Side, Side, float], ...] = (
            ("threads", "asyncio : threads", ours(load), threaded, 1.1),
            ("uvloop", "uvloop : threads", ours(load, new_uvloop), threaded, 1.1),
            ("aiozk", "asyncio : aiozk", ours(load), aiozks, 0.25),
            ("kazoo", "asyncio : kazoo", ours(load), kazoo(of_threads), 0.25),
        )
        for base, about, subject, side, most in most_of:
            goals: dict[Measure, float | None] = {RATE: None, CPU: most}
            yield beside(f"{base}-{name}", f"{name}, 200 in flight, {about}", subject, side, goals, 12000)
    bare = Side("bare", partial(LoopOneGet, BareClient, new_asyncio))
    one = ours(LoopOneGet)
    yield beside(
        "one-bare", "get, one at a time, asyncio : bare Protocol", one, bare, {LATENCY: 1.4, CPU: None}, 4000
    )
    goals = {LATENCY: None, CPU: 0.75}
    yield beside("one-kazoo", "get, one at a time, asyncio : kazoo", one, kazoo(SyncGet), goals, 4000)


ASYNC = {RATE: 4.0, CPU: 0.25}
SYNC = {RATE: 1.3, CPU: 0.75}
COMPARISONS = (
    Comparison(
        "async-get",
        "get, asynchronous, 200 in flight",
        parkazoo(AsyncGet),
        kazoo(AsyncGet),
        Side("bare socket", BareAsyncGet),
        12000,
        {**ASYNC},
    ),
    Comparison(
        "async-set",
        "set, asynchronous, 200 in flight",
        parkazoo(AsyncSet),
        kazoo(AsyncSet),
        Side("bare socket", BareAsyncSet),
        12000,
        {**ASYNC},
    ),
    Comparison(
        "sync-get",
        "get, one thread",
        parkazoo(SyncGet),
        kazoo(SyncGet),
        Side("bare socket", BareSyncGet),
        4000,
        {**SYNC},
    ),
    Comparison(
        "sync-set",
        "set, one thread",
        parkazoo(SyncSet),
        kazoo(SyncSet),
        Side("bare socket", BareSyncSet),
        4000,
        {**SYNC},
    ),
    Comparison(
        "sync-create-delete",
        "create and delete, one thread",
        parkazoo(SyncCreateDelete),
        kazoo(SyncCreateDelete),
        Side("bare socket", BareSyncCreateDelete),
        4000,
        {**SYNC},
    ),
    Comparison(
        "threads-get",
        f"get, {SHARING} threads share a client",
        parkazoo(SharedGet),
        kazoo(SharedGet),
        threads(BareThreadsGet, SHARING),
        9600,
        {RATE: 3.0, CPU: None},
    ),
    Comparison(
        "clients-get",
        f"get, {CLIENTS} clients and threads, 3 ensembles : 1",
        parkazoo(ClientsGet, 3),
        kazoo(ClientsGet, 3),
        threads(BareThreadsGet, CLIENTS, 3),
        3200,
        {RATE: 2.0, CPU: None},
    ),
    Comparison(
        "clients-set",
        f"set, {CLIENTS} clients and threads, 3 ensembles : 1",
        parkazoo(ClientsSet, 3),
        kazoo(ClientsSet, 3),
        threads(BareThreadsSet, CLIENTS, 3),
        3200,
        {RATE: 2.0, CPU: None},
    ),
    Comparison(
        "watches",
        "1,000 DataWatches: set, event, get",
        parkazoo(DataWatches),
        kazoo(DataWatches),
        None,
        1000,
        {RATE: 2.0, CPU: None},
    ),
    Comparison(
        "ensembles-async",
        "get and set, asynchronous, 3 ensembles : 1",
        parkazoo(AsyncGetSet, 3, "on 3"),
        parkazoo(AsyncGetSet, 1, "on 1"),
        None,
        24000,
        {RATE: None, CPU: 1.05},
    ),
    Comparison(
        "ensembles-sync",
        "get and set, one thread, 3 ensembles : 1",
        parkazoo(SyncGetSet, 3, "on 3"),
        parkazoo(SyncGetSet, 1, "on 1"),
        None,
        4000,
        {RATE: None, CPU: 1.05},
    ),
    Comparison(
        "bare-ensembles",
        "get, one thread, bare sockets, 3 ensembles : 1",
        Side("on 3", BareRoundGet, 3),
        Side("on 1", BareSyncGet, 3),
        None,
        4000,
        {RATE: None, CPU: None},
    ),
    Comparison(
        "directory-get",
        "get of a directory : of a leaf",
        parkazoo(MirroredGet, 3, "directory"),
        parkazoo(LeafGet, 3, "leaf"),
        None,
        2000,
        {LATENCY: 1.2, CPU: None},
    ),
    Comparison(
        "bare-directory",
        "two gets at once, bare sockets, 2 ensembles : one get",
        Side("two", BareBothGet, 3),
        Side("one", BareSyncGet, 3),
        None,
        2000,
        {LATENCY: None, CPU: None},
    ),
    Comparison(
        "first-child",
        "create of a first child : of a further one",
        parkazoo(FirstChild, 3, "first"),
        parkazoo(NextChild, 3, "further"),
        None,
        400,
        {LATENCY: 3.0, CPU: None},
    ),
    Comparison(
        "locking-queue",
        "LockingQueue, 3 ensembles : 1",
        parkazoo(LockingQueue, 3),
        kazoo(LockingQueue, 3),
        None,
        200,
        {RATE: 1.0, CPU: None},
    ),
    Comparison(
        "order-get",
        "get, one thread, each on another ensemble, one order : none",
        one_order(SyncGet),
        parkazoo(SyncGet, 3, "no order"),
        None,
        4000,
        {LATENCY: None, CPU: None},
    ),
    Comparison(
        "order-set",
        "set, one thread, each on another ensemble, one order : none",
        one_order(SyncSet),
        parkazoo(SyncSet, 3, "no order"),
        None,
        4000,
        {LATENCY: None, CPU: None},
    ),
    Comparison(
        "order-async",
        "get, asynchronous, each on another ensemble, one order : none",
        one_order(AsyncGet),
        parkazoo(AsyncGet, 3, "no order"),
        None,
        4000,
        {RATE: None, CPU: None},
    ),
    Comparison(
        "order-stays",
        "get, asynchronous, all on one of 3 ensembles, one order : none",
        one_order(StayingGet),
        parkazoo(StayingGet, 3, "no order"),
        None,
        12000,
        {RATE: None, CPU: None},
    ),
    after_growth("found", "get of what is there", SyncGet, 4000),
    after_growth("directory", "get of a directory", MirroredGet, 2000),
    after_growth("missing", "exists of what is not there", MissingExists, 2000),
    after_growth("first-child", "create of a first child", FirstChild, 400),
    after_growth("cold", "get in a directory that the client does not know", ColdGet, 400),
    after_growth("adopted", "create in a directory from before", AdoptedCreate, 1000),
    deferred("async-200", "set, deferred : 200 in flight", AsyncSet, {RATE: 3.0, CPU: 0.4}, operations=12000),
    deferred("async-16", "set, deferred : 16 in flight", AsyncSetOf16, {RATE: None, CPU: None}),
    deferred("async-1", "set, deferred : 1 in flight", AsyncSetOf1, {RATE: None, CPU: None}),
    deferred("sync", "set, deferred : synchronous", SyncSet, {RATE: 10.0, CPU: None}),
    deferred(
        "call", "set, until the call returns, deferred : synchronous", SyncSet, {LATENCY: 0.05}, DeferredCall
    ),
    deferred("get", "get, beside deferred puts : alone", SyncGet, {LATENCY: 1.1}, GetBesideDeferred),
    told("counted-get", "get, 200 in flight, with counters : without", CountingClient, AsyncGet, 1.07),
    told("counted-set", "set, 200 in flight, with counters : without", CountingClient, AsyncSet, 1.07),
    told("heard-get", "get, 200 in flight, with a listener : without", HeardClient, AsyncGet, None),
    Comparison(
        "deferred-grown",
        "set, deferred, grown map : plain, both with 3 ensembles",
        grown(DeferredSet),
        parkazoo(DeferredSet, 3, "plain"),
        None,
        12000,
        {RATE: None, CPU: None},
    ),
    *of_asyncio(),
)
