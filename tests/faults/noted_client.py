"""A client that tells its states at the moment at which they change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from parkazoo import ParKazooClient


class NotedClient(ParKazooClient):
    """Listeners hear of a state later, and may be slow.

    :param note: is called on the loop with the client and its KazooState.
    """

    _note: Callable[[Any, str], None] | None = None

    def __init__(self, *args: Any, note: Callable[[Any, str], None], **options: Any) -> None:
        super().__init__(*args, **options)
        self._note = note

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "state" and self._note is not None:
            self._note(self, value)
