"""The fields of the lines that a member's connection logs."""

from __future__ import annotations

import inspect
import logging
import unittest
from types import SimpleNamespace
from typing import Any
from unittest import mock

from bench import ROOT
from parkazoo.protocol.cluster_map import FIRST
from parkazoo.protocol.placement import CLIENTS
from parkazoo.wire import report as report_module
from parkazoo.wire.log import DiscreetLog
from parkazoo.wire.report import REPEAT_S, ConnectionReport

WHY = "Connection refused"
# By method: its arguments, and the fields of its line.
LINES: dict[str, tuple[tuple[Any, ...], dict[str, object]]] = {
    "trying": (("s1:1",), {"server": "s1:1"}),
    "connected": (("s1:1", 0x10), {"server": "s1:1", "session": "0x10"}),
    "lost": ((WHY,), {"server": "", "reason": WHY}),
    "failed": ((WHY,), {"reason": WHY}),
    "expired": ((), {}),
    "renewed": ((WHY,), {"reason": WHY}),
    "not_registered": ((ValueError("x"),), {"path": CLIENTS, "reason": "ValueError('x')"}),
    "refused": (("s1:1",), {"server": "s1:1"}),
    "gave_up": ((), {}),
}
ALL_FIELDS = {"ensemble", "server", "session", "seconds", "path", "reason", "map"}
PLAIN = {*logging.makeLogRecord({}).__dict__, "message", "asctime"}


class LogFieldsTest(unittest.TestCase):
    def setUp(self) -> None:
        self.logger = logging.getLogger("tests.log_fields")
        self.logger.setLevel(logging.DEBUG)
        self.now_s = 0.0
        clock = mock.patch.object(report_module, "time", SimpleNamespace(monotonic=lambda: self.now_s))
        clock.start()
        self.addCleanup(clock.stop)

    def report(self, name: str = "b") -> ConnectionReport:
        member: Any = SimpleNamespace(name=name, logger=self.logger, runtime=SimpleNamespace(monitor=None))
        return ConnectionReport(member)

    def fields(self, report: ConnectionReport, method: str, *arguments: object) -> dict[str, object]:
        with self.assertLogs(self.logger, logging.DEBUG) as logs:
            getattr(report, method)(*arguments)
        (record,) = logs.records
        return {name: value for name, value in record.__dict__.items() if name not in PLAIN}

    def test_each_line(self) -> None:
        methods = {name for name, _ in inspect.getmembers(ConnectionReport, inspect.isfunction) if name[0] != "_"}
        self.assertEqual(methods, {*LINES})
        for method, (arguments, fields) in LINES.items():
            self.assertEqual(self.fields(self.report(), method, *arguments), {"ensemble": "b", **fields}, method)

    def test_an_outage(self) -> None:
        report = self.report()
        self.fields(report, "connected", "s1:1", 0x10)
        self.assertEqual(self.fields(report, "lost", WHY)["server"], "s1:1")
        self.fields(report, "failed", WHY)
        self.now_s += REPEAT_S
        self.assertEqual(self.fields(report, "failed", WHY), {"ensemble": "b", "reason": WHY, "seconds": REPEAT_S})
        back = self.fields(report, "connected", "s2:1", 0x10)
        self.assertEqual((back["server"], back["seconds"]), ("s2:1", REPEAT_S))

    def test_before_the_map(self) -> None:
        """Which ensemble it is is not known yet."""
        self.assertIsNone(self.fields(self.report(FIRST), "failed", WHY)["ensemble"])

    def test_they_pass_an_adapter(self) -> None:
        """logging's own would replace them before Python 3.13."""
        with self.assertLogs(self.logger, logging.DEBUG) as logs:
            DiscreetLog(self.logger).warning("x", extra={"ensemble": "b"})
        self.assertEqual(logs.records[0].__dict__["ensemble"], "b")

    def test_the_table(self) -> None:
        """It has all of them, and none is a name of logging's own."""
        page = (ROOT / "docs" / "reference" / "logs.md").read_text()
        self.assertEqual({line.split("`")[1] for line in page.splitlines() if line.startswith("| `")}, ALL_FIELDS)
        self.assertEqual(ALL_FIELDS & PLAIN, set())
        self.assertLessEqual({name for _, fields in LINES.values() for name in fields}, ALL_FIELDS)
