"""A recipe's folder, which another program may delete."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from kazoo.exceptions import NoNodeError

T = TypeVar("T")
SWEEPS = 5  # while one recursive delete is under way, a folder may go again as often as it has levels


def in_folder(forget: Callable[[], None], func: Callable[..., T], *args: Any) -> T:
    """Call a function which makes the folder that it needs, unless it believes that it is there.

    Another program may have deleted the folder, or may be just deleting it. Then the function is called again.

    :param forget: ends that belief.
    """
    for _ in range(SWEEPS):
        with suppress(NoNodeError):
            return func(*args)
        forget()
    return func(*args)
