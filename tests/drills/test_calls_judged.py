"""How a drill judges calls, by journals written by hand; how it reads the commands of its page."""

from __future__ import annotations

import unittest
from typing import Any

from bench import ROOT
from parkazoo.monitoring import OperationEnded
from tests.drills import one_server_replaced
from tests.drills.calls import Calls, Goal, count_calls
from tests.drills.page import addressed, commands
from tests.drills.rolling_restart import PAGE
from tests.faults.call_count import CallCount
from tests.faults.load import Record

GOAL = Goal(frozenset({"connection_loss"}), 0.003, 2.0)


def record(at_s: float, longest_s: float = 0.1, longest: str = "get", **outcomes: int) -> Record:
    return Record(at_s, 1, 0, "calls", {"outcomes": outcomes, "longest_s": longest_s, "longest": longest})


class TestCalls(unittest.TestCase):
    def test_counted(self) -> None:
        records = [
            record(0.9, longest_s=9.0, other=5),  # before
            record(1.0, ok=900, no_node=50),
            Record(1.5, 1, 0, "beat", {}),
            record(2.0, longest_s=1.5, longest="set", ok=47, connection_loss=3),
            record(3.1, other=5),  # after
        ]
        found = count_calls(records, 1.0, 3.0)
        self.assertEqual(found, Calls(1000, {"connection_loss": 3}, 1.5, "set"))
        self.assertEqual((found.error_share, found.problems(GOAL)), (0.003, []))

    def test_missed_goals(self) -> None:
        for calls, words in (
            (Calls(1000, {"connection_loss": 4}, 0.1, "get"), "0.40% of the calls failed"),
            (Calls(1000, {"session_expired": 1}, 0.1, "get"), "1 calls: session_expired"),
            (Calls(1000, {}, 2.01, "set"), "a set took 2.01 s"),
            (Calls(0, {}, 0.0, ""), "no call was counted"),
        ):
            (problem,) = calls.problems(GOAL)
            self.assertIn(words, problem)

    def test_a_client_counts(self) -> None:
        found: list[tuple[str, dict[str, Any]]] = []
        count = CallCount(lambda what, **fields: found.append((what, fields)))
        count.write()
        for operation, outcome, seconds in (
            ("get", "ok", 0.5),
            ("set", "connection_loss", 1.5),
            ("get", "ok", 0.1),
        ):
            count.operation_ended(OperationEnded(operation, outcome, seconds, "", 1))
        count.write()
        count.write()
        told = {"outcomes": {"ok": 2, "connection_loss": 1}, "longest_s": 1.5, "longest": "set"}
        self.assertEqual(found, [("calls", told)])


class TestPage(unittest.TestCase):
    def test_commands(self) -> None:
        page = "    parkazoo check --hosts a1,b1 --stop $server --wait 9 || exit\n    ssh $server x  # comment\n"
        self.assertEqual(
            commands(page, {"server": "a2"}), [["check", "--hosts", "a1,b1", "--stop", "a2", "--wait", "9"]]
        )

    def test_the_page_has_what_the_drill_needs(self) -> None:
        question, last = commands((ROOT / PAGE).read_text(), {"server": "a2"})
        self.assertEqual(question[:1] + question[3:6], ["check", "--stop", "a2", "--wait"])
        self.assertEqual(last, question[:3])

    def test_a_replacement_waits_for_the_others_before_and_for_all_after(self) -> None:
        page = (ROOT / one_server_replaced.PAGE).read_text()
        is_ready, has_all = commands(page, {"ensemble": "b", "server": "b2"})
        self.assertEqual((is_ready[0], is_ready[3:5]), ("ready", ["--ensemble", "b"]))
        self.assertEqual((has_all[0], has_all[3:6]), ("check", ["--stop", "b2", "--wait"]))

    def test_addresses(self) -> None:
        given = ["check", "--hosts", "a1,b1", "--stop", "a1"]
        self.assertEqual(
            addressed(given, {"a1": "h:1", "b1": "h:2"}), ["check", "--hosts", "h:1,h:2", "--stop", "h:1"]
        )
