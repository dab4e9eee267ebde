"""A server that shows what was written before, on one ensemble alone: a sync needs that of the children, too."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from kazoo.exceptions import BadVersionError, NoAuthError, NoNodeError

from parkazoo.protocol.steps import IMPOSSIBLE


def catch_up(client: Any, path: str) -> None:
    """Has the client see of a znode what anybody has written to it, by a write that cannot succeed.

    :raises ConnectionLoss: nobody knows what the client will see.
    """
    with suppress(BadVersionError, NoAuthError, NoNodeError):
        client.delete(path, IMPOSSIBLE)
