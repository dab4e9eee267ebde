"""The answers to steps that were sent together."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any


class Gather:
    """Collects them, each from its :class:`Slot`; they come on several threads."""

    __slots__ = ("_advance", "_answers", "_lock", "_missing")

    def __init__(
        self, count: int, lock: AbstractContextManager[Any], advance: Callable[[list[Any]], None]
    ) -> None:
        self._answers: list[Any] = [None] * count
        self._missing = count
        self._lock = lock
        self._advance = advance

    def take(self, index: int, answer: Any) -> None:
        with self._lock:
            self._answers[index] = answer
            self._missing -= 1
            is_complete = not self._missing
        if is_complete:
            self._advance(self._answers)


class Slot:
    """The reply to one step."""

    __slots__ = ("_gather", "_index")

    def __init__(self, gather: Gather, index: int) -> None:
        self._gather = gather
        self._index = index

    def set(self, value: Any = None) -> None:
        self._gather.take(self._index, value)

    def set_exception(self, exception: Exception) -> None:
        self._gather.take(self._index, exception)
