"""Programs as a user runs them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import NamedTuple

from bench import ROOT

LIMIT_S = 300.0


class Ended(NamedTuple):
    status: int
    out: str
    err: str


class Program:
    """``python ARGUMENTS``, from the root of the checkout. The caller has to `end` it."""

    def __init__(self, *arguments: str, **environment: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=ROOT,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )

    def end(self) -> None:
        """Kill it if it still runs."""
        self.process.kill()
        self.process.communicate()

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def wait(self) -> Ended:
        """What it has said since it was last read, when it has ended."""
        out, err = self.process.communicate(timeout=LIMIT_S)
        return Ended(self.process.returncode, out, err)


def run(*arguments: str, **environment: str) -> Ended:
    program = Program(*arguments, **environment)
    try:
        return program.wait()
    finally:
        program.end()
