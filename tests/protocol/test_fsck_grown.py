"""What fsck finds where pins decide: nothing in a tree that clients have made, and everything that is wrong."""

from __future__ import annotations

import random
import re
import unittest
from contextlib import nullcontext
from typing import Any
from unittest import mock

from kazoo.security import OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

from parkazoo.kazoo_private import Create, Delete, SetData, Sync
from parkazoo.protocol import findings
from parkazoo.protocol.audit import Audit, without
from parkazoo.protocol.audit_directory import recheck
from parkazoo.protocol.audit_ensemble import audit_ensemble
from parkazoo.protocol.audit_pins import BY_PINS
from parkazoo.protocol.context import Context
from parkazoo.protocol.findings import Finding
from parkazoo.protocol.hold import Hold
from parkazoo.protocol.mend import MENDS, mend
from parkazoo.protocol.moving import MOVES, Moving, guard, mark_of, old_mark_of, term_of
from parkazoo.protocol.pin import NATIVE_PIN
from parkazoo.protocol.placement import (
    CLIENTS,
    ENSEMBLE,
    FENCES,
    MAP,
    MIRRORS,
    PIN,
    PROOF,
    Place,
    escape,
    mirror_path,
    split,
)
from parkazoo.protocol.plans import PLANS
from parkazoo.protocol.steps import Operation, ask
from parkazoo.protocol.where.places import directory
from tests.explore.alone import make_context, make_grown, must, outcome, run
from tests.explore.client import Client
from tests.explore.grown import ADOPTED, STATES, D, beginning, guess
from tests.explore.model import Model
from tests.explore.scenario import Knows
from tests.explore.znodes import Who
from tests.protocol.test_fsck import MENDED, NOTES, PATH, REQUEST_KINDS, REQUESTS, RUNS, World

X = f"{D}/x"
MOVE = "0123456789abcdef" * 2
ABANDONED = {"promotion abandoned", "delete abandoned early", "delete abandoned late"}


def create(path: str, data: bytes = b"", acl: Any = OPEN_ACL_UNSAFE) -> Create:
    return Create(path, data, acl, 0)


class GrownFsckTest(unittest.TestCase):
    def examine(self, model: Model, context: Context, away: int | None = None) -> list[Finding]:
        """All that a walk finds, but the fences and the copies of the map, which the model does not have.

        :param away: an ensemble that is not asked.
        """

        def look_at(operation: Operation[Audit]) -> Audit:
            return run(model, operation if away is None else without([away], operation))

        audits = [look_at(audit_ensemble(context, each, 0, BY_PINS)) for each in range(3) if each != away]
        found: list[Finding] = []
        while audits:
            audit: Audit = audits.pop()
            self.assertFalse(audit.hidden)
            found += audit.findings
            audits += [look_at(recheck(suspect)) for suspect in audit.suspects]
            audits += [look_at(look(name)) for look, names in audit.unvisited for name in names]
        return [each for each in found if not each.path.startswith((FENCES, CLIENTS, MAP, ENSEMBLE))]

    def found(self, model: Model, *, again: bool = False) -> list[tuple[str, str]]:
        """Kind and path of what is found; after all repairs with `again`."""
        context = make_grown(make_context(ADOPTED, "fsck"), ADOPTED, Knows(guess(2)))
        context.take_copy = lambda ensemble, copy: None  # the map beside a pin is the same
        found = self.examine(model, context)
        for away in range(3):  # what is said without one of them is no less true
            self.assertLessEqual(
                {(each.kind, each.path) for each in self.examine(model, context, away)},
                {(each.kind, each.path) for each in found},
            )
        if again:
            for finding in found:
                if finding.kind in MENDS:
                    self.assertEqual(run(model, mend(context, finding)), "")
            found = self.examine(model, context)
        return [(each.kind.name, each.path) for each in found]

    def world(self, state: str) -> Model:
        return beginning(state, "away", ("nothing", "nothing")).model.copy()


class TestTrees(GrownFsckTest):
    def test_a_tree_that_clients_have_made(self) -> None:
        for state in STATES:
            with self.subTest(state):
                found = self.found(self.world(state))
                if state not in ABANDONED:
                    self.assertEqual(found, [])
                elif state == "promotion abandoned":
                    self.assertEqual(found, [("unfinished-promotions", D)])
                else:
                    self.assertEqual(found, [("foreign", f"{D}/{PIN}/before1.-1")])  # no mark of a real client

    def test_a_deep_tree_over_three_ensembles(self) -> None:
        model = self.world("native")
        for number, ensemble in enumerate((1, 2, 0)):
            context = make_grown(make_context(ADOPTED, f"m{number}"), ADOPTED, Knows(guess(ensemble)))
            for path in (f"{X}/{number}", f"{X}/{number}/y", f"{X}/{number}/y/z", f"{X}/{number}/y/z/u"):
                must(outcome(model, PLANS[Create.type].operation(context, create(path))))
        self.assertEqual(self.found(model), [])


class TestDamage(GrownFsckTest):
    def damaged(self, state: str, *requests: tuple[int, Any]) -> Model:
        model = self.world(state)
        for ensemble, request in requests:
            must(model.execute(ensemble, request))
        return model

    def test_pins_and_proofs_that_disagree(self) -> None:
        pin, proof = f"{D}/{PIN}", f"{D}/{PROOF}"
        for name, model in {
            "a proof alone": self.damaged("adopted", (0, create(proof))),
            "a pin alone": self.damaged("native", (0, Delete(proof, -1))),
            "a proof beside an ensemble": self.damaged("mirrored", (0, create(proof))),
        }.items():
            with self.subTest(name):
                self.assertEqual(self.found(model), [("differing-proofs", D)])
                self.assertEqual(self.found(model, again=True), [("differing-proofs", D)])
        both = self.damaged("leaf", (0, create(pin, NATIVE_PIN, READ_ACL_UNSAFE)), (0, create(proof)))
        self.assertEqual(self.found(both), [])

    def test_a_pin_that_names_nobody(self) -> None:
        model = self.damaged("mirrored", (0, SetData(f"{D}/{PIN}", b'{"fence": [0, 0], "on": "nobody"}', -1)))
        must(model.execute(0, create(MAP)))
        must(model.execute(1, create(f"{MIRRORS}/{escape(X)}")))  # of a directory below
        self.assertEqual(self.found(model), [("unknown-ensembles", D)])

    def test_children_beside_a_pin_that_names_an_ensemble(self) -> None:
        model = self.damaged("mirrored", (0, create(f"{D}/stranger")))
        self.assertEqual(self.found(model, again=True), [("misplaced", f"{D}/stranger")])

    def test_a_mirror_that_is_not_where_its_pin_says(self) -> None:
        wrong = f"{MIRRORS}/{escape(D)}"
        for state in ("mirrored", "native"):
            with self.subTest(state):
                model = self.damaged(state, (2, create(wrong)))
                self.assertEqual(self.found(model, again=True), [("misplaced", wrong)])

    def test_mirrors_without_a_directory(self) -> None:
        gone = (0, Delete(f"{D}/{PIN}", -1)), (0, Delete(D, -1))
        mirror = f"{MIRRORS}/{escape(D)}"
        self.assertEqual(self.found(self.damaged("mirrored", *gone)), [("orphans", mirror)])
        model = self.damaged("mirrored empty", *gone)
        self.assertEqual(self.found(model), [("empty-mirrors", mirror)])
        self.assertEqual(self.found(model, again=True), [])

    def test_a_mirror_without_a_pin(self) -> None:
        model = self.damaged("mirrored", (0, Delete(f"{D}/{PIN}", -1)))
        self.assertEqual(self.found(model), [("missing-pins", D)])
        self.assertEqual(self.found(model, again=True), [])
        self.assertEqual(home_pin(model), b'"on": "e1"')

    def test_what_a_move_has_left(self) -> None:
        """A mark, a copy with or without guard, the place before. Nothing, while it is under way."""
        copy, old, pin = mirror_path(D, MOVE), mirror_path(D), f"{D}/{PIN}"
        begun = (2, create(MOVES)), (2, create(guard(MOVE))), (2, create(copy)), (2, create(f"{copy}/y"))
        switched = (0, create(f"{pin}/{old_mark_of(MOVE)}")), (2, create(old)), (2, create(f"{old}/{PIN}"))
        for state, left in {
            "a mark": [(0, create(f"{pin}/{mark_of(MOVE)}"))],
            "a copy": begun,
            "a sealed copy": begun[2:],
            "the place before": switched,
        }.items():
            with self.subTest(state):
                model = self.damaged("mirrored", *left)
                self.assertEqual(self.found(model, again=True), [("unfinished-moves", D)])
                moving = Moving(D, MOVE, "e1", "", "e2")
                if left is switched:
                    moving = Moving(D, MOVE, "e2", "", "e1", has_switched=True)
                context = make_grown(make_context(ADOPTED, "fsck"), ADOPTED, Knows(guess(2)))
                context.hold = Hold(moving, nullcontext())
                self.assertEqual(self.examine(model, context), [])
        self.assertEqual(self.found(self.damaged("mirrored", *begun, (2, create(term_of(MOVE))))), [])
        model = self.damaged("mirrored", *begun[:2])
        self.assertEqual(self.found(model), [("foreign", guard(MOVE))])

    def test_a_mirror_on_an_ensemble_that_leaves(self) -> None:
        model = self.damaged("mirrored", (0, Delete(f"{D}/{PIN}", -1)))
        context = make_grown(make_context(ADOPTED, "fsck"), ADOPTED, Knows(guess(2)))
        context.places.leaving = frozenset({1})
        (finding,) = self.examine(model, context)
        self.assertIn("ensemble e1 is leaving, and no new pin may name it", run(model, mend(context, finding)))
        self.assertEqual(self.found(model), [("missing-pins", D)])

    def test_what_is_below_a_missing_pin(self) -> None:
        """It cannot be found, but it is no orphan: nothing is done to it."""
        model = self.damaged("mirrored")
        context = make_grown(make_context(ADOPTED, "below"), ADOPTED, Knows(guess(2)))
        for request in (create(f"{X}/y"), Delete(f"{X}/y", -1)):
            must(outcome(model, PLANS[request.type].operation(context, request)))
        must(model.execute(0, Delete(f"{D}/{PIN}", -1)))
        self.assertEqual(self.found(model), [("missing-pins", D)])
        self.assertEqual(self.found(model, again=True), [])
        self.assertIn(f"{MIRRORS}/{escape(X)}", model.nodes[2])

    def test_a_loss_whose_directory_is_made_again_elsewhere(self) -> None:
        """Found before that, accepted after it: the directory gets no second mirror."""
        model = self.world("mirrored")
        context = make_grown(make_context(ADOPTED, "fsck"), ADOPTED, Knows(guess(2)))
        finding = Finding(findings.LOST_CHILDREN, 2, D, "", directory(D, Place(0, D), 2))
        self.assertIn("run fsck again", run(model, mend(context, finding)))
        self.assertNotIn(f"{MIRRORS}/{escape(D)}", model.nodes[2])

    def test_an_empty_mirror_whose_directory_is_made_again(self) -> None:
        """Found before that, mended after it: nothing is done."""
        model = self.damaged("mirrored empty", (0, Delete(f"{D}/{PIN}", -1)), (0, Delete(D, -1)))
        context = make_grown(make_context(ADOPTED, "fsck"), ADOPTED, Knows(guess(2)))
        (finding,) = self.examine(model, context)
        must(model.execute(0, create(D)))
        self.assertEqual(run(model, mend(context, finding)), "")
        self.assertIn(f"{MIRRORS}/{escape(D)}", model.nodes[1])


class GrownWorld(World):
    """Clients of any epoch, on a directory that was adopted, or not."""

    placement = ADOPTED

    def __init__(self, dice: random.Random) -> None:
        super().__init__(dice)
        if dice.random() < 0.5:
            for request in (create(PATH), create(f"{PATH}/old"), Delete(f"{PATH}/old", -1), Delete(PATH, -1)):
                must(self.model.execute(0, request))
            must(self.model.execute(0, create(PATH)))
            must(self.model.execute(0, create(f"{PATH}/old")))
            must(self.model.execute(0, Delete(f"{PATH}/old", -1)))

    def make_client(self, who: Who, marks: str) -> Client:
        return Client(ADOPTED, self.model, who, marks, Knows(guess(self.dice.choice((0, 1, 2)))))

    def look_and_mend(self) -> Operation[list[str]]:
        context = self.fsck.driver.context
        assert isinstance(context, Context)
        found: list[Finding] = []
        for ensemble in range(3):
            yield from ask(ensemble, Sync("/"))
        for ensemble in range(3):
            found += (yield from BY_PINS.mirror(context, ensemble, escape(PATH))).findings
        seen = yield from BY_PINS.znode(context, Place(0, "/"), "/", split(PATH)[1])
        found += seen.findings
        for suspect in seen.suspects:
            found += (yield from recheck(suspect)).findings
        for finding in found:
            if finding.kind in MENDS:
                yield from mend(context, finding)
        return [finding.kind.name for finding in found]


class TestBesideClients(unittest.TestCase):
    def setUp(self) -> None:
        names = mock.patch.object(findings, "MARK", re.compile("mark.*"))  # as the fake clients call them
        names.start()
        self.addCleanup(names.stop)

    def test_after_crashes(self) -> None:
        """What clients leave that die anywhere is found as what it is, and mended."""
        seen: set[str] = set()
        for seed in range(RUNS):
            dice = random.Random(seed)
            world = GrownWorld(dice)
            for _ in range(3):
                requests = [dice.choice(REQUEST_KINDS)() for _ in range(REQUESTS)]
                list(world.run(requests, crash=dice.randrange(1, 60)))
            self.assertLessEqual(set(world.kinds), MENDED | NOTES, f"seed {seed}")
            seen.update(world.kinds)
            world.fsck_alone()
            world.kinds.clear()
            world.fsck_alone()
            self.assertLessEqual(set(world.kinds), NOTES, f"seed {seed}")
        self.assertEqual(seen, MENDED | NOTES)


def home_pin(model: Model) -> bytes:
    """What the pin says of the place."""
    data = model.nodes[0][Place(0, f"{D}/{PIN}").path].data or b""
    return data[data.index(b'"on"') :].rstrip(b"}")
