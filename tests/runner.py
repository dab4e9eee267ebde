"""One part, in a process of its own."""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import unittest
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

from nose2.main import PluggableTestProgram

from tests import LOG_FORMAT
from tests.report import HOOKS, Report, cases_in

LIMIT_S = 300.0
KAZOO_LIMIT_S = 120.0


class Counted:
    """Prints how many tests each module has, as one JSON document, and runs none.

    :param texts: only tests whose names hold one of them; none: all.
    """

    def __init__(self, stream: TextIO, texts: Sequence[str]) -> None:
        self.stream = stream
        self.texts = texts

    def startTestRun(self, event: Any) -> None:
        ids = [(type(test).__module__, str(test.id())) for test in cases_in(event.suite)]
        chosen = (module for module, name in ids if not self.texts or any(text in name for text in self.texts))
        print(json.dumps(Counter(chosen)), file=self.stream)
        event.suite = unittest.TestSuite()


class Chosen:
    """Keeps the tests whose names hold one of the texts.

    :param texts: none: it keeps all.
    :ivar is_empty: whether there is no such test.
    """

    def __init__(self, report: Report, texts: Sequence[str]) -> None:
        self.report = report
        self.texts = texts
        self.is_empty = True

    def startTestRun(self, event: Any) -> None:
        if self.texts:
            named = ((self.report.name_of(test), test) for test in cases_in(event.suite))
            fitting = (test for name, test in named if any(text in name for text in self.texts))
            event.suite = unittest.TestSuite(fitting)
        self.is_empty = not event.suite.countTestCases()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.part", description=__doc__)
    parser.add_argument(
        "--results", type=Path, help="file for one JSON line per test; without it they are counted"
    )
    parser.add_argument(
        "-k", dest="texts", action="append", help="only tests whose names hold this text, or another"
    )
    parser.add_argument("-v", dest="is_verbose", action="store_true", help="one line per test")
    parser.add_argument("modules", nargs="+")
    options = parser.parse_args()

    # What tests print must not disturb the report: it goes where stderr goes, into the part's log.
    stream = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format=LOG_FORMAT)

    if options.results is None:
        run_program(options.modules, [("startTestRun", Counted(stream, options.texts or ()))])
        stream.flush()
        return
    report: Report
    if "PARKAZOO_SUITE" in os.environ:
        from tests.kazoo_suite.report import KazooReport  # noqa: PLC0415 - needs the variable

        report = KazooReport(options.results, stream, options.is_verbose, KAZOO_LIMIT_S, bool(options.texts))
    else:
        report = Report(options.results, stream, options.is_verbose, LIMIT_S)
    chosen = Chosen(report, options.texts or ())
    hooks: list[tuple[str, Any]] = [*((hook, report) for hook in HOOKS), ("startTestRun", chosen)]
    program = run_program(options.modules, hooks)
    if chosen.is_empty:
        print("no test matches" if options.texts else "there is no test", file=stream)
    stream.flush()
    sys.stdout.flush()
    sys.stderr.flush()
    sys.exit(chosen.is_empty or not program.result.wasSuccessful())


def run_program(modules: Sequence[str], hooks: list[tuple[str, Any]]) -> PluggableTestProgram:
    return PluggableTestProgram(
        module=None,
        argv=["nose2", "--no-user-config", *modules],
        exit=False,
        extraHooks=hooks,
        excludePlugins=["nose2.plugins.result"],
    )
