"""A pin that names a generation: its mirror's name, what is asked there first, promotions and fsck."""

from __future__ import annotations

import json
import unittest
from functools import partial

from parkazoo.kazoo_private import Delete, GetChildren, GetData, SetData
from parkazoo.protocol.audit_directory import mirrored_by
from parkazoo.protocol.directory import AGAIN, try_promote
from parkazoo.protocol.ops.creates import names_mirror
from parkazoo.protocol.past import CATCH_UP
from parkazoo.protocol.pin import Pin, decode_pin, encode_pin
from parkazoo.protocol.placement import MIRRORS, Place, generation_of, logical, mirror_path, unescape
from parkazoo.protocol.plans import PLANS
from parkazoo.protocol.steps import Step
from parkazoo.protocol.where.places import directory
from tests.explore.alone import make_context, make_grown, must, outcome, run
from tests.explore.directories import create
from tests.explore.grown import ADOPTED, D, guess
from tests.explore.model import Model
from tests.explore.moved import STATES, beginning
from tests.explore.scenario import MOVE, MOVED, MOVED_TO, Knows
from tests.explore.znodes import Request
from tests.protocol.test_fsck_grown import GrownFsckTest

X, Y = f"{D}/x", f"{D}/y"
COPY = directory(D, Place(0, D), MOVED_TO, generation=MOVE)
NAMES = ("/d", "/a/b", "/%~x", "/a%~/b", "/a%25", "/~", "/%2F%~" + MOVE)


class TestNames(unittest.TestCase):
    def test_no_two_mirrors_share_a_name(self) -> None:
        paths = [mirror_path(name, generation) for name in NAMES for generation in ("", MOVE, MOVE[::-1])]
        self.assertEqual(len(set(paths)), len(paths))

    def test_inverse(self) -> None:
        for name in NAMES:
            for generation in ("", MOVE):
                with self.subTest(name, generation=generation):
                    mirror = mirror_path(name, generation)
                    own = mirror[len(MIRRORS) + 1 :]
                    self.assertNotIn("/", own)
                    self.assertEqual((unescape(own), mirrored_by(own)), (name, name))
                    self.assertEqual(generation_of(mirror), generation)
                    self.assertEqual((logical(mirror), logical(f"{mirror}/x%~y")), (name, f"{name}/x%~y"))

    def test_names_of_no_mirror(self) -> None:
        for name in ("%2Fd%~", f"%2Fd%~{MOVE}0", f"%2Fd%~{MOVE[1:]}", "%2Fd%~x", f"d%~{MOVE}", f"%2Fd%~{MOVE}/x"):
            with self.subTest(name):
                self.assertIsNone(mirrored_by(name))

    def test_the_directory_knows_its_own(self) -> None:
        self.assertEqual(COPY.generation, MOVE)
        self.assertEqual(directory(D, Place(0, D), 1).generation, "")
        native = directory("/d/b", Place(2, f"{COPY.mirror.path}/b"), -1)
        self.assertEqual(native.generation, "")


class TestPin(unittest.TestCase):
    def test_encoded(self) -> None:
        fence = Pin(3, 7)
        self.assertEqual(decode_pin(encode_pin(fence, "b", MOVE)), Pin(3, 7, "b", generation=MOVE))
        self.assertEqual(decode_pin(encode_pin(fence, "b")), Pin(3, 7, "b"))
        self.assertNotIn("generation", json.loads(encode_pin(fence, "b")))

    def test_what_is_no_generation(self) -> None:
        for wrong in ("x", MOVE.replace("1", "A"), f"{MOVE}/x", f"{MOVE}\n", 1, None, [MOVE], "../" * 10 + "00"):
            with self.subTest(wrong):
                data = json.dumps({"fence": [1, 2], "on": "b", "generation": wrong})
                self.assertIsNone(decode_pin(data.encode()))


class TestMoved(unittest.TestCase):
    def setUp(self) -> None:
        self.model = beginning("moved", "away", ("nothing", "nothing")).model.copy()
        self.know()

    def know(self, *hints: tuple[str, int]) -> None:
        self.context = make_grown(make_context(ADOPTED), ADOPTED, Knows(guess(1), hints))

    def perform(self, request: Request) -> tuple[object, list[Step]]:
        log: list[Step] = []
        result = outcome(self.model, PLANS[request.type].operation(self.context, request), log=log)
        return result, log

    def test_the_first_read_there_goes_behind_a_write(self) -> None:
        """A server that lags may not show the mirror yet."""
        for request in (GetData(X, None), GetChildren(D, None)):
            with self.subTest(request):
                self.know()
                result, log = self.perform(request)
                self.assertNotIsInstance(result, Exception)
                there = [each for ensemble, each in log if ensemble == MOVED_TO]
                self.assertEqual(there[0], CATCH_UP)
                self.assertNotIn((MOVED_TO, CATCH_UP), self.perform(request)[1])

    def test_what_is_remembered_takes_one_request(self) -> None:
        self.know((D, MOVED))
        for request in (GetData(X, None), create(Y)):
            result, log = self.perform(request)
            self.assertNotIsInstance(result, Exception)
            self.assertEqual([ensemble for ensemble, _ in log], [MOVED_TO])

    def test_a_promotion_does_not_make_its_pin(self) -> None:
        """The life is over in which it was seen: a new one gets no generation."""
        for request in (Delete(X, -1), Delete(D, -1), create(D)):
            self.perform(request)
        before = self.model.key()
        promotion = try_promote(self.context, COPY, None, None, False, partial(names_mirror, self.context, COPY))
        self.assertIs(run(self.model, promotion), AGAIN)
        self.assertEqual(self.model.key(), before)

    def test_a_mirror_that_a_delete_has_taken_comes_again(self) -> None:
        self.model = beginning("delete abandoned late", "away", ("nothing", "nothing")).model.copy()
        self.model.execute(0, Delete(COPY.mark("behind1.-1"), -1))  # the delete is called off
        self.assertEqual(self.perform(create(X))[0], X)
        self.assertIn(f"{COPY.mirror.path}/x", self.model.nodes[MOVED_TO])


class TestFsck(GrownFsckTest):
    def begin(self, state: str) -> Model:
        return beginning(state, "away", ("nothing", "nothing")).model.copy()

    def test_nothing_is_wrong(self) -> None:
        for state in STATES:
            if "abandoned" not in state:
                with self.subTest(state):
                    self.assertEqual(self.found(self.begin(state)), [])

    def test_a_mirror_that_no_pin_names(self) -> None:
        """It may be of an earlier life: nothing is joined to the directory, and nothing is deleted."""
        for left in ("home", "nothing", "another pin"):
            with self.subTest(left):
                model = self.begin("moved")
                if left == "another pin":
                    must(
                        model.execute(0, SetData(COPY.pin, encode_pin(Pin(0, 0), f"e{MOVED_TO}", MOVE[::-1]), -1))
                    )
                else:
                    must(model.execute(0, Delete(COPY.pin, -1)))
                if left == "nothing":
                    must(model.execute(0, Delete(D, -1)))
                before = model.nodes[MOVED_TO].key
                found = self.found(model, again=left != "another pin")  # else it accepts the loss of that one
                self.assertEqual([each for each in found if each[1] != D], [("misplaced", COPY.mirror.path)])
                self.assertEqual(model.nodes[MOVED_TO].key, before)
