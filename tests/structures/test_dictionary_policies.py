"""When the reads of a DistributedDict are due."""

from __future__ import annotations

import unittest

from parkazoo.structures.policies import Always, Count, Linearizable, Lock, Policy, Time, Watch


class TestPolicies(unittest.TestCase):
    def due(self, policy: Policy, *moments_s: float) -> list[bool]:
        is_due = policy.begin()
        return [is_due(moment_s) for moment_s in moments_s]

    def test_always_and_never(self) -> None:
        self.assertEqual(self.due(Always(), 0, 0), [True, True])
        self.assertEqual(self.due(Linearizable(), 0, 0), [True, True])
        self.assertEqual(self.due(Watch(), 0, 1e9), [False, False])

    def test_each_nth(self) -> None:
        self.assertEqual(self.due(Count(3), *range(7)), [False, False, True, False, False, True, False])
        self.assertEqual(self.due(Count(1), 0, 0), [True, True])
        self.assertEqual(self.due(Count(), *range(10)), [False] * 9 + [True])

    def test_after_a_time(self) -> None:
        self.assertEqual(self.due(Time(10), 100, 109, 110, 111, 120), [True, False, True, False, True])
        self.assertEqual(self.due(Time(0), 1, 1), [True, True])

    def test_while_it_is_not_locked(self) -> None:
        policy = Lock()
        is_due = policy.begin()
        found = [is_due(0)]
        for policy.lock in (True, True, False):
            found.append(is_due(0))
        self.assertEqual(found, [True, False, False, True])

    def test_one_policy_for_two_dictionaries(self) -> None:
        policy = Count(2)
        first, second = policy.begin(), policy.begin()
        self.assertEqual([first(0), second(0), first(0), second(0)], [False, False, True, True])

    def test_out_of_range(self) -> None:
        self.assertRaisesRegex(ValueError, "at least 1, not 0", Count, 0)
        self.assertRaisesRegex(ValueError, "below 0, not -1", Time, -1)
        self.assertRaisesRegex(ValueError, "not nan", Time, float("nan"))

    def test_numbers(self) -> None:
        for wrong in (lambda: Count(2.5), lambda: Count("a"), lambda: Count(True), lambda: Time("1")):  # type: ignore
            self.assertRaises(TypeError, wrong)
