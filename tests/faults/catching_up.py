"""Reads that show all that was answered before them.

A sync is not enough: a leader that has been deposed, and does not know it yet, answers it
(tests/faults/deposed.py shows that). A write asks a quorum, be it in vain, and a read behind it on the same
ensemble is as new.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from kazoo.exceptions import NoNodeError

FENCE = "nobody-makes-this"


def refresh(client: Any, *directories: str) -> None:
    """Children of these directories that are read next are read as they are now, or later."""
    for directory in directories:
        with suppress(NoNodeError):
            client.set(f"{directory}/{FENCE}", b"")
