"""nose2 hooks that print one line per test module and write one JSON line per test.

They stand in for nose2's own reporter, so that the counts come from here and not from parsed text.
"""

from __future__ import annotations

import faulthandler
import json
import logging
import signal
import sys
import time
import traceback
import unittest
from collections import Counter, deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from tests import LOG_FORMAT

OUTCOMES = ("passed", "failed", "listed", "skipped")
HOOKS = ("startTest", "testOutcome", "stopTest", "afterTestRun", "wasSuccessful")
HANGING_AGAIN_S = 30.0
DEADLOCK_S = 600.0
MOST_LOG_LINES = 80


def cpu_times() -> tuple[int, int]:
    """The CPU time of this machine since it began, in ticks, and how much of it its host gave to others."""
    ticks = [int(each) for each in Path("/proc/stat").read_text().split()[1:9]]
    return sum(ticks), ticks[7]


def cases_in(suite: Any) -> Iterator[unittest.TestCase]:
    for each in suite:
        if isinstance(each, unittest.TestCase):
            yield each
        else:
            yield from cases_in(each)


class Hanging(SystemExit):
    """Raised in the main thread when a test takes too long. A SystemExit, because gevent and eventlet carry that
    from their hubs to the main greenlet; unittest makes an error of it, and the run goes on."""


class RecentLog(logging.Handler):
    """The last lines of the log, for the message of a failure."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.setFormatter(logging.Formatter(LOG_FORMAT))
        self.lines: deque[str] = deque(maxlen=MOST_LOG_LINES)

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


class Report:
    """One part's results.

    :param results: file for the JSON lines: a first one (``began``, a ``time.time``), one when a test begins
        (``running``), one when it has ended (``test``, ``outcome``, ``seconds``, ``detail``, ``stolen``: the part
        of the machine's CPU time that its host gave to others since the test before it), and a last one (``end``,
        the seconds of the whole part) when all have.
    :param stream: where people read.
    :param limit_s: seconds after which a test counts as hanging; it never decides a test that goes on.
    """

    def __init__(self, results: Path, stream: TextIO, is_verbose: bool, limit_s: float) -> None:
        self.results = results.open("w")
        self.stream = stream
        self.back = "\r" if stream.isatty() else ""  # over the counts so far
        self.is_verbose = is_verbose
        self.limit_s = limit_s
        self.run_began = time.monotonic()
        self._write({"began": time.time()})
        self.counts: Counter[str] = Counter()
        self.group = ""
        self.group_counts: Counter[str] = Counter()
        self.group_began = 0.0
        self.failures: list[tuple[str, str]] = []
        self.current: unittest.TestCase | None = None
        self.began = 0.0
        self.times = cpu_times()
        self.outcome = ""
        self.details: list[str] = []
        self.log = RecentLog()
        logging.getLogger().addHandler(self.log)
        signal.signal(signal.SIGALRM, self._hanging)

    def name_of(self, test: Any) -> str:
        """The test's name in every report."""
        return str(test.id()).removeprefix("tests.")

    def verdict(self, name: str, outcome: str, detail: str) -> tuple[str, str]:
        """The outcome that counts; a subclass knows of tests that are expected to fail."""
        return outcome, detail

    def problems(self) -> list[tuple[str, str]]:
        """What is wrong with the run as a whole, as (name, reason); each counts as a failed test."""
        return []

    # nose2's hooks; their names are nose2's

    def startTest(self, event: Any) -> None:
        self.current = event.test
        self.outcome, self.details, self.began = "", [], time.monotonic()
        self.log.lines.clear()
        signal.setitimer(signal.ITIMER_REAL, self.limit_s, HANGING_AGAIN_S)
        faulthandler.dump_traceback_later(DEADLOCK_S, exit=True)
        self._write({"running": self.name_of(event.test)})
        group = type(event.test).__module__.removeprefix("kazoo.").removeprefix("tests.")
        if group != self.group:
            self._end_group()
            self.group, self.group_began = group, time.monotonic()
        if self.is_verbose:
            self._print(f"  {self.name_of(event.test)} ... ", end="")
        elif self.stream.isatty():
            self._print(f"\r  {self.group:<44} {sum(self.group_counts.values())}", end="")

    def testOutcome(self, event: Any) -> None:
        """unittest reports one test several times: test, clean-up and subtests may each fail."""
        outcome = "passed"
        if event.outcome == "skipped":
            outcome = "skipped"
            self.details.append(str(event.reason))
        elif event.exc_info is not None:
            outcome = "passed" if event.expected else "failed"
            if outcome == "failed":
                self.details.append("".join(traceback.format_exception(*event.exc_info)))
        elif event.outcome == "passed" and not event.expected:
            outcome = "failed"
            self.details.append("passed, though it is marked as an expected failure")
        if self.outcome in ("", "passed") or outcome == "failed":
            self.outcome = outcome
        if (
            self.current is None
        ):  # setUpClass or an import failed, or a whole class is skipped: no test was started
            self.began = time.monotonic()
            if self.is_verbose:
                self._print(f"  {self.name_of(event.test)} ... ", end="")
            self._record(self.name_of(event.test))

    def stopTest(self, event: Any) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        faulthandler.cancel_dump_traceback_later()
        if self.current is None:  # Python 3.12.1 has not started a test that is skipped, and ends it all the same
            return
        self.current = None
        self._record(self.name_of(event.test))

    def afterTestRun(self, event: Any) -> None:
        self._end_group()
        for name, reason in self.problems():
            self.counts["failed"] += 1
            self.failures.append((name, reason))
            self._write({"test": name, "outcome": "failed", "seconds": 0, "stolen": 0, "detail": reason})
        for name, detail in self.failures:
            self._print(f"\n{'-' * 100}\nFAILED {name}\n{detail.rstrip()}")
        self._write({"end": round(time.monotonic() - self.run_began, 2)})

    def wasSuccessful(self, event: Any) -> None:
        event.success = not self.counts["failed"]

    # the rest is our own

    def _record(self, name: str) -> None:
        outcome, detail = self.verdict(name, self.outcome or "failed", "\n".join(self.details))
        self.outcome, self.details = "", []
        self.counts[outcome] += 1
        self.group_counts[outcome] += 1
        seconds = round(time.monotonic() - self.began, 2)
        times = cpu_times()
        stolen = round((times[1] - self.times[1]) / max(1, times[0] - self.times[0]), 2)
        self.times = times
        self._write({"test": name, "outcome": outcome, "seconds": seconds, "stolen": stolen, "detail": detail})
        if self.is_verbose:
            self._print(f"{outcome} ({seconds:.1f} s)")
        if outcome == "failed":
            log = "\n".join(["Its log ends with:", *self.log.lines]) if self.log.lines else ""
            self.failures.append((name, f"{detail.rstrip()}\n{log}"))
            if not self.is_verbose:
                self._print(f"{self.back}  FAILED {name}")

    def _end_group(self) -> None:
        if self.group_counts and not self.is_verbose:
            counts = ", ".join(f"{self.group_counts[each]} {each}" for each in OUTCOMES if self.group_counts[each])
            self._print(f"{self.back}  {self.group:<44} {counts} ({time.monotonic() - self.group_began:.1f} s)")
        self.group_counts.clear()

    def _write(self, record: dict[str, Any]) -> None:
        print(json.dumps(record), file=self.results, flush=True)

    def _print(self, text: str, end: str = "\n") -> None:
        print(text, end=end, file=self.stream, flush=True)

    def _hanging(self, number: int, frame: Any) -> None:
        faulthandler.dump_traceback(file=sys.__stderr__ or 2, all_threads=True)
        raise Hanging(f"no end after {time.monotonic() - self.began:.0f} s; every thread's stack is in the log")
