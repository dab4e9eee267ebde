"""Who waits for whom."""

from __future__ import annotations

import itertools
import random
import unittest

from parkazoo.protocol.order import (
    ADD,
    CONFLICTS,
    COUNT,
    LIST,
    OWN,
    READ,
    REMOVE,
    TRUST,
    WRITE,
    Order,
    Turn,
    children,
    merge,
    node,
    with_prefixes,
)

SEED = 20240917
NODE_MODES, CHILD_MODES = (READ, TRUST, WRITE), (COUNT, LIST, ADD, REMOVE, OWN)
# The pairs that may run at the same time; all others of a key wait for each other.
TOGETHER = {(READ, READ), (TRUST, TRUST), (READ, TRUST), (TRUST, READ)}
TOGETHER |= {(COUNT, COUNT), (LIST, LIST), (REMOVE, REMOVE), (ADD, REMOVE), (REMOVE, ADD)}


class TestConflicts(unittest.TestCase):
    def test_each_pair_of_modes(self) -> None:
        for modes in (NODE_MODES, CHILD_MODES):
            for first, second in itertools.product(modes, repeat=2):
                with self.subTest(first=first, second=second):
                    order: Order[Turn] = Order()
                    holder, other = Turn({"/a": first}), Turn({"/a": second})
                    self.assertTrue(order.enter(holder, holder.claims))
                    self.assertEqual(order.enter(other, other.claims), (first, second) in TOGETHER)
                    self.assertEqual(bool(CONFLICTS[first] & second), (first, second) not in TOGETHER)
                    self.assertEqual(bool(CONFLICTS[first] & second), bool(CONFLICTS[second] & first))

    def test_keys_of_a_path_are_apart(self) -> None:
        self.assertEqual(len({node("/a"), children("/a"), node("/"), children("/"), node("/a/b")}), 5)


class TestQueues(unittest.TestCase):
    def test_first_come_first_served(self) -> None:
        """A reader that comes after a waiting writer waits behind it, though it could run with the holder."""
        order: Order[Turn] = Order()
        reader, writer, late = Turn({"/a": READ}), Turn({"/a": WRITE}), Turn({"/a": READ})
        self.assertEqual([order.enter(turn, turn.claims) for turn in (reader, writer, late)], [True, False, False])
        self.assertEqual(order.leave(reader, {}), [writer])
        self.assertEqual(order.leave(writer, {}), [late])
        self.assertEqual(order.leave(late, {}), [])
        self.assertFalse(order)

    def test_all_that_can_start_do_so_together(self) -> None:
        order: Order[Turn] = Order()
        owner = Turn({"/a/": OWN})
        lists = [Turn({"/a/": LIST}) for _ in range(3)]
        adder = Turn({"/a/": ADD})
        self.assertEqual([order.enter(turn, turn.claims) for turn in (owner, *lists, adder)], [True, *[False] * 4])
        self.assertEqual(order.leave(owner, {}), lists)
        self.assertEqual([order.leave(turn, {}) for turn in lists], [[], [], [adder]])

    def test_waiting_for_one_key_while_holding_the_other(self) -> None:
        order: Order[Turn] = Order()
        first, both, third = Turn({"/a": WRITE}), Turn({"/a": READ, "/b": WRITE}), Turn({"/b": READ})
        self.assertEqual([order.enter(turn, turn.claims) for turn in (first, both, third)], [True, False, False])
        self.assertEqual(order.leave(first, {}), [both])
        self.assertEqual(order.leave(both, {"/b": WRITE}), [])
        self.assertEqual(both.claims, {"/b": WRITE})
        self.assertEqual(order.leave(both, {}), [third])

    def test_trust_is_counted(self) -> None:
        """It takes no turn until something writes, and then holds that up."""
        order: Order[Turn] = Order()
        first, second, writer, late = Turn({}), Turn({}), Turn({"/a": WRITE}), Turn({})
        self.assertTrue(order.claim_trust(first, "/a/x", {"/a": TRUST}))
        self.assertTrue(order.claim_trust(second, "/a/y", {"/a": TRUST}))
        self.assertFalse(order.claim_trust(late, "/a", {"/": TRUST}), "it writes what others trust in")
        self.assertEqual(order.leave(first, {}), [])
        self.assertFalse(order.enter(writer, {}))
        self.assertFalse(order.claim_trust(late, "/a/z", {"/a": TRUST}))
        self.assertEqual(order.leave(second, {}), [writer])
        self.assertEqual(order.leave(writer, {}), [])
        self.assertFalse(order)

    def test_what_is_left_is_trust(self) -> None:
        order: Order[Turn] = Order()
        reader, writer = Turn({"/a": READ, "/a/x": WRITE}), Turn({"/a": WRITE})
        self.assertTrue(order.enter(reader, {"/a": TRUST}))
        self.assertEqual(reader.claims, {"/a": TRUST})
        self.assertFalse(order.enter(writer, writer.claims))
        self.assertEqual(order.leave(reader, {}), [writer])

    def test_random_claims(self) -> None:
        """Whatever is claimed: no two that conflict run, those that conflict start in turn, and all come to it."""
        print(f"test_random_claims: seed {SEED}")
        dice = random.Random(SEED)
        for _ in range(200):
            self.check_random_claims(dice)

    def check_random_claims(self, dice: random.Random) -> None:
        order: Order[Turn] = Order()
        keys = ["/a", "/b", "/a/", "/b/"]
        turns: list[Turn] = []
        claimed: dict[Turn, dict[str, int]] = {}
        started: list[Turn] = []
        running: list[Turn] = []

        def start(turn: Turn) -> None:
            for other in running:
                self.assertFalse(conflict(other.claims, turn.claims))
            started.append(turn)
            running.append(turn)

        while len(turns) < 40 or running:
            if len(turns) < 40 and (not running or dice.random() < 0.5):
                chosen = dice.sample(keys, dice.randrange(1, 4))
                claims = {key: dice.choice(CHILD_MODES if key.endswith("/") else NODE_MODES) for key in chosen}
                turn = Turn(claims)
                turns.append(turn)
                claimed[turn] = claims
                if order.enter(turn, turn.claims):
                    start(turn)
                continue
            turn = dice.choice(running)
            lasting = {key: mode for key, mode in turn.claims.items() if dice.random() < 0.3}
            if not lasting:
                running.remove(turn)
            for ready in order.leave(turn, lasting):
                start(ready)
        self.assertEqual(len(started), len(turns), "a turn waits for ever")
        self.assertFalse(order)
        for first, second in itertools.combinations(turns, 2):
            if conflict(claimed[first], claimed[second]):
                self.assertLess(started.index(first), started.index(second))


def conflict(one: dict[str, int], other: dict[str, int]) -> bool:
    return any(CONFLICTS[mode] & other.get(key, 0) for key, mode in one.items())


class TestMerge(unittest.TestCase):
    def test_each_pair(self) -> None:
        """The merged claim conflicts with everything that either of the two conflicts with."""
        for modes in (NODE_MODES, CHILD_MODES):
            for pair in itertools.product(modes, repeat=2):
                (merged,) = merge([("/a", pair[0]), ("/a", pair[1])]).values()
                for mode in pair:
                    self.assertEqual(CONFLICTS[merged] & CONFLICTS[mode], CONFLICTS[mode])
                if pair[0] == pair[1]:
                    self.assertEqual(merged, pair[0])

    def test_names_that_a_sequence_number_may_make(self) -> None:
        claims = {node("/a/s0000000012"): READ, children("/a/s0000000012"): COUNT}
        self.assertEqual(with_prefixes(claims), {**claims, node("/a/s"): READ})
        plain = {node("/a/s000000012"): READ, node("/a"): WRITE}
        self.assertEqual(with_prefixes(plain), plain)

    def test_a_sequence_number_alone(self) -> None:
        """A create of "/a/" claims the children; who names what it makes waits for it."""
        creates = merge([(node("/a/"), WRITE), (children("/a"), ADD), (node("/a"), READ)])
        self.assertEqual(creates[children("/a")], OWN)
        self.assertTrue(conflict(creates, dict(with_prefixes({node("/a/0000000000"): READ}))))
