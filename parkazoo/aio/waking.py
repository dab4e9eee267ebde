"""Tasks that wait may have a loop that is closed by now. Nothing can wake these, and that is no error."""

from __future__ import annotations

import asyncio
from contextlib import suppress


def set_event(event: asyncio.Event) -> None:
    """Wakes the tasks that wait for it."""
    with suppress(RuntimeError):  # "Event loop is closed"
        event.set()


def settle(change: asyncio.Future[None]) -> None:
    """Wakes its task, if nothing has done so before."""
    if not (change.done() or change.get_loop().is_closed()):
        change.set_result(None)
