"""Replies that set an asyncio future."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any


class FutureReply:
    """The reply to an operation, whose future may have been cancelled by then.

    :param change: makes the future's result of the answer; None: the answer is the result.
    """

    __slots__ = ("_change", "_future")

    def __init__(self, future: asyncio.Future[Any], change: Callable[[Any], Any] | None = None) -> None:
        self._future = future
        self._change = change

    @property
    def is_abandoned(self) -> bool:
        """See :func:`parkazoo.engine.ports.is_abandoned`."""
        return self._future.cancelled()

    def set(self, value: object = None) -> None:
        if not self._future.done():
            self._future.set_result(value if self._change is None else self._change(value))

    def set_exception(self, exception: Exception) -> None:
        if not self._future.done():
            self._future.set_exception(exception)
