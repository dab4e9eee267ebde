"""LockingQueue: an entry is never lost, and never given twice while its holder lives."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any, NoReturn
from unittest import mock

import kazoo.retry as kazoo_retry
from kazoo.exceptions import ConnectionClosedError, ConnectionLoss, KazooException
from kazoo.recipe.queue import LockingQueue as KazooLockingQueue

import parkazoo.recipe.queue as our_queue
from parkazoo import CrossEnsembleError, ParKazooClient
from parkazoo.protocol.placement import Placement
from parkazoo.recipe import swept, waits
from parkazoo.recipe.transaction import RetriableTransaction
from tests.interruption import each_interruption, where_signals_come_but_to_generators
from tests.live.test_client_once import lost_answer
from tests.live.world import DEADLINE_S, LiveTest, Seen, wait_until

SHORT_S = 0.2
FILES = [str(each.__file__) for each in (our_queue, swept, waits, kazoo_retry)]


class TimeIsUpError(BaseException):
    """What ends a call, as gevent.Timeout or a signal handler's exception."""


def commit_and_be_interrupted(transaction: RetriableTransaction) -> NoReturn:
    transaction.commit_async()
    raise TimeIsUpError


class QueueTest(LiveTest):
    def setUp(self) -> None:
        super().setUp()
        self.client = self.parkazoo()
        self.root = self.new_root(self.client)
        self.path = f"{self.root}/queue"

    def queue(self, client: Any = None) -> Any:
        return (client or self.parkazoo()).LockingQueue(self.path)

    def expire(self, client: Any) -> None:
        """End the session on the ensemble that has the entries, and wait until the client has another."""
        ensemble = self.placement.of_children(f"{self.path}/entries")
        member = self.member(client, ensemble)
        session = member.client_id

        def has_ended() -> bool:
            thief = self.kazoo(ensemble, client_id=session)
            is_other = thief.client_id != session
            thief.stop()
            thief.close()
            return is_other

        wait_until(has_ended, "the end of the session")
        wait_until(lambda: client.connected and member.client_id != session, "a new session")


class TestLockingQueue(QueueTest):
    def test_of_a_client_that_connects(self) -> None:
        client = self.parkazoo(start=False)
        client.start_async()
        client.LockingQueue(self.path).put(b"x")
        self.assertEqual(self.queue().get(DEADLINE_S), b"x")

    def test_one_by_one(self) -> None:
        queue = self.queue(self.client)
        self.assertEqual(len(queue), 0)
        self.assertIsNone(queue.get(0))
        self.assertFalse(queue.holds_lock())
        self.assertFalse(queue.consume())
        self.assertFalse(queue.release())
        queue.put(b"one")
        queue.put_all([b"two", b"three"])
        self.assertEqual(len(queue), 3)
        for value in (b"one", b"two", b"three"):
            self.assertEqual(queue.get(DEADLINE_S), value)
            self.assertEqual(queue.get(DEADLINE_S), value)  # it is still being processed
            self.assertTrue(queue.holds_lock())
            self.assertTrue(queue.consume())
            self.assertFalse(queue.holds_lock())
            self.assertFalse(queue.consume())
        self.assertEqual(len(queue), 0)
        self.assertEqual(self.client.get_children(f"{self.path}/entries"), [])

    def test_bad_input(self) -> None:
        plain = KazooLockingQueue(self.kazoo(), f"{self.root}-plain")
        ours = self.queue(self.client)
        for name, args in (
            ("put", ("text",)),
            ("put", (None,)),
            ("put", (b"x", -1)),
            ("put", (b"x", 1000)),
            ("put", (b"x", "1")),
            ("put", (b"x", None)),
            ("put_all", (b"text",)),
            ("put_all", (["text"],)),
            ("put_all", (None,)),
            ("put_all", ([b"x"], 1000)),
        ):
            with self.subTest((name, args)):
                expected = self.raises_as(lambda n=name, a=args: getattr(plain, n)(*a))
                self.assertIsNotNone(expected)
                self.assertEqual(self.raises_as(lambda n=name, a=args: getattr(ours, n)(*a)), expected)
        self.assertEqual(len(ours), 0)

    def test_a_client_that_was_not_started(self) -> None:
        client = ParKazooClient(self.cluster.hosts)
        self.assertRaises(ConnectionClosedError, client.LockingQueue(self.path).put, b"x")
        self.assertRaises(ConnectionClosedError, client.LockingQueue(self.path).get, SHORT_S)

    def test_priorities(self) -> None:
        queue = self.queue(self.client)
        for value, priority in ((b"later", 900), (b"usual", 100), (b"first", 1), (b"second", 1), (b"now", 0)):
            queue.put(value, priority=priority)
        found = []
        while (value := queue.get(SHORT_S)) is not None:
            found.append(value)
            self.assertTrue(queue.consume())
        self.assertEqual(found, [b"now", b"first", b"second", b"usual", b"later"])

    def test_timeout(self) -> None:
        queue, other = self.queue(), self.queue()
        began = time.monotonic()
        self.assertIsNone(queue.get(SHORT_S))
        self.assertGreaterEqual(time.monotonic() - began, SHORT_S)
        other.put(b"x")
        self.assertEqual(other.get(DEADLINE_S), b"x")
        self.assertIsNone(queue.get(SHORT_S))  # the only entry is taken
        other.release()
        self.assertEqual(queue.get(DEADLINE_S), b"x")

    def test_waiting_for_an_entry(self) -> None:
        """A consumer that waits gets what is put, released, or left behind by a session that has ended."""
        waiting, client = self.parkazoo(), self.parkazoo()
        holder = self.queue(client)
        for _ in range(3):
            got = Seen()
            consumer = self.queue(waiting)
            waiting.handler.spawn(lambda got=got, consumer=consumer: got(consumer.get(DEADLINE_S)))
            holder.put(b"x")
            self.assertEqual(got.wait(), [b"x"])
            self.assertTrue(consumer.consume())
        holder.put(b"y")
        self.assertEqual(holder.get(DEADLINE_S), b"y")
        got = Seen()
        consumer = self.queue(waiting)
        waiting.handler.spawn(lambda: got(consumer.get(DEADLINE_S)))
        holder.release()
        self.assertEqual(got.wait(), [b"y"])
        consumer.release()
        self.assertEqual(holder.get(DEADLINE_S), b"y")
        got = Seen()
        consumer = self.queue(waiting)
        waiting.handler.spawn(lambda: got(consumer.get(DEADLINE_S)))
        client.stop()
        self.assertEqual(got.wait(), [b"y"])
        self.assertTrue(consumer.consume())

    def test_held_by_one(self) -> None:
        holder, other = self.queue(), self.queue()
        holder.put(b"x")
        self.assertEqual(holder.get(DEADLINE_S), b"x")
        self.assertIsNone(other.get(SHORT_S))
        self.assertFalse(other.holds_lock())
        self.assertFalse(other.consume())
        self.assertTrue(holder.holds_lock())
        self.assertEqual(len(other), 1)
        self.assertTrue(holder.consume())
        self.assertIsNone(other.get(SHORT_S))

    def test_a_lost_lock(self) -> None:
        """The holder's session ends: the entry is given again, and only to the new holder it belongs."""
        client = self.parkazoo()
        loser, winner = self.queue(client), self.queue()
        loser.put(b"x")
        self.assertEqual(loser.get(DEADLINE_S), b"x")
        self.expire(client)
        self.assertFalse(loser.holds_lock())
        self.assertEqual(winner.get(DEADLINE_S), b"x")
        self.assertFalse(loser.consume())
        self.assertFalse(loser.release())
        self.assertTrue(winner.holds_lock())
        self.assertEqual(len(winner), 1)
        self.assertTrue(winner.consume())
        self.assertEqual(len(winner), 0)

    def test_a_lost_lock_is_not_given_back(self) -> None:
        """The session ends, and the entry is given to another: it is his alone, whatever the loser does first."""
        for name in ("consume", "release"):
            with self.subTest(name):
                client = self.parkazoo()
                loser, winner, third = self.queue(client), self.queue(), self.queue()
                loser.put(b"x")
                self.assertEqual(loser.get(DEADLINE_S), b"x")
                self.expire(client)
                self.assertEqual(winner.get(DEADLINE_S), b"x")
                self.assertFalse(getattr(loser, name)())
                self.assertTrue(winner.holds_lock())
                self.assertIsNone(third.get(SHORT_S))
                self.assertTrue(winner.consume())
                self.assertEqual(self.client.get_children(f"{self.path}/entries"), [])

    def test_a_lock_is_lost_before_it_is_known(self) -> None:
        """The answer is lost, the queue finds that it holds the lock, its session ends before it reads more."""
        for is_consumed in (False, True):
            with self.subTest(is_consumed=is_consumed):
                client = self.parkazoo()
                loser, winner = self.queue(client), self.queue()
                loser.put(b"x")
                is_ours, answers = loser._is_ours, []

                def lose(
                    lock: str,
                    is_ours: Any = is_ours,
                    answers: list[bool] = answers,
                    client: Any = client,
                    winner: Any = winner,
                    is_consumed: bool = is_consumed,
                ) -> bool:
                    answers.append(is_ours(lock))
                    if len(answers) == 1:
                        self.expire(client)
                        self.assertEqual(winner.get(DEADLINE_S), b"x")
                        self.assertTrue(winner.consume() if is_consumed else winner.holds_lock())
                    return answers[-1]

                with mock.patch.object(loser, "_is_ours", lose), lost_answer("taken-"):
                    self.assertIsNone(loser.get(SHORT_S))
                self.assertEqual(answers[0], True)
                self.assertFalse(loser.consume())
                self.assertEqual(winner.consume(), not is_consumed)

    def test_a_lost_lock_without_a_new_holder(self) -> None:
        client = self.parkazoo()
        queue = self.queue(client)
        queue.put(b"x")
        self.assertEqual(queue.get(DEADLINE_S), b"x")
        self.expire(client)
        self.assertFalse(queue.consume())
        self.assertEqual(len(queue), 1)
        other = self.queue()
        self.assertEqual(other.get(DEADLINE_S), b"x")
        self.assertTrue(other.consume())

    def test_an_interrupted_get(self) -> None:
        """Another queue gets the entry, though the client lives. The interrupted one works on."""
        queue, other = self.queue(self.client), self.queue()
        queue.put(b"one")
        with (
            mock.patch.object(RetriableTransaction, "commit", commit_and_be_interrupted),
            self.assertRaises(TimeIsUpError),
        ):
            queue.get()
        self.assertEqual(other.get(DEADLINE_S), b"one")
        self.assertTrue(other.release())
        self.assertEqual(queue.get(DEADLINE_S), b"one")
        self.assertTrue(queue.consume())

    def test_a_get_that_is_interrupted_at_each_point(self) -> None:
        """The queue has the entry, or gets it again, or another one does."""
        queue, other = self.queue(self.client), self.queue()

        def prepare() -> Any:
            other.put(b"one")
            return queue.get

        def check() -> None:
            if queue.processing_element is None:
                self.assertEqual(other.get(DEADLINE_S), b"one")
                self.assertTrue(other.consume())
            else:
                self.assertTrue(queue.consume())

        points = each_interruption(prepare, check, FILES, where_signals_come_but_to_generators)
        self.assertGreater(points, 50)
        check()
        self.assertEqual(len(other), 0)

    def test_many_consumers(self) -> None:
        """Some of whom give entries back, and some of whom lose their sessions while they hold one."""
        count, dice = 120, random.Random(1)
        consumed: Counter[bytes] = Counter()
        held: dict[bytes, Any] = {}
        doubled, errors, finished = Seen(), Seen(), Seen()

        def produce(client: Any, name: str) -> None:
            queue = self.queue(client)
            for number in range(0, count, 2):
                queue.put(b"%s-%d" % (name.encode(), number), priority=dice.randrange(90, 110))
                queue.put_all([b"%s-%d" % (name.encode(), number + 1)])
            finished(name)

        def consume(client: Any) -> None:
            while sum(consumed.values()) < 2 * count:
                try:
                    queue = self.queue(client)
                    value = queue.get(SHORT_S)
                    if value is None:
                        continue
                    if held.setdefault(value, queue) is not queue:
                        doubled(value)
                    chance = dice.random()
                    client.handler.sleep_func(0.002 * dice.random())
                    held.pop(value, None)
                    if chance < 0.15:
                        queue.release()
                    elif chance < 0.2:
                        client.restart()  # its session is over, and so are its locks
                    elif queue.consume():
                        consumed[value] += 1
                    else:
                        errors(f"{value!r}: the lock was lost")
                except KazooException as error:
                    errors(error)
            finished("consumer")

        clients = [self.parkazoo() for _ in range(6)]
        for name, client in (("p", clients[0]), ("q", clients[1])):
            client.handler.spawn(produce, client, name)
        for client in clients[2:]:
            client.handler.spawn(consume, client)
        finished.wait(len(clients))
        self.assertEqual(errors, [])
        self.assertEqual(doubled, [])
        self.assertEqual(len(consumed), 2 * count)
        self.assertEqual({*consumed.values()}, {1})
        self.assertEqual(len(self.queue()), 0)

    def test_below_a_chroot(self) -> None:
        client = self.parkazoo(self.root)
        queue = client.LockingQueue("/queue")
        queue.put(b"x")
        self.assertEqual(self.queue().get(DEADLINE_S), b"x")
        self.assertIsNone(queue.get(SHORT_S))

    def test_two_queues_of_one_client(self) -> None:
        """A lock is the queue object's, not the client's."""
        first, second = self.queue(self.client), self.queue(self.client)
        first.put(b"x")
        self.assertEqual(first.get(DEADLINE_S), b"x")
        self.assertIsNone(second.get(SHORT_S))
        self.assertFalse(second.consume())
        self.assertTrue(first.consume())

    def test_kazoo_s_own_class(self) -> None:
        """Its transaction goes across ensembles, where its two directories do; the error names the way out."""
        path = next(
            path
            for path in (f"{self.root}/{number}" for number in range(100))
            if Placement(3).of_children(f"{path}/entries") != Placement(3).of_children(f"{path}/taken")
        )
        queue = KazooLockingQueue(self.client, path)
        queue.put(b"x")
        self.assertEqual(queue.get(DEADLINE_S), b"x")
        with self.assertRaises(CrossEnsembleError) as caught:
            queue.consume()
        self.assertIn("client.LockingQueue", str(caught.exception))


class TestOneEnsemble(LiveTest):
    ensembles = 1

    def test_shared_with_plain_kazoo(self) -> None:
        """With one ensemble the queue has kazoo's shape: plain clients use it too."""
        ours = self.parkazoo()
        path = f"{self.new_root(ours)}/queue"
        plain = self.kazoo()
        mine, theirs = ours.LockingQueue(path), plain.LockingQueue(path)
        mine.put(b"1")
        theirs.put(b"2")
        mine.put(b"3")
        self.assertEqual((len(mine), len(theirs)), (3, 3))
        self.assertEqual(theirs.get(DEADLINE_S), b"1")
        self.assertEqual(mine.get(DEADLINE_S), b"2")
        self.assertTrue(theirs.consume())
        self.assertTrue(mine.holds_lock())
        self.assertTrue(mine.consume())
        self.assertEqual(theirs.get(DEADLINE_S), b"3")
        self.assertIsNone(mine.get(SHORT_S))
        self.assertTrue(theirs.release())
        self.assertEqual(mine.get(DEADLINE_S), b"3")
        self.assertTrue(mine.consume())
        self.assertEqual(sorted(plain.get_children(path)), ["entries", "taken"])

    def test_an_interrupted_get(self) -> None:
        client, other = self.parkazoo(), self.parkazoo()
        path = f"{self.new_root(client)}/queue"
        queue = client.LockingQueue(path)
        queue.put(b"one")
        with (
            mock.patch.object(RetriableTransaction, "commit", commit_and_be_interrupted),
            self.assertRaises(TimeIsUpError),
        ):
            queue.get()
        self.assertEqual(other.LockingQueue(path).get(DEADLINE_S), b"one")

    def test_a_connection_is_lost_while_it_locks(self) -> None:
        """Before the lock was made, or after that: whoever waits gets the entry all the same."""
        client = self.parkazoo()
        queue = client.LockingQueue(f"{self.new_root(client)}/queue")
        make = client.transaction
        for is_made in (False, True):
            losses = iter([ConnectionLoss()])

            def lossy(is_made: bool = is_made, losses: Iterator[Exception] = losses) -> Any:
                transaction = make()
                commit = transaction.commit

                def commit_and_lose() -> Any:
                    results = commit() if is_made else None
                    for loss in losses:
                        raise loss
                    return results if is_made else commit()

                transaction.commit = commit_and_lose
                return transaction

            got = client.handler.spawn(queue.get, DEADLINE_S)
            with mock.patch.object(client, "transaction", lossy):
                wait_until(lambda: self.watches(client), "it waits")
                queue.put(b"%d" % is_made)
                got.join(DEADLINE_S)
            self.assertTrue(queue.holds_lock())
            self.assertTrue(queue.consume())
            self.assertEqual(len(queue), 0)

    def watches(self, client: Any) -> bool:
        return any(member.has_left_watches for member in client.members.values())
