"""What blocks in a recipe ends, whatever happens to the connection, and leaves nothing in the client."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import Any

from kazoo.exceptions import ConnectionClosedError, ConnectionLoss, LockTimeout
from kazoo.recipe.barrier import DoubleBarrier as KazooDoubleBarrier
from kazoo.retry import KazooRetry

from parkazoo import ParKazooClient
from parkazoo.admin import init_map
from parkazoo.kazoo_private import SESSION_EXPIRED
from tests.handlers import make_handler
from tests.live.grow_case import GrowCase
from tests.live.map_case import MapCase
from tests.live.world import DEADLINE_S, LiveTest, Seen, drop_connections, wait_until

LONG_S = 1000.0
Call = Callable[[], Any]


class Outcome(Seen):
    """Calls on a greenlet or thread of their own, and keeps what they return or raise."""

    def __init__(self, client: Any, call: Call) -> None:
        super().__init__()
        client.handler.spawn(self._run, call)

    def _run(self, call: Call) -> None:
        try:
            self(call())
        except Exception as error:
            self(type(error))


class Waiting:
    """A call of `client` that waits, and what ends it; `holder` is in its way."""

    def __init__(self, client: ParKazooClient, holder: ParKazooClient, path: str) -> None:
        self.client = client
        self.holder = holder
        self.path = path

    def lock(self) -> tuple[Call, Call, Any]:
        return self._contend(self.client.Lock(self.path).acquire)

    def read_lock(self) -> tuple[Call, Call, Any]:
        return self._contend(self.client.ReadLock(self.path).acquire)

    def write_lock(self) -> tuple[Call, Call, Any]:
        return self._contend(self.client.WriteLock(self.path).acquire)

    def election(self) -> tuple[Call, Call, Any]:
        led = Seen()
        election = self.client.Election(self.path)
        return self._contend(lambda: election.run(led, 1) or len(led), 1)

    def lease(self) -> tuple[Call, Call, Any]:
        return self._contend(lambda: bool(self.client.NonBlockingLease(self.path, timedelta(hours=1))))

    def _contend(self, call: Call, result: Any = True) -> tuple[Call, Call, Any]:
        held = self.holder.Lock(self.path)
        held.acquire()
        return call, held.release, result

    def semaphore(self) -> tuple[Call, Call, Any]:
        held = self.holder.Semaphore(self.path)
        held.acquire()
        return self.client.Semaphore(self.path).acquire, held.release, True

    def barrier(self) -> tuple[Call, Call, Any]:
        self.holder.Barrier(self.path).create()
        return self.client.Barrier(self.path).wait, self.holder.Barrier(self.path).remove, True

    def enter(self) -> tuple[Call, Call, Any]:
        mine, other = self._double()
        return lambda: mine.enter() or mine.participating, lambda: Outcome(self.holder, other.enter), True

    def leave(self) -> tuple[Call, Call, Any]:
        mine, other = self._double()
        others = Outcome(self.holder, other.enter)
        mine.enter()
        others.wait()
        return lambda: mine.leave() or mine.participating, lambda: Outcome(self.holder, other.leave), False

    def _double(self) -> tuple[Any, Any]:
        mine, other = (client.DoubleBarrier(self.path, 2) for client in (self.client, self.holder))
        return mine, other

    def locking_queue(self) -> tuple[Call, Call, Any]:
        queue = self.holder.LockingQueue(self.path)
        return self.client.LockingQueue(self.path).get, lambda: queue.put(b"x"), b"x"


CALLS = (
    Waiting.lock,
    Waiting.read_lock,
    Waiting.write_lock,
    Waiting.election,
    Waiting.lease,
    Waiting.semaphore,
    Waiting.barrier,
    Waiting.enter,
    Waiting.leave,
    Waiting.locking_queue,
)


class Waits:
    """Each call of CALLS, and each thing that must not make it wait for ever."""

    holder: ParKazooClient
    path: str

    def new_client(self) -> ParKazooClient:
        raise NotImplementedError

    def begin(self, waits: Any) -> tuple[ParKazooClient, Outcome, Call, Any]:
        """Make the call of a new client, and wait until it waits."""
        client = self.new_client()
        call, free, result = waits(Waiting(client, self.holder, f"{self.path}/{waits.__name__}"))
        outcome = Outcome(client, call)
        wait_until(lambda: is_waiting(client), "it waits")
        return client, outcome, free, result

    def test_lost_connection(self) -> None:
        for waits in CALLS:
            with self.subTest(waits.__name__):  # type: ignore[attr-defined]
                client, outcome, free, result = self.begin(waits)
                cut(client)
                self.assertEqual(outcome, [])  # type: ignore[attr-defined]
                free()
                self.assertEqual(outcome.wait(), [result])  # type: ignore[attr-defined]
                client.stop()

    def test_expired_session(self) -> None:
        for waits in CALLS:
            with self.subTest(waits.__name__):  # type: ignore[attr-defined]
                client, outcome, free, result = self.begin(waits)
                number = client.session_number
                client._call(SESSION_EXPIRED, None)
                wait_until(lambda c=client, n=number: c.session_number > n and c.connected, "a new session")
                free()
                self.assertEqual(outcome.wait(), [result])  # type: ignore[attr-defined]
                client.stop()

    def test_stop(self) -> None:
        """A listener that blocks holds nothing up."""
        for waits in CALLS:
            with self.subTest(waits.__name__):  # type: ignore[attr-defined]
                client, outcome, _, _ = self.begin(waits)
                may_go_on = client.handler.event_object()
                client.add_listener(lambda state, event=may_go_on: event.wait(DEADLINE_S))
                stopping = Outcome(client, client.stop)
                self.assertEqual(outcome.wait(), [ConnectionClosedError])  # type: ignore[attr-defined]
                may_go_on.set()
                stopping.wait()


def is_waiting(client: ParKazooClient) -> bool:
    """Whether it has left watches."""
    return any(each.has_left_watches for each in client.members.values())


def cut(client: ParKazooClient) -> None:
    """Break every connection of a client; return when it is back."""
    states = Seen()
    client.add_listener(states)
    drop_connections(client)
    wait_until(lambda: "SUSPENDED" in states and client.connected, "suspended, and connected")
    wait_until(lambda: all(each.connected for each in client.members.values()), "each ensemble")
    client.remove_listener(states)


@contextmanager
def cut_off(client: ParKazooClient) -> Iterator[None]:
    """Break every connection of a client, and let none come about in the block."""
    connect = client._connection._connect

    def refuse(*_: Any) -> Any:
        raise ConnectionRefusedError

    client._connection._connect = refuse
    drop_connections(client)
    wait_until(lambda: client.state == "SUSPENDED", "suspended")
    yield
    client._connection._connect = connect
    wait_until(lambda: client.connected, "connected")


class TestWaits(Waits, LiveTest):
    def setUp(self) -> None:
        super().setUp()
        self.holder = self.parkazoo()
        self.path = self.new_root(self.holder)

    def new_client(self) -> ParKazooClient:
        return self.parkazoo()

    def test_a_late_member_of_a_double_barrier(self) -> None:
        """It was cut off while the other entered and began to leave: it enters all the same, and both leave."""
        for name in ("first", "last"):
            with self.subTest(name):
                path = f"{self.path}/{name}"
                mine, other = (client.DoubleBarrier(path, 2) for client in (self.parkazoo(), self.holder))
                for barrier, node in ((mine, name), (other, "in-between")):
                    barrier.node_name, barrier.create_path = node, f"{path}/{node}"
                entered = Outcome(mine.client, mine.enter)
                wait_until(lambda m=mine: is_waiting(m.client), "it waits")
                with cut_off(mine.client):
                    other.enter()
                    left = Outcome(self.holder, other.leave)
                    wait_until(lambda: is_waiting(self.holder), "the other leaves")
                self.assertEqual((entered.wait(), mine.participating), ([None], True))
                self.assertEqual(left, [])
                mine.leave()
                left.wait()
                self.assertEqual(self.holder.get_children(path), [])

    def test_a_round_whose_members_were_killed(self) -> None:
        """Their `ready` stays, and lets nobody into the next round."""
        path = f"{self.path}/killed"
        for barrier in self.enter(path, self.clients(3)):
            barrier.client.stop()  # without leave(), as by a kill
        self.assertEqual(self.holder.get_children(path), ["ready"])

        def members() -> set[str]:
            return {*self.holder.get_children(path)} - {"ready"}

        for _ in range(2):
            barriers = [client.DoubleBarrier(path, 3) for client in (*self.clients(2), self.holder)]
            entered = list[Outcome]()
            for number, barrier in enumerate(barriers):
                self.assertEqual([each for outcome in entered for each in outcome], [])
                entered.append(Outcome(barrier.client, barrier.enter))
                wait_until(lambda n=number: len(members()) == n + 1, "it is there")
                wait_until(lambda b=barrier: is_waiting(b.client) or b.participating, "it waits")
            for outcome, barrier in zip(entered, barriers, strict=True):
                self.assertEqual((outcome.wait(), barrier.participating), ([None], True))
            left = [Outcome(each.client, each.leave) for each in barriers]
            for outcome in left:
                outcome.wait()
            self.assertEqual(self.holder.get_children(path), [])

    def enter(self, path: str, clients: list[ParKazooClient]) -> list[Any]:
        barriers = [client.DoubleBarrier(path, len(clients)) for client in clients]
        for barrier, name in zip(
            barriers, ("2", "1", "3"), strict=True
        ):  # so the first to leave deletes its znode
            barrier.node_name, barrier.create_path = name, f"{path}/{name}"
        outcomes = [Outcome(each.client, each.enter) for each in barriers]
        for outcome in outcomes:
            self.assertEqual(outcome.wait(), [None])
        return barriers

    def test_one_of_a_round_is_killed_and_comes_again(self) -> None:
        """Before another leaves it enters at once, and all wait for it; afterwards it waits for the next round."""
        for name in ("0", "4"):  # the first by name, and the last
            path = f"{self.path}/again-{name}"
            one, other, killed = self.enter(path, self.clients(3))
            killed.client.stop()
            again = self.holder.DoubleBarrier(path, 3)
            again.node_name, again.create_path = name, f"{path}/{name}"
            again.enter()
            self.assertTrue(again.participating)
            left = Outcome(one.client, one.leave)
            wait_until(lambda one=one: is_waiting(one.client), "it leaves")
            self.assertEqual(left, [])
            again.client.delete(again.create_path)  # as if it was killed once more
            again = self.holder.DoubleBarrier(path, 3)
            again.node_name, again.create_path = name * 2, f"{path}/{name * 2}"
            entered = Outcome(again.client, again.enter)
            wait_until(lambda: is_waiting(self.holder), "it waits")
            other.leave()
            left.wait()
            self.assertEqual(entered, [])
            outcomes = [Outcome(each.client, each.enter) for each in (one, other)]
            for outcome in (entered, *outcomes):
                self.assertEqual(outcome.wait(), [None])
            left_all = [Outcome(each.client, each.leave) for each in (one, other, again)]
            for outcome in left_all:
                outcome.wait()
            self.assertEqual(self.holder.get_children(path), [])

    def test_who_was_counted_and_has_lost_its_session(self) -> None:
        """It enters, and the other waits for it."""
        path = f"{self.path}/expired"
        mine, other = (client.DoubleBarrier(path, 2) for client in (self.parkazoo(timeout=4), self.holder))
        entered = Outcome(mine.client, mine.enter)
        wait_until(lambda: is_waiting(mine.client), "it waits")
        with cut_off(mine.client):
            other.enter()
            wait_until(lambda: not self.holder.exists(mine.create_path), "expired")
        self.assertEqual((entered.wait(), mine.participating), ([None], True))
        left = Outcome(self.holder, other.leave)
        wait_until(lambda: is_waiting(self.holder), "the other leaves")
        self.assertEqual(left, [])
        mine.leave()
        left.wait()
        self.assertEqual(self.holder.get_children(path), [])

    def test_a_round_that_has_ended(self) -> None:
        """Who has lost its session, and leaves late, waits for no member of the next round."""
        path = f"{self.path}/late"
        late, other = (client.DoubleBarrier(path, 2) for client in (self.parkazoo(timeout=4), self.holder))
        entered = Outcome(late.client, late.enter)
        wait_until(lambda: is_waiting(late.client), "it waits")
        other.enter()
        entered.wait()
        with cut_off(late.client):
            wait_until(lambda: not self.holder.exists(late.create_path), "expired")
        other.leave()
        waiting = Outcome(self.holder, other.enter)
        wait_until(lambda: self.holder.get_children(path), "the next round begins")
        late.leave()
        self.assertEqual(waiting, [])
        late.enter()
        self.assertEqual(waiting.wait(), [None])
        for outcome in [Outcome(each.client, each.leave) for each in (late, other)]:
            outcome.wait()
        self.assertEqual(self.holder.get_children(path), [])

    def test_a_double_barrier_with_members_of_kazoos(self) -> None:
        path = f"{self.path}/mixed"
        mine, other = self.holder.DoubleBarrier(path, 2), KazooDoubleBarrier(self.parkazoo(), path, 2)
        for _ in range(3):
            for barriers in ((mine, other), (other, mine)):
                for call in ("enter", "leave"):
                    outcomes = [Outcome(each.client, getattr(each, call)) for each in barriers]
                    for outcome in outcomes:
                        self.assertEqual(outcome.wait(), [None])
                    self.assertEqual([each.participating for each in barriers], [call == "enter"] * 2)
        self.assertEqual(self.holder.get_children(path), [])

    def test_rounds_of_a_double_barrier(self) -> None:
        """Members that begin the next round at once are not taken for those of the last one."""
        members = [client.DoubleBarrier(f"{self.path}/rounds", 3) for client in (*self.clients(2), self.holder)]

        def work(barrier: Any) -> list[bool]:
            seen = []
            for _ in range(10):
                barrier.enter()
                seen.append(barrier.participating)
                barrier.leave()
            return seen

        outcomes = [Outcome(each.client, partial(work, each)) for each in members]
        for outcome in outcomes:
            self.assertEqual(outcome.wait(), [[True] * 10])
        self.assertEqual(self.holder.get_children(f"{self.path}/rounds"), [])

    def clients(self, count: int) -> list[ParKazooClient]:
        return [self.parkazoo() for _ in range(count)]

    def test_pause(self) -> None:
        """Between two attempts of client.retry: a connection that is back ends the pause, and so does stop()."""
        for end, expected in ((cut, None), (ParKazooClient.stop, ConnectionClosedError)):
            with self.subTest(end.__name__):
                handler = make_handler()
                retry = KazooRetry(-1, delay=LONG_S, max_delay=LONG_S, sleep_func=handler.sleep_func)
                client = self.parkazoo(handler=handler, command_retry=retry)
                client.exists(self.path, Seen())
                lost = [ConnectionLoss()]

                def look(client: Any = client, lost: Any = lost) -> None:
                    if lost:
                        raise lost.pop()
                    client.exists(self.path)  # on the ensemble of the watch, whose loss ends the pause

                outcome = Outcome(client, partial(client.retry, look))
                wait_until(lambda client=client, lost=lost: not lost and len(client.waits), "it pauses")
                self.assertEqual(outcome, [])
                end(client)
                self.assertEqual(outcome.wait(), [expected])

    def test_time_is_over_while_the_ensemble_is_away(self) -> None:
        """A request that is under way ends first."""
        client = self.parkazoo(timeout=4)
        calls: dict[str, tuple[Call, Any]] = {
            "barrier": (lambda: client.Barrier(f"{self.path}/d/barrier").wait(1), False),
            "queue": (lambda: client.LockingQueue(f"{self.path}/q").get(1), None),
            "semaphore": (lambda: client.Semaphore(f"{self.path}/d/semaphore").acquire(timeout=1), LockTimeout),
            "lock": (lambda: client.Lock(f"{self.path}/d/lock").acquire(timeout=1), False),
        }
        for ensemble in self.cluster.ensembles:
            ensemble.servers[0].kill()
        try:
            outcomes = {name: (Outcome(client, call), expected) for name, (call, expected) in calls.items()}
            for name, (outcome, expected) in outcomes.items():
                with self.subTest(name):
                    self.assertEqual(outcome.wait(), [expected])
        finally:
            for ensemble in self.cluster.ensembles:
                ensemble.servers[0].start()
                ensemble.servers[0].wait_serving()

    def test_partitioner(self) -> None:
        """It waits for a lock that another has. Its state is no longer ALLOCATING: RELEASE, or FAILURE."""
        ends: tuple[tuple[Call, str], ...] = (
            (lambda: cut(client), "RELEASE"),
            (lambda: client._call(SESSION_EXPIRED, None), "FAILURE"),
            (lambda: ParKazooClient.stop(client), "FAILURE"),
        )
        for number, (end, expected) in enumerate(ends):
            with self.subTest(expected, number=number):
                client = self.parkazoo()
                path = f"{self.path}/partitions{number}"
                self.holder.Lock(f"{path}/locks/x").acquire()
                partitioner = client.SetPartitioner(path, ("x",), time_boundary=0, max_reaction_time=LONG_S)
                wait_until(lambda p=path: len(self.holder.get_children(f"{p}/locks/x")) == 2, "it wants the lock")
                outcome = Outcome(client, partial(partitioner.wait_for_acquire, None))
                end()
                outcome.wait()
                wait_until(lambda p=partitioner, e=expected: p.state == e, expected)


class TestWaitsGrown(Waits, GrowCase):
    def setUp(self) -> None:
        MapCase.setUp(self)
        init_map(self.a, {"a": self.a, "b": self.b}, form="grown")
        self.grow()
        self.holder = self.new_client()
        self.path = "/waits"

    def new_client(self) -> ParKazooClient:
        return self.client()[0]


class Leftovers:
    """What a call leaves behind in its client, by the sizes of tables and the number of objects."""

    holder: ParKazooClient
    one: ParKazooClient
    path: str
    COUNT = 50

    def held(self) -> tuple[int, ...]:
        client: Any = self.one
        for _ in range(3):  # what is withdrawn is withdrawn on the loop
            done = client.handler.event_object()
            client._session._runtime.call(done.set)
            done.wait(DEADLINE_S)
        gc.collect()
        members = [each for each in client._session.roster.members if hasattr(each, "_data_watchers")]
        tables = [table for each in members for table in (each._data_watchers, each._child_watchers)]
        return (
            sum(len(watchers) for table in tables for watchers in list(table.values())),
            len(client._session.watching),
            len(client.state_listeners),
            len(client.waits),
            sum(str(type(each).__module__).startswith(RECIPES) for each in gc.get_objects()),
        )

    def leaves_nothing(self, call: Callable[[], Any], count: int = COUNT) -> None:
        call()
        before = self.held()
        for _ in range(count):
            call()
        # Threads of a recipe may still be about to end.
        wait_until(
            lambda: all(now <= then for now, then in zip(self.held(), before, strict=True)),
            f"no more than before: {before}",
        )

    def test_locking_queue(self) -> None:
        queue = self.one.LockingQueue(f"{self.path}/queue")
        self.leaves_nothing(lambda: self.assertIsNone(queue.get(0)), 1000)  # type: ignore[attr-defined]
        self.leaves_nothing(lambda: self.one.LockingQueue(f"{self.path}/queue").get(0))

    def test_barrier(self) -> None:
        self.holder.Barrier(f"{self.path}/barrier").create()
        barrier = self.one.Barrier(f"{self.path}/barrier")
        self.leaves_nothing(lambda: self.assertFalse(barrier.wait(0)), 1000)  # type: ignore[attr-defined]
        self.leaves_nothing(lambda: self.one.Barrier(f"{self.path}/barrier").wait(0))
        self.leaves_nothing(lambda: self.one.Barrier(f"{self.path}/missing/barrier").wait(0))

    def test_locks(self) -> None:
        for held, make in (
            (self.holder.Lock, self.one.Lock),
            (self.holder.WriteLock, self.one.ReadLock),
            (self.holder.ReadLock, self.one.WriteLock),
            (self.holder.Semaphore, self.one.Semaphore),
        ):
            path = f"{self.path}/{make.func.__name__}"
            held(path).acquire()
            with self.subTest(make.func.__name__):  # type: ignore[attr-defined]
                self.leaves_nothing(partial(self.times_out, make, path))
        self.holder.Lock(f"{self.path}/guarded-__lock__").acquire()
        self.leaves_nothing(partial(self.times_out, self.one.Semaphore, f"{self.path}/guarded"))

    def times_out(self, make: Callable[[str], Any], path: str) -> None:
        with self.assertRaises(LockTimeout):  # type: ignore[attr-defined]
            make(path).acquire(timeout=0.001)

    def test_others(self) -> None:
        def enter_and_leave() -> None:
            barrier = self.one.DoubleBarrier(f"{self.path}/double", 1)
            barrier.enter()
            barrier.leave()

        def join_and_leave() -> None:
            party = self.one.Party(f"{self.path}/party")
            party.join()
            party.leave()

        def partition() -> None:
            partitioner = self.one.SetPartitioner(f"{self.path}/partitions", ("x",), time_boundary=0)
            partitioner.wait_for_acquire(DEADLINE_S)
            self.assertTrue(partitioner.acquired)  # type: ignore[attr-defined]
            partitioner.finish()

        calls: tuple[Call, ...] = (
            enter_and_leave,
            join_and_leave,
            partition,
            lambda: self.one.Queue(f"{self.path}/queue").get(),
            lambda: self.one.Election(f"{self.path}/election").run(lambda: None),
            lambda: self.one.NonBlockingLease(f"{self.path}/lease", timedelta(hours=1), "me"),
        )
        for call in calls:
            self.leaves_nothing(call, 20)


RECIPES = ("parkazoo.recipe.", "kazoo.recipe.")


class TestLeftovers(Leftovers, LiveTest):
    def setUp(self) -> None:
        super().setUp()
        self.holder, self.one = self.parkazoo(), self.parkazoo()
        self.path = self.new_root(self.holder)


class TestLeftoversGrown(Leftovers, GrowCase):
    def setUp(self) -> None:
        MapCase.setUp(self)
        init_map(self.a, {"a": self.a, "b": self.b}, form="grown")
        self.grow()
        self.holder, _ = self.client()
        self.one, _ = self.client()
        self.path = "/leftovers"
