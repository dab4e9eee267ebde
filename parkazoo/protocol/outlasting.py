"""Watches that outlast the connection on which they were left. Pure.

kazoo's watches end with that: each is called with the event NONE, and its program reads again. A watch of a recipe
that wants to hear of changes alone is marked. While the session lives it stays in its member's table, and the next
connection has the server keep it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T", bound=Callable[..., Any])


def outlasting(watch: T) -> T:
    """Marks a method, or a class whose objects are watches: a decorator."""
    watch.outlasts_connection = True  # type: ignore[attr-defined]
    return watch


def outlasts(watch: object) -> bool:
    """Whether a watch is marked. A program's may have any attributes."""
    return getattr(watch, "outlasts_connection", None) is True
