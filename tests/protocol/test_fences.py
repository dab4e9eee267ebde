"""Operations that share a fence end, in whatever step with each other they go."""

from __future__ import annotations

import itertools
import unittest
from typing import Any

from kazoo.security import OPEN_ACL_UNSAFE

from parkazoo.kazoo_private import Create, Delete, Transaction
from parkazoo.protocol.placement import Placement
from parkazoo.protocol.plans import PLANS
from tests.explore.alone import issue, make_context, make_grown, outcome, prepared
from tests.explore.scenario import Knows
from tests.where_is import where_is

PLACEMENT = Placement(2)
MOST_STEPS = 60


def with_one_fence() -> tuple[str, str]:
    """Two directories whose mirrors are on one ensemble."""
    seen: dict[tuple[int, str], str] = {}
    for number in itertools.count():
        d = where_is(PLACEMENT, f"/d{number}")
        if not d.is_native and (first := seen.setdefault((d.mirror.ensemble, d.fence), d.path)) != d.path:
            return first, d.path
    raise AssertionError


class TestOneFence(unittest.TestCase):
    def test_a_transaction_that_deletes_both(self) -> None:
        """The fence goes up with the first. Both are mirrored on the ensemble of their homes."""
        one, other = with_one_fence()
        new, children = "/new", [f"{path}/x" for path in (one, other)]
        while where_is(PLACEMENT, new).fence != where_is(PLACEMENT, one).fence:
            new += "w"
        model = prepared(PLACEMENT, [])
        context = make_grown(make_context(PLACEMENT), PLACEMENT, Knows(lambda path: PLACEMENT.of_children("/")))
        operations = [[Create(path, b"", OPEN_ACL_UNSAFE, 0)] for path in (one, other, *children)]
        operations.append([Delete(path, -1) for path in (*children, one, other)])
        operations.append([Create(path, b"", OPEN_ACL_UNSAFE, 0) for path in (one, children[0])])
        made = [Create(path, b"", OPEN_ACL_UNSAFE, 0) for path in (new, f"{new}/x")]
        operations.append([*made, Delete(children[0], -1), Delete(one, -1)])
        for each in operations:
            log: list[Any] = []
            results = outcome(model, PLANS[Transaction.type].operation(context, Transaction(each)), log=log)
            self.assertFalse([result for result in results if isinstance(result, Exception)], each)
            self.assertLess(len(log), MOST_STEPS)
        self.assertEqual(model.nodes[context.known("/").mirror.ensemble]["/"].children - {"parkazoo"}, {new[1:]})

    def test_two_deletes_in_step(self) -> None:
        one, other = with_one_fence()
        for ahead in range(10):
            with self.subTest(ahead=ahead):
                model = prepared(PLACEMENT, [one])
                for path in (one, other):
                    issue(
                        PLACEMENT, model, *(Create(each, b"", OPEN_ACL_UNSAFE, 0) for each in (path, f"{path}/x"))
                    )
                    issue(PLACEMENT, model, Delete(f"{path}/x", -1))
                context = make_context(PLACEMENT)
                running = [PLANS[Delete.type].operation(context, Delete(path, -1)) for path in (one, other)]
                answers: list[Any] = [None, None]
                turns = itertools.chain([0] * ahead, itertools.cycle((1, 0)))
                done = set[int]()
                for at in itertools.islice(turns, 2 * MOST_STEPS):
                    if at in done:
                        continue
                    try:
                        steps = running[at].send(answers[at])
                        answers[at] = [model.execute(ensemble, request) for ensemble, request in steps]
                    except StopIteration:
                        done.add(at)
                self.assertEqual(done, {0, 1})
