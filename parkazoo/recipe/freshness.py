"""A server that shows every earlier write, on one ensemble: a sync needs the children's ensemble too."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from kazoo.exceptions import BadVersionError, NoAuthError, NoNodeError

from parkazoo.protocol.steps import IMPOSSIBLE


def catch_up(client: Any, path: str) -> None:
    """Makes the client see every earlier write to a znode, by a write that cannot succeed.

    :raises ConnectionLoss: the client may still see an older state.
    """
    with suppress(BadVersionError, NoAuthError, NoNodeError):
        client.delete(path, IMPOSSIBLE)
