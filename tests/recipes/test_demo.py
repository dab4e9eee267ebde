"""``make demo``: it works, and leaves nothing behind, however it ends."""

from __future__ import annotations

import os
import signal
import tempfile
import unittest
from pathlib import Path
from typing import IO

from parkazoo.local import four_letter_word, status
from parkazoo.local.folder import LOCK
from tests.live.world import wait_until
from tests.recipes.program import Program, run

DEMO = ("-m", "parkazoo.demo")
SMALL = "import sys; from parkazoo import demo; demo.SERVERS = 1; {}; sys.exit(demo.main())"
STAYS = "import threading; demo.Demo.queue = lambda _: threading.Event().wait()"  # behind the part Lock
BARS_NOTHING = "from parkazoo.recipe.barrier import Barrier; Barrier.wait = lambda *_: True"
PARTS = (
    "The cluster map",
    "A tree of znodes",
    "Lock",
    "Queue",
    "LockingQueue",
    "Barrier",
    "Child watch",
    "Transaction",
    "Transaction across ensembles",
)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def read_until(stream: IO[str] | None, text: str) -> None:
    assert stream is not None
    for line in stream:
        if line.startswith(text):
            return
    raise AssertionError(f"it has ended without {text!r}")


class DemoTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="parkazoo-demo-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        # a shell that starts the tests in the background makes them, and so their children, deaf to Ctrl-C
        self.addCleanup(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, signal.default_int_handler))

    def start(self, *arguments: str) -> Program:
        """A program with all its files below `self.folder`."""
        program = Program(*arguments, TMPDIR=str(self.folder))
        self.addCleanup(program.end)
        return program

    def cluster_folder(self) -> Path:
        (folder,) = self.folder.iterdir()
        return folder

    def check_nothing_is_left(self, pids: list[int]) -> None:
        self.assertEqual([pid for pid in pids if is_alive(pid)], [])
        self.assertEqual([*self.folder.iterdir()], [])

    def test_it_works(self) -> None:
        demo = self.start(*DEMO)
        read_until(demo.process.stdout, PARTS[0])  # the servers run now
        rows = status(self.cluster_folder())
        self.assertEqual({row.state for row in rows}, {"serving"})
        self.assertEqual([row.ensemble for row in rows], list("aaabbbccc"))
        ended = demo.wait()
        self.assertEqual(ended.status, 0, ended.err)
        lines = ended.out.splitlines()
        self.assertEqual(
            tuple(line.partition("  ")[0] for line in lines if line.partition("  ")[0] in PARTS), PARTS[1:]
        )
        self.assertRegex(lines[-2], f"All {len(PARTS)} parts came out right")
        self.assertNotIn("\x1b", ended.out + ended.err, "colours without a terminal")
        self.check_nothing_is_left([row.pid for row in rows])
        self.assertEqual([four_letter_word(row.address, "ruok") for row in rows], [""] * 9)

    def test_interrupted_while_it_shows(self) -> None:
        demo = self.start("-c", SMALL.format(STAYS))
        read_until(demo.process.stdout, "Lock")
        pids = [row.pid for row in status(self.cluster_folder())]
        self.assertEqual(len(pids), 3)
        self.check_interrupted(demo, pids)

    def test_interrupted_while_servers_start(self) -> None:
        demo = self.start(*DEMO)
        read_until(demo.process.stderr, "waiting for ensemble")
        supervisor = int((self.cluster_folder() / LOCK).read_text())
        self.assertTrue(is_alive(supervisor))
        self.check_interrupted(demo, [supervisor])  # which outlives every server

    def check_interrupted(self, demo: Program, pids: list[int]) -> None:
        demo.interrupt()
        ended = demo.wait()
        self.assertEqual(ended.status, 130, ended.err)
        self.assertEqual(ended.err.splitlines()[-1], "interrupted; what was started is stopped")
        self.assertNotIn("Traceback", ended.err)
        self.check_nothing_is_left(pids)

    def test_killed(self) -> None:
        demo = self.start("-c", SMALL.format(STAYS))
        read_until(demo.process.stdout, "Lock")
        pids = [row.pid for row in status(self.cluster_folder())]
        demo.process.kill()
        wait_until(lambda: not any(map(is_alive, pids)), "the servers end with the demonstration")
        wait_until(lambda: not [*self.folder.iterdir()], "their files are removed")

    def test_a_broken_recipe_is_found_out(self) -> None:
        ended = self.start("-c", SMALL.format(BARS_NOTHING)).wait()
        self.assertEqual(ended.status, 1)
        expected = "error: Barrier: this should be so, and is not: the barrier is closed for ben"
        self.assertEqual(ended.err.splitlines()[-1], expected)
        self.check_nothing_is_left([])

    def test_without_java_it_says_so(self) -> None:
        ended = run(*DEMO, JAVA_HOME="/no/such/java", TMPDIR=str(self.folder))
        self.assertEqual((ended.status, ended.out), (1, ""))
        self.assertRegex(ended.err, r"\Aerror: JAVA_HOME is /no/such/java, but .*\n\Z")
        self.check_nothing_is_left([])
