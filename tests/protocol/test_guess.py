"""Where the newest epoch puts directories: alike on every machine; a change moves no more than it must."""

from __future__ import annotations

import gc
import unittest
import weakref
from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.epochs import Form, Rule
from parkazoo.protocol.guess import Guess
from parkazoo.protocol.rendezvous import rendezvous
from tests.arbitrary import PATH, fuzzed

NAMES = ("a", "b", "c", "d")
MAP = ClusterMap("5d3c", {name: f"{name}:1" for name in NAMES}, NAMES, "b", form=Form.GROWN, weights={"d": 0})
PATHS = [f"/app/{number}" for number in range(1000)]
WEIGHTS = st.lists(st.integers(0, 3), min_size=4, max_size=4).filter(any)
FIXED = ("/", "/zookeeper", "/zookeeper/config", "/zookeeper/quota/x")
# Prefixes and paths of few names, so that they meet.
SHORT = st.lists(st.sampled_from("xyz"), max_size=4).map("/".join).map(lambda names: f"/{names}")
RULES = st.dictionaries(
    st.one_of(SHORT.filter(lambda path: path != "/"), SHORT.map(lambda path: path.rstrip("/") + "/*")),
    st.tuples(st.sampled_from([(), ("a",), ("c", "b")]), st.booleans()),
    max_size=5,
).map(lambda rules: [Rule(prefix, *rest) for prefix, rest in rules.items()])


def guess(weights: Sequence[int], rules: Sequence[Rule] = ()) -> Guess:
    return MAP.with_epoch(dict(zip(NAMES, weights, strict=True)), rules).make_guess()


def specified(weights: Sequence[int], rules: Sequence[Rule], directory: str) -> tuple[Rule | None, str, int]:
    """Rule, key and ensemble as docs/design/protocol.md has them."""
    names = directory.split("/")[1:]
    if names[0] in ("", "zookeeper"):
        return None, directory, MAP.make_placement().of_children("/") if directory == "/" else NAMES.index("b")
    found: list[tuple[int, bool, Rule]] = []
    for rule in rules:
        prefix = rule.prefix.split("/")[1:]
        is_exact = prefix[-1] != "*"
        fixed = prefix if is_exact else prefix[:-1]
        if len(names) >= len(prefix) and names[: len(fixed)] == fixed:
            found.append((len(prefix), is_exact, rule))
    if not found:
        return None, directory, rendezvous(weights)(directory)
    length, _, best = max(found)
    key = "/" + "/".join(names[:length]) if best.together else directory
    left = [weight if not best.on or name in best.on else 0 for name, weight in zip(NAMES, weights, strict=True)]
    return best, key, rendezvous(left)(key)


class TestRules(unittest.TestCase):
    def test_which_rule(self) -> None:
        top, each, exact, deep = Rule("/t"), Rule("/t/*", ("c",)), Rule("/t/x"), Rule("/t/x/y", together=False)
        found = guess([1] * 4, [exact, each, deep, top])
        for directory, rule, key in (
            ("/", None, "/"),
            ("/tx", None, "/tx"),
            ("/u/t", None, "/u/t"),
            ("/t", top, "/t"),
            ("/t/a", each, "/t/a"),
            ("/t/a/b/c", each, "/t/a"),
            ("/t/xx", each, "/t/xx"),
            ("/t/x", exact, "/t/x"),
            ("/t/x/z", exact, "/t/x"),
            ("/t/x/y", deep, "/t/x/y"),
            ("/t/x/y/z", deep, "/t/x/y/z"),
            ("/t/*", each, "/t/*"),
            ("/t/*/b", each, "/t/*"),
        ):
            with self.subTest(directory):
                self.assertEqual((found.rule_of(directory), found.key_of(directory)), (rule, key))
        self.assertEqual({found.of_children(f"/t/{number}/x") for number in range(50)}, {2})

    def test_each_child_alone_of_its_directory(self) -> None:
        found = guess([1] * 4, [Rule("/tenants/*")])
        self.assertIsNone(found.rule_of("/tenants"))
        places = {number: found.of_children(f"/tenants/{number}") for number in range(50)}
        self.assertEqual({*places.values()}, {0, 1, 2, 3})
        for number, place in places.items():
            for below in PATHS[:20]:
                self.assertEqual(found.of_children(f"/tenants/{number}{below}"), place)

    def test_each_directory_at_the_top(self) -> None:
        found = guess([1] * 4, [Rule("/*", ("d",))])
        self.assertEqual([found.rule_of(path) for path in FIXED], [None] * 4)
        self.assertEqual((found.key_of("/x/y"), found.of_children("/x/y")), ("/x", 3))

    def test_together_or_not(self) -> None:
        together = guess([1] * 4, [Rule("/app")])
        self.assertEqual({together.of_children(path) for path in PATHS}, {rendezvous([1] * 4)("/app")})
        apart = guess([1] * 4, [Rule("/app", ("a", "c"), together=False)])
        self.assertEqual([*map(apart.of_children, PATHS)], [*map(rendezvous([1, 0, 1, 0]), PATHS)])

    @given(WEIGHTS, RULES, SHORT | PATH | st.sampled_from(FIXED))
    @fuzzed
    def test_as_specified(self, weights: Sequence[int], rules: Sequence[Rule], directory: str) -> None:
        positive = {name for name, weight in zip(NAMES, weights, strict=True) if weight}
        rules = [rule for rule in rules if not rule.on or positive & {*rule.on}]
        found = guess(weights, rules)
        rule, key, ensemble = specified(weights, rules, directory)
        self.assertEqual((found.rule_of(directory), found.key_of(directory)), (rule, key))
        self.assertEqual(found.of_children(directory), ensemble)


class TestChanges(unittest.TestCase):
    @given(RULES, st.lists(st.integers(1, 3), min_size=3, max_size=3), st.integers(1, 3))
    @fuzzed
    def test_one_that_comes(self, rules: Sequence[Rule], weights: Sequence[int], fourth: int) -> None:
        """A fourth ensemble changes only what goes to it."""
        before, after = guess([*weights, 0], rules), guess([*weights, fourth], rules)
        for path in ("/x", "/x/y", "/z/z/z", *PATHS[:50]):
            old, new = before.of_children(path), after.of_children(path)
            self.assertTrue(new in (old, 3), path)

    @given(RULES, st.integers(0, 3))
    @fuzzed
    def test_one_that_is_drained(self, rules: Sequence[Rule], drained: int) -> None:
        """It gets nothing, and nothing else moves."""
        rules = [rule for rule in rules if {*rule.on} != {NAMES[drained]}]
        weights = [2, 1, 1, 3]
        less = [0 if position == drained else weight for position, weight in enumerate(weights)]
        before, after = guess(weights, rules), guess(less, rules)
        for path in ("/x", "/x/y", "/z/z/z", *PATHS[:50]):
            old, new = before.of_children(path), after.of_children(path)
            self.assertNotEqual(new, drained)
            self.assertTrue(old in (new, drained), path)

    def test_what_is_fixed(self) -> None:
        """The root stays where the first epoch has it; ZooKeeper's own is on the bootstrap ensemble."""
        root = MAP.make_placement().of_children("/")
        for weights in ([1, 1, 1, 1], [0, 0, 0, 1], [0, 0, 1, 0]):
            found = guess(weights, [Rule("/*", together=False)])
            self.assertEqual([found.of_children(path) for path in FIXED], [root, 1, 1, 1])
        self.assertNotEqual(found.of_children("/zookeeperx"), 1)

    def test_of_the_first_epoch(self) -> None:
        first, found = MAP.make_placement(), MAP.make_guess()
        for path in (*FIXED, *PATHS):
            self.assertEqual(found.of_children(path), first.of_children(path))
        self.assertEqual((found.rule_of("/app"), found.key_of("/app")), (None, "/app"))

    def test_the_first_epoch_stays(self) -> None:
        """Whatever comes behind it, it says where what no pin places is."""
        later = MAP.with_epoch({"d": 1}, [Rule("/app", ("d",))])
        self.assertIs(later.make_placement(), MAP.make_placement())
        self.assertEqual({later.make_guess().of_children(path) for path in PATHS}, {3})

    def test_bootstrap_apart(self) -> None:
        apart = ClusterMap("5d3c", {"a": "a:1", "z": "z:1"}, ("a",), "z", form=Form.GROWN)
        found = apart.with_ensembles({"b": "b:1"}).with_epoch({"b": 1}, ()).make_guess()
        self.assertEqual([found.of_children(path) for path in ("/", "/zookeeper", "/app")], [0, 2, 1])

    def test_equal_guesses_are_one(self) -> None:
        """Clients of one process share them, as placements."""
        weights, rules = dict.fromkeys(NAMES, 1), [Rule("/app")]
        made = [replace(MAP, cluster=name).with_epoch(weights, rules).make_guess() for name in "xy"]
        self.assertIs(made[0], made[1])
        for other in (
            MAP,
            MAP.with_epoch(weights, ()),
            MAP.with_epoch({**weights, "a": 2}, rules),
            MAP.with_epoch(weights, [Rule("/app", ("a",))]),
            replace(MAP, bootstrap="a").with_epoch(weights, rules),
        ):
            self.assertIsNot(other.make_guess(), made[0])
        seen = weakref.ref(made.pop())
        made.clear()
        gc.collect()
        self.assertIsNone(seen())
