"""The report on kazoo's suite: knows which tests are expected to fail, and sees that the lists are true."""

from __future__ import annotations

import os
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TextIO

from tests.kazoo_suite import cluster
from tests.kazoo_suite.listed import FAIL_WITH_KAZOO_TOO, LISTED, ON_BOOTSTRAP, SKIPPED, Entry, find
from tests.report import Report

EXPECTED_TO_FAIL = LISTED + FAIL_WITH_KAZOO_TOO


class KazooReport(Report):
    """:param is_selection: not all tests run, so an entry without a test says nothing."""

    def __init__(
        self, results: Path, stream: TextIO, is_verbose: bool, limit_s: float, is_selection: bool
    ) -> None:
        super().__init__(results, stream, is_verbose, limit_s)
        self.suite = os.environ["PARKAZOO_SUITE"]
        self.is_selection = is_selection
        self.used: set[Entry] = set()

    def name_of(self, test: Any) -> str:
        return str(test.id()).removeprefix("kazoo.tests.")

    def verdict(self, name: str, outcome: str, detail: str) -> tuple[str, str]:
        entry = find(SKIPPED if outcome == "skipped" else EXPECTED_TO_FAIL, self.suite, name)
        if entry is not None:
            self.used.add(entry)
        if outcome == "skipped":
            return (outcome if entry else "failed"), detail
        if entry is None or (outcome == "passed" and entry.is_flaky):
            return outcome, detail
        if outcome == "passed":
            return "failed", f"it passes, but tests/kazoo_suite/listed.py expects it to fail: {entry.reason}"
        return "listed", f"{entry.reason}\n{detail}"

    def startTest(self, event: Any) -> None:
        super().startTest(event)
        name = self.name_of(event.test)
        cluster.Chroots.wants_bootstrap = any(fnmatchcase(name, pattern) for pattern in ON_BOOTSTRAP)

    def stopTest(self, event: Any) -> None:
        super().stopTest(event)
        if cluster.ZookeeperCluster.failure is not None:  # hundreds of tests need not find it out by themselves
            event.result.shouldStop = True

    def afterTestRun(self, event: Any) -> None:
        super().afterTestRun(event)
        cluster.close()

    def problems(self) -> list[tuple[str, str]]:
        if cluster.ZookeeperCluster.failure is not None:
            return [("servers", "they did not start, so the other tests were not run")]
        if self.is_selection:
            return []
        unused = [
            each for each in EXPECTED_TO_FAIL + SKIPPED if self.suite in each.suites and each not in self.used
        ]
        return [(each.names, "tests/kazoo_suite/listed.py names it, but no such test ran so") for each in unused]
