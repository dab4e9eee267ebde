"""What stands in a member's place when its ensemble has left the map, and is empty for ever."""

from __future__ import annotations

from kazoo.exceptions import NoNodeError

from parkazoo.engine.ports import Reply
from parkazoo.kazoo_private import Auth, Exists, Sync, Transaction
from parkazoo.protocol.lasting_watch import LastingWatch
from parkazoo.protocol.newer_requests import GetEphemerals
from parkazoo.protocol.ops.multi import failed
from parkazoo.protocol.steps import WireRequest
from parkazoo.types.znodes import Watch


class Gone:
    """Answers each request at once, as an ensemble without a znode would.

    A client may still come here by a pin of an earlier life, which a server that lags has shown; it looks again.
    """

    session_id = 0
    has_ephemerals = False

    def submit(self, request: WireRequest, reply: Reply | None) -> None:
        if reply is None:
            return
        if isinstance(request, Exists):
            reply.set(None)
        elif isinstance(request, GetEphemerals):
            reply.set([])
        elif isinstance(request, Sync):
            reply.set(request.path)
        elif isinstance(request, Transaction):
            reply.set(failed(request.operations, 0, NoNodeError()))
        elif request.type == Auth.type:
            reply.set(True)
        else:
            reply.set_exception(NoNodeError())

    def forget_watch(self, path: str, watch: Watch | LastingWatch, of_children: bool | None = None) -> bool:
        """There is none."""
        return False

    def watches_on(self, path: str) -> list[Watch | LastingWatch]:
        """There is none."""
        return []

    def data_watches(self) -> list[tuple[str, Watch]]:
        """There is none."""
        return []

    child_watches = data_watches
