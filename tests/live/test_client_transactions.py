"""Transactions on real ensembles: atomic on one, refused across several."""

from __future__ import annotations

import itertools
import unittest
from typing import Any

from kazoo.exceptions import (
    BadVersionError,
    KazooException,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RolledBackError,
    RuntimeInconsistency,
)

from parkazoo import CrossEnsembleError, ParKazooClient
from parkazoo.protocol.placement import PIN, Placement
from tests.live.grow_case import GrowCase
from tests.live.test_client_tree import TreeTest
from tests.live.world import DEADLINE_S


def made_in_all_ways(test: unittest.TestCase, zk: ParKazooClient, path: str) -> None:
    """Make children of a directory by a sequence without a prefix."""

    def in_transaction(once: bool) -> list[Any]:
        transaction = zk.transaction()
        transaction.create(f"{path}/", sequence=True)
        transaction.create(f"{path}/", b"2", sequence=True)
        return zk.once(transaction.commit) if once else transaction.commit()

    first = zk.exists(path).cversion
    made = [
        zk.create(f"{path}/", sequence=True),
        zk.create_async(f"{path}/", sequence=True).get(),
        *in_transaction(once=False),
        zk.once(zk.create, f"{path}/", sequence=True),
        *in_transaction(once=True),
    ]
    test.assertEqual(made, [f"{path}/{first + number:010d}" for number in range(len(made))])
    test.assertLessEqual({name.rpartition("/")[2] for name in made}, {*zk.get_children(path)})


class TestTransactions(TreeTest):
    def commit(self, *operations: tuple[Any, ...]) -> list[Any]:
        transaction = self.client.transaction()
        for name, *args in operations:
            getattr(transaction, name)(*args)
        return self.types(transaction.commit())

    def test_basic(self) -> None:
        self.assertEqual(self.commit(), [])
        with self.client.transaction() as transaction:
            transaction.create(f"{self.root}/with", b"x")
        self.assertEqual(self.client.get(f"{self.root}/with")[0], b"x")
        transaction = self.client.transaction()
        transaction.delete(f"{self.root}/with")
        self.assertEqual(transaction.commit_async().get(timeout=DEADLINE_S), [True])
        self.assertRaises(ValueError, transaction.commit)
        self.assertRaises(ValueError, transaction.create, f"{self.root}/late")

    def test_siblings(self) -> None:
        for path in self.native_and_not():
            self.client.create(path)
            results = self.commit(
                ("create", f"{path}/a", b"a"),
                ("create", f"{path}/b", b"b"),
                ("check", f"{path}/a", 0),
                ("set_data", f"{path}/b", b"bb"),
                ("delete", f"{path}/a"),
            )
            self.assertEqual(results[:3], [f"{path}/a", f"{path}/b", True])
            self.assertEqual((results[3].version, results[3].dataLength), (1, 2))
            self.assertIs(results[4], True)
            self.assertEqual(self.client.get_children(path), ["b"])
            self.assertEqual(results[3], self.client.exists(f"{path}/b"))

    def test_failures(self) -> None:
        """As kazoo's: an error in each place, nothing done."""
        for path in self.native_and_not():
            self.client.create(f"{path}/there", makepath=True)
            for operation, error in (
                (("create", f"{path}/there"), NodeExistsError),
                (("check", f"{path}/there", 5), BadVersionError),
                (("check", f"{path}/missing", -1), NoNodeError),
                (("delete", f"{path}/missing"), NoNodeError),
                (("set_data", f"{path}/missing", b""), NoNodeError),
                (("set_data", f"{path}/there", b"", 3), BadVersionError),
            ):
                results = self.commit(("create", f"{path}/new"), operation, ("create", f"{path}/newer"))
                self.assertEqual(results, [RolledBackError, error, RuntimeInconsistency])
                self.assertEqual(self.client.get_children(path), ["there"])

    def test_promotion_around_it(self) -> None:
        path = self.directory(self.root, is_native=False)
        self.assertEqual(
            self.commit(("create", f"{path}/x"), ("create", f"{path}/y")), [NoNodeError, RuntimeInconsistency]
        )
        self.client.create(path)
        self.assertEqual(
            self.commit(("create", f"{path}/x"), ("create", f"{path}/y"), ("create", f"{path}/x")),
            [RolledBackError, RolledBackError, NodeExistsError],
        )
        self.assertEqual(self.client.get_children(path), [])
        self.assertEqual(self.commit(("create", f"{path}/x"), ("create", f"{path}/y")), [f"{path}/x", f"{path}/y"])
        self.assertEqual(sorted(self.client.get_children(path)), ["x", "y"])

    def test_delete_of_a_directory(self) -> None:
        """A promoted one, an empty one, one with children; also with a version, and twice in a transaction."""
        for path in self.native_and_not():
            self.client.create(path)
            inner = [self.directory(path, is_native) for is_native in (True, False)]
            for each in inner:
                self.client.create(f"{each}/x", makepath=True)
            deletes = [("delete", each) for each in inner]
            self.assertEqual(
                self.commit(("create", f"{path}/n"), *deletes),
                [RolledBackError, NotEmptyError, RuntimeInconsistency],
            )
            self.client.delete(f"{inner[0]}/x")
            self.assertEqual(self.commit(*deletes), [RolledBackError, NotEmptyError])
            self.assertEqual(
                sorted(self.client.get_children(path)), sorted(each.rpartition("/")[2] for each in inner)
            )
            self.client.delete(f"{inner[1]}/x")
            self.assertEqual(
                self.commit(("delete", inner[0], 3), ("delete", inner[1])), [BadVersionError, RuntimeInconsistency]
            )
            self.assertEqual(
                self.commit(("delete", inner[1], 3), ("delete", inner[0])), [BadVersionError, RuntimeInconsistency]
            )
            self.assertEqual(self.commit(*deletes, ("create", inner[0], b"new")), [True, True, inner[0]])
            self.assertEqual(self.client.get(inner[0])[0], b"new")
            self.assertEqual(self.client.get_children(inner[0]), [])
            self.client.create(f"{inner[0]}/again")
            for index in range(self.ensembles):
                names = self.kazoo(index).get_children("/parkazoo/mirrors")
                self.assertFalse([n for n in names if n.endswith(inner[1].rpartition("/")[2]) and path[1:] in n])

    def test_a_failed_delete_leaves_no_mark(self) -> None:
        path = self.directory(self.root, is_native=False)
        self.client.create(f"{path}/x", makepath=True)
        self.client.delete(f"{path}/x")
        self.assertEqual(
            self.commit(("delete", path), ("check", self.root + "/no", -1)), [RolledBackError, NoNodeError]
        )
        home = self.home(path)
        plain = self.kazoo(home.ensemble)
        self.assertEqual(plain.get_children(f"{home.path}/{PIN}"), [])
        self.assertEqual(self.client.create(f"{path}/x"), f"{path}/x")

    def test_across_ensembles(self) -> None:
        """Refused before anything is sent, with each path and its ensemble, and the ways out."""
        paths: dict[int, str] = {}
        for number in itertools.count():
            path = f"{self.root}/{number}"
            paths.setdefault(self.placement.of_children(path), path)
            if len(paths) == self.ensembles:
                break
        for path in paths.values():
            self.client.create(path)
        transaction = self.client.transaction()
        for path in paths.values():
            transaction.create(f"{path}/child")
        transaction.check(next(iter(paths.values())), 0)
        with self.assertRaises(CrossEnsembleError) as caught:
            transaction.commit()
        error = caught.exception
        self.assertIsInstance(error, KazooException)
        names = self.client.cluster_map.names
        expected = [("create", f"{path}/child", names[index]) for index, path in paths.items()]
        self.assertEqual([*error.operations[:-1]], expected)
        for operation, path, ensemble in error.operations:
            self.assertRegex(str(error), rf"{operation} +{path} +on {ensemble}\n")
        for word in ("Nothing was sent", "siblings", "LockingQueue"):
            self.assertIn(word, str(error))
        for path in paths.values():
            self.assertEqual(self.client.get_children(path), [])
        self.assertFalse(transaction.committed)
        self.assertRaises(CrossEnsembleError, transaction.commit)  # nothing was done, so it may be tried again
        with self.assertRaises(CrossEnsembleError), self.client.transaction() as again:
            for path in paths.values():
                again.delete(f"{path}/child")

    def test_a_sequence_without_a_prefix(self) -> None:
        """It is in the directory, whichever way it is made."""
        clients = (self.client, ""), (self.parkazoo(self.root), self.root)
        for is_native in (True, False):
            path = self.directory(self.root, is_native)
            self.client.create(path)
            for client, chroot in clients:
                with self.subTest(path, chroot=chroot):
                    made_in_all_ways(self, client, path.removeprefix(chroot))

    def test_below_a_chroot(self) -> None:
        """Paths in the error are whole: they are what the map places."""
        client = self.parkazoo(self.root)
        placement = Placement(self.ensembles)
        parents = {placement.of_children(f"{self.root}/{number}"): f"/{number}" for number in range(40)}
        transaction = client.transaction()
        for parent in parents.values():
            transaction.delete(f"{parent}/x")
        with self.assertRaises(CrossEnsembleError) as caught:
            transaction.commit()
        for parent in parents.values():
            self.assertIn(f"{parent}/x", str(caught.exception))


class TestTransactionsGrown(GrowCase):
    """As on a plain map."""

    def test_a_sequence_without_a_prefix(self) -> None:
        client, _ = self.client()
        for number in range(4):
            client.create(f"/d{number}")
            made_in_all_ways(self, client, f"/d{number}")
        self.assertEqual({self.place(f"/d{number}") for number in range(4)}, {"a", "b"})
