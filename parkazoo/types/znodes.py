"""What servers answer, and what brings the answers; see znodes.pyi."""

from collections.abc import Callable
from typing import Generic, TypeVar

from kazoo.protocol.states import WatchedEvent, ZnodeStat
from kazoo.security import ACL, Id

_T = TypeVar("_T")

ACLs = list[ACL] | tuple[ACL, ...]
Watch = Callable[[WatchedEvent], object]


class AsyncResult(Generic[_T]):
    """What the ``..._async`` methods return, for annotations: the objects are the handler's own."""


__all__ = ["ACL", "ACLs", "AsyncResult", "Id", "Watch", "WatchedEvent", "ZnodeStat"]
