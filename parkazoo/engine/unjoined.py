"""What stands in a member's place until the client joins that ensemble."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from parkazoo.engine.early import Early
from parkazoo.engine.ports import Reply, RequestPort
from parkazoo.kazoo_private import Auth
from parkazoo.protocol.lasting_watch import LastingWatch
from parkazoo.protocol.steps import WireRequest
from parkazoo.types.znodes import Watch


class Unjoined:
    """Keeps requests for a member that is to be. The first of them has the ensemble joined.

    :param refusal: see :class:`Early`.
    :param join: has the ensemble joined, if it is not; any thread may call it.
    """

    session_id = 0
    has_ephemerals = False

    def __init__(
        self,
        lock: AbstractContextManager[object],
        refusal: Callable[[], Exception | None],
        join: Callable[[], None],
    ) -> None:
        self._early: Early[WireRequest] = Early(lock, refusal)
        self._join = join

    @property
    def kept(self) -> int:
        """How many requests wait."""
        return self._early.kept

    def submit(self, request: WireRequest, reply: Reply | None) -> None:
        if request.type == Auth.type and not self._early.is_open:  # each connection begins with all credentials
            if reply is not None:
                reply.set(True)
            return
        self._early.call(request, reply)
        self._join()

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

    def pass_on(self, member: RequestPort) -> None:
        """The ensemble is joined: its member takes the kept requests, and all later ones."""
        self._early.open(member.submit)

    def fail(self) -> None:
        """With the refusal."""
        self._early.fail()

    def drop(self, error: type[Exception]) -> None:
        """Fail the kept requests: they are not to be sent any more."""
        self._early.fail(error)
