"""Scenario moves: what is found in requests and in what commands tell, by known answers."""

from __future__ import annotations

import unittest
from dataclasses import replace
from typing import Any

import numpy as np

from bench.load.record import ANSWERED, FAILED
from bench.load.requests import GET, SET
from bench.load.result import Result
from bench.scenarios.moves_figures import balance_figures, copied_s, find_moves, move_figures
from tests.bench.test_summary import result

OFF = "called off after 1000 ms: 1 client has not got ready within 1 s:\n    host h, pid 1"


def told(began_s: float, ended_s: float, *steps: tuple[float, str], why: str = "", **more: Any) -> dict[str, Any]:
    return {"began_s": began_s, "ended_s": ended_s, "steps": steps, "why": why, **more}


def load(*requests: tuple[float, float, int, int, int]) -> list[Result]:
    """From 101 to 111; each request is (begun, took, kind, outcome, directory)."""
    made = result(*(each[:4] for each in requests), measure_s=10)
    return [replace(made, columns={**made.columns, "directory": np.array([each[4] for each in requests])})]


class TestTold(unittest.TestCase):
    def test_tries(self) -> None:
        """A directory that moves in the second one, one that does not; each hold ends when it is told."""
        found = find_moves(
            told(
                0,
                30,
                (2.0, "copied 1,234 znodes from a to b"),
                (4.0, OFF),
                (5.0, "copied 1,235 znodes from a to b"),
                (6.0, "1 of 2: /d has moved to b: operations there have waited for 500 ms"),
                (7.0, "deleted what was on a"),
                (8.0, "2 of 2: /e stays on a: a rule keeps it there"),
            )
        )
        self.assertEqual([each["directory"] for each in found], ["/d", "/e"])
        self.assertEqual([each["target"] for each in found], ["b", ""])
        self.assertEqual([each["znodes"] for each in found], [1235, 0])
        self.assertEqual(found[0]["holds"], [(3.0, 4.0), (5.5, 6.0)])

    def test_one_that_cannot_move(self) -> None:
        (found,) = find_moves(told(0, 9, (2.0, OFF), (5.0, OFF), (8.0, OFF), why="/d stays where it is"))
        self.assertEqual((found["target"], len(found["holds"])), ("", 3))
        (found,) = find_moves(told(0, 1, why="there is no such directory"))
        self.assertEqual(found["holds"], [])

    def test_a_copys_rate(self) -> None:
        self.assertEqual(copied_s({"copied": [(1.0, 100), (3.0, 6100)]}), 3000)
        self.assertIsNone(copied_s({"copied": [(1.0, 100)]}))
        self.assertIsNone(copied_s({"copied": []}))


class TestFigures(unittest.TestCase):
    def test_to_and_fro(self) -> None:
        """From 101 to 111, ten requests/s in each of two directories; one is held from 105 to 105.5."""
        requests = []
        for number in range(100):
            at_s = 101 + number / 10
            held_s = 105.5 - at_s if 105 <= at_s < 105.5 else 0.01
            requests += [(at_s, held_s, SET, ANSWERED, 0), (at_s, 0.02, GET, ANSWERED, 1)]
        requests.append((105.1, 9.0, SET, FAILED, 0))
        command = told(
            104,
            107,
            (104.9, "copied 100 znodes from a to b"),
            (105.5, "/d has moved to b: operations there have waited for 500 ms"),
            copied=[(104.1, 20), (104.3, 100)],
            per_second=400,
        )
        found = move_figures(load(*requests), [command])
        (move,) = found["moved"]
        self.assertEqual((move["target"], move["znodes"], move["tries"], move["why"]), ("b", 100, 1, ""))
        self.assertAlmostEqual(move["copied_s"], 400)
        self.assertAlmostEqual(move["held_s"], 0.5)
        self.assertAlmostEqual(move["longest_s"], 0.5, 5)
        self.assertIsNone(move["called_off_s"])
        felt = {(each["who"], each["when"]): each["all"] for each in found["felt"]}
        self.assertEqual(felt["the directory", "before"]["requests"], 30)
        self.assertAlmostEqual(felt["the directory", "before"]["p99_s"], 0.01)
        self.assertAlmostEqual(felt["the directory", "held"]["longest_s"], 0.5, 5)
        self.assertEqual(felt["others", "held"]["requests"], 5)
        self.assertAlmostEqual(felt["others", "held"]["p99_s"], 0.02)
        self.assertIn(("others", "copied, at most 400/s"), felt)

    def test_what_a_try_in_vain_costs(self) -> None:
        command = told(103, 109, (105.0, OFF), why="/d stays where it is", copied=[], per_second=None)
        requests = [(104.2, 0.8, SET, ANSWERED, 0), (106.0, 3.0, SET, ANSWERED, 0), (101.5, 0.1, SET, ANSWERED, 0)]
        (move,) = move_figures(load(*requests), [command])["moved"]
        self.assertEqual((move["target"], move["tries"], move["held_s"]), ("", 1, None))
        self.assertAlmostEqual(move["called_off_s"], 0.8)

    def test_a_rebalancing(self) -> None:
        """Two writes/s before, five after; nothing was asked while it moved the directory."""
        begun = [*(101 + n / 2 for n in range(4)), *(106 + n / 5 for n in range(25))]
        commands = [
            told(103, 104),
            told(104, 106, (105.5, "/x/d1 has moved to c: operations there have waited for 90 ms")),
        ]
        late = [commands[0], told(109, 119)]
        several = load(*((each, 0.1, SET, ANSWERED, 1) for each in begun))
        found = balance_figures(several, commands, ["/x/d0", "/x/d1"])
        before, grow, rebalance, after = found["felt"]
        self.assertEqual((before["writes"]["rate"], after["writes"]["rate"]), (2.0, 5.0))
        self.assertNotIn("writes", grow)
        self.assertEqual(rebalance["seconds"], 2)
        (move,) = found["moved"]
        self.assertEqual((move["directory"], move["target"], move["longest_s"]), ("/x/d1", "c", None))
        self.assertEqual(found["writes_s"], [2, 2, 0, 0, 0, 5, 5, 5, 5, 5])
        *_, rebalance, after = balance_figures(several, late, [])["felt"]
        self.assertEqual((rebalance["seconds"], rebalance["writes"]["rate"]), (2, 5.0))  # the load ends at 111
        self.assertEqual(after, {"when": "after", "seconds": 0})
