"""A short run of everything in tests/faults/, and what can be tested of it without servers."""

from __future__ import annotations

import itertools
import random
import unittest
from typing import Any

from tests.faults.judges.holding import SHARE_OF_TIMEOUT
from tests.faults.schedule import FULL, KINDS, MANNERS, REPLACING, SHORT, Plan, schedule
from tests.faults.short_run import ShortRun

ENSEMBLES = 3
MANY = 100


class TestShortRun(ShortRun):
    def test_clean(self) -> None:
        self.assert_clean()

    def test_each_kind_of_fault_has_been_there(self) -> None:
        counts = {kind: sum(manners.values()) for kind, manners in self.summary["faults"].items()}
        self.assertEqual([kind for kind in KINDS if not counts[kind]], [])

    def test_each_load_has_something_to_show(self) -> None:
        for name, judged in self.summary["promises"].items():
            with self.subTest(name):
                self.assertTrue(judged["figures"])


class TestSchedule(unittest.TestCase):
    def plans(self, number: int, pace: Any = FULL) -> list[Plan]:
        steps = schedule(random.Random(number), ENSEMBLES, pace)
        return [*itertools.islice((plan for step in steps for plan in step.plans), MANY)]

    def test_a_seed_is_a_schedule(self) -> None:
        self.assertEqual(self.plans(1), self.plans(1))
        self.assertNotEqual(self.plans(1), self.plans(2))

    def test_clients_hear_of_a_lost_server_before_their_sessions_expire(self) -> None:
        for pace in (FULL, REPLACING, SHORT):
            late_s = SHARE_OF_TIMEOUT * pace.session_timeout_s  # as the judges allow
            self.assertLess(pace.notice_s + late_s, pace.expiry_s)

    def test_each_kind_comes_before_any_comes_again(self) -> None:
        for number in range(MANY):
            plans = self.plans(number, SHORT)
            for first in range(0, MANY - len(KINDS), len(KINDS)):
                kinds = [plan.kind for plan in plans[first : first + len(KINDS)]]
                self.assertEqual({*kinds}, {*KINDS})

    def test_each_manner_and_each_ensemble_of_a_kind_too(self) -> None:
        for number in range(MANY):
            plans = self.plans(number)
            for kind in KINDS:
                of_kind = [plan for plan in plans if plan.kind == kind]
                manners = MANNERS.get(kind, ("",))
                self.assertEqual({plan.manner for plan in of_kind[: len(manners)]}, {*manners})
                self.assertEqual({plan.ensemble for plan in of_kind[:ENSEMBLES]}, {*range(ENSEMBLES)})

    def test_two_at_once_are_on_two_ensembles(self) -> None:
        for number in range(MANY):
            for step in itertools.islice(schedule(random.Random(number), ENSEMBLES, FULL), MANY):
                self.assertIn(len(step.plans), (1, 2))
                self.assertEqual(len({plan.ensemble for plan in step.plans}), len(step.plans))

    def test_an_ensemble_is_away_for_three_session_timeouts(self) -> None:
        for pace in (FULL, SHORT):
            lengths = {plan.lasts_s for plan in self.plans(1, pace) if plan.kind == "ensemble away"}
            self.assertEqual(lengths, {3 * pace.session_timeout_s})

    def test_clients_are_frozen_for_less_and_for_more_than_their_sessions_live(self) -> None:
        for pace in (FULL, SHORT):
            plans = [plan for plan in self.plans(1, pace) if plan.kind == "freeze client"]
            self.assertEqual(
                {plan.manner: plan.lasts_s > pace.session_timeout_s for plan in plans},
                {"brief": False, "long": True},
            )
