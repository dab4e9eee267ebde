"""The driver, where pins decide: reads for which one request will do, and what becomes of them if it will not."""

from __future__ import annotations

from typing import Any
from unittest import mock

from kazoo.exceptions import ConnectionLoss, NoAuthError, NoNodeError, SessionExpiredError
from kazoo.protocol.states import ZnodeStat

from parkazoo.engine.ports import give
from parkazoo.kazoo_private import Exists, GetACL, GetChildren, GetData, SetData
from parkazoo.protocol.order import WRITE
from parkazoo.protocol.where.places import by_first, directory
from tests.engine.test_driver import create
from tests.explore.alone import make_grown
from tests.explore.scenario import Knows
from tests.fakes.asked import PLACEMENT, AskedTest
from tests.fakes.result import BodyResult, Result

D, X = "/d", "/d/x"
INT_BYTES = 4
LEAF = ZnodeStat(5, 5, 1, 1, 0, 0, 0, 0, 1, 0, 5)
PARENT = LEAF._replace(numChildren=1, cversion=1)


class TestReads(AskedTest):
    """The client remembers where the children of D are; of `X` it knows nothing."""

    def setUp(self) -> None:
        super().setUp()
        context = make_grown(self.driver.context, PLACEMENT, Knows(by_first(PLACEMENT)))
        self.driver.begin_form(context)
        self.places = context.places
        self.places.remember(directory(D, self.places.known(D).home, 1), self.places.count)

    def ask(self, request: Any) -> Result:
        (result,) = self.issue(request)
        return result

    def answer(self) -> Any:
        """The reply to the one request that is under way."""
        (reply,) = [reply for member in self.members for reply in member.waiting]
        for member in self.members:
            member.waiting.clear()
        return reply

    def assert_over(self, result: Result, value: Any, requests: int) -> None:
        if isinstance(value, type):
            self.assertIsInstance(result.value, value)
        else:
            self.assertEqual(result.value, value)
        self.assertEqual((self.sent, bool(self.driver.order), self.driver.order.under_way), (requests, False, 0))

    def test_of_a_leaf(self) -> None:
        for count, (request, answer) in enumerate(
            [(GetData(X, None), (b"", LEAF)), (GetACL(X), ([], LEAF)), (Exists(X, None), LEAF)], 1
        ):
            with self.subTest(request):
                result = self.ask(request)
                self.assertEqual(result.told, [])
                self.answer().set(answer)
                self.assert_over(result, answer, count)

    def test_a_set_that_was_handed_on_as_bytes(self) -> None:
        """Where it was looked for it is not: it goes on, with all that it had."""
        for data in (None, b"", b"ab"):
            with self.subTest(data):
                asked = SetData(X, data, 3)
                rest = asked.serialize()[INT_BYTES + len(X) :]
                self.assertTrue(self.driver.call_placed(SetData.type, X, rest, BodyResult()))
                with mock.patch.object(self.driver, "run_brief") as run:
                    self.answer().set_exception(NoNodeError())
                self.assertEqual(run.call_args.args[1], asked)
                self.driver.release_node(X, self.driver.order, WRITE)

    def test_an_error_ends_it(self) -> None:
        """It is not sent again, whatever the client has learned meanwhile."""
        for count, error in enumerate((ConnectionLoss, SessionExpiredError, NoAuthError), 1):
            with self.subTest(error):
                self.places.remember(directory(D, self.places.known(D).home, 1), self.places.count)
                result = self.ask(GetACL(X))
                self.places.drop(D)
                self.answer().set_exception(error())
                self.assert_over(result, error, count)

    def test_where_it_cannot_be_elsewhere(self) -> None:
        for count, (request, answer, value) in enumerate(
            [(GetData("/x", None), NoNodeError(), NoNodeError), (Exists("/x", None), None, None)], 1
        ):
            with self.subTest(request):
                result, reply = self.ask(request), self.answer()
                give(reply, answer)
                self.assert_over(result, value, count)

    def test_not_there(self) -> None:
        """The mirror proves it."""
        result = self.ask(Exists(X, None))
        self.answer().set(None)
        self.assertEqual((result.told, self.sent), ([], 2))
        self.answer().set(LEAF)
        self.assert_over(result, None, 2)

    def test_a_parent(self) -> None:
        """Its pin is asked for, and its home once more."""
        result = self.ask(Exists(X, None))
        self.answer().set(PARENT)
        self.assertEqual((result.told, self.sent), ([], 3))

    def test_a_watch_is_left_once(self) -> None:
        """Whatever the client has learned, forgotten or changed below it meanwhile."""
        for what in ("learned", "forgotten", "changed"):
            with self.subTest(what):
                self.setUp()
                result, reply = self.ask(GetData(X, print)), self.answer()
                if what == "learned":
                    self.places.remember(directory(X, self.places.known(X).home, 2), self.places.count)
                elif what == "forgotten":
                    self.places.drop(D)
                else:
                    self.ask(create(f"{X}/y/z"))
                reply.set((b"", PARENT))
                asked = [request for member in self.members for request in member.requests]
                self.assertGreater(len(asked), 1)
                self.assertEqual(len([each for each in asked if getattr(each, "watcher", None)]), 1)
                self.assertEqual(result.told, [])

    def test_a_create_waits_for_its_end(self) -> None:
        result, made = self.ask(GetData(X, None)), self.ask(create(X))
        self.assertEqual(self.sent, 1)
        self.answer().set((b"", LEAF))
        self.assertEqual((result.value, self.sent), ((b"", LEAF), 2))
        self.answer().set(X)
        self.assert_over(made, X, 2)

    def test_a_list_behind_what_is_not_there(self) -> None:
        """kazoo's TreeCache would take a child out for good that has come after the get and before the list."""
        result, listed = self.ask(GetData(X, None)), self.ask(GetChildren(D, None))
        (member,) = (each for each in self.members if each.waiting)
        found, listing = member.waiting
        member.waiting.clear()
        found.set_exception(NoNodeError())
        listing.set(["x"])
        self.assertEqual((result.told, listed.told, self.sent), ([], [], 4))
        proof, behind = member.waiting
        proof.set(LEAF)
        self.assertIsInstance(result.value, NoNodeError)
        self.assertEqual(listed.told, [])
        behind.set(LEAF)
        self.assert_over(listed, ["x"], 4)
        self.assertEqual(self.driver.context.proofs, {})

    def test_a_listing_waits_for_the_number(self) -> None:
        result, listed = self.ask(Exists(X, None)), self.ask(GetChildren(X, None))
        self.assertEqual(self.sent, 1)
        self.answer().set(LEAF)
        self.assertEqual((result.value, listed.told, self.sent), (LEAF, [], 2))

    def test_of_the_root(self) -> None:
        """Its place is certain, so nothing is claimed, and a create does not wait for its answer."""
        result, made = self.ask(GetData("/", None)), self.ask(create("/x"))
        found, created = [reply for member in self.members for reply in member.waiting]
        found.set((b"", LEAF))
        created.set("/x")
        self.assertEqual(result.value, (b"", LEAF))
        self.assert_over(made, "/x", 2)

    def test_the_session_ends_meanwhile(self) -> None:
        """What its answer makes necessary is not asked for."""
        result = self.ask(Exists(X, None))
        self.driver.fail_all(SessionExpiredError)
        self.answer().set(PARENT)
        self.assert_over(result, SessionExpiredError, 1)

    def test_the_form_rises_meanwhile(self) -> None:
        """It is waited for; given up, it ends at its next request."""
        result = self.ask(Exists(X, None))
        self.driver.begin_form(make_grown(self.driver.context, PLACEMENT, Knows(by_first(PLACEMENT))))
        self.assertTrue(self.driver.has_older)
        self.driver.fail_older(ConnectionLoss)
        self.answer().set(PARENT)
        self.assert_over(result, ConnectionLoss, 1)
