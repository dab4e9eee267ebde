"""`parkazoo map log`: who changed the map."""

from __future__ import annotations

import json
import os
import socket
from functools import partial

from parkazoo.admin import Rule, add_rule, check_map, init_map, read_history, read_map
from parkazoo.protocol.placement import HISTORY, MAP
from tests.live.map_case import IDENTITY, MapCase, error_of, output_of


class HistoryTest(MapCase):
    def test_each_change(self) -> None:
        init_map(self.a, {"a": self.a})
        output_of("map", "grow", "--ensemble", f"b={self.b}", "--hosts", self.a, "--strangers-gone")
        output_of("map", "rule", "add", "/jobs", "--hosts", self.b)  # on b there is a copy
        changes = read_history(self.a)
        self.assertEqual([each.map for each in changes], [*range(1, read_map(self.a).epoch + 1)])
        self.assertEqual([changes[0].what, changes[1].what], ["made, with ensemble a", "ensemble b came"])
        self.assertEqual(
            (changes[-1].program, changes[-1].what), ("parkazoo map rule add /jobs", "rule for /jobs added")
        )
        for each in changes:
            self.assertEqual((each.host, each.pid), (socket.gethostname(), os.getpid()))
        self.assertEqual(self.plain[1].exists(HISTORY), None)
        self.assertTrue(all("not registered" in each.problem for each in check_map(self.a)))
        self.assertIn("all of it has been repaired", output_of("fsck", "--repair", "--hosts", self.a))
        told = output_of("map", "log", "--hosts", self.b)
        self.assertIn("rule for /jobs added", told)
        document = json.loads(output_of("map", "log", "--hosts", self.b, "--json"))
        self.assertEqual(document["changes"], [each._asdict() for each in changes])

    def test_a_change_that_changes_nothing(self) -> None:
        init_map(self.a, {"a": self.a, "b": self.b}, form="grown")
        add_rule(self.a, Rule("/jobs"))
        before = read_history(self.a)
        add_rule(self.a, Rule("/jobs"))
        self.assertEqual(read_history(self.a), before)

    def test_two_at_once(self) -> None:
        init_map(self.a, {"a": self.a, "b": self.b}, form="grown")
        prefixes = [f"/p{number}" for number in range(6)]
        results = self.at_once(*(partial(add_rule, self.a, Rule(prefix)) for prefix in prefixes))
        self.assertEqual([each for each in results if isinstance(each, Exception)], [])
        changes = read_history(self.a)
        self.assertEqual([each.map for each in changes], [*range(1, 8)])
        self.assertEqual({each.what for each in changes[1:]}, {f"rule for {each} added" for each in prefixes})

    def test_a_map_without_a_history(self) -> None:
        """The first change begins one; so it does where it is damaged, which `map log` says."""
        init_map(self.a, {"a": self.a, "b": self.b}, form="grown")
        self.plain[0].delete(HISTORY)
        self.assertEqual(read_history(self.a), [])
        self.assertIn("no change is known", output_of("map", "log", "--hosts", self.a))
        self.assertTrue(all("not registered" in each.problem for each in check_map(self.a)))
        add_rule(self.a, Rule("/one"))
        self.assertEqual([each.what for each in read_history(self.a)], ["rule for /one added"])
        self.plain[0].set(HISTORY, b"nonsense")
        self.assertIn("Nothing needs it", error_of("map", "log", "--hosts", self.a))
        add_rule(self.a, Rule("/two"))
        self.assertEqual([each.what for each in read_history(self.a)], ["rule for /two added"])

    def test_closed(self) -> None:
        init_map(self.a, {"a": self.a, "b": self.b}, form="grown", auth=[IDENTITY], closed=True)
        self.plain[0].delete(HISTORY)
        add_rule(self.a, Rule("/one"), auth=[IDENTITY])
        acls = [self.plain[0].get_acls(path)[0] for path in (HISTORY, MAP)]
        self.assertEqual(acls[0], acls[1])
        self.assertIn("give the identity", error_of("map", "log", "--hosts", self.a))
        self.assertEqual(len(read_history(self.a, auth=[IDENTITY])), 1)
