"""What each operation sends: which ensembles, which znodes there, how many requests. See traces.py."""

from __future__ import annotations

import unittest
from typing import Any

from kazoo.exceptions import (
    ConnectionLoss,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    NotReadOnlyCallError,
)
from kazoo.protocol.serialization import Reconfig
from kazoo.security import OPEN_ACL_UNSAFE

from parkazoo.kazoo_private import (
    Auth,
    Create2,
    Delete,
    Exists,
    GetACL,
    GetChildren,
    GetChildren2,
    GetData,
    SetACL,
    SetData,
    Sync,
    Transaction,
)
from parkazoo.protocol.past import CATCH_UP, PATHS_REMEMBERED
from parkazoo.protocol.placement import Placement
from parkazoo.protocol.plans import OTHER, PLANS
from parkazoo.protocol.presence import Presence
from tests.explore.alone import make_context, outcome, prepared
from tests.explore.directories import create
from tests.explore.znodes import EPHEMERAL
from tests.protocol.traces import MIRRORED, NATIVE, PLACEMENT, TRACES, TracedTest, read
from tests.where_is import where_is

X = MIRRORED + "/x"


class TestLeaf(TracedTest):
    """Everything on a leaf is one request to the ensemble of its parent's children."""

    def test_in_a_native_directory(self) -> None:
        self.perform(create(NATIVE))
        leaf, where = f"{NATIVE}/x", PLACEMENT.of_children(NATIVE)
        for request in self.each_of(leaf):
            log: list[Any] = []
            got = outcome(self.model, PLANS[request.type].operation(self.context, request), log=log)
            self.assertNotIsInstance(got, Exception, request)
            self.assertEqual(log, [(where, request)])  # the physical path is the user's

    def test_in_a_promoted_directory(self) -> None:
        self.perform(create(MIRRORED))
        self.perform(create(X))
        for request in self.each_of(MIRRORED + "/y"):
            self.expect(request)

    def each_of(self, leaf: str) -> list[Any]:
        return [
            create(leaf),
            GetData(leaf, None),
            SetData(leaf, b"1", -1),
            Exists(leaf, None),
            GetACL(leaf),
            Delete(leaf, -1),
            Create2(leaf, b"", OPEN_ACL_UNSAFE, 0),
            SetACL(leaf, OPEN_ACL_UNSAFE, -1),
        ]

    def test_whether_it_is_there(self) -> None:
        self.expect(Presence(MIRRORED, None), False)
        self.perform(create(MIRRORED))
        self.expect(Presence(MIRRORED, None), True)
        self.perform(create(X))
        self.expect(Presence(MIRRORED, None), True)
        self.expect(Presence(NATIVE, None), False)

    def test_what_is_not_there(self) -> None:
        self.expect(GetData(MIRRORED, None), NoNodeError)
        self.expect(Exists(MIRRORED, None), None)
        self.expect(SetData(MIRRORED, b"", -1), NoNodeError)
        self.expect(Delete(MIRRORED, -1), NoNodeError)
        self.expect(GetChildren(MIRRORED, None), NoNodeError)
        self.expect(GetChildren(MIRRORED, None), NoNodeError)


class TestOwnPast(TracedTest):
    """What the client has created or deleted: other ensembles catch up before they are read, once."""

    def test_own_create(self) -> None:
        self.perform(create(MIRRORED))
        self.expect(GetData(MIRRORED, None))
        self.expect(GetChildren(MIRRORED, None), [])
        self.expect(GetChildren(MIRRORED, None), [])

    def test_own_delete_even_if_it_has_failed(self) -> None:
        self.perform(create(MIRRORED), make_context(PLACEMENT, "another"))
        for result in (True, NoNodeError):
            self.expect(Delete(MIRRORED, -1), result)
            self.expect(Exists(MIRRORED, None), None)
            self.expect(
                GetChildren2(MIRRORED, None),
                NoNodeError,
            )
            self.expect(GetChildren(MIRRORED, None), NoNodeError)

    def test_above_and_below(self) -> None:
        self.perform(create(MIRRORED))
        self.perform(create(X))
        self.expect(Delete(X, -1))
        self.expect(GetChildren(MIRRORED, None), [])
        self.expect(Exists(MIRRORED, None))
        self.expect(Delete(MIRRORED, -1))
        self.expect(GetData(X, None), NoNodeError)

    def test_a_neighbour_does_not_matter(self) -> None:
        self.perform(create(MIRRORED), make_context(PLACEMENT, "another"))
        self.perform(create(MIRRORED + "0"))
        self.perform(create(NATIVE))
        self.expect(GetChildren(MIRRORED, None), [])

    def test_transactions(self) -> None:
        other = MIRRORED + "0"
        self.perform(Transaction([create(MIRRORED), create(other)]))
        self.expect(GetChildren(MIRRORED, None), [])
        self.expect(GetData(other, None))
        self.perform(Transaction([create(MIRRORED)]))
        self.expect(GetChildren(MIRRORED, None), [])
        self.perform(Transaction([SetData(MIRRORED, b"", -1)]))
        self.expect(GetChildren(MIRRORED, None), [])

    def test_what_has_fallen_out_counts_for_all(self) -> None:
        self.perform(create(MIRRORED), make_context(PLACEMENT, "another"))
        for number in range(PATHS_REMEMBERED):
            self.context.past.begin((f"/other{number}",), PLACEMENT.of(MIRRORED)).__exit__(None, None, None)
        self.expect(GetChildren(MIRRORED, None), [])
        self.perform(create(MIRRORED + "0"))
        self.expect(GetChildren(MIRRORED, None), [])
        self.expect(GetChildren(MIRRORED, None), [])

    def test_one_ensemble_needs_nothing(self) -> None:
        placement = Placement(1)
        context = make_context(placement)
        for request in (create("/a"), create("/a/b"), Delete("/a/b", -1), Delete("/a", -1)):
            outcome(self.model, PLANS[request.type].operation(context, request))
            for path in ("/a", "/a/b"):
                log: list[Any] = []
                outcome(self.model, PLANS[GetData.type].operation(context, GetData(path, None)), log=log)
                self.assertEqual(log, [(0, GetData(path, None))])
        self.assertEqual(context.past.count, 0)

    def test_a_write_that_is_lost_or_refused(self) -> None:
        """A read whose write was lost may be of any time: it fails. A server that is cut off shows what it has."""
        for answer in (ConnectionLoss(), NotReadOnlyCallError()):
            with self.subTest(type(answer)):
                self.setUp()
                self.perform(create(MIRRORED))
                operation = PLANS[GetChildren.type].operation(self.context, GetChildren(MIRRORED, None))
                sent = next(operation)
                answers = [
                    answer if request == CATCH_UP else self.model.execute(e, request) for e, request in sent
                ]
                if isinstance(answer, ConnectionLoss):
                    with self.assertRaises(ConnectionLoss):
                        operation.send(answers)
                else:
                    self.assertEqual(
                        [request for _, request in operation.send(answers)], [GetChildren2(MIRRORED, None)]
                    )
                _, sent = self.perform(GetChildren(MIRRORED, None))
                self.assertEqual(sent[0], "M catch up", "it has not been behind that write")


class TestDirectory(TracedTest):
    def setUp(self) -> None:
        super().setUp()
        self.perform(create(MIRRORED), make_context(PLACEMENT, "another"))

    def test_reads_without_a_mirror(self) -> None:
        self.expect(GetData(MIRRORED, None))
        self.expect(Exists(MIRRORED, None))
        self.expect(GetChildren(MIRRORED, None), [])
        self.expect(GetChildren2(MIRRORED, None))

    def test_reads_with_a_mirror(self) -> None:
        self.perform(create(X))
        self.expect(GetData(MIRRORED, None))
        self.expect(GetData(MIRRORED, None))
        self.expect(Exists(MIRRORED, None))
        self.expect(GetACL(MIRRORED))
        self.expect(SetData(MIRRORED, b"", -1))
        self.expect(GetChildren(MIRRORED, None), ["x"])
        self.expect(GetChildren2(MIRRORED, None))

    def test_reads_of_a_native_directory(self) -> None:
        self.perform(create(NATIVE))
        self.perform(create(NATIVE + "/x"))
        for request in (
            GetData(NATIVE, None),
            Exists(NATIVE, None),
            GetACL(NATIVE),
            SetData(NATIVE, b"", -1),
            GetChildren(NATIVE, None),
            GetChildren2(NATIVE, None),
            SetACL(NATIVE, OPEN_ACL_UNSAFE, -1),
        ):
            _, sent = self.perform(request)
            self.assertEqual(len(sent), 1, sent)
        self.assertIsInstance(self.perform(Delete(NATIVE, -1))[0], NotEmptyError)
        self.perform(Delete(NATIVE + "/x", -1))
        self.assertEqual(len(self.perform(Delete(NATIVE, -1))[1]), 1)

    def test_first_child(self) -> None:
        self.expect(create(X))
        self.expect(create(X), NodeExistsError)
        self.expect(create(MIRRORED + "/y"))

    def test_first_child_of_a_directory_that_we_have_made(self) -> None:
        self.perform(Delete(MIRRORED, -1))
        self.perform(create(MIRRORED))
        self.expect(create(X))
        self.expect(create(MIRRORED + "/y"))

    def test_first_child_that_another_has_made_meanwhile(self) -> None:
        """In a directory that we have made: what this client remembers of it is only a hint."""
        self.perform(Delete(MIRRORED, -1))
        self.perform(create(MIRRORED))
        self.perform(create(X), make_context(PLACEMENT, "another"))
        self.expect(
            create(MIRRORED + "/y"),
        )
        self.expect(create(MIRRORED + "/z"))

    def test_first_child_that_another_has_made_while_the_home_is_away(self) -> None:
        """The mirror proves it, so nothing waits for the home."""
        self.perform(Delete(MIRRORED, -1))
        self.perform(create(MIRRORED))
        self.perform(create(X), make_context(PLACEMENT, "another"))
        home = where_is(PLACEMENT, MIRRORED).home.ensemble
        self.context.is_connected = lambda ensemble: ensemble != home
        self.expect(create(MIRRORED + "/y"))

    def test_first_child_with_its_stat(self) -> None:
        """kazoo cannot read a Create2 in a multi's answer, so the child comes after."""
        request = Create2(X, b"ab", OPEN_ACL_UNSAFE, 0)
        _, stat = self.expect(request)
        self.assertEqual((stat.dataLength, stat.version), (2, 0))

    def test_first_child_pays_for_the_fence(self) -> None:
        d = where_is(PLACEMENT, MIRRORED)
        self.model.execute(d.mirror.ensemble, Delete(d.fence, -1))
        self.expect(create(X))

    def test_child_of_what_is_not_there(self) -> None:
        self.perform(Delete(MIRRORED, -1))
        self.expect(create(X), NoNodeError)

    def test_child_of_an_ephemeral(self) -> None:
        self.perform(Delete(MIRRORED, -1))
        self.perform(create(MIRRORED, EPHEMERAL))
        self.expect(create(X), NoChildrenForEphemeralsError)

    def test_delete_of_a_child_that_is_not_there(self) -> None:
        """One server looks at the right first; without a mirror that is the home's to say."""
        self.expect(Delete(X, -1), NoNodeError)
        self.expect(Transaction([Delete(X, -1)]))

    def test_promotion_that_was_abandoned(self) -> None:
        self.abandon(create(X), 3)
        self.expect(create(X))

    def test_delete_refused(self) -> None:
        self.perform(create(X))
        self.expect(Delete(MIRRORED, -1), NotEmptyError)
        d = where_is(PLACEMENT, MIRRORED)
        self.assertEqual(self.model.nodes[d.home.ensemble][d.pin].children, frozenset())

    def test_delete(self) -> None:
        self.perform(create(X))
        self.perform(Delete(X, -1))
        self.expect(Delete(MIRRORED, -1), True)
        for nodes in self.model.nodes:
            self.assertFalse([path for path in nodes if MIRRORED[1:] in path])

    def test_delete_of_a_leaf(self) -> None:
        self.expect(Delete(MIRRORED, -1), True)

    def test_a_create_helps_an_abandoned_delete(self) -> None:
        self.perform(create(X))
        self.perform(Delete(X, -1))
        self.abandon(Delete(MIRRORED, -1), 7)
        self.expect(create(X), NoNodeError)

    def test_a_listing_helps_an_abandoned_delete(self) -> None:
        self.perform(create(X))
        self.perform(Delete(X, -1))
        self.abandon(Delete(MIRRORED, -1), 7)
        self.expect(Exists(MIRRORED, None))  # still there
        self.expect(GetChildren(MIRRORED, None), NoNodeError)
        self.expect(Exists(MIRRORED, None), None)

    def test_marks_of_a_directory_that_has_children_stay(self) -> None:
        """An abandoned delete that had not reached the mirror holds no client up."""
        self.perform(create(X))
        self.perform(Delete(X, -1))
        self.abandon(Delete(MIRRORED, -1), 6)
        self.expect(create(X))
        self.expect(GetChildren(MIRRORED, None), ["x"])
        self.expect(Delete(MIRRORED, -1), NotEmptyError)

    def test_a_delete_takes_abandoned_marks_along(self) -> None:
        self.perform(create(X))
        self.perform(Delete(X, -1))
        self.abandon(Delete(MIRRORED, -1), 5)
        self.expect(Delete(MIRRORED, -1))

    def test_set_acls(self) -> None:
        request = SetACL(MIRRORED, OPEN_ACL_UNSAFE, -1)
        self.expect(request)
        self.perform(create(X))
        self.expect(request)

    def test_sync(self) -> None:
        got, sent = self.perform(Sync(MIRRORED))
        self.assertEqual((got, sorted(sent)), (MIRRORED, ["H Sync /", "M Sync /"]))
        log: list[Any] = []
        self.assertEqual(
            outcome(self.model, PLANS[Sync.type].operation(self.context, Sync(NATIVE)), log=log), NATIVE
        )
        self.assertEqual(log, [(PLACEMENT.of(NATIVE), Sync("/"))])

    def test_transaction_of_siblings(self) -> None:
        self.perform(create(X))
        self.expect(
            Transaction([create(MIRRORED + "/y"), Delete(X, -1), SetData(MIRRORED + "/y", b"", -1)]),
        )


class TestEverywhere(TracedTest):
    def test_credentials_go_to_every_ensemble(self) -> None:
        _, sent = self.perform(Auth(0, "digest", "u:p"))
        self.assertEqual(len(sent), PLACEMENT.ensembles)

    def test_what_is_unknown_goes_to_the_bootstrap_ensemble(self) -> None:
        placement = Placement(3, bootstrap=2)
        log: list[Any] = []
        request = Reconfig("", "", "", -1)
        outcome(self.model, OTHER.operation(make_context(placement), request), log=log)
        self.assertEqual(log, [(2, request)])

    def test_one_ensemble_is_plain_zookeeper(self) -> None:
        """With one ensemble every request goes out as it came in."""
        placement = Placement(1)
        model, context = prepared(placement), make_context(placement)
        for request in (
            create("/a"),
            create("/a/b"),
            create("/a/b/c"),
            GetChildren("/a", None),
            GetChildren2("/a", None),
            GetData("/a/b", None),
            SetACL("/a/b", OPEN_ACL_UNSAFE, -1),
            Transaction([create("/a/x"), Delete("/a/b/c", -1), Delete("/a/b", -1), Delete("/a/x", -1)]),
            Delete("/a", -1),
            Exists("/a", None),
        ):
            log: list[Any] = []
            got = outcome(model, PLANS[request.type].operation(context, request), log=log)
            self.assertNotIsInstance(got, Exception)
            self.assertEqual(log, [(0, request)])

    def test_the_root(self) -> None:
        where = PLACEMENT.of_children("/")
        log: list[Any] = []
        names = outcome(
            self.model, PLANS[GetChildren.type].operation(self.context, GetChildren("/", None)), log=log
        )
        self.assertEqual((names, log), ([], [(where, GetChildren("/", None))]))


class TestTraces(unittest.TestCase):
    def test_each_section_is_a_test(self) -> None:
        for each in (TestLeaf, TestOwnPast, TestDirectory, TestEverywhere):
            for name in read(TRACES / f"{each.__name__}.txt"):
                self.assertTrue(hasattr(each, f"test_{name}"), f"{name}: nothing writes this section any more")
