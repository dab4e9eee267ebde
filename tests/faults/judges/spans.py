"""Times in which something was so."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable


class Spans:
    """Put together once, for many questions.

    :param spans: from when to when, in any order; they may overlap.
    """

    def __init__(self, spans: Iterable[tuple[float, float]]) -> None:
        self._began: list[float] = []
        self._ended: list[float] = []
        for began_s, ended_s in sorted(spans):
            if self._ended and began_s <= self._ended[-1]:
                self._ended[-1] = max(self._ended[-1], ended_s)
            else:
                self._began.append(began_s)
                self._ended.append(ended_s)

    def touch(self, since_s: float, until_s: float) -> bool:
        """Whether it was so at some time between."""
        before = bisect_right(self._began, until_s)
        return before > 0 and self._ended[before - 1] >= since_s
