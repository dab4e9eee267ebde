"""Which moves bring loads to weights, on clusters made by hand and by chance."""

from __future__ import annotations

import random
import unittest
from collections.abc import Mapping

from parkazoo.admin.rebalance_plan import (
    MOST_MOVES,
    NEAR,
    Branch,
    RebalancePlan,
    branches_of,
    make_plan,
)
from parkazoo.admin.rebalancing import rules_allow
from parkazoo.admin.write_counts import DirectoryWrites
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.epochs import Form, Rule
from parkazoo.protocol.placement import mirror_path

EVEN = {"a": 1, "b": 1, "c": 1}
CASES = 300


def branch(directory: str, ensemble: str, load: float, znodes: int = 10) -> Branch:
    return Branch(directory, ensemble, mirror_path(directory), load, load, znodes, (directory,))


def plan_of(
    branches: list[Branch], weights: Mapping[str, int] = EVEN, fixed: Mapping[str, float] | None = None
) -> RebalancePlan:
    """:param fixed: what each ensemble has that cannot move."""
    loads = {name: (fixed or {}).get(name, 0.0) for name in weights}
    for each in branches:
        loads[each.ensemble] += each.load
    return make_plan("writes/s", loads, weights, branches)


def moves_of(plan: RebalancePlan) -> list[tuple[str, str]]:
    return [(each.branch.directory, each.to) for each in plan.moves]


class PlanTest(unittest.TestCase):
    def test_a_new_ensemble(self) -> None:
        """It gets its part from each of the others."""
        branches = [branch(f"/{name}{number}", name, 100.0) for name in "ab" for number in range(3)]
        plan = plan_of(branches)
        self.assertEqual({each.branch.ensemble for each in plan.moves}, {"a", "b"})
        self.assertEqual({each.to for each in plan.moves}, {"c"})
        self.assertEqual(plan.after, {"a": 200.0, "b": 200.0, "c": 200.0})
        self.assertTrue(plan.is_even() and plan.is_whole)

    def test_the_fewest_znodes(self) -> None:
        """Of two that bring as much, the smaller moves; a hot one in place of many cold ones."""
        plan = plan_of([branch("/x", "a", 100.0, 50_000), branch("/y", "a", 100.0, 20)], {"a": 1, "b": 1})
        self.assertEqual(moves_of(plan), [("/y", "b")])
        cold = [branch(f"/cold/{number}", "a", 10.0) for number in range(40)]
        plan = plan_of([*cold, branch("/hot", "a", 400.0, 3_000)], {"a": 1, "b": 1})
        self.assertEqual(moves_of(plan), [("/hot", "b")])

    def test_weights(self) -> None:
        branches = [branch(f"/{number:02}", "a", 10.0) for number in range(40)]
        plan = plan_of(branches, {"a": 1, "b": 3})
        self.assertEqual(plan.shares, {"a": 100.0, "b": 300.0})
        self.assertAlmostEqual(plan.after["b"], 300.0, delta=NEAR * 300)

    def test_weight_0(self) -> None:
        """All goes, even if one directory is more than any share."""
        plan = plan_of(
            [branch("/x", "a", 500.0), branch("/y", "a", 7.0), branch("/z", "b", 100.0)], {"a": 0, "b": 1, "c": 1}
        )
        self.assertEqual(sorted(moves_of(plan))[0][0], "/x")
        self.assertEqual(plan.after["a"], 0.0)
        self.assertEqual([each.directory for each in plan.indivisible], ["/x"])

    def test_nothing_to_do(self) -> None:
        for fixed in ({"a": 109.0, "b": 91.0, "c": 100.0}, {"a": 0.0, "b": 0.0, "c": 0.0}):
            plan = plan_of([branch("/x", "a", 1.0)], fixed=fixed) if fixed["a"] else plan_of([])
            self.assertEqual(moves_of(plan), [])
            self.assertTrue(plan.is_even())

    def test_it_does_not_overshoot(self) -> None:
        """What would only change places stays, and so does what would come back the next time."""
        self.assertEqual(moves_of(plan_of([branch("/hot", "a", 900.0)])), [])
        self.assertEqual(moves_of(plan_of([branch("/hot", "a", 900.0)], fixed={"a": 100.0})), [])
        three = [branch(f"/{number}", "a", 100.0) for number in range(3)]
        plan = plan_of(three, {"a": 1, "b": 1})
        self.assertEqual(plan.after, {"a": 200.0, "b": 100.0})
        self.assertFalse(plan.is_even())

    def test_what_is_indivisible(self) -> None:
        """It stays, and the others make room."""
        plan = plan_of([branch("/hot", "a", 600.0), branch("/x", "a", 100.0), branch("/y", "a", 100.0)])
        self.assertEqual([each.directory for each in plan.indivisible], ["/hot"])
        self.assertEqual(sorted(moves_of(plan)), [("/x", "b"), ("/y", "c")])

    def test_what_is_worth_nothing(self) -> None:
        plan = plan_of([branch(f"/{number}", "a", 0.5) for number in range(10)], fixed={"a": 1_000.0})
        self.assertEqual(moves_of(plan), [])

    def test_too_long_a_pause(self) -> None:
        branches = [branch("/large", "a", 300.0, 100_000), branch("/small", "a", 100.0, 100)]
        loads = {"a": 800.0, "b": 0.0}
        plan = make_plan("writes/s", loads, {"a": 1, "b": 1}, branches, most_pause_ms=1_000)
        self.assertEqual(moves_of(plan), [("/small", "b")])
        self.assertEqual([each.directory for each in plan.too_large], ["/large"])
        plan = make_plan("writes/s", loads, {"a": 1, "b": 1}, branches, most_pause_ms=10_000)
        self.assertEqual((len(plan.moves), plan.too_large), (2, []))

    def test_many_moves(self) -> None:
        branches = [branch(f"/{number:03}", "a", 1.0) for number in range(5 * MOST_MOVES)]
        plan = plan_of(branches)
        self.assertEqual((len(plan.moves), plan.is_whole), (MOST_MOVES, False))

    def test_rules(self) -> None:
        """Also those for what is below a directory."""
        known = ClusterMap(
            "5d3c", {name: f"{name}:1" for name in "abc"}, tuple("abc"), "a", form=Form.GROWN
        ).with_epoch(EVEN, (Rule("/app", ("a",)), Rule("/free/bound/*", ("b",))))
        may_go = rules_allow(known)
        self.assertFalse(may_go(branch("/app", "a", 1.0), "b"))
        self.assertFalse(may_go(branch("/app/jobs", "a", 1.0), "c"))
        self.assertTrue(may_go(branch("/free", "a", 1.0), "c"))
        bound = branch("/free", "a", 1.0)._replace(place="/free", below=("/free", "/free/bound/7"))
        self.assertEqual([may_go(bound, name) for name in "bc"], [True, False])


class BranchesTest(unittest.TestCase):
    def test_branches(self) -> None:
        """A native directory moves with those in it, and so does a mirror; what is ParKazoo's, and /, does not."""
        found = branches_of(
            [
                DirectoryWrites("a", "/app/jobs", "/app/jobs", 10.0),
                DirectoryWrites("a", "/app", "/app", 2.0),
                DirectoryWrites("a", "/", "/", 50.0),
                DirectoryWrites("a", "/parkazoo", "/parkazoo", 50.0),
                DirectoryWrites("b", "/d/x", f"{mirror_path('/d', '0' * 32)}/x", 5.0),
                DirectoryWrites("b", "/zookeeper/quota", "/zookeeper/quota", 5.0),
                DirectoryWrites("b", "/cold", "/cold", 0.1),
            ],
            worth=1.0,
        )
        self.assertEqual(
            [(each.directory, each.ensemble, each.load, each.own) for each in found],
            [
                ("/app", "a", 12.0, 2.0),
                ("/app/jobs", "a", 10.0, 10.0),
                ("/d", "b", 5.0, 0.0),
                ("/d/x", "b", 5.0, 5.0),
            ],
        )
        self.assertEqual(found[0].below, ("/app", "/app/jobs"))

    def test_of_a_branch_one_moves(self) -> None:
        """What has moved with another does not move again."""
        directories = [DirectoryWrites("a", f"/app/{number}", f"/app/{number}", 100.0) for number in range(6)]
        branches = [each._replace(znodes=10) for each in branches_of(directories, worth=1.0)]
        plan = make_plan("writes/s", {"a": 600.0, "b": 0.0, "c": 0.0}, EVEN, branches)
        self.assertNotIn("/app", [directory for directory, _ in moves_of(plan)])
        self.assertEqual(set(plan.after.values()), {200.0})
        whole = make_plan("writes/s", {"a": 1_200.0, "b": 0.0}, {"a": 1, "b": 1}, branches)
        self.assertEqual(moves_of(whole), [("/app", "b")])


class RandomTest(unittest.TestCase):
    """Properties of any plan."""

    def test_any(self) -> None:
        chance = random.Random(7)
        moved = 0
        for case in range(CASES):
            with self.subTest(case):
                moved += self.check(chance)
        self.assertGreater(moved, CASES)

    def check(self, chance: random.Random) -> int:
        names = "abcdef"[: chance.randint(2, 6)]
        weights = {name: chance.choice((0, 1, 1, 1, 2, 5)) for name in names}
        weights[names[0]] = weights[names[0]] or 1
        branches = self.tree(chance, names)
        fixed = {name: chance.choice((0.0, 0.0, 50.0)) for name in names}
        loads = dict(fixed)
        for each in branches:
            if each.place == f"/{each.directory.split('/')[1]}":  # the others are in it
                loads[each.ensemble] += each.load
        bound = {each.directory for each in branches if chance.random() < 0.1}

        def may_go(each: Branch, to: str) -> bool:
            return each.directory not in bound

        plan = make_plan("writes/s", loads, weights, branches, may_go, most_pause_ms=500.0)
        shuffled = chance.sample(branches, len(branches))
        again = make_plan("writes/s", loads, weights, shuffled, may_go, most_pause_ms=500.0)
        self.assertEqual(moves_of(plan), moves_of(again))
        now = dict(loads)
        for move in plan.moves:
            before = dict(now)
            self.assertGreater(weights[move.to], 0)
            self.assertNotIn(move.branch.directory, bound)
            self.assertLessEqual(move.branch.znodes, 8_000)
            now[move.branch.ensemble] -= move.branch.load
            now[move.to] += move.branch.load
            self.assertLess(misplaced(now, plan.shares), misplaced(before, plan.shares))
            self.assertLessEqual(worst(now, plan), worst(before, plan) + 1e-9)
        self.assertEqual(now, plan.after)
        self.assertGreater(min(now.values()), -1e-6)
        places = [f"{each.branch.ensemble}{each.branch.place}/" for each in plan.moves]
        self.assertFalse(any(one != two and one.startswith(two) for one in places for two in places))
        self.assertEqual(len(set(places)), len(places))
        return len(plan.moves)

    def tree(self, chance: random.Random, names: str) -> list[Branch]:
        found = []
        for number in range(chance.randint(1, 12)):
            ensemble, top = chance.choice(names), f"/{number}"
            inner = [chance.uniform(0.0, 200.0) for _ in range(chance.choice((0, 0, 3)))]
            znodes = [chance.choice((1, 100, 9_000)) for _ in inner]
            own = chance.choice((0.0, chance.uniform(0.0, 1_000.0)))
            all_znodes = 1 + sum(znodes)
            found.append(Branch(top, ensemble, top, own + sum(inner), own, all_znodes, (top,)))
            found += [
                Branch(f"{top}/{at}", ensemble, f"{top}/{at}", load, load, znodes[at], (f"{top}/{at}",))
                for at, load in enumerate(inner)
            ]
        return found


def misplaced(loads: Mapping[str, float], shares: Mapping[str, float]) -> float:
    return sum(abs(load - shares[name]) for name, load in loads.items())


def worst(loads: Mapping[str, float], plan: RebalancePlan) -> float:
    """How far the worst ensemble is from its share, beyond the tolerance; 0 if an ensemble is to have nothing."""
    if any(not weight and plan.before[name] for name, weight in plan.weights.items()):
        return 0.0  # it gives what others may have no room for
    far = [abs(load / plan.shares[name] - 1) for name, load in loads.items() if plan.shares[name]]
    return max(0.0, max(far, default=0.0) - NEAR)
