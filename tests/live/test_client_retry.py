"""A transaction that is tried again, and what `committed` says."""

from __future__ import annotations

from typing import Any

from kazoo.exceptions import BadVersionError, ConnectionClosedError, ConnectionLoss
from kazoo.retry import KazooRetry

from parkazoo import CrossEnsembleError, ParKazooClient
from parkazoo.kazoo_private import Transaction
from tests.handlers import make_handler
from tests.live.world import DEADLINE_S, LiveTest


class Forgetful(ParKazooClient):
    """Loses the answers to transactions, a number of times: before they are sent, or after they were done."""

    losses = 0
    is_sent = False

    def _call(self, request: Any, async_object: Any) -> Any:
        if isinstance(request, Transaction) and self.losses:
            self.losses -= 1
            if self.is_sent:
                done = self.handler.async_result()
                super()._call(request, done)
                done.get(timeout=DEADLINE_S)
            async_object.set_exception(ConnectionLoss())
            return None
        return super()._call(request, async_object)


class TestTransaction(LiveTest):
    def setUp(self) -> None:
        super().setUp()
        handler = make_handler()
        retry = KazooRetry(max_tries=5, delay=0.01, sleep_func=handler.sleep_func)
        self.client = self.parkazoo(client_class=Forgetful, handler=handler, command_retry=retry)
        self.root = self.new_root(self.client)

    def create(self) -> Any:
        transaction = self.client.transaction()
        transaction.create(f"{self.root}/x")
        return transaction

    def test_committed(self) -> None:
        transaction = self.create()
        self.assertFalse(transaction.committed)
        self.assertEqual(transaction.commit(), [f"{self.root}/x"])
        self.assertTrue(transaction.committed)
        for again in (transaction.commit, lambda: transaction.create(f"{self.root}/y")):
            with self.assertRaisesRegex(ValueError, "Transaction already committed"):
                again()

    def test_nothing_was_done(self) -> None:
        sibling = self.client.create(f"{self.root}/sibling")
        transaction = self.create()
        transaction.check(sibling, 7)
        self.assertIsInstance(transaction.commit()[1], BadVersionError)
        self.assertFalse(transaction.committed)
        self.assertIsNone(self.client.exists(f"{self.root}/x"))
        for _ in range(7):
            self.client.set(sibling, b"")
        transaction.commit()
        self.assertTrue(transaction.committed)
        self.assertIsNotNone(self.client.exists(f"{self.root}/x"))

    def test_refused(self) -> None:
        home = self.placement.of_children(self.root)
        other = next(
            path for path in (f"{self.root}/{n}" for n in range(99)) if self.placement.of_children(path) != home
        )
        transaction = self.create()
        transaction.create(f"{other}/y")
        self.assertRaises(CrossEnsembleError, transaction.commit)
        self.assertFalse(transaction.committed)

    def test_lost_before_it_was_sent(self) -> None:
        """client.retry(transaction.commit) does what it says (kazoo's issue 757)."""
        self.client.losses = 3
        transaction = self.create()
        self.assertEqual(self.client.retry(transaction.commit), [f"{self.root}/x"])
        self.assertTrue(transaction.committed)

    def test_lost_after_it_was_done(self) -> None:
        """The outcome is unknown: it does not count as committed, and may be tried again."""
        self.client.losses, self.client.is_sent = 1, True
        transaction = self.client.transaction()
        transaction.set_data(self.root, b"new", version=0)
        self.assertRaises(ConnectionLoss, transaction.commit)
        self.assertFalse(transaction.committed)
        self.assertIsInstance(transaction.commit()[0], BadVersionError)
        self.assertFalse(transaction.committed)
        self.assertEqual(self.client.get(self.root)[0], b"new")

    def test_under_way(self) -> None:
        """While it is being committed it can neither be changed nor committed a second time."""
        transaction = self.create()
        result = transaction.commit_async()
        if not result.ready():
            self.assertRaises(ValueError, transaction.commit)
            self.assertRaises(ValueError, transaction.create, f"{self.root}/y")
        self.assertEqual(result.get(timeout=DEADLINE_S), [f"{self.root}/x"])
        self.assertTrue(transaction.committed)

    def test_closed(self) -> None:
        transaction = self.create()
        self.client.stop()
        self.assertRaises(ConnectionClosedError, transaction.commit)
        self.assertFalse(transaction.committed)
        self.client.start(DEADLINE_S)
        transaction.commit()
        self.assertTrue(transaction.committed)

    def test_in_a_block(self) -> None:
        with self.client.transaction() as transaction:
            transaction.create(f"{self.root}/x")
        self.assertTrue(transaction.committed)
        with self.client.transaction() as transaction:
            transaction.create(f"{self.root}/y")
            transaction.delete(f"{self.root}/x", version=7)
        self.assertFalse(transaction.committed)
        self.assertEqual(self.client.get_children(self.root), ["x"])
