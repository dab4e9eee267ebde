"""The rounds of a double barrier: its znode ``ready`` names the members of one. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

READY = "ready"


class Ready(NamedTuple):
    """The znode ``ready``.

    :param names: the members of the round; none if kazoo has made it, or if this client may not read it.
    """

    names: frozenset[str]
    version: int


def read_ready(data: bytes | None, version: int) -> Ready:
    return Ready(frozenset((data or b"").decode("utf-8", "replace").split("/")) - {""}, version)


def joined(members: Iterable[str]) -> bytes:
    """Returns the data that names them."""
    return "/".join(sorted(members)).encode()
