"""A short ``make faults`` for the tests of a class; in setUpClass, because it takes longer than a test may."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import unittest
from typing import Any

from bench import ROOT
from tests.live.world import seed

RUN_TIMEOUT_S = 900.0


class ShortRun(unittest.TestCase):
    """:cvar arguments: of ``python -m tests.faults``."""

    arguments: tuple[str, ...] = ()
    said: str
    status: int
    summary: dict[str, Any]

    @classmethod
    def setUpClass(cls) -> None:
        command = [sys.executable, "-m", "tests.faults", "--short", "--seed", str(seed()), *cls.arguments]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
            try:
                cls.said, _ = process.communicate(timeout=RUN_TIMEOUT_S)
            finally:
                process.terminate()
        cls.status = process.returncode
        print(cls.said)
        folder = re.search(r"journals in (\S+)", cls.said)
        cls.summary = json.loads((ROOT / folder[1] / "summary.json").read_text()) if folder else {}

    def assert_clean(self) -> None:
        self.assertEqual((self.said.splitlines()[-1], self.status), ("clean", 0), self.said)
