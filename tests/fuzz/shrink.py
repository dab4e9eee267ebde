"""A case that fails, without the calls that do not matter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tests.fuzz.cases import Case


def shrink(case: Case, fails: Callable[[Case], bool]) -> Case:
    """Leave out calls, many at once first, then fewer, as long as it fails.

    :param fails: whether a case fails in the same way.
    :returns: a case from which no single call can be left out.
    """
    size = max(1, len(case.calls) // 2)
    while True:
        has_shrunk, start = False, 0
        while start < len(case.calls):
            smaller = case.only(case.calls[:start] + case.calls[start + size :])
            if smaller.calls and fails(smaller):
                case, has_shrunk = smaller, True
            else:
                start += size
        if size > 1:
            size //= 2
        elif not has_shrunk:
            break
    bare = replace(case, made=())
    return bare if fails(bare) else case
