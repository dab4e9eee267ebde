"""Times in UTC, as sentences and as files have them."""

from __future__ import annotations

import time


def in_words(time_s: float) -> str:
    """Returns a time as a sentence has it, which says that it is UTC.

    :param time_s: in seconds since 1970.
    """
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(time_s))


def stamp() -> str:
    """Returns the present time as the head of a file has it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
