"""The client of one program's session."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from kazoo.protocol.states import WatchedEvent

from parkazoo.aio import ParKazooClient
from parkazoo.aio.asyncio_runtime import AsyncioRuntime
from parkazoo.engine.ports import BodyReply, OnAnswer, Reply
from parkazoo.kazoo_private import Auth
from parkazoo.protocol.states import CLOSED_ERRORS
from parkazoo.protocol.steps import Request
from parkazoo.protocol.watches import DirectoryWatch
from parkazoo.types.znodes import Watch

log = logging.getLogger(__name__)


class PromptRuntime(AsyncioRuntime):
    """Calls watches at once, so in the order of the answers that come on the same connection."""

    def deliver(self, watch: Watch, event: WatchedEvent) -> None:
        try:
            watch(event)
        except Exception:
            log.exception("Unhandled exception in a watch")


class UpstreamClient(ParKazooClient):
    """Tells of each change at once, and takes requests with replies of any kind.

    :ivar on_change: is called with the KeeperState, perhaps the same as before, when an ensemble has changed.
    """

    runtime_type = PromptRuntime
    on_change: Callable[[str], None] = staticmethod(lambda state: None)

    def session_changed(self, state: str, ensemble: str) -> None:
        super().session_changed(state, ensemble)
        self.on_change(state)

    def ask(self, request: Request, reply: Reply) -> None:
        """Issue a request with its whole path. `reply` gets the result or the error, perhaps at once."""
        self._call(request, reply)

    def ask_placed(self, kind: int, path: str, rest: bytes, reply: BodyReply) -> bool:
        """Issue a get, exists or set without a watch as bytes, if it may be sent at once. See
        :meth:`parkazoo.engine.driver.Driver.call_placed`.

        :returns: False: nothing was done; :meth:`ask` does it.
        """
        session = self._session
        if session is None or self._own_operations is not None or self.client_state in CLOSED_ERRORS:
            return False
        return session.call_placed(kind, path, rest, reply)

    def asked(self, request: Request) -> asyncio.Future[Any]:
        """Issue a request with its whole path, and return its answer."""
        return self._ask(request)

    def authenticate(self, scheme: str, credential: str) -> None:
        """Send credentials to every ensemble, now and on each new connection, without waiting."""
        self.auth_data.add((scheme, credential))
        self.ask(Auth(0, scheme, credential), OnAnswer(lambda answer: None))

    def holds(self, watch: Watch) -> bool:
        """Whether a watch that comes once waits for its event."""
        members = () if self._session is None else self._session.roster.members
        left = (pair[1] for each in members for pair in (*each.data_watches(), *each.child_watches()))
        return any((each.watcher if isinstance(each, DirectoryWatch) else each) is watch for each in left)

    @property
    def connections(self) -> dict[str, bool]:
        """Of each ensemble that it has joined, whether that is connected."""
        members = () if self._session is None else self._session.roster.members
        return {each.name: each.is_connected for each in members}

    @property
    def has_all(self) -> bool:
        """Whether all ensembles that it has joined are connected."""
        return all(self.connections.values())

    @property
    def zxid(self) -> int:
        """The highest that an ensemble has answered to it."""
        highest = 0
        if self._session is not None:
            for each in self._session.roster.members:  # each answer asks
                if each.last_zxid > highest:
                    highest = each.last_zxid
        return highest
