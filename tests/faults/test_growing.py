"""The commands of a growth, without servers."""

from __future__ import annotations

import unittest

from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.epochs import Form, Rule
from tests.faults.growing import NOT_OF_GROWTH, commands
from tests.faults.run import ENSEMBLES_OF_GROWTH, all_loads

HOSTS = {name: f"{name}:1" for name in "abcde"}


class TestCommands(unittest.TestCase):
    def test_what_they_make(self) -> None:
        """Each is possible after the one before, on a map made by hand."""
        found = ClusterMap("test", {"a": "a:1"}, ("a",), "a")
        for ensembles, (what, *rest) in commands(HOSTS):
            newest = found.epochs[-1]
            weights, rules = dict(newest.weights), newest.rules
            if what == "grow":
                name, _, hosts = rest[1].partition("=")
                self.assertEqual(hosts, HOSTS[name])
                found = found.with_ensembles({name: hosts})
                while found.form is not Form.GROWN:
                    found = found.with_form(Form(found.form + 1))
                weights[name] = 1
            elif what == "drain":
                weights[rest[0]] = 0
            elif what == "weight":
                weights |= {name: int(weight) for name, _, weight in (each.partition("=") for each in rest)}
            elif rest[0] == "add":
                rules = (*rules, Rule(rest[1], tuple(rest[3:])))
            else:
                rules = tuple(each for each in rules if each.prefix != rest[1])
                self.assertLess(len(rules), len(newest.rules))
            found = found.with_epoch(weights, rules)
            self.assertEqual(len(found.placement), ensembles)
        self.assertEqual(len(found.placement), ENSEMBLES_OF_GROWTH)
        self.assertEqual(found.epochs[-1].number, len(commands(HOSTS)) + 1)

    def test_loads(self) -> None:
        self.assertLess({*NOT_OF_GROWTH}, {*all_loads()})
