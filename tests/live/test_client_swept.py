"""Folders that another program deletes while a recipe's object lives: it makes them again, at the first try."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

from kazoo.exceptions import LockTimeout, NotEmptyError

from parkazoo import ParKazooClient
from parkazoo.admin import init_map
from tests.live.grow_case import GrowCase
from tests.live.map_case import MapCase
from tests.live.test_client_waits import Outcome
from tests.live.world import DEADLINE_S, LiveTest, wait_until

Use = Callable[[], Any]


def uses(client: ParKazooClient, path: str) -> dict[str, Use]:
    """What each recipe's object does, again and again; each folder is `path` and the recipe's name."""
    zk = client
    lock, read, write = zk.Lock(f"{path}/Lock"), zk.ReadLock(f"{path}/ReadLock"), zk.WriteLock(f"{path}/WriteLock")
    semaphore, election = zk.Semaphore(f"{path}/Semaphore", max_leases=2), zk.Election(f"{path}/Election")
    queue, locking, many = (
        zk.Queue(f"{path}/Queue"),
        zk.LockingQueue(f"{path}/LockingQueue"),
        zk.LockingQueue(f"{path}/many"),
    )
    party, shallow = zk.Party(f"{path}/Party", "me"), zk.ShallowParty(f"{path}/ShallowParty", "me")
    members = zk.Party(f"{path}/members")
    counter, double = zk.Counter(f"{path}/Counter"), zk.DoubleBarrier(f"{path}/DoubleBarrier", 1)
    barrier, spread = zk.Barrier(f"{path}/Barrier"), zk.Spread(f"{path}/Spread", 3)
    shared = zk.DistributedDict(f"{path}/DistributedDict")
    return {
        "Lock": lambda: (lock.acquire(), lock.contenders(), lock.release()),
        "Lock.contenders": lambda: (lock.contenders(),),
        "ReadLock": lambda: (read.acquire(timeout=DEADLINE_S), read.release()),
        "WriteLock": lambda: (write.acquire(blocking=False), write.release()),
        "Semaphore": lambda: (semaphore.acquire(), len(semaphore.lease_holders()), semaphore.release()),
        "Election": lambda: (election.run(lambda: None),),
        "Queue": lambda: (queue.get(), queue.put(b"x"), len(queue), queue.get()),
        "Queue.put": lambda: (queue.put(b"x"), queue.get(), len(queue)),
        "LockingQueue": lambda: (locking.get(0), locking.put(b"x"), locking.get(0), locking.consume()),
        "LockingQueue.put_all": lambda: (many.put_all([b"x"]), len(many), many.get(0), many.consume()),
        "Party": lambda: (party.join(), [*party], len(party), party.leave()),
        "Party.list": lambda: ([*members], len(members)),
        "ShallowParty": lambda: (shallow.join(), [*shallow], shallow.leave()),
        "Counter": lambda: (counter.value, (counter + 1).post_value),
        "DoubleBarrier": lambda: (double.enter(), double.participating, double.leave()),
        "Barrier": lambda: (barrier.create(), barrier.wait(0), barrier.remove(), barrier.wait(0)),
        "Spread": lambda: (
            spread.create("x", b"1"),
            spread.get("x")[0],
            spread.get_children(),
            spread.delete("x"),
        ),
        "Lease": lambda: (bool(zk.NonBlockingLease(f"{path}/Lease", timedelta(hours=1), "me")),),
        "DistributedDict": lambda: (shared.update(x=1), shared.pop("x")),
    }


class Swept:
    one: ParKazooClient
    other: ParKazooClient
    path: str

    def test_each(self) -> None:
        each = uses(self.one, self.path)
        first = {name: use() for name, use in each.items()}
        for name, use in each.items():
            self.other.delete(self.path, recursive=True)
            with self.subTest(name):  # type: ignore[attr-defined]
                self.assertEqual(use(), first[name])  # type: ignore[attr-defined]
        self.other.delete(self.path, recursive=True)

    def test_a_spread_says_its_number(self) -> None:
        """Whoever makes it again says how many buckets it has, and another number is refused."""
        spread = self.one.Spread(f"{self.path}/spread", 3)
        spread.create("x")
        self.other.delete(f"{self.path}/spread", recursive=True)
        spread.create("x")
        self.assertEqual(self.other.Spread(f"{self.path}/spread", 3).get_children(), ["x"])  # type: ignore[attr-defined]
        with self.assertRaises(ValueError):  # type: ignore[attr-defined]
            self.other.Spread(f"{self.path}/spread", 4).get_children()

    def test_what_was_held(self) -> None:
        """A contender goes with its folder: others may have the lock, and `release` says that it was not held."""
        for name in ("Lock", "ReadLock", "WriteLock", "Semaphore"):
            with self.subTest(name):  # type: ignore[attr-defined]
                held = getattr(self.one, name)(f"{self.path}/{name}")
                self.assertTrue(held.acquire())  # type: ignore[attr-defined]
                self.other.delete(f"{self.path}/{name}", recursive=True)
                again = getattr(self.other, name)(f"{self.path}/{name}")
                self.assertTrue(again.acquire(timeout=DEADLINE_S))  # type: ignore[attr-defined]
                self.assertFalse(held.release())  # type: ignore[attr-defined]
                self.assertFalse(held.release())  # type: ignore[attr-defined]
                if name != "ReadLock":
                    with self.assertRaises(LockTimeout):  # type: ignore[attr-defined]
                        held.acquire(timeout=0.2)
                self.assertTrue(again.release())  # type: ignore[attr-defined]
                self.assertTrue(held.acquire(timeout=DEADLINE_S))  # type: ignore[attr-defined]
                self.assertTrue(held.release())  # type: ignore[attr-defined]

    def test_while_it_waits(self) -> None:
        """Who waits for what was deleted makes its folder again, and goes on."""
        path = f"{self.path}/waited"

        def sweep() -> None:
            with suppress(NotEmptyError):  # it was quicker
                self.other.delete(path, recursive=True)

        waits: dict[str, tuple[Use, Use, Use, Any]] = {
            "lock": (self.other.Lock(path).acquire, self.one.Lock(path).acquire, lambda: None, True),
            "semaphore": (
                self.other.Semaphore(path).acquire,
                self.one.Semaphore(path).acquire,
                lambda: None,
                True,
            ),
            "queue": (
                lambda: None,
                self.one.LockingQueue(path).get,
                lambda: self.other.LockingQueue(path).put(b"x"),
                b"x",
            ),
            "barrier": (self.other.Barrier(path).create, self.one.Barrier(path).wait, lambda: None, True),
        }
        for name, (hold, wait, give, expected) in waits.items():
            with self.subTest(name):  # type: ignore[attr-defined]
                hold()
                outcome = Outcome(self.one, wait)
                wait_until(lambda: any(each.has_left_watches for each in self.one.members.values()), "it waits")
                sweep()
                give()
                self.assertEqual(outcome.wait(), [expected])  # type: ignore[attr-defined]
                sweep()

    def test_partitioner(self) -> None:
        """Its state is RELEASE, and then it takes part again, alone as before."""
        path = f"{self.path}/partitions"
        partitioner = self.one.SetPartitioner(path, ("x", "y"), time_boundary=0)
        for _ in range(2):
            partitioner.wait_for_acquire(DEADLINE_S)
            self.assertEqual(sorted(partitioner), ["x", "y"])  # type: ignore[attr-defined]
            self.other.delete(path, recursive=True)
            wait_until(lambda: partitioner.release, "RELEASE")
            partitioner.release_set()
        partitioner.wait_for_acquire(DEADLINE_S)
        self.assertTrue(partitioner.acquired)  # type: ignore[attr-defined]
        self.assertEqual(len(self.other.get_children(f"{path}/party")), 1)  # type: ignore[attr-defined]
        partitioner.finish()


class TestSwept(Swept, LiveTest):
    def setUp(self) -> None:
        super().setUp()
        self.one, self.other = self.parkazoo(), self.parkazoo()
        self.path = f"{self.new_root(self.one)}/swept"


class TestSweptGrown(Swept, GrowCase):
    def setUp(self) -> None:
        MapCase.setUp(self)
        init_map(self.a, {"a": self.a, "b": self.b}, form="grown")
        self.grow()
        self.one, _ = self.client()
        self.other, _ = self.client()
        self.path = "/swept"
