"""The worker processes of a gateway: they start, are started again, and end. Their parent is a process, too."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import unittest
from contextlib import suppress
from pathlib import Path
from typing import Any

from bench import ROOT
from tests.live.world import DEADLINE_S, wait_until

PARENT = """
import os, signal, sys, time
from parkazoo.gateway import worker_processes
from parkazoo.gateway.worker_processes import WorkerProcesses

worker_processes.LATER_S = 0.01
worker_processes.STOP_S = 0.5
kind = sys.argv[1]
fork, refusals = os.fork, [True, True] if kind == "scarce" else []


def scarce():
    if refusals:
        refusals.pop()
        raise OSError(11, "Resource temporarily unavailable")
    return fork()


os.fork = scarce
signal.signal(signal.SIGUSR1, lambda number, frame: refusals.append(True))


def work(lifeline, on_ready):
    if kind == "broken":
        raise OSError("no table")
    if kind == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.write(1, b"%d\\n" % os.getpid())
    on_ready()
    os.read(lifeline, 1)  # until the parent ends
    os.write(1, b"alone\\n")


try:
    WorkerProcesses(3, work).serve(lambda: os.write(1, b"ready\\n"))
except OSError as error:
    sys.exit(str(error))
os.write(1, b"over\\n")
"""


class TestWorkerProcesses(unittest.TestCase):
    def setUp(self) -> None:
        self.workers: list[int] = []
        self.addCleanup(self.end_all)

    def end_all(self) -> None:
        for pid in self.workers:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def parent(self, kind: str = "") -> subprocess.Popen[str]:
        command = [sys.executable, "-c", PARENT, kind]
        process: subprocess.Popen[Any] = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
        )
        self.addCleanup(process.__exit__, None, None, None)
        self.addCleanup(process.kill)
        return process

    def read(self, process: subprocess.Popen[str]) -> str:
        assert process.stdout is not None
        line = process.stdout.readline().strip()
        if line.isdigit():
            self.workers.append(int(line))
        return line

    def started(self, kind: str = "") -> subprocess.Popen[str]:
        process = self.parent(kind)
        lines = sorted(self.read(process) for _ in range(4))
        self.assertEqual((lines[3], len({*self.workers})), ("ready", 3))
        return process

    def are_gone(self) -> bool:
        return not any(Path(f"/proc/{pid}").exists() for pid in self.workers)

    def test_one_that_is_killed(self) -> None:
        """Another starts, also if that is killed at once. They end with the parent."""
        for number in (signal.SIGTERM, signal.SIGINT):
            process = self.started()
            for _ in range(3):
                os.kill(self.workers[-1], signal.SIGKILL)
                self.assertTrue(self.read(process).isdigit())
            self.assertEqual(len({*self.workers}), 6)
            process.send_signal(number)
            self.assertEqual((self.read(process), process.wait(DEADLINE_S)), ("over", 0))
            self.assertTrue(self.are_gone())
            assert process.stderr is not None
            self.assertIn("has ended with status -9: another starts", process.stderr.read())
            self.workers.clear()

    def test_no_process_is_left_for_one(self) -> None:
        """It is tried again later, and signals are heard meanwhile."""
        process = self.started("scarce")
        process.send_signal(signal.SIGUSR1)
        os.kill(self.workers[-1], signal.SIGKILL)
        self.assertTrue(self.read(process).isdigit())
        process.send_signal(signal.SIGTERM)
        self.assertEqual((self.read(process), process.wait(DEADLINE_S)), ("over", 0))
        self.assertTrue(self.are_gone())
        assert process.stderr is not None
        self.assertEqual(process.stderr.read().count("a worker cannot start: Resource temporarily"), 3)

    def test_interrupts_are_for_the_parent(self) -> None:
        """^C goes to all of them."""
        process = self.started()
        for pid in self.workers:
            os.kill(pid, signal.SIGINT)
        process.send_signal(signal.SIGINT)
        self.assertEqual((self.read(process), process.wait(DEADLINE_S)), ("over", 0))

    def test_workers_that_do_not_end(self) -> None:
        process = self.started("stubborn")
        process.send_signal(signal.SIGTERM)
        self.assertEqual((self.read(process), process.wait(DEADLINE_S)), ("over", 0))
        self.assertTrue(self.are_gone())

    def test_a_parent_that_is_killed(self) -> None:
        """Its workers end by themselves, and hold nothing."""
        process = self.started()
        process.kill()
        self.assertEqual([self.read(process) for _ in range(3)], 3 * ["alone"])
        wait_until(self.are_gone, "they have ended")

    def test_workers_that_cannot_start(self) -> None:
        process = self.parent("broken")
        self.assertEqual(process.wait(DEADLINE_S), 1)
        assert process.stderr is not None
        said = process.stderr.read()
        self.assertIn("a worker ends: no table", said)
        self.assertIn("a worker has ended at its start", said)
