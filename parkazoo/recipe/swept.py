"""A recipe's folder, which another program may delete."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from kazoo.exceptions import NoNodeError

T = TypeVar("T")
SWEEPS = 5  # while one recursive delete is under way, a folder may go again as often as it has levels


def in_folder(forget: Callable[[], None], func: Callable[..., T], *args: object) -> T:
    """Calls a function that makes the folder it needs, unless it believes that the folder exists.

    If another program has deleted the folder, or is deleting it, the function is called again.

    :param forget: ends that belief.
    """
    for _ in range(SWEEPS):
        try:
            return func(*args)
        except NoNodeError:  # noqa: PERF203 - one turn, as a rule
            forget()
    return func(*args)
