"""What is known here of the thesis' figures (TU Dresden, 2015).

Its tables 6.1 to 6.6 have the rate, the mean and the median of each step of the sweep. Of these, and of its text,
only what follows is known here. Pages are not.
"""

from __future__ import annotations

from typing import NamedTuple


class Known(NamedTuple):
    """Requests/s of its client on three ensembles of three servers, and of kazoo on one.

    :param of: what they are of.
    :param three: None: not known here.
    :param times: the one in units of the other.
    :param source: where in the thesis; empty: not known here.
    """

    load: str
    of: str
    three: float | None
    one: float | None
    times: float
    source: str


BEST, ONE_PROCESS = "the best of all", "one process"
KNOWN = (
    Known("writes", BEST, 12_837.89, 6_477.30, 1.98, "table"),
    Known("writes", BEST, 11_430.90, 5_421.84, 2.11, "text"),
    Known("reads", BEST, 304_516, None, 2.09, ""),
    Known("writes", ONE_PROCESS, 228.93, 367.17, 0.62, ""),
    Known("reads", ONE_PROCESS, 2_371, 25_659, 0.09, ""),
)
TIMES = {"writes": 1.98, "reads": 2.09}  # of the best, by its tables
TIMES_OF_A_PROCESS = {"writes": 0.62, "reads": 0.09}
MOST_THREADS = 110  # its client crashed there
