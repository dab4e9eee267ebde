"""What the benchmarks' programs take on their command lines."""

from __future__ import annotations

import argparse


def positive(text: str) -> int:
    """A type of argparse's."""
    if (value := int(text)) < 1:
        raise argparse.ArgumentTypeError("it must be at least 1")
    return value
