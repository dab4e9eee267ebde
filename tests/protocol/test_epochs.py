"""Forms, further epochs and rules: what a map may say of them, as JSON and as a change of an earlier map."""

from __future__ import annotations

import itertools
import json
import unittest
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from parkazoo.errors import ClusterMapError
from parkazoo.protocol.atlas import newer_of
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.epochs import BYTES_KEPT, EPOCHS_KEPT, Epoch, Form, Rule
from tests.arbitrary import JSON, PATH, TEXT, fuzzed
from tests.protocol.map_documents import GOOD, OTHER_VALUES, ReadCase, encoded

PLAIN = ClusterMap("5d3c", {"a": "h1:1", "b": "h2:1"}, ("a", "b"), "a")
FIRST = GOOD["epochs"][0]
SECOND: dict[str, Any] = {
    "epoch": 2,
    "weights": {"a": 1, "b": 3},
    "rules": [
        {"prefix": "/app/orders", "together": True},
        {"prefix": "/logs/*", "together": False, "on": ["b"]},
    ],
}
RULES = (Rule("/app/orders"), Rule("/logs/*", ("b",), together=False))
GROWN = replace(PLAIN, form=Form.GROWN)


def grown(*later: Any) -> bytes:
    return encoded(form="grown", epochs=[FIRST, *later])


def second(**changes: Any) -> bytes:
    return grown({**SECOND, **changes})


def one_rule(**changes: Any) -> bytes:
    return second(rules=[{**SECOND["rules"][0], **changes}])


class TestRead(ReadCase):
    def test_good(self) -> None:
        data = grown(SECOND, {"epoch": 5, "weights": {"a": 0, "b": 1}, "rules": []})
        found = ClusterMap.from_json(data)
        self.assertEqual(found.form, Form.GROWN)
        self.assertEqual(
            found.epochs,
            (Epoch(1, {"a": 1, "b": 1}), Epoch(2, {"a": 1, "b": 3}, RULES), Epoch(5, {"a": 0, "b": 1})),
        )
        self.assertEqual(json.loads(found.to_json()), json.loads(data))
        self.assertEqual(ClusterMap.from_json(found.to_json()), found)

    def test_forms(self) -> None:
        for number, word in enumerate(("plain", "tolerant", "guarded", "grown")):
            found = ClusterMap.from_json(encoded(form=word))
            self.assertEqual((found.form, found.later), (number, ()))
            self.assertEqual(json.loads(found.to_json())["form"], word)
            if word != "grown":
                self.assert_refused(
                    encoded(form=word, epochs=[FIRST, SECOND]), f"form is {word}: only a map of form grown"
                )
        for word in ("PLAIN", "Grown", "later", ""):
            self.assert_refused(encoded(form=word), "knows plain, tolerant, guarded, grown: upgrade ParKazoo")

    def test_numbers_rise(self) -> None:
        for number in (1, 0, -1):
            self.assert_refused(second(epoch=number), "damaged .*epoch|1 comes behind 1")
        self.assert_refused(grown({**SECOND, "epoch": 3}, {**SECOND, "epoch": 3}), "3 comes behind 3")

    def test_weights(self) -> None:
        self.assert_refused(second(weights={"a": 1, "c": 1}), "weight is given for 'c', which is not in the plac")
        self.assert_refused(second(weights={"a": 0, "b": 0}, rules=[]), "every ensemble would have weight 0")
        self.assert_refused(second(weights={}, rules=[]), "every ensemble would have weight 0")
        for weight in (-1, 101, 1.0, "1", True, None, [], 10**30):
            self.assert_refused(second(weights={"b": weight}), "weight of ensemble b is .*, not a whole number")

    def test_an_ensemble_that_has_come(self) -> None:
        """The first epoch has no weight for it, the second need not have one, the third has."""
        document = json.loads(PLAIN.with_ensembles({"c": "h3:1"}).to_json())
        third = {"epoch": 3, "weights": {"c": 1}, "rules": []}
        document |= {"form": "grown", "epochs": [*document["epochs"], SECOND, third]}
        found = ClusterMap.from_json(json.dumps(document).encode())
        self.assertEqual((found.unweighted, found.shares), (("c",), (1, 1, 0)))
        self.assertEqual(found.epochs[1].shares(found.placement), (1, 3, 0))
        self.assertEqual(found.epochs[2].shares(found.placement), (0, 0, 1))

    def test_prefixes(self) -> None:
        for prefix in ("", "app", "//app", "/a//b", "/a/../b", "/.", "//*", "*", "app/*", "/a//*"):
            self.assert_refused(one_rule(prefix=prefix), "must be an absolute path")
        for prefix in ("/app/", "/a/b/"):
            self.assert_refused(one_rule(prefix=prefix), "leave out the slash at its end")
        for prefix in ("/a*", "/*/a", "/a/*/b", "/a/**", "/*/*"):
            self.assert_refused(one_rule(prefix=prefix), "'\\*' can only be its last name")
        for prefix in ("/zookeeper", "/zookeeper/*", "/parkazoo", "/parkazoo/*", "/parkazoo/x", "/a/.parkazoo/b"):
            self.assert_refused(one_rule(prefix=prefix), "does not belong to users")
        self.assert_refused(one_rule(prefix="/"), "for the whole tree, give weights")
        self.assert_refused(one_rule(prefix="/\ud800"), "not valid Unicode")
        for prefix in ("/*", "/a", "/a/*", "/zookeeperx", "/parkazoox/*", "/a/parkazoo", "/ünï/код", "/a b"):
            self.assertEqual(ClusterMap.from_json(one_rule(prefix=prefix)).later[0].rules[0].prefix, prefix)

    def test_rules(self) -> None:
        rule = SECOND["rules"][0]
        self.assert_refused(second(rules=[rule, {**rule, "on": ["a"]}]), "two rules for '/app/orders'")
        self.assert_refused(one_rule(on=["c"]), "'/app/orders' names ensemble 'c', which has no weight")
        self.assert_refused(one_rule(on=["a", "a"]), "'/app/orders' names an ensemble twice")
        self.assert_refused(
            second(weights={"a": 0, "b": 1}, rules=[{**rule, "on": ["a"]}]), "'/app/orders' leaves no ensemble"
        )
        found = ClusterMap.from_json(second(weights={"a": 0, "b": 1}, rules=[{"prefix": "/x", "on": ["a", "b"]}]))
        self.assertEqual(found.later[0].rules, (Rule("/x", ("a", "b"), together=True),))
        self.assertEqual(json.loads(found.to_json())["epochs"][1]["rules"][0]["together"], True)

    def test_damaged(self) -> None:
        for key in SECOND:
            self.assert_refused(grown({k: v for k, v in SECOND.items() if k != key}), f"missing.*{key}")
            for value in OTHER_VALUES:
                if (key, value) != ("rules", []):
                    self.assert_refused(second(**{key: value}))
        self.assert_refused(second(more=1), "unknown.*more")
        self.assert_refused(second(hash="sha256"), "unknown.*hash")
        self.assert_refused(second(rules=[{"together": True}]), "missing.*prefix")
        self.assert_refused(one_rule(more=1), "unknown.*more")
        for key in ("prefix", "together", "on"):
            for value in OTHER_VALUES:
                if key != "together" or not isinstance(value, bool):
                    self.assert_refused(one_rule(**{key: value}))

    @given(st.sampled_from(["form", "epochs", *SECOND, "prefix", "together", "on"]), JSON | TEXT)
    @fuzzed
    def test_exchanged(self, key: str, value: Any) -> None:
        data = (
            encoded(**{"form": "grown", "epochs": [FIRST, SECOND]} | {key: value})
            if key in ("form", "epochs")
            else second(**{key: value})
            if key in SECOND
            else one_rule(**{key: value})
        )
        self.parse(data)

    @given(st.lists(JSON | st.fixed_dictionaries({}, optional=dict.fromkeys(SECOND, JSON)), max_size=3))
    @fuzzed
    def test_any_epochs(self, epochs: list[Any]) -> None:
        self.parse(grown(*epochs))
        self.parse(second(rules=epochs))

    def parse(self, data: bytes) -> None:
        try:
            found = ClusterMap.from_json(data)
        except ClusterMapError as error:
            self.assertLess(len(str(error)), 2000)
            return
        self.assertEqual(ClusterMap.from_json(found.to_json()), found)
        self.assertLess(found.make_guess().of_children("/app/orders/x"), len(found.names))

    @given(
        st.lists(PATH, unique=True, max_size=4),
        st.lists(st.sampled_from([(), ("a",), ("b", "a")]), min_size=4, max_size=4),
        st.lists(st.booleans(), min_size=4, max_size=4),
    )
    @fuzzed
    def test_round_trip(
        self, paths: Sequence[str], on: Sequence[tuple[str, ...]], together: Sequence[bool]
    ) -> None:
        try:
            made = GROWN.with_epoch({"a": 1, "b": 2}, [*map(Rule, paths, on, together)])
        except ClusterMapError:
            return
        self.assertEqual(ClusterMap.from_json(made.to_json()), made)


class TestChanges(unittest.TestCase):
    def test_the_way_of_a_map(self) -> None:
        """From one ensemble to three; each map continues all before it, and none after it."""
        one = ClusterMap("5d3c", {"a": "h1:1"}, ("a",), "a")
        maps = [one, one.with_ensembles({"b": "H2:1", "c": "h3:1"})]
        for form in (Form.TOLERANT, Form.PLAIN, Form.TOLERANT, Form.GUARDED, Form.GROWN):
            maps.append(maps[-1].with_form(form))
        maps.append(maps[-1].with_epoch({"a": 1, "b": 2, "c": 2}, RULES))
        maps.append(maps[-1].with_hosts({"b": "h8:1"}))
        maps.append(maps[-1].with_epoch({"a": 0, "b": 2, "c": 2}, ()))
        self.assertEqual([each.epoch for each in maps], [*range(1, 11)])
        last = maps[-1]
        self.assertEqual((last.placement, last.unweighted, last.shares), (("a", "b", "c"), ("b", "c"), (1, 0, 0)))
        self.assertEqual([epoch.number for epoch in last.epochs], [1, 2, 3])
        self.assertEqual(maps[1].ensembles["b"], "h2:1")
        for index, after in enumerate(maps):
            self.assertEqual(ClusterMap.from_json(after.to_json()), after)
            self.assertIs(newer_of(after, after, "h:1"), after)
            for before in maps[:index]:
                self.assertTrue(after.continues(before))
                if after.form is before.form:
                    self.assertIs(newer_of(before, after, "h:1"), after)
        for before, after in ((maps[6], maps[7]), (maps[7], maps[9])):
            self.assertFalse(before.continues(after))

    def test_what_does_not_continue(self) -> None:
        before = GROWN.with_epoch({"a": 1, "b": 2}, RULES)
        more = before.with_epoch({"b": 1}, ())
        self.assertTrue(more.continues(before))
        for changes in (
            {"later": ()},
            {"later": (replace(before.later[0], rules=()), more.later[1])},
            {"later": (replace(before.later[0], weights={"a": 1, "b": 1}),)},
            {"weights": {"a": 2}},
            {"cluster": "other"},
            {"bootstrap": "b"},
            {"placement": ("b", "a")},
        ):
            with self.subTest(changes):
                self.assertFalse(replace(more, **changes).continues(before))  # type: ignore[arg-type]

    def test_old_epochs_are_forgotten(self) -> None:
        """Clients that are behind by any number of changes follow, and the numbers go on."""
        maps = [GROWN]
        for number in range(3 * EPOCHS_KEPT):
            maps.append(maps[-1].with_epoch({"a": 1, "b": number}, RULES[: number % 3]))
        last = maps[-1]
        self.assertEqual([each.number for each in last.epochs], [1, *range(2 * EPOCHS_KEPT + 2, len(maps) + 1)])
        self.assertEqual(last.epochs[0], GROWN.epochs[0])
        self.assertEqual(ClusterMap.from_json(last.to_json()), last)
        for before, after in itertools.combinations(maps, 2):
            self.assertIs(newer_of(before, after, "h:1"), after)
            self.assertFalse(before.continues(after))

    def test_epochs_that_both_have(self) -> None:
        """They are the same, and none between them is missing."""
        before = GROWN.with_epoch({"a": 1, "b": 2}, RULES).with_epoch({"b": 1}, ()).with_epoch({"b": 3}, ())
        more = before.with_epoch({"b": 4}, ())
        second, third, fourth, fifth = more.later
        for later in (more.later, (third, fourth, fifth), (fifth,), (fourth,), (replace(fifth, number=99),)):
            self.assertTrue(replace(more, later=later).continues(before), later)
        for later in (
            (second, fourth, fifth),
            (second, third, fifth),
            (third,),
            (replace(third, rules=RULES), fourth, fifth),
            (replace(fourth, weights={"a": 0, "b": 9}), fifth),
            (replace(fifth, number=3),),
            (),
        ):
            self.assertFalse(replace(more, later=later).continues(before), later)

    def test_no_ensemble_is_forgotten(self) -> None:
        """Else it could be taken out, with the directories that are there."""
        named = GROWN.with_ensembles({"c": "h3:1"}).with_epoch({"c": 2}, ())
        self.assertEqual(named.later[0].weights, {"a": 0, "b": 0, "c": 2})
        last = named
        for number in range(2 * EPOCHS_KEPT):
            last = last.with_epoch({"a": number + 1}, ())
        self.assertEqual((last.unused, last.epochs[-1].weights), ((), {"a": 2 * EPOCHS_KEPT, "b": 0, "c": 0}))
        without = replace(last, later=tuple(Epoch(each.number, {"a": 1, "b": 1}) for each in last.later))
        self.assertEqual(without.unused, ("c",))
        self.assertFalse(without.continues(named))
        self.assertTrue(last.continues(named))

    def test_a_line_for_each_epoch(self) -> None:
        more = GROWN.with_epoch({"a": 1, "b": 2}, RULES).with_epoch({"a": 1, "b": 3}, RULES)
        lines = more.to_json().decode().splitlines()
        first = lines.index('  "epochs": [') + 1
        self.assertEqual([json.loads(each.rstrip(","))["epoch"] for each in lines[first:-2]], [1, 2, 3])

    def test_many_rules(self) -> None:
        """Of large epochs fewer are kept: where there is room for one, there is for one more that is no larger."""
        rules = [Rule(f"/tenants/tenant-{each:04}") for each in range(18_000)]
        for many, epochs in ((200, EPOCHS_KEPT), (1_000, 4), (2_000, 2), (9_000, 1), (18_000, 1)):
            found = GROWN
            for number in range(2 * EPOCHS_KEPT):
                found = found.with_epoch({"a": 1, "b": number}, rules[:many])
            size = len(found.to_json())
            self.assertEqual(len(found.later), epochs, many)
            self.assertLess(size, max(BYTES_KEPT, 56 * many) + 1_000)
            self.assertLess(len(found.with_epoch({"a": 1}, rules[: many - 1]).to_json()), size)

    def test_nothing_to_change(self) -> None:
        self.assertIs(PLAIN.with_form(Form.PLAIN), PLAIN)
        self.assertIs(PLAIN.with_ensembles({}), PLAIN)

    def test_forms_that_cannot_follow(self) -> None:
        for before, after in ((0, 2), (0, 3), (1, 3), (2, 1), (2, 0), (3, 2), (3, 0)):
            words = f"{Form(before).word} cannot become {Form(after).word} in one step"
            with self.subTest(words), self.assertRaisesRegex(ClusterMapError, words):
                replace(PLAIN, form=Form(before)).with_form(Form(after))

    def test_refused(self) -> None:
        def refused(words: str, change: Any) -> None:
            with self.subTest(words), self.assertRaisesRegex(ClusterMapError, words):
                change()

        refused("has an ensemble b already", lambda: PLAIN.with_ensembles({"b": "h9:1"}))
        refused("would be in ensemble b and in c", lambda: PLAIN.with_ensembles({"c": "h2:1"}))
        refused("is no name for an ensemble", lambda: PLAIN.with_ensembles({"-": "h9:1"}))
        refused("names no server", lambda: PLAIN.with_ensembles({"c": ""}))
        refused("only a map of form grown", lambda: PLAIN.with_epoch({"a": 1}, ()))
        refused("for 'c', which is not in the placement", lambda: GROWN.with_epoch({"c": 1}, ()))
        refused("weight of ensemble a is 101", lambda: GROWN.with_epoch({"a": 101}, ()))
        refused("every ensemble .* weight 0", lambda: GROWN.with_epoch({"a": 0}, ()))
        refused(
            "names ensemble 'c', which has no weight", lambda: GROWN.with_epoch({"a": 1}, [Rule("/x", ("c",))])
        )
        refused("two rules for '/x'", lambda: GROWN.with_epoch({"a": 1}, [Rule("/x"), Rule("/x", ("a",))]))


class TestChangeOfForm(unittest.TestCase):
    """The form of the map that a client works by, beside that of a copy."""

    def test_it_rises(self) -> None:
        for form in Form:
            later = replace(PLAIN, epoch=2, form=form)
            self.assertEqual(newer_of(PLAIN, later, "h:1"), later)

    def test_tolerant_is_given_up(self) -> None:
        tolerant, plain = replace(PLAIN, epoch=2, form=Form.TOLERANT), replace(PLAIN, epoch=3)
        self.assertEqual(newer_of(tolerant, plain, "h:1"), plain)

    def test_no_other_form_is_given_up(self) -> None:
        for form in (Form.GUARDED, Form.GROWN):
            later = replace(PLAIN, epoch=3, form=Form(form - 1))
            words = f"map 3, has form {later.form.word} instead of {form.word}: somebody has changed it by hand"
            with self.assertRaisesRegex(ClusterMapError, words):
                newer_of(replace(PLAIN, epoch=2, form=form), later, "h:1")

    def test_an_older_copy(self) -> None:
        """It may be one form behind."""
        grown = replace(PLAIN, epoch=4, form=Form.GROWN)
        self.assertEqual(newer_of(grown, replace(PLAIN, epoch=3, form=Form.GUARDED), "h:1"), grown)
        words = "map 2, has form tolerant, the client's map, number 4, grown: somebody has restored that ensemble"
        with self.assertRaisesRegex(ClusterMapError, words):
            newer_of(grown, replace(PLAIN, epoch=2, form=Form.TOLERANT), "h:1")
