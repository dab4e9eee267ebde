"""Deletes, promotions and helpers that meet the marks of a move, run one after the other on a model."""

from __future__ import annotations

import unittest
from typing import Any

from kazoo.exceptions import NoAuthError, NoNodeError, NotEmptyError
from kazoo.security import OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

from parkazoo.kazoo_private import Create, Delete, GetChildren, SetACL, SetData, Transaction
from parkazoo.protocol.context import Context
from parkazoo.protocol.epochs import Form
from parkazoo.protocol.moving import mark_of, old_mark_of
from parkazoo.protocol.old_place import AT_ONCE
from parkazoo.protocol.pin import encode_pin
from parkazoo.protocol.placement import MIRRORS, PIN, PROOF, Place, Placement, join, mirror_path
from parkazoo.protocol.plans import PLANS
from parkazoo.protocol.steps import Operation
from parkazoo.protocol.where.places import NATIVE, Places, directory
from tests.explore.alone import make_context, must, outcome, prepared, run
from tests.explore.znodes import Who

FIRST = Placement(2)
HOME = FIRST.of_children("/")
OTHER = 1 - HOME
D = "/d"
NAME = "0123456789abcdef" * 2


def make(path: str, data: bytes = b"") -> Create:
    return Create(path, data, OPEN_ACL_UNSAFE, 0)


class OldPlaceCase(unittest.TestCase):
    """A directory with its home on HOME."""

    def setUp(self) -> None:
        self.model = prepared(FIRST)
        self.contexts = 0

    def context(self, guess: int) -> Context:
        """One of a client that remembers nothing."""
        self.contexts += 1
        context = make_context(FIRST, f"{self.contexts}-")
        context.names = ("a", "b")
        return context.risen(Form.GROWN, Places(FIRST, lambda path: guess))

    def begin(self, request: Any, guess: int = OTHER) -> Operation[Any]:
        return PLANS[request.type].operation(self.context(guess), request)

    def do(self, *requests: Any, guess: int = OTHER) -> Any:
        answer = None
        for request in requests:
            answer = must(outcome(self.model, self.begin(request, guess)))
        return answer

    def nodes(self, ensemble: int) -> set[str]:
        return {*self.model.nodes[ensemble]}

    def put(self, ensemble: int, *requests: Any) -> None:
        for request in requests:
            must(self.model.execute(ensemble, request))

    def mark(self) -> None:
        self.put(HOME, Create(f"{D}/{PIN}/{mark_of(NAME)}", b"", READ_ACL_UNSAFE, 0))

    def switch(self, to: int) -> None:
        """The directory moves there, without a copy of its children, and all of the old place is left."""
        d = directory(D, Place(HOME, D), to, generation=NAME)
        pin = self.model.nodes[HOME][f"{D}/{PIN}"]
        if d.fence not in self.model.nodes[to]:
            self.put(to, make(d.fence))
        fence = must(self.model.execute(to, SetData(d.fence, b"", -1)))
        self.put(to, make(d.mirror.path))
        pin_path = join(D, PIN)
        steps = [
            *([Delete(join(D, PROOF), -1)] if join(D, PROOF) in self.model.nodes[HOME] else []),
            Delete(pin_path, -1),
            Create(pin_path, encode_pin(fence, "ab"[to], NAME), pin.acl, 0),  # type: ignore[arg-type]
            Create(join(pin_path, old_mark_of(NAME)), pin.data, READ_ACL_UNSAFE, 0),
        ]
        self.put(HOME, Transaction(steps))

    def assert_nothing_left(self) -> None:
        for ensemble in (HOME, OTHER):
            left = [each for each in self.nodes(ensemble) if each.startswith((D, MIRRORS + "/"))]
            self.assertEqual(left, [], ensemble)


class TestOldPlace(OldPlaceCase):
    def test_a_delete_takes_it_along(self) -> None:
        for guess in (OTHER, HOME, NATIVE):
            for transaction in (False, True):
                with self.subTest(guess=guess, transaction=transaction):
                    self.setUp()
                    self.do(make(D), *(make(f"{D}/{n}") for n in range(AT_ONCE + 2)), guess=guess)
                    place = self.model.nodes[HOME].get(mirror_path(D))
                    old, ensemble = (mirror_path(D), HOME) if place else (D, HOME)
                    if guess == OTHER:
                        old, ensemble = mirror_path(D), OTHER
                    self.put(ensemble, make(f"{old}/0/x"), make(f"{old}/0/x/y"), make(f"{old}/7/z"))
                    self.switch(1 - ensemble)
                    self.assertIn(f"{old}/0/x/y", self.nodes(ensemble))
                    self.do(Transaction([Delete(D, -1)]) if transaction else Delete(D, -1), guess=guess)
                    self.assert_nothing_left()

    def test_not_if_there_are_children(self) -> None:
        self.do(make(D), make(f"{D}/x"))
        self.switch(HOME)
        self.do(make(f"{D}/y"), guess=HOME)
        with self.assertRaises(NotEmptyError):
            run(self.model, self.begin(Delete(D, -1)))
        self.assertIn(f"{mirror_path(D)}/x", self.nodes(OTHER))

    def test_a_helper_takes_it_along(self) -> None:
        """The deleter has stopped in front of its last step. The old place is there, as if it had been slow."""
        self.do(make(D), make(f"{D}/x"))
        self.switch(HOME)
        mark = f"{D}/{PIN}/m.-1"
        self.put(HOME, make(mark), Delete(mirror_path(D, NAME), -1))
        self.assertIsInstance(outcome(self.model, self.begin(GetChildren(D, None), HOME)), NoNodeError)
        self.assert_nothing_left()

    def test_an_old_mark_alone_is_no_delete(self) -> None:
        """The directory is as if without a mirror: an earlier delete was called off."""
        self.do(make(D), make(f"{D}/x"))
        self.switch(HOME)
        self.put(HOME, Delete(mirror_path(D, NAME), -1))
        self.assertEqual(self.do(GetChildren(D, None), guess=HOME), [])
        self.do(make(f"{D}/y"), guess=HOME)
        self.assertEqual(self.do(GetChildren(D, None), guess=HOME), ["y"])
        self.assertIn(f"{mirror_path(D)}/x", self.nodes(OTHER))

    def test_no_right_to_it(self) -> None:
        self.do(make(D), make(f"{D}/x"))
        old = mirror_path(D)
        self.put(OTHER, make(f"{old}/x/y"), make(f"{old}/x/y/z"), SetACL(f"{old}/x/y", READ_ACL_UNSAFE, -1))
        self.switch(HOME)
        with self.assertRaises(NoAuthError):
            run(self.model, self.begin(Delete(D, -1)), Who(has_all=False))
        self.assertEqual(self.model.execute(HOME, GetChildren(f"{D}/{PIN}", None)), [old_mark_of(NAME)])
        self.assertIn(mirror_path(D, NAME), self.nodes(HOME))

    def test_a_later_life(self) -> None:
        """A deleter is slow wherever it is; the directory goes, and comes again where it was before the move."""
        stops = 0
        for stop in range(100):
            self.setUp()
            self.do(make(D), make(f"{D}/x"))
            self.switch(HOME)
            slow = self.begin(Delete(D, -1))
            steps = next(slow)
            try:
                for _ in range(stop):
                    steps = slow.send([self.model.execute(*each) for each in steps])
            except StopIteration:
                break
            stops += 1
            outcome(self.model, self.begin(Delete(D, -1)))
            if D in self.model.nodes[HOME]:
                continue
            self.do(make(D), make(f"{D}/new"), guess=OTHER)
            with self.assertRaises((StopIteration, NotEmptyError)):
                while True:
                    steps = slow.send([self.model.execute(*each) for each in steps])
            self.assertEqual(self.do(GetChildren(D, None)), ["new"])
        self.assertGreater(stops, 8)


class TestMark(OldPlaceCase):
    def test_who_meets_it_calls_the_move_off(self) -> None:
        for guess in (OTHER, NATIVE):
            for request in (Delete(D, -1), Transaction([Delete(D, -1)])):
                with self.subTest(guess=guess, request=request):
                    self.setUp()
                    self.do(make(D), make(f"{D}/x"), Delete(f"{D}/x", -1), guess=guess)
                    self.mark()
                    self.do(request, guess=guess)
                    self.assert_nothing_left()

    def test_promotion(self) -> None:
        for request in (make(f"{D}/y"), GetChildren(D, None)):
            with self.subTest(request):
                self.setUp()
                self.do(make(D), make(f"{D}/x"), Delete(f"{D}/x", -1))
                self.put(OTHER, Delete(mirror_path(D), -1))
                self.mark()
                self.do(request)
                self.assertEqual(self.model.execute(HOME, GetChildren(f"{D}/{PIN}", None)), [])

    def test_an_operation_that_meets_children_leaves_it(self) -> None:
        self.do(make(D), make(f"{D}/x"))
        self.mark()
        self.do(make(f"{D}/y"), SetData(f"{D}/x", b"", -1))
        with self.assertRaises(NotEmptyError):
            run(self.model, self.begin(Delete(D, -1)))
        self.assertEqual(self.model.execute(HOME, GetChildren(f"{D}/{PIN}", None)), [mark_of(NAME)])
