"""Commands, run as users run them."""

from __future__ import annotations

import subprocess
import sys

from bench import ROOT


def run_module(name: str, *arguments: str, timeout_s: float = 120) -> subprocess.CompletedProcess[str]:
    """``python -m NAME ARGUMENTS``, in the root of the checkout."""
    return subprocess.run(
        [sys.executable, "-m", name, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
