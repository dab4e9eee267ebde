"""Locks and semaphores leave no contender behind, whenever the connection is lost."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any
from unittest import mock

import kazoo.recipe.lock as kazoo_lock
import kazoo.retry as kazoo_retry
from kazoo.exceptions import CancelledError, ConnectionLoss, LockTimeout
from kazoo.recipe.lock import Lock as KazooLock

import parkazoo.recipe.lock as our_lock
from parkazoo import ParKazooClient
from parkazoo.admin import grow_map, init_map
from parkazoo.kazoo_private import SESSION_EXPIRED, Create, Delete, Exists, GetChildren, GetData
from parkazoo.recipe import swept, waits
from tests.interruption import each_interruption, where_signals_come_but_to_generators
from tests.live.grow_case import GrowCase
from tests.live.map_case import MapCase
from tests.live.world import DEADLINE_S, LiveTest, wait_until

FILES = [str(each.__file__) for each in (our_lock, swept, waits, kazoo_lock, kazoo_retry)]
SHORT_S = 0.01


class TimeIsUp(BaseException):
    """What ends a call, as gevent.Timeout or a signal handler's exception."""


class Lossy(ParKazooClient):
    """Loses the connection at one request of a kind, before it is sent or after it was done.

    :ivar is_interrupted: instead, the caller is interrupted when it has issued it.
    """

    loses: Callable[[Any], bool] | None = None
    is_sent = is_interrupted = False

    def _call(self, request: Any, async_object: Any) -> Any:
        if self.loses is None or not self.loses(request):
            return super()._call(request, async_object)
        self.loses = None
        if self.is_interrupted:
            super()._call(request, async_object)
            raise TimeIsUp
        if self.is_sent:
            super()._call(request, Lost(async_object))
        else:
            async_object.set_exception(ConnectionLoss())
        return None


class Lost:
    """What has been done without an answer."""

    def __init__(self, result: Any) -> None:
        self._result = result

    def set(self, value: Any = None) -> None:
        self._result.set_exception(ConnectionLoss())

    set_exception = set


class TestContenders(LiveTest):
    def setUp(self) -> None:
        super().setUp()
        self.holder = self.parkazoo()
        self.client = self.parkazoo(client_class=Lossy)
        self.root = self.new_root(self.holder)
        self.path = f"{self.root}/lock"

    def lose(self, kind: type[Any], where: str = "") -> None:
        self.client.loses = lambda request: type(request) is kind and where in request.path

    def contenders(self) -> list[str]:
        """Those of the client under test."""
        mine = self.client.client_id[0]
        found = []
        for name in self.client.get_children(self.path):
            stat = self.client.exists(f"{self.path}/{name}")
            if stat is not None and stat.ephemeralOwner == mine:
                found.append(name)
        return found

    def test_kazoos_leaves_one(self) -> None:
        """Why there is a Lock of our own: kazoo's issue 732."""
        self.holder.Lock(self.path).acquire()
        self.lose(Delete, self.path)
        self.assertFalse(KazooLock(self.client, self.path).acquire(blocking=False))
        self.assertEqual(len(self.contenders()), 1)

    def test_non_blocking(self) -> None:
        for make in (self.client.Lock, self.client.ReadLock, self.client.WriteLock):
            for kind in (Delete, Create, GetChildren):
                for self.client.is_sent in (False, True):
                    with self.subTest(make, kind=kind, is_sent=self.client.is_sent):
                        held = self.holder.Lock(self.path)
                        held.acquire()
                        self.lose(kind, self.path)
                        lock = make(self.path)
                        self.assertFalse(lock.acquire(blocking=False))
                        self.assertIsNone(self.client.loses)
                        self.assertEqual(self.contenders(), [])
                        held.release()
                        self.assertTrue(lock.acquire(blocking=False))
                        self.assertTrue(lock.release())

    def test_time_out_and_cancel(self) -> None:
        self.holder.Lock(self.path).acquire()
        lock = self.client.Lock(self.path)
        self.lose(Delete, self.path)
        self.assertRaises(LockTimeout, lock.acquire, timeout=0.1)
        self.assertEqual(self.contenders(), [])
        self.lose(Delete, self.path)
        lock.cancel()
        self.assertRaises(CancelledError, lock.acquire)
        self.assertEqual(self.contenders(), [])

    def test_an_earlier_attempt(self) -> None:
        """The znode of the attempt before must not be taken for this one's, whose create was lost."""
        held = self.holder.Lock(self.path)
        held.acquire()
        lock = self.client.Lock(self.path)
        self.assertFalse(lock.acquire(blocking=False))
        self.client.is_sent = True
        self.lose(Create, self.path)
        self.assertFalse(lock.acquire(blocking=True, timeout=0))
        self.assertEqual(self.contenders(), [])

    def test_release(self) -> None:
        """A lock that is released is free, or its holder would wait for itself for ever."""
        for self.client.is_sent in (False, True):
            lock = self.client.Lock(self.path)
            with lock:
                self.lose(Delete, self.path)
            self.assertEqual(self.contenders(), [])
            self.assertFalse(lock.is_acquired)
            with lock:
                self.assertEqual(len(self.contenders()), 1)

    def test_an_interrupted_caller(self) -> None:
        """Of acquire, at any request: its contender goes, and the lock object works on."""
        self.client.is_interrupted = True
        held = self.holder.Lock(self.path)
        held.acquire()
        lock = self.client.Lock(self.path)
        for kind in (Create, GetChildren, GetData):
            self.lose(kind, self.path)
            with self.subTest(kind), self.assertRaises(TimeIsUp):
                lock.acquire()
            wait_until(lambda: not self.contenders(), "only the holder's is there")
            self.assertFalse(lock.acquire(blocking=False))
        held.release()
        self.lose(GetChildren, self.path)
        self.assertRaises(TimeIsUp, lock.acquire)
        self.assertTrue(self.holder.Lock(self.path).acquire(timeout=DEADLINE_S))
        self.assertEqual(self.contenders(), [])

    def test_a_caller_that_is_interrupted_between_two_tries(self) -> None:
        lock = self.client.Lock(self.path)
        self.lose(GetChildren, self.path)
        with (
            mock.patch.object(lock._retry, "sleep_func", mock.Mock(side_effect=TimeIsUp)),
            self.assertRaises(TimeIsUp),
        ):
            lock.acquire()
        wait_until(lambda: not self.contenders(), "nothing is there")
        self.assertTrue(lock.acquire(timeout=DEADLINE_S))

    def test_another_thread_of_an_interrupted_caller_keeps_the_lock(self) -> None:
        """Both use one lock object. The interrupted one waits for the other to release it."""
        lock = self.client.Lock(self.path)
        self.assertTrue(lock.acquire())
        with (
            mock.patch.object(lock._retry, "sleep_func", mock.Mock(side_effect=TimeIsUp)),
            self.assertRaises(TimeIsUp),
        ):
            lock.acquire()
        self.assertTrue(lock.is_acquired)
        self.assertFalse(self.holder.Lock(self.path).acquire(blocking=False))

    def test_an_interrupted_caller_of_a_semaphore(self) -> None:
        self.client.is_interrupted = True
        semaphore = self.client.Semaphore(self.path, max_leases=1)
        for kind in (Create, Exists):
            self.lose(kind, semaphore.create_path)
            with self.subTest(kind), self.assertRaises(TimeIsUp):
                semaphore.acquire()
            self.assertTrue(self.holder.Semaphore(self.path, max_leases=1).acquire(timeout=DEADLINE_S))
            for lease in self.holder.get_children(self.path):
                self.holder.delete(f"{self.path}/{lease}")
        self.lose(Create, f"{self.path}-")
        self.assertRaises(TimeIsUp, semaphore.acquire)  # as it waits for the semaphore's lock
        self.assertTrue(self.holder.Semaphore(self.path, max_leases=1).acquire(timeout=DEADLINE_S))

    def test_while_the_ensemble_is_away(self) -> None:
        """It is gone once the ensemble is back, and until then no client hears that it is."""
        self.holder.Lock(self.path).acquire()
        ensemble = self.cluster.ensembles[self.placement.of_children(self.path)]
        lock = self.client.Lock(self.path)
        has_died = self.client.handler.event_object()

        def die(request: Any) -> bool:
            if type(request) is Delete and not has_died.is_set():
                ensemble.servers[0].kill()
                has_died.set()
            return False

        self.client.loses = die
        outcome: list[bool] = []
        attempt = self.client.handler.spawn(lambda: outcome.append(lock.acquire(blocking=False)))
        has_died.wait(DEADLINE_S)
        wait_until(lambda: self.client.state == "SUSPENDED", "suspended")
        self.assertEqual(outcome, [])
        ensemble.servers[0].start()
        ensemble.servers[0].wait_serving()
        attempt.join()
        self.assertEqual(outcome, [False])
        wait_until(lambda: self.holder.connected and self.client.connected, "connected")
        self.assertEqual(self.contenders(), [])

    def test_semaphore(self) -> None:
        """Neither a lease nor the lock that guards the leases."""
        leases, guard = self.path, f"{self.path}-__lock__"
        held = self.holder.Semaphore(leases)
        self.assertTrue(held.acquire())
        for kind, where in ((Delete, guard), (Create, guard), (GetChildren, guard)):
            for self.client.is_sent in (False, True):
                with self.subTest(kind, is_sent=self.client.is_sent):
                    self.lose(kind, where)
                    semaphore = self.client.Semaphore(leases)
                    self.assertFalse(semaphore.acquire(blocking=False))
                    self.assertIsNone(self.client.loses)
                    self.assertEqual(self.holder.get_children(guard), [])
                    self.assertEqual(len(self.holder.get_children(leases)), 1)
        held.release()
        for self.client.is_sent in (False, True):
            semaphore = self.client.Semaphore(leases)
            self.assertTrue(semaphore.acquire())
            self.lose(Delete, leases)
            semaphore.release()
            self.assertEqual(self.holder.get_children(leases), [])
        self.assertEqual(len(self.client.state_listeners), 0)

    def test_a_session_that_is_not_over(self) -> None:
        """A server may say that a session has expired which its ensemble still has, with its ephemerals."""
        for make in (self.client.Lock, self.client.ReadLock, self.client.WriteLock):
            with self.subTest(make):
                held = self.holder.Lock(self.path)
                held.acquire()
                lock = make(self.path)
                outcome: list[bool] = []
                attempt = self.client.handler.spawn(lambda lock=lock, seen=outcome: seen.append(lock.acquire()))
                wait_until(lambda: len(self.contenders()) == 1, "it waits")
                (waiting,) = self.contenders()
                self.expire()
                held.release()
                attempt.join()
                self.assertEqual(outcome, [True])
                self.assertEqual(self.contenders(), [lock.node])
                self.assertEqual(self.holder.get_children(self.path), [lock.node])
                self.assertNotEqual(lock.node, waiting)
                lock.release()

    def test_a_contender_of_a_session_that_ends_as_the_time_is_over(self) -> None:
        """The next acquire loses the answer to its create. It does not take that contender for its own."""
        held = self.holder.Lock(self.path)
        held.acquire()
        lock = self.client.Lock(self.path)
        clean_up = lock._best_effort_cleanup

        def expire_first() -> None:
            self.expire()
            clean_up()

        with mock.patch.object(lock, "_best_effort_cleanup", expire_first), self.assertRaises(LockTimeout):
            lock.acquire(timeout=0.1)
        (left,) = {*self.holder.get_children(self.path)} - {held.node}
        held.release()
        self.lose(Create, lock.path)
        attempt = self.client.handler.spawn(lock.acquire)
        wait_until(lambda: len(self.holder.get_children(self.path)) == 2, "it waits behind what is left")
        self.holder.delete(f"{self.path}/{left}")
        attempt.join()
        self.assertTrue(lock.is_acquired)
        self.assertEqual(self.holder.get_children(self.path), [lock.node])

    def test_a_lease_of_a_session_that_is_not_over(self) -> None:
        """It is lost between the semaphore's create and the look whether that was done."""
        semaphore = self.client.Semaphore(self.path)
        looks: list[Any] = []

        def lose(request: Any) -> bool:
            if type(request) is Exists and request.path == semaphore.create_path:
                looks.append(request)
            if len(looks) < 2:
                return False
            self.expire()
            return True

        self.client.loses = lose
        self.assertTrue(semaphore.acquire())
        self.assertIsNone(self.client.loses)
        self.assertEqual(len(self.contenders()), 1)
        semaphore.release()

    def expire(self) -> None:
        """The client takes its session for expired, on the ensemble of the lock. The ensemble does not."""
        number = self.client.session_number
        member = self.member(self.client, self.placement.of_children(self.path))
        member._call(SESSION_EXPIRED, None)
        wait_until(lambda: self.client.session_number > number and self.client.connected, "a new session")

    def test_contention(self) -> None:
        """Many tries of many, and connections lost all the time: at the end the lock is free."""
        clients = [self.joined() for _ in range(3)]
        stop = self.holder.handler.event_object()
        taken: list[int] = []

        def work(client: Any, number: int) -> None:
            while not stop.is_set():
                lock = client.Lock(self.path)
                if lock.acquire(blocking=False):
                    taken.append(number)
                    lock.release()

        workers = [client.handler.spawn(work, client, n) for n, client in enumerate(clients)]
        for index in range(15):
            count = len(taken)
            member = self.member(clients[index % 3], self.placement.of_children(self.path))
            with suppress(OSError):  # it is just being closed
                member._connection._socket.shutdown(socket.SHUT_RDWR)
            wait_until(lambda c=count: len(taken) > c, "the lock was taken again")
        stop.set()
        for worker in workers:
            worker.join()
        self.assertEqual(self.holder.get_children(self.path), [])


class TestInterrupted(LiveTest):
    """A signal handler raises at each point of a call where one may."""

    def setUp(self) -> None:
        super().setUp()
        self.client, self.other = self.parkazoo(), self.parkazoo()
        self.path = f"{self.new_root(self.client)}/lock"
        self.held: Any = None
        self.made: dict[str, Any] = {}

    def check(self, make: str) -> None:
        """Who does not hold it after the call does not hinder another client, nor another thread of its own."""
        mine = self.made["mine"]
        listeners, watches = len(self.client.state_listeners), len(self.client.waits)
        if self.held:
            self.held.release()
        if mine.is_acquired:
            self.assertTrue(mine.release())
        theirs = getattr(self.other, make)(mine.path)
        self.assertTrue(theirs.acquire(timeout=DEADLINE_S))
        theirs.release()
        if make == "Lock":  # whose calls of acquire take turns
            seen = self.client.handler.async_result()
            self.client.handler.spawn(lambda: seen.set(mine.acquire(timeout=DEADLINE_S)))
            self.assertTrue(seen.get(timeout=DEADLINE_S))
            mine.release()
        self.assertEqual((listeners, watches), (0, 0))

    def fresh(self, make: str, is_held: bool) -> Any:
        """A new one, which another client holds perhaps."""
        path = f"{self.path}-{make}"
        self.held = getattr(self.other, make)(path) if is_held else None
        if self.held:
            self.held.acquire()
        self.made["mine"] = getattr(self.client, make)(path)
        return self.made["mine"]

    def check_each(self, make: str, is_held: bool, prepare: Callable[[Any], Callable[[], Any]]) -> None:
        points = each_interruption(
            lambda: prepare(self.fresh(make, is_held)),
            partial(self.check, make),
            FILES,
            where_signals_come_but_to_generators,
        )
        self.check(make)  # after the last call, which nothing interrupted
        self.assertGreater(points, 15)

    def test_acquire(self) -> None:
        for make in ("Lock", "Semaphore"):
            with self.subTest(make):
                self.check_each(make, False, lambda mine: mine.acquire)  # type: ignore[no-any-return]

    def test_acquire_in_vain(self) -> None:
        def acquire(mine: Any) -> None:
            with suppress(LockTimeout):
                mine.acquire(timeout=SHORT_S)

        self.check_each("Lock", True, lambda mine: partial(mine.acquire, blocking=False))
        for make in ("Lock", "Semaphore"):
            with self.subTest(make):
                self.check_each(make, True, lambda mine: partial(acquire, mine))

    def test_release(self) -> None:
        """What an interrupted one has not released can be released again."""

        def prepare(mine: Any) -> Callable[[], Any]:
            self.assertTrue(mine.acquire(timeout=DEADLINE_S))
            return mine.release  # type: ignore[no-any-return]

        for make in ("Lock", "Semaphore"):
            with self.subTest(make):
                self.check_each(make, False, prepare)


class TestContendersGrown(GrowCase):
    """One ZooKeeper with locks, which has grown to a and b."""

    def setUp(self) -> None:
        MapCase.setUp(self)
        self.locks = [f"/old/lock{number}" for number in range(8)]
        for path in self.locks:
            self.plain[0].create(f"{path}/x", makepath=True)
        init_map(self.a, {"a": self.a})
        grow_map(self.a, {"b": self.b}, strangers_gone=True)
        self.holder, _ = self.client()
        self.one, _ = self.client()

    def test_the_place_is_forgotten(self) -> None:
        """The guess may be an ensemble on which the client has no ephemeral."""
        places = self.one._session.driver.context.places
        self.assertGreater(len({places.guess(path) for path in self.locks}), 1)
        for path in self.locks:
            self.holder.Lock(path).acquire()
            lock = self.one.Lock(path)
            clean_up = lock._best_effort_cleanup

            def forget_and_clean_up(path: str = path, clean_up: Callable[[], None] = clean_up) -> None:
                places.drop(path)
                clean_up()

            lock._best_effort_cleanup = forget_and_clean_up
            self.assertFalse(lock.acquire(blocking=False))
            self.assertEqual(len(self.holder.get_children(path)), 2)
