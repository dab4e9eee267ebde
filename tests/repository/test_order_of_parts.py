"""The parts of ``python -m tests``: each test is in one of them, and the longest begin first."""

from __future__ import annotations

import unittest

from tests.__main__ import LONGEST, PARTS, in_order


class TestOrderOfParts(unittest.TestCase):
    def test_longest_first(self) -> None:
        names = ["pure", "map", "live", "bench"]
        self.assertEqual(in_order(names, 1), names)
        self.assertEqual(in_order(names, 2), [*LONGEST, "pure"])
        self.assertEqual(in_order(["typing", "pure"], 2), ["typing", "pure"])
        self.assertLessEqual({*LONGEST}, PARTS.keys())

    def test_each_live_module_is_in_one_part(self) -> None:
        found = [module for name in ("client", "map", "live") for module in PARTS[name].modules]
        self.assertEqual(len(found), len({*found}))
        self.assertTrue(all(PARTS[name].modules for name in ("client", "map", "live")))
