"""What each operation sends where pins decide: as test_requests.py, for a map that has grown. See traces.py.

Ensemble 0 was adopted; the newest epoch puts the directory on 1. ``H`` is ensemble 0, ``M`` ensemble 1.
"""

from __future__ import annotations

import unittest
from collections.abc import Sequence
from typing import Any

from kazoo.exceptions import NodeExistsError, NoNodeError, NotEmptyError
from kazoo.security import OPEN_ACL_UNSAFE

from parkazoo.errors import CrossEnsembleError
from parkazoo.kazoo_private import (
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
from parkazoo.protocol.context import Context
from parkazoo.protocol.epochs import Form
from parkazoo.protocol.placement import PINNED, Place, Placement
from parkazoo.protocol.plans import PLANS
from parkazoo.protocol.presence import Presence
from parkazoo.protocol.steps import Step
from parkazoo.protocol.where.places import NATIVE, by_first, directory
from tests.explore.alone import make_context, make_grown, outcome, prepared
from tests.explore.directories import create
from tests.explore.grown import ADOPTED, HINTS, STATES, D, Maps, State, brought, guess
from tests.explore.scenario import Knows
from tests.protocol.traces import TRACES, TracedTest, in_words, read

X, Y = f"{D}/x", f"{D}/y"
M = directory(D, Place(0, D), 1)
MAKE_X, MAKE_Y = create(X), create(Y)
STAT_READS = [GetData(D, None), Exists(D, None), GetACL(D), SetData(D, b"", -1)]


class GrownTest(TracedTest):
    """A client that knows nothing, unless it is told: see :meth:`begin`."""

    shown = M

    def begin(self, state: str, where: int = 1, hint: str = "nothing", newest: int | None = None) -> None:
        """:param where: what an epoch before says, by which the state came about.

        :param newest: what the client's epoch says, if that is another one.
        """
        self.model = brought(STATES[state], Maps(ADOPTED, Knows(guess(where)), None), ((), ())).model
        known = HINTS[hint]
        knows = Knows(guess(where if newest is None else newest), [] if known is None else [(D, known)])
        self.context = make_grown(make_context(ADOPTED), ADOPTED, knows)
        self.shown = directory(D, Place(0, D), where if "native" not in state and "adopted" not in state else 1)

    def perform(self, request: Any, context: Context | None = None) -> tuple[Any, list[str]]:
        log: list[Step] = []
        result = outcome(self.model, PLANS[request.type].operation(context or self.context, request), log=log)
        return result, in_words(log, self.shown)

    def expect_each(self, *requests: Any) -> None:
        for request in requests:
            self.expect(request)


class TestGrownFound(GrownTest):
    """What is found is in the right place: one request, with a hint or with a right guess."""

    def each(self) -> Sequence[Any]:
        return GetData(X, None), SetData(X, b"1", -1), Exists(X, None), GetACL(X), MAKE_Y, Delete(Y, -1)

    def test_with_a_right_guess(self) -> None:
        self.begin("mirrored")
        self.expect_each(*self.each())

    def test_with_a_hint(self) -> None:
        self.begin("mirrored", hint="b", newest=2)
        self.expect_each(*self.each())

    def test_native(self) -> None:
        self.begin("native", hint="native")
        self.expect_each(*self.each(), Create2(Y, b"", OPEN_ACL_UNSAFE, 0))

    def test_read_with_a_wrong_guess(self) -> None:
        self.begin("mirrored", newest=2)
        self.expect_each(GetData(X, None), GetData(X, None))

    def test_write_with_a_wrong_guess(self) -> None:
        self.begin("mirrored", newest=2)
        self.expect_each(SetData(X, b"1", -1), SetData(X, b"1", -1))

    def test_in_an_adopted_directory(self) -> None:
        self.begin("adopted")
        self.expect_each(GetData(X, None), GetData(X, None))

    def test_whether_it_is_there(self) -> None:
        self.begin("mirrored")
        self.expect(Presence(D, None), True)
        self.expect_each(MAKE_Y)
        self.expect(Presence(Y, None), True)
        self.expect(Presence(Y + "/z", None), False)

    def test_whether_it_is_there_with_a_wrong_guess(self) -> None:
        self.begin("mirrored", newest=2)
        self.expect(Presence(D, None), True)
        self.expect(Presence(X, None), True)


class TestGrownNotFound(GrownTest):
    """What is not found is proved."""

    def expect_none(self) -> None:
        self.expect(GetData(Y, None), NoNodeError)
        self.expect(Exists(Y, None), None)
        self.expect(SetData(Y, b"", -1), NoNodeError)
        self.expect(Delete(Y, -1), NoNodeError)

    def test_with_a_right_guess(self) -> None:
        self.begin("mirrored")
        self.expect_none()

    def test_native(self) -> None:
        self.begin("native", hint="native")
        self.expect_none()

    def test_read_with_a_wrong_guess(self) -> None:
        self.begin("mirrored", newest=2)
        self.expect(GetData(Y, None), NoNodeError)

    def test_write_with_a_wrong_guess(self) -> None:
        self.begin("mirrored", newest=2)
        self.expect(SetData(Y, b"", -1), NoNodeError)

    def test_below_what_is_not_there(self) -> None:
        self.begin("missing")
        self.expect_none()

    def test_below_a_leaf(self) -> None:
        self.begin("leaf")
        self.expect_none()


class TestGrownFirstChild(GrownTest):
    def test_elsewhere(self) -> None:
        self.begin("leaf")
        self.expect_each(MAKE_X, MAKE_Y)
        self.expect(MAKE_X, NodeExistsError)

    def test_here(self) -> None:
        """The newest epoch gives the directory to the ensemble of its home: it is mirrored there, too."""
        self.begin("leaf", where=0)
        self.expect_each(MAKE_X, MAKE_Y)

    def test_in_what_was_just_made(self) -> None:
        self.begin("missing")
        self.expect_each(create(D), MAKE_X, MAKE_Y)

    def test_in_an_adopted_directory(self) -> None:
        self.begin("adopted")
        self.expect_each(MAKE_Y, create(f"{D}/z"))

    def test_in_an_adopted_directory_that_is_empty(self) -> None:
        self.begin("adopted empty")
        self.expect_each(MAKE_X, MAKE_Y)

    def test_with_its_stat(self) -> None:
        self.begin("adopted")
        self.expect(Create2(Y, b"", OPEN_ACL_UNSAFE, 0))

    def test_with_a_wrong_guess(self) -> None:
        self.begin("mirrored", newest=2)
        self.expect_each(MAKE_Y, create(f"{D}/z"))

    def test_with_a_wrong_hint(self) -> None:
        self.begin("mirrored", hint="c")
        self.expect_each(MAKE_Y, create(f"{D}/z"))

    def test_native_with_a_wrong_guess(self) -> None:
        self.begin("native")
        self.expect_each(MAKE_Y, create(f"{D}/z"))

    def test_in_an_adopted_tree(self) -> None:
        """In form guarded too, where the guess was right and no ancestor was looked for."""
        deep = "/a/b/c"
        tree = State([create("/a"), create("/a/b"), create(deep), create(f"{deep}/old")])
        for knows in (Knows(by_first(ADOPTED), form=Form.GUARDED), Knows(guess(1))):
            self.model = brought(tree, Maps(ADOPTED, None, knows), ((), ())).model
            self.context = make_grown(make_context(ADOPTED), ADOPTED, knows)
            self.perform(create(f"{deep}/x"))
            for path in (f"{deep}/y", f"{deep}/z"):
                self.assertEqual(len(self.perform(create(path))[1]), 1)

    def begin_guarded(self, state: str, hint: str, first: Placement = ADOPTED) -> Context:
        """Another client of form guarded, which knows nothing, is returned."""
        known = HINTS[hint]
        knows = Knows(by_first(first), [] if known is None else [(D, known)], form=Form.GUARDED)
        self.model = brought(STATES[state], Maps(first, None, knows), ((), ())).model
        self.context = make_grown(make_context(first), first, knows)
        return make_grown(make_context(first, "other"), first, knows._replace(hints=[]))

    def test_in_form_guarded(self) -> None:
        """It can only be native: nobody is asked. One round trip, though another has been first."""
        for hint in ("nothing", "unpinned"):
            other = self.begin_guarded("adopted", hint)
            self.expect_each(MAKE_Y, create(f"{D}/z"))
            self.perform(create(f"{D}/other"), other)
        other = self.begin_guarded("adopted", "unpinned")
        self.perform(create(f"{D}/other"), other)
        self.expect_each(MAKE_Y, create(f"{D}/z"))
        self.begin_guarded("leaf", "nothing")
        self.expect_each(MAKE_X, MAKE_Y)

    def test_in_form_guarded_in_vain(self) -> None:
        self.begin_guarded("adopted", "unpinned")
        self.expect(MAKE_X, NodeExistsError)
        self.expect(MAKE_X, NodeExistsError)
        self.begin_guarded("missing", "unpinned")
        self.expect(MAKE_X, NoNodeError)
        self.begin_guarded("mirrored", "unpinned", Placement(3, 0, lambda path: int(path == D)))
        self.expect_each(MAKE_Y, create(f"{D}/z"))

    def test_of_a_leaf_that_was_looked_below(self) -> None:
        """A tolerant client then still makes it where the first epoch says, and plain clients find it."""
        first = Placement(3, 0, lambda path: int(path == D))
        self.model = prepared(first)
        plain = make_context(first, "plain")
        for form in (Form.TOLERANT, Form.GUARDED):
            client = make_grown(make_context(first), first, Knows(by_first(first), form=form))
            outcome(self.model, PLANS[Create.type].operation(plain, create(D)))
            self.assertIsInstance(self.perform(GetData(f"{X}/below", None), client)[0], NoNodeError)
            self.perform(MAKE_X, client)
            self.assertIsNotNone(outcome(self.model, PLANS[Exists.type].operation(plain, Exists(X, None))))
            for path in (X, D):
                self.assertIs(self.perform(Delete(path, -1), client)[0], True)

    def test_a_mark_does_not_hold_it_up(self) -> None:
        self.begin("delete abandoned early", newest=2)
        self.expect_each(MAKE_X)

    def test_below_what_is_not_there(self) -> None:
        self.begin("missing")
        self.expect(MAKE_X, NoNodeError)


class TestGrownDirectory(GrownTest):
    """Listings and stats."""

    def each(self) -> Sequence[Any]:
        return *STAT_READS, GetChildren(D, None), GetChildren2(D, None)

    def test_mirrored(self) -> None:
        self.begin("mirrored", hint="b")
        self.expect_each(*self.each())

    def test_mirrored_with_a_right_guess(self) -> None:
        self.begin("mirrored")
        self.expect(GetChildren(D, None), ["x"])

    def test_mirrored_with_a_wrong_guess(self) -> None:
        self.begin("mirrored", newest=2)
        self.expect(GetChildren(D, None), ["x"])

    def test_stat_of_what_is_not_known(self) -> None:
        self.begin("mirrored", newest=2)
        self.assertEqual(self.expect(Exists(D, None)).numChildren, 1)

    def test_native(self) -> None:
        self.begin("native", hint="native")
        self.expect_each(*self.each())

    def test_adopted(self) -> None:
        self.begin("adopted", hint="unpinned")
        self.expect_each(*self.each())

    def test_leaf(self) -> None:
        self.begin("leaf")
        self.expect_each(*self.each())

    def test_promotion_that_was_abandoned(self) -> None:
        self.begin("promotion abandoned")
        self.expect(GetChildren(D, None), [])

    def test_delete_that_was_abandoned(self) -> None:
        self.begin("delete abandoned late")
        self.expect(GetChildren(D, None), NoNodeError)


class TestGrownDelete(GrownTest):
    def test_of_a_leaf(self) -> None:
        self.begin("leaf")
        self.expect(Delete(D, -1), True)

    def test_native(self) -> None:
        self.begin("native empty")
        self.expect(Delete(D, -1), True)

    def test_mirrored_here(self) -> None:
        self.begin("mirrored empty", where=0)
        self.expect(Delete(D, -1), True)

    def test_mirrored_elsewhere(self) -> None:
        self.begin("mirrored empty", newest=2)
        self.expect(Delete(D, -1), True)

    def test_refused(self) -> None:
        for state in ("native", "mirrored", "adopted"):
            self.begin(state)
            self.expect(Delete(D, -1), NotEmptyError)


class TestGrownRest(GrownTest):
    """ACLs, sync, transactions."""

    def test_set_acls(self) -> None:
        for state in ("leaf", "adopted", "native", "mirrored"):
            self.begin(state)
            self.expect(SetACL(D, OPEN_ACL_UNSAFE, -1))

    def test_sync(self) -> None:
        self.begin("mirrored", hint="b")
        self.expect(Sync(D), D)
        self.begin("mirrored", newest=2)
        self.expect(Sync(D), D)
        self.begin("native", hint="native")
        self.expect(Sync(D), D)

    def test_transaction_of_siblings(self) -> None:
        both = Transaction([MAKE_Y, Delete(X, -1)])
        for state, newest in (("mirrored", 1), ("mirrored", 2), ("native", 1), ("adopted", 1)):
            self.begin(state, newest=newest)
            self.assert_done(self.expect(both))

    def test_transaction_that_makes_a_directory_with_children(self) -> None:
        """Where the newest epoch gives it to the ensemble of its home."""
        self.begin("missing", where=0)
        self.assert_done(self.expect(Transaction([create(D), MAKE_X, MAKE_Y])))

    def test_transaction_that_deletes_a_directory_and_its_child(self) -> None:
        both = Transaction([Delete(X, -1), Delete(D, -1)])
        self.begin("native")
        self.assert_done(self.expect(both))
        self.begin("mirrored", where=0)
        self.assert_done(self.expect(both))

    def test_transaction_that_is_refused(self) -> None:
        self.begin("mirrored")
        before = self.model.copy()
        self.expect(Transaction([MAKE_Y, create("/other")]), CrossEnsembleError)
        self.assertEqual(self.model.key(), before.key())

    def assert_done(self, results: Sequence[Any]) -> None:
        self.assertFalse([each for each in results if isinstance(each, Exception)], results)


class TestContext(unittest.TestCase):
    def test_hints_are_as_told(self) -> None:
        context = make_grown(make_context(ADOPTED), ADOPTED, Knows(guess(1), [(D, NATIVE)]))
        self.assertIsInstance(context, Context)
        self.assertEqual(context.known(D).certainty, PINNED)
        self.assertTrue(context.places.known(D).is_native)


class TestGrownTraces(unittest.TestCase):
    def test_each_section_is_a_test(self) -> None:
        for each in (
            TestGrownFound,
            TestGrownNotFound,
            TestGrownFirstChild,
            TestGrownDirectory,
            TestGrownDelete,
            TestGrownRest,
        ):
            for name in read(TRACES / f"{each.__name__}.txt"):
                self.assertTrue(hasattr(each, f"test_{name}"), f"{name}: nothing writes this section any more")
