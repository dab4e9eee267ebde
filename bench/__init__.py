"""Benchmarks, run from a checkout; they need the extra ``bench``."""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent  # the checkout
RUNS = ROOT / "docs" / "runs"  # raw results that are committed
WIDTH = 132  # of what is printed, where no terminal has one
