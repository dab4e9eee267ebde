"""What each operation sends: which ensembles, which znodes there, how many requests."""

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
    Create,
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
from parkazoo.protocol.placement import DONE, Placement
from parkazoo.protocol.plans import OTHER, PLANS
from parkazoo.protocol.tree import Tree
from tests.explore.alone import find_directory, make_tree, outcome, prepared
from tests.explore.model import Model
from tests.explore.znodes import EPHEMERAL

PLACEMENT = Placement(3)
MIRRORED = find_directory(PLACEMENT, False)
NATIVE = find_directory(PLACEMENT, True)
X = MIRRORED + "/x"


def create(path: str, flags: int = 0) -> Create:
    return Create(path, b"", OPEN_ACL_UNSAFE, flags)


PROMOTE = [
    "M Create x",
    "M Exists fence",
    "H GetACL home",
    "H Create pin",
    "H GetACL home",
    "M [SetData fence, Create mirror, Create x]",
]
PROBE = ["H Delete home", "M [Delete mirror, CheckVersion fence]"]
DELETE = [
    *PROBE,
    "H Delete pin",
    "H Create mark",
    "M SetData fence",
    "H GetChildren pin",
    "M [CheckVersion fence, Delete mirror]",
    "H [Delete mark, Delete pin, Delete home]",
]
HELP = [
    "M SetData fence",
    "M Exists mirror",
    "H [Delete mark, Delete pin, Delete home, Create done]",
]


class RequestTest(unittest.TestCase):
    def setUp(self) -> None:
        self.model: Model = prepared(PLACEMENT, [MIRRORED, NATIVE])
        self.tree: Tree = make_tree(PLACEMENT)

    def perform(self, request: Any, tree: Tree | None = None) -> tuple[Any, list[str]]:
        """The outcome and the requests, in words."""
        log: list[Any] = []
        plan = PLANS.get(request.type, OTHER)
        result = outcome(self.model, plan.operation(tree or self.tree, request), log=log)
        return result, [self.words(ensemble, each) for ensemble, each in log]

    def abandon(self, request: Any, steps: int) -> list[str]:
        """Stop an operation of another client after a number of requests."""
        operation = PLANS[request.type].operation(make_tree(PLACEMENT, "abandoned"), request)
        answers: Any = None
        words = []
        for _ in range(steps):
            sent = operation.send(answers)
            answers = [self.model.execute(*step) for step in sent]
            words += [self.words(*step) for step in sent]
        return words

    def words(self, ensemble: int, request: Any) -> str:
        """H or M, for the ensemble of the home or that of the mirror, then kind and znode."""
        if ensemble == PLACEMENT.of(MIRRORED):
            where = "H"
        else:
            where = "M" if ensemble == PLACEMENT.of_children(MIRRORED) else str(ensemble)
        if request == CATCH_UP:
            return f"{where} catch up"
        if isinstance(request, Transaction):
            return f"{where} [{', '.join(self.kind(each) for each in request.operations)}]"
        return f"{where} {self.kind(request)}"

    def kind(self, request: Any) -> str:
        d = PLACEMENT.directory(MIRRORED)
        names = {d.home.path: "home", d.mirror.path: "mirror", d.pin: "pin", d.fence: "fence"}
        path = getattr(request, "path", "")
        if path.startswith(d.pin + "/"):
            name = "mark"
        elif path.startswith(DONE + "/"):
            name = "done"
        else:
            name = names.get(path) or path.removeprefix(d.mirror.path + "/")
        return f"{type(request).__name__} {name}"

    def expect(self, request: Any, words: list[str], result: Any = ...) -> Any:
        got, sent = self.perform(request)
        self.assertEqual(sent, words)
        if isinstance(result, type):
            self.assertIsInstance(got, result)
        elif result is not ...:
            self.assertEqual(got, result)
        else:
            self.assertNotIsInstance(got, Exception)
        return got


class TestLeaf(RequestTest):
    """Everything on a leaf is one request to the ensemble of its parent's children."""

    def test_in_a_native_directory(self) -> None:
        self.perform(create(NATIVE))
        leaf, where = f"{NATIVE}/x", PLACEMENT.of_children(NATIVE)
        for request in self.each_of(leaf):
            log: list[Any] = []
            got = outcome(self.model, PLANS[request.type].operation(self.tree, request), log=log)
            self.assertNotIsInstance(got, Exception, request)
            self.assertEqual(log, [(where, request)])  # the physical path is the user's

    def test_in_a_promoted_directory(self) -> None:
        self.perform(create(MIRRORED))
        self.perform(create(X))
        for request in self.each_of(MIRRORED + "/y"):
            self.expect(request, [f"M {type(request).__name__} y"])

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

    def test_what_is_not_there(self) -> None:
        self.expect(GetData(MIRRORED, None), ["H GetData home"], NoNodeError)
        self.expect(Exists(MIRRORED, None), ["H Exists home"], None)
        self.expect(SetData(MIRRORED, b"", -1), ["H SetData home"], NoNodeError)
        self.expect(Delete(MIRRORED, -1), ["H Delete home"], NoNodeError)
        look = ["M GetChildren mirror", "H GetChildren2 home"]
        self.expect(GetChildren(MIRRORED, None), ["M catch up", *look], NoNodeError)
        self.expect(GetChildren(MIRRORED, None), look, NoNodeError)


class TestOwnPast(RequestTest):
    """What the client has created or deleted: other ensembles catch up before they are read, once."""

    def test_own_create(self) -> None:
        self.perform(create(MIRRORED))
        look = ["M GetChildren mirror", "H GetChildren2 home"]
        self.expect(GetData(MIRRORED, None), ["H GetData home"])
        self.expect(GetChildren(MIRRORED, None), ["M catch up", *look], [])
        self.expect(GetChildren(MIRRORED, None), look, [])

    def test_own_delete_even_if_it_has_failed(self) -> None:
        self.perform(create(MIRRORED), make_tree(PLACEMENT, "another"))
        for result in (True, NoNodeError):
            self.expect(Delete(MIRRORED, -1), ["H Delete home"], result)
            self.expect(Exists(MIRRORED, None), ["H Exists home"], None)
            self.expect(
                GetChildren2(MIRRORED, None),
                ["H GetChildren2 home"],
                NoNodeError,
            )
            look = ["M catch up", "M GetChildren mirror", "H GetChildren2 home"]
            self.expect(GetChildren(MIRRORED, None), look, NoNodeError)

    def test_above_and_below(self) -> None:
        self.perform(create(MIRRORED))
        self.perform(create(X))
        self.expect(Delete(X, -1), ["M Delete x"])
        self.expect(GetChildren(MIRRORED, None), ["M GetChildren mirror"], [])
        self.expect(Exists(MIRRORED, None), ["H catch up", "H Exists home", "M Exists mirror"])
        self.expect(Delete(MIRRORED, -1), DELETE)
        self.expect(GetData(X, None), ["M catch up", "M GetData x"], NoNodeError)

    def test_a_neighbour_does_not_matter(self) -> None:
        self.perform(create(MIRRORED), make_tree(PLACEMENT, "another"))
        self.perform(create(MIRRORED + "0"))
        self.perform(create(NATIVE))
        self.expect(GetChildren(MIRRORED, None), ["M GetChildren mirror", "H GetChildren2 home"], [])

    def test_transactions(self) -> None:
        other = MIRRORED + "0"
        self.perform(Transaction([create(MIRRORED), create(other)]))
        look = ["M GetChildren mirror", "H GetChildren2 home"]
        self.expect(GetChildren(MIRRORED, None), ["M catch up", *look], [])
        self.expect(GetData(other, None), ["H GetData " + other])
        self.perform(Transaction([create(MIRRORED)]))
        self.expect(GetChildren(MIRRORED, None), ["M catch up", look[0], "H catch up", look[1]], [])
        self.perform(Transaction([SetData(MIRRORED, b"", -1)]))
        self.expect(GetChildren(MIRRORED, None), look, [])

    def test_what_has_fallen_out_counts_for_all(self) -> None:
        self.perform(create(MIRRORED), make_tree(PLACEMENT, "another"))
        for number in range(PATHS_REMEMBERED):
            self.tree.past.begin((f"/other{number}",), PLACEMENT.of(MIRRORED)).__exit__(None, None, None)
        look = ["M GetChildren mirror", "H GetChildren2 home"]
        self.expect(GetChildren(MIRRORED, None), look, [])
        self.perform(create(MIRRORED + "0"))
        self.expect(GetChildren(MIRRORED, None), ["M catch up", *look], [])
        self.expect(GetChildren(MIRRORED, None), look, [])

    def test_one_ensemble_needs_nothing(self) -> None:
        placement = Placement(1)
        tree = make_tree(placement)
        for request in (create("/a"), create("/a/b"), Delete("/a/b", -1), Delete("/a", -1)):
            outcome(self.model, PLANS[request.type].operation(tree, request))
            for path in ("/a", "/a/b"):
                log: list[Any] = []
                outcome(self.model, PLANS[GetData.type].operation(tree, GetData(path, None)), log=log)
                self.assertEqual(log, [(0, GetData(path, None))])
        self.assertEqual(tree.past.count, 0)

    def test_a_write_that_is_lost_or_refused(self) -> None:
        """A read whose write was lost may be of any time: it fails. A server that is cut off shows what it has."""
        for answer in (ConnectionLoss(), NotReadOnlyCallError()):
            with self.subTest(type(answer)):
                self.setUp()
                self.perform(create(MIRRORED))
                operation = PLANS[GetChildren.type].operation(self.tree, GetChildren(MIRRORED, None))
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


class TestDirectory(RequestTest):
    def setUp(self) -> None:
        super().setUp()
        self.perform(create(MIRRORED), make_tree(PLACEMENT, "another"))

    def test_reads_without_a_mirror(self) -> None:
        self.expect(GetData(MIRRORED, None), ["H GetData home"])
        self.expect(Exists(MIRRORED, None), ["H Exists home"])
        self.expect(GetChildren(MIRRORED, None), ["M GetChildren mirror", "H GetChildren2 home"], [])
        self.expect(
            GetChildren2(MIRRORED, None), ["H GetChildren2 home", "M GetChildren2 mirror", "H GetChildren2 home"]
        )

    def test_reads_with_a_mirror(self) -> None:
        self.perform(create(X))
        self.expect(GetData(MIRRORED, None), ["H catch up", "H GetData home", "M Exists mirror"])
        self.expect(GetData(MIRRORED, None), ["H GetData home", "M Exists mirror"])
        self.expect(Exists(MIRRORED, None), ["H Exists home", "M Exists mirror"])
        self.expect(GetACL(MIRRORED), ["H GetACL home", "M Exists mirror"])
        self.expect(SetData(MIRRORED, b"", -1), ["H SetData home", "M Exists mirror"])
        self.expect(GetChildren(MIRRORED, None), ["M GetChildren mirror"], ["x"])
        self.expect(GetChildren2(MIRRORED, None), ["H GetChildren2 home", "M GetChildren2 mirror"])

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
        self.expect(create(X), PROMOTE)
        self.expect(create(X), ["M Create x"], NodeExistsError)
        self.expect(create(MIRRORED + "/y"), ["M Create y"])

    def test_first_child_of_a_directory_that_we_have_made(self) -> None:
        self.perform(Delete(MIRRORED, -1))
        self.perform(create(MIRRORED))
        self.expect(create(X), PROMOTE[1:])
        self.expect(create(MIRRORED + "/y"), ["M Create y"])

    def test_first_child_that_another_has_made_meanwhile(self) -> None:
        """In a directory that we have made: what this client remembers of it is only a hint."""
        self.perform(Delete(MIRRORED, -1))
        self.perform(create(MIRRORED))
        self.perform(create(X), make_tree(PLACEMENT, "another"))
        self.expect(
            create(MIRRORED + "/y"),
            [*PROMOTE[1:5], "H GetChildren pin", PROMOTE[5].replace("x]", "y]"), "M Create y"],
        )
        self.expect(create(MIRRORED + "/z"), ["M Create z"])

    def test_first_child_with_its_stat(self) -> None:
        """kazoo cannot read a Create2 in a multi's answer, so the child comes after."""
        request = Create2(X, b"ab", OPEN_ACL_UNSAFE, 0)
        words = ["M Create2 x", *PROMOTE[1:-1], "M [SetData fence, Create mirror]", "M Create2 x"]
        _, stat = self.expect(request, words)
        self.assertEqual((stat.dataLength, stat.version), (2, 0))

    def test_first_child_pays_for_the_fence(self) -> None:
        d = PLACEMENT.directory(MIRRORED)
        self.model.execute(d.mirror.ensemble, Delete(d.fence, -1))
        words = [*PROMOTE[:3], "M Create fence", "M Exists fence", *PROMOTE[3:]]
        self.expect(create(X), words)

    def test_child_of_what_is_not_there(self) -> None:
        self.perform(Delete(MIRRORED, -1))
        got, sent = self.perform(create(X))
        self.assertIsInstance(got, NoNodeError)
        self.assertEqual(sent, [*PROMOTE[:3], "H [Create pin, CheckVersion pin]", "H GetACL home"])

    def test_child_of_an_ephemeral(self) -> None:
        self.perform(Delete(MIRRORED, -1))
        self.perform(create(MIRRORED, EPHEMERAL))
        self.expect(create(X), PROMOTE[:5], NoChildrenForEphemeralsError)

    def test_delete_of_a_child_that_is_not_there(self) -> None:
        """One server looks at the right first; without a mirror that is the home's to say."""
        self.expect(Delete(X, -1), ["M Delete x", "H Delete pin"], NoNodeError)
        self.expect(Transaction([Delete(X, -1)]), ["M [Delete x]", "H Delete pin"])

    def test_promotion_that_was_abandoned(self) -> None:
        self.abandon(create(X), 3)
        self.expect(create(X), [*PROMOTE[:5], "H GetChildren pin", *PROMOTE[5:]])

    def test_delete_refused(self) -> None:
        self.perform(create(X))
        self.expect(Delete(MIRRORED, -1), PROBE, NotEmptyError)
        d = PLACEMENT.directory(MIRRORED)
        self.assertEqual(self.model.nodes[d.home.ensemble][d.pin].children, frozenset())

    def test_delete(self) -> None:
        self.perform(create(X))
        self.perform(Delete(X, -1))
        self.expect(Delete(MIRRORED, -1), DELETE, True)
        for nodes in self.model.nodes:
            self.assertFalse([path for path in nodes if MIRRORED[1:] in path])

    def test_delete_of_a_leaf(self) -> None:
        self.expect(Delete(MIRRORED, -1), ["H Delete home"], True)

    def test_a_create_helps_an_abandoned_delete(self) -> None:
        self.perform(create(X))
        self.perform(Delete(X, -1))
        self.assertEqual(self.abandon(Delete(MIRRORED, -1), 7), DELETE[:7])
        words = [
            *PROMOTE[:5],
            "H GetChildren pin",
            *HELP,
            "M Exists fence",
            "H GetACL home",
            "H [Create pin, CheckVersion pin]",
        ]
        self.expect(create(X), [*words, "H GetACL home"], NoNodeError)

    def test_a_listing_helps_an_abandoned_delete(self) -> None:
        self.perform(create(X))
        self.perform(Delete(X, -1))
        self.abandon(Delete(MIRRORED, -1), 7)
        look = ["M GetChildren mirror", "H GetChildren2 home"]
        self.expect(Exists(MIRRORED, None), ["H catch up", "H Exists home", "M Exists mirror"])  # still there
        self.expect(GetChildren(MIRRORED, None), [*look, "H GetChildren pin", *HELP, *look], NoNodeError)
        self.expect(Exists(MIRRORED, None), ["H Exists home"], None)

    def test_marks_of_a_directory_that_has_children_stay(self) -> None:
        """An abandoned delete that had not reached the mirror holds no client up."""
        self.perform(create(X))
        self.perform(Delete(X, -1))
        self.abandon(Delete(MIRRORED, -1), 6)
        self.expect(create(X), ["M Create x"])
        self.expect(GetChildren(MIRRORED, None), ["M GetChildren mirror"], ["x"])
        self.expect(Delete(MIRRORED, -1), PROBE, NotEmptyError)

    def test_a_delete_takes_abandoned_marks_along(self) -> None:
        self.perform(create(X))
        self.perform(Delete(X, -1))
        self.abandon(Delete(MIRRORED, -1), 5)
        self.expect(Delete(MIRRORED, -1), [*DELETE[:-1], "H [Delete mark, Delete mark, Delete pin, Delete home]"])

    def test_set_acls(self) -> None:
        request = SetACL(MIRRORED, OPEN_ACL_UNSAFE, -1)
        self.expect(request, ["H SetACL home"])
        self.perform(create(X))
        words = ["H SetACL home", "M SetData fence", "M SetACL mirror", "H SetACL pin", "H GetACL home"]
        self.expect(request, words)

    def test_sync(self) -> None:
        got, sent = self.perform(Sync(MIRRORED))
        self.assertEqual((got, sorted(sent)), (MIRRORED, ["H Sync /", "M Sync /"]))
        log: list[Any] = []
        self.assertEqual(outcome(self.model, PLANS[Sync.type].operation(self.tree, Sync(NATIVE)), log=log), NATIVE)
        self.assertEqual(log, [(PLACEMENT.of(NATIVE), Sync("/"))])

    def test_transaction_of_siblings(self) -> None:
        self.perform(create(X))
        self.expect(
            Transaction([create(MIRRORED + "/y"), Delete(X, -1), SetData(MIRRORED + "/y", b"", -1)]),
            ["M [Create y, Delete x, SetData y]"],
        )


class TestEverywhere(RequestTest):
    def test_credentials_go_to_every_ensemble(self) -> None:
        _, sent = self.perform(Auth(0, "digest", "u:p"))
        self.assertEqual(len(sent), PLACEMENT.ensembles)

    def test_what_is_unknown_goes_to_the_bootstrap_ensemble(self) -> None:
        placement = Placement(3, bootstrap=2)
        log: list[Any] = []
        request = Reconfig("", "", "", -1)
        outcome(self.model, OTHER.operation(make_tree(placement), request), log=log)
        self.assertEqual(log, [(2, request)])

    def test_one_ensemble_is_plain_zookeeper(self) -> None:
        """With one ensemble every request goes out as it came in."""
        placement = Placement(1)
        model, tree = prepared(placement), make_tree(placement)
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
            got = outcome(model, PLANS[request.type].operation(tree, request), log=log)
            self.assertNotIsInstance(got, Exception)
            self.assertEqual(log, [(0, request)])

    def test_the_root(self) -> None:
        where = PLACEMENT.of_children("/")
        log: list[Any] = []
        names = outcome(self.model, PLANS[GetChildren.type].operation(self.tree, GetChildren("/", None)), log=log)
        self.assertEqual((names, log), ([], [(where, GetChildren("/", None))]))


class TestConnectionLoss(RequestTest):
    """A lost connection ends an operation there and then: nothing is tried again by itself."""

    SITUATIONS = (
        ("first child", [create(MIRRORED)], create(X)),
        ("first child, with stat", [create(MIRRORED)], Create2(X, b"", OPEN_ACL_UNSAFE, 0)),
        ("delete", [create(MIRRORED), create(X), Delete(X, -1)], Delete(MIRRORED, -1)),
        ("get", [create(MIRRORED), create(X)], GetData(MIRRORED, None)),
        ("listing", [create(MIRRORED)], GetChildren2(MIRRORED, None)),
        ("set_acls", [create(MIRRORED), create(X)], SetACL(MIRRORED, OPEN_ACL_UNSAFE, -1)),
        ("sync", [], Sync(MIRRORED)),
        ("credentials", [], Auth(0, "digest", "u:p")),
        ("transaction", [create(MIRRORED)], Transaction([create(X), create(MIRRORED + "/y")])),
        (
            "transaction with a delete",
            [create(MIRRORED), create(X), Delete(X, -1)],
            Transaction([Delete(MIRRORED, -1)]),
        ),
    )

    def test_every_step(self) -> None:
        for name, before, request in self.SITUATIONS:
            self.setUp()
            for each in before:
                self.perform(each)
            count = len(self.perform(request)[1])
            for lost in range(count):
                with self.subTest(name, lost=lost):
                    self.setUp()
                    for each in before:
                        self.perform(each)
                    self.assertLess(self.lose(request, lost), count - lost + 1)

    def lose(self, request: Any, lost: int) -> int:
        """Answer the request number `lost` by ConnectionLoss; how many were sent with or after it."""
        operation = PLANS[request.type].operation(self.tree, request)
        answers: Any = None
        sent = 0
        with self.assertRaises(ConnectionLoss):
            while True:
                steps = operation.send(answers)
                self.assertLessEqual(sent, lost, "it sent more after the loss")
                answers = []
                for step in steps:
                    answers.append(ConnectionLoss() if sent == lost else self.model.execute(*step))
                    sent += 1
        return sent - lost
