"""A process in which threads cannot be started now and then, as near a limit of process ids."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

EVERY_S, LASTS_S = 15.0, 0.5


class NoThreadError(RuntimeError):
    """What Python raises then."""


@contextmanager
def scarce_threads(since_s: float, is_over: Callable[[], bool]) -> Iterator[None]:
    """Meanwhile each start of a thread fails for half a second, four times a minute.

    :param since_s: 0 to 15, so that not all processes are hit at once.
    :param is_over: whether threads are to be had again.
    """
    start = threading.Thread.start

    def start_or_not(thread: Any) -> None:
        if (time.monotonic() + since_s) % EVERY_S < LASTS_S and not is_over():
            raise NoThreadError("can't start new thread")
        start(thread)

    threading.Thread.start = start_or_not  # type: ignore[method-assign]
    try:
        yield
    finally:
        threading.Thread.start = start  # type: ignore[method-assign]
