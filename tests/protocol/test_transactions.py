"""A transaction is one multi on one ensemble, whatever directories it makes and deletes, or nothing."""

from __future__ import annotations

import itertools
import unittest
from typing import Any

from kazoo.exceptions import KazooException, NoAuthError, NoChildrenForEphemeralsError, NodeExistsError
from kazoo.security import ACL, Permissions

from parkazoo.errors import CrossEnsembleError
from parkazoo.kazoo_private import (
    CheckVersion,
    Create,
    Delete,
    Exists,
    GetChildren,
    RolledBackError,
    RuntimeInconsistency,
    SetData,
    Transaction,
)
from parkazoo.protocol.placement import Placement
from parkazoo.protocol.plans import PLANS
from tests.explore.alone import find_directory, make_context, outcome, prepared
from tests.explore.answers import freeze
from tests.explore.directories import create
from tests.explore.model import Model
from tests.explore.znodes import ANYONE, EPHEMERAL, SEQUENCE, WORLD, Who
from tests.where_is import where_is

PLACEMENT = Placement(2)
D = find_directory(PLACEMENT, False)
E = find_directory(PLACEMENT, False, name="e")
X, Y = D + "/x", D + "/y"
ROLLED_BACK, NOT_TRIED = "RolledBackError", "RuntimeInconsistency"


class TransactionTest(unittest.TestCase):
    def setUp(self) -> None:
        self.model = prepared(PLACEMENT, [D, E])
        self.context = make_context(PLACEMENT)
        self.sent: list[Any] = []

    def perform(self, request: Any, who: Who = ANYONE) -> Any:
        self.sent = []
        return outcome(self.model, PLANS[request.type].operation(self.context, request), who, self.sent)

    def done(self, *requests: Any) -> None:
        for request in requests:
            self.assertNotIsInstance(self.perform(request), Exception, request)

    def commit(self, *operations: Any, who: Who = ANYONE) -> Any:
        return freeze(self.perform(Transaction(list(operations)), who))

    def finish(self, operation: Any, answers: Any) -> Any:
        try:
            while True:
                answers = [self.model.execute(*step) for step in operation.send(answers)]
        except StopIteration as stop:
            return stop.value

    def marks(self) -> frozenset[str]:
        d = where_is(PLACEMENT, D)
        znode = self.model.nodes[d.home.ensemble].get(d.pin)
        return znode.children if znode else frozenset()


class TestAcrossEnsembles(TransactionTest):
    def test_refused_before_anything_is_sent(self) -> None:
        self.done(create(D), create(X))
        before = [dict(nodes) for nodes in self.model.nodes]
        got = self.perform(Transaction([SetData(X, b"", -1), create(D + "/y"), Delete(D, -1)]))
        self.assertIsInstance(got, CrossEnsembleError)
        self.assertIsInstance(got, KazooException)
        self.assertEqual((self.sent, self.model.nodes), ([], before))

    def test_it_names_each_path_and_its_ensemble(self) -> None:
        got = self.perform(Transaction([CheckVersion(X, 0), create(D)]))
        where = [f"e{PLACEMENT.of(path)}" for path in (X, D)]
        self.assertEqual(got.operations, (("check", X, where[0]), ("create", D, where[1])))
        for word in (X, D, *where, "Nothing was sent"):
            self.assertIn(word, str(got))

    def test_every_pair_of_paths(self) -> None:
        """Refused exactly if the znodes live apart."""
        paths = [f"/p{a}{rest}" for a in range(4) for rest in ("", "/x", "/y", "/x/z")]
        for pair in itertools.combinations(paths, 2):
            got = self.perform(Transaction([CheckVersion(path, -1) for path in pair]))
            is_apart = len({PLACEMENT.of(path) for path in pair}) > 1
            self.assertEqual(isinstance(got, CrossEnsembleError), is_apart, pair)
            self.assertEqual(len(self.sent), 0 if is_apart else 1)

    def test_siblings_never_are(self) -> None:
        for number in range(20):
            self.done(create(f"/s{number}"))
            results = self.commit(*(create(f"/s{number}/{name}") for name in "abc"))
            self.assertEqual(results, tuple(f"/s{number}/{name}" for name in "abc"))

    def test_empty(self) -> None:
        self.assertEqual(self.commit(), ())


class TestResults(TransactionTest):
    def test_paths_are_the_users(self) -> None:
        self.done(create(D), create(X))
        results = self.commit(create(Y), create(D + "/s", SEQUENCE), Delete(X, -1), CheckVersion(Y, 0))
        self.assertEqual(results, (Y, D + "/s0000000002", True, True))

    def test_failed_like_one_zookeepers(self) -> None:
        """Every kind of failure at every index, in a promoted directory and in one that is not yet."""
        bad: list[tuple[Any, str]] = [
            (create(X), "NodeExistsError"),
            (create(X + "/below/deeper"), "NoNodeError"),
            (Delete(D + "/none", -1), "NoNodeError"),
            (Delete(X, 5), "BadVersionError"),
            (SetData(X, b"", 5), "BadVersionError"),
            (SetData(D + "/none", b"", -1), "NoNodeError"),
            (CheckVersion(X, 5), "BadVersionError"),
            (CheckVersion(D + "/none", -1), "NoNodeError"),
        ]
        for (operation, error), index in itertools.product(bad, range(3)):
            if PLACEMENT.of(operation.path) != PLACEMENT.of(X):
                continue
            with self.subTest(operation=operation, index=index):
                self.setUp()
                self.done(create(D), create(X))
                before = self.model.key()
                operations: list[Any] = [create(f"{D}/new{number}") for number in range(2)]
                operations.insert(index, operation)
                results = self.commit(*operations)
                self.assertEqual(results, (*[ROLLED_BACK] * index, error, *[NOT_TRIED] * (2 - index)))
                self.assertEqual(self.model.key(), before)

    def test_the_errors_are_kazoos(self) -> None:
        self.done(create(D), create(X))
        results = self.perform(Transaction([create(Y), create(X), create(Y)]))
        self.assertEqual(
            [type(each) for each in results], [RolledBackError, NodeExistsError, RuntimeInconsistency]
        )


class TestPromotion(TransactionTest):
    def test_around_it(self) -> None:
        self.done(create(D))
        self.assertEqual(self.commit(create(X), create(Y)), (X, Y))
        multis = [request for _, request in self.sent if isinstance(request, Transaction)]
        self.assertEqual([len(multi.operations) for multi in multis], [2, 2, 2])  # tried, promoted, retried once
        self.assertEqual(len(self.sent), 7)

    def test_two_directories(self) -> None:
        self.done(create(D), create(E))
        self.assertEqual(PLACEMENT.of_children(D), PLACEMENT.of_children(E))
        self.assertEqual(self.commit(create(X), create(E + "/x")), (X, E + "/x"))

    def test_parent_is_missing(self) -> None:
        self.assertEqual(self.commit(create(X), create(Y)), ("NoNodeError", NOT_TRIED))
        self.done(create(D))
        self.assertEqual(self.perform(GetChildren(D, None)), [])

    def test_parent_is_ephemeral(self) -> None:
        self.done(create(D, EPHEMERAL))
        results = self.perform(Transaction([create(X), create(Y)]))
        self.assertEqual([type(each) for each in results], [NoChildrenForEphemeralsError, RuntimeInconsistency])

    def test_no_right_to_create(self) -> None:
        self.done(create(D, acl=[ACL(Permissions.READ, WORLD)]))
        results = self.perform(Transaction([create(X), create(Y)]), Who(has_all=False))
        self.assertEqual([type(each) for each in results], [NoAuthError, RuntimeInconsistency])

    def test_a_later_operation_fails(self) -> None:
        """The directory may have got a mirror in vain; no client sees that."""
        self.done(create(D))
        self.assertEqual(self.commit(create(X), Delete(Y, -1)), (ROLLED_BACK, "NoNodeError"))
        self.assertEqual(self.perform(Exists(D, None)).numChildren, 0)
        self.assertEqual(self.perform(create(D + "/s", SEQUENCE)).rpartition("/")[2], "s0000000000")


class TestDelete(TransactionTest):
    def test_of_a_promoted_directory(self) -> None:
        self.done(create(D), create(X), Delete(X, -1))
        self.assertEqual(self.commit(create("/new"), Delete(D, -1), SetData("/new", b"1", -1))[:2], ("/new", True))
        for nodes in self.model.nodes:
            self.assertFalse([path for path in nodes if D[1:] in path])

    def test_of_two(self) -> None:
        for d in (D, E):
            self.done(create(d), create(d + "/x"), Delete(d + "/x", -1))
        self.assertEqual(self.commit(Delete(D, -1), create("/new"), Delete(E, 0)), (True, "/new", True))
        self.assertIsNone(self.perform(Exists(D, None)))
        self.assertIsNone(self.perform(Exists(E, None)))

    def test_of_one_that_has_children(self) -> None:
        self.done(create(D), create(X))
        before = self.model.key()
        self.assertEqual(self.commit(create("/new"), Delete(D, -1)), (ROLLED_BACK, "NotEmptyError"))
        self.assertEqual(self.model.key(), before)

    def test_of_one_without_a_mirror(self) -> None:
        self.done(create(D))
        self.assertEqual(self.commit(create("/new"), Delete(D, -1)), ("/new", True))
        self.assertEqual(len(self.sent), 1)

    def test_wrong_version(self) -> None:
        self.done(create(D), create(X), Delete(X, -1))
        before = self.model.key()
        self.assertEqual(self.commit(Delete(D, 3), create("/new")), ("BadVersionError", NOT_TRIED))
        self.assertEqual(self.model.key(), before)

    def test_a_later_operation_fails(self) -> None:
        """The directory, and its sequence numbers, live on."""
        self.done(create(D), create(X), Delete(X, -1), create("/there"))
        before = self.model.key()
        for operations in ([Delete(D, -1), create("/there")], [create("/there"), Delete(D, -1)]):
            results = self.commit(*operations)
            self.assertIn("NodeExistsError", results)
            self.assertEqual(self.model.key(), before)

    def test_of_two_of_which_one_has_children(self) -> None:
        self.done(create(D), create(X), Delete(X, -1), create(E), create(E + "/x"))
        lives = {path for nodes in self.model.nodes for path in nodes}
        for operations in ([Delete(D, -1), Delete(E, -1)], [Delete(E, -1), Delete(D, -1)]):
            self.assertIn("NotEmptyError", self.commit(*operations))
            self.assertEqual({path for nodes in self.model.nodes for path in nodes}, lives)

    def test_deleted_twice(self) -> None:
        self.done(create(D), create(X), Delete(X, -1))
        self.assertEqual(self.commit(Delete(D, -1), Delete(D, -1)), (ROLLED_BACK, "NoNodeError"))
        self.assertEqual(self.marks(), frozenset())

    def test_deleted_and_made_again(self) -> None:
        self.done(create(D), create(X), Delete(X, -1))
        self.assertEqual(self.commit(Delete(D, -1), create(D)), (True, D))
        self.assertEqual(self.perform(GetChildren(D, None)), [])
        self.done(create(X))

    def test_others_call_it_off(self) -> None:
        """Abandoned before its multi, it must not happen: a client that meets its mark removes it."""
        for steps in range(5, 9):
            for request in (create(Y), GetChildren(D, None), Delete(D, -1)):
                with self.subTest(steps=steps, request=request):
                    self.setUp()
                    self.done(create(D), create(X), Delete(X, -1))
                    operation = PLANS[Transaction.type].operation(
                        make_context(PLACEMENT, "abandoned"), Transaction([create("/new"), Delete(D, -1)])
                    )
                    answers: Any = None
                    for _ in range(steps):
                        answers = [self.model.execute(*step) for step in operation.send(answers)]
                    self.assertEqual(len(self.marks()), int(steps > 4))
                    got = self.perform(request)
                    self.assertNotIsInstance(got, Exception)
                    self.assertIsNone(self.perform(Exists("/new", None)))
                    is_there = self.perform(Exists(D, None)) is not None
                    self.assertEqual(is_there, not isinstance(request, Delete))
                    # and the transaction, if it goes on after all, finds out
                    results = freeze(self.finish(operation, answers))
                    if isinstance(request, Create):
                        self.assertEqual(results, (ROLLED_BACK, "NotEmptyError"))
                    elif isinstance(request, Delete):
                        self.assertEqual(results, (ROLLED_BACK, "NoNodeError"))
                    else:
                        self.assertEqual(results, ("/new", True))
                    self.assertEqual(self.marks(), frozenset())

    def test_against_one_zookeeper(self) -> None:
        """Every transaction of two operations on a directory in each state has one ZooKeeper's results."""
        operations: list[Any] = [
            create(D),
            create(D + "2"),
            Delete(D, -1),
            Delete(D, 0),
            Delete(D, 1),
            SetData(D, b"1", 0),
            CheckVersion(D, 0),
            CheckVersion(D, 1),
        ]
        states: list[list[Any]] = [[], [create(D)], [create(D), create(X)], [create(D), create(X), Delete(X, -1)]]
        for state, pair in itertools.product(states, itertools.product(operations, repeat=2)):
            self.setUp()
            specification = Model(1)
            for request in state:
                self.done(request)
                specification.execute(0, request)
            expected = freeze(specification.execute(0, Transaction(list(pair))))
            self.assertEqual(without_cversion(self.commit(*pair)), without_cversion(expected), (state, pair))
            for path in (D, D + "2"):
                self.assertEqual(
                    self.perform(Exists(path, None)) is None, specification.execute(0, Exists(path, None)) is None
                )


def without_cversion(results: Any) -> Any:
    """A SetData's stat in a transaction that recreates a directory counts a new mirror's children."""
    return tuple((*each[:2], *each[3:]) if isinstance(each, tuple) else each for each in results)
