"""One part, in a process of its own."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import unittest
from pathlib import Path
from typing import Any

from nose2.main import PluggableTestProgram

from tests import LOG_FORMAT
from tests.report import HOOKS, Report, cases_in

LIMIT_S = 300.0
KAZOO_LIMIT_S = 120.0


class Chosen:
    """Keeps the tests whose names hold a text."""

    def __init__(self, report: Report, text: str) -> None:
        self.report = report
        self.text = text

    def startTestRun(self, event: Any) -> None:
        event.suite = unittest.TestSuite(
            test for test in cases_in(event.suite) if self.text in self.report.name_of(test)
        )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.part", description=__doc__)
    parser.add_argument("--results", type=Path, required=True, help="file for one JSON line per test")
    parser.add_argument("-k", dest="text", default="", help="only tests whose names hold this text")
    parser.add_argument("-v", dest="is_verbose", action="store_true", help="one line per test")
    parser.add_argument("modules", nargs="+")
    options = parser.parse_args()

    # What tests print must not disturb the report: it goes where stderr goes, into the part's log.
    stream = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format=LOG_FORMAT)

    report: Report
    if "PARKAZOO_SUITE" in os.environ:
        from tests.kazoo_suite.report import KazooReport  # noqa: PLC0415 - needs the variable

        report = KazooReport(options.results, stream, options.is_verbose, KAZOO_LIMIT_S, bool(options.text))
    else:
        report = Report(options.results, stream, options.is_verbose, LIMIT_S)
    hooks: list[tuple[str, Any]] = [(hook, report) for hook in HOOKS]
    if options.text:
        hooks.append(("startTestRun", Chosen(report, options.text)))
    program = PluggableTestProgram(
        module=None,
        argv=["nose2", "--no-user-config", *options.modules],
        exit=False,
        extraHooks=hooks,
        excludePlugins=["nose2.plugins.result"],
    )
    stream.flush()
    sys.stdout.flush()
    sys.stderr.flush()
    sys.exit(not program.result.wasSuccessful())
