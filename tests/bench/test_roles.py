"""Who leads, who serves, and who has caught up."""

from __future__ import annotations

import unittest
from typing import Any
from unittest import mock

from bench.lab import Ensembles, LabError, Server, Shape
from bench.scenarios import roles
from bench.scenarios.roles import wait_caught_up


class TestCaughtUp(unittest.TestCase):
    """Before a load, servers get the rest of what an earlier one has written."""

    def setUp(self) -> None:
        at_once = mock.patch.object(roles, "POLL_S", 0)
        at_once.start()
        self.addCleanup(at_once.stop)
        names = ("a1", "a2", "a3", "b1")
        self.ensembles = Ensembles(Shape(2, 3), [Server(name, name[0], name, name, 1) for name in names])
        self.zxids = {"a1": 0x100000009, "a2": 0x100000009, "a3": 0x100000004, "b1": 0x300000000}
        self.asked: list[str] = []

    def ask(self, server: Server, word: str) -> str:
        self.asked.append(server.name)
        if server.name == "a3" and self.asked.count("a3") > 1:
            self.zxids["a3"] += 1
        zxid = self.zxids[server.name]
        return f"Zxid: {zxid:#x}\nMode: follower\n" if zxid else "not currently serving\n"

    def wait(self) -> None:
        lab: Any = mock.Mock(ask=self.ask)
        wait_caught_up(lab, self.ensembles)

    def test_one_is_behind(self) -> None:
        self.wait()
        self.assertEqual(self.zxids["a3"], 0x100000009)
        self.assertEqual(self.asked[:3] + self.asked[-1:], ["a1", "a2", "a3", "b1"])

    def test_one_does_not_serve(self) -> None:
        self.zxids["a3"] = 0
        self.wait()
        self.assertEqual(self.asked, ["a1", "a2", "a3", "b1"])

    def test_one_stays_behind(self) -> None:
        self.zxids["a1"] = 0x500000000
        with mock.patch.object(roles, "TIMEOUT_S", 0.1), self.assertRaisesRegex(LabError, "a2 has not caught up"):
            self.wait()
