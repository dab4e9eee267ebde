"""Makes the reads of a subtree, for each kind of client. Nothing here waits."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from kazoo.exceptions import ConnectionClosedError, ConnectionLoss, OperationTimeoutError, SessionExpiredError
from kazoo.protocol.states import KazooState, WatchedEvent

from parkazoo.engine.ports import OnAnswer
from parkazoo.protocol import asking
from parkazoo.protocol.steps import Request
from parkazoo.recipe.subtree import DATA, NAMES, Change, Found, Subtree, TreeRead, TreeZnode

FIRST_PAUSE_S, MOST_PAUSE_S = 0.1, 2.0
LOST = ConnectionLoss, OperationTimeoutError, SessionExpiredError


class TreeReads:
    """Keeps a subtree up to date, from :meth:`begin` to :meth:`end`, over lost connections and sessions.

    A lock guards the subtree; nobody is called while it is held.

    :param client: of either kind. :param call_later: the client's.
    :param forget: forgets a watch on a path, also one that an answer brings just now.
    :param ends_with_client: it ends when the client stops; else it goes on when that starts again.
    :param tell: called without the lock, after anything has changed.
    :ivar is_active: it has begun, and not ended.
    :ivar failure: why it reads no more.
    """

    def __init__(
        self,
        client: Any,
        path: str,
        call_later: Callable[[float, Callable[[], None]], object],
        forget: Callable[[str, Any], None],
        tell: Callable[[], None],
        ends_with_client: bool,
    ) -> None:
        asking.check_path(path)
        self.path = asking.unchrooted(client.chroot, asking.prefixed(client.chroot, path))
        self.subtree = Subtree(self.path, self._told)
        self.failure: Exception | None = None
        self._client = client
        self._call_later = call_later
        self._forget = forget
        self._tell = tell
        self._ends_with_client = ends_with_client
        self._lock = threading.Lock()
        self.is_active = False
        self._is_paused = False
        self._pause_s = FIRST_PAUSE_S
        self._issuing: set[int] = set()  # the threads that issue reads

    def begin(self) -> None:
        self.is_active = True
        self._client.add_listener(self._listen)
        self._go_on()

    def end(self) -> None:
        """Forgets all watches, also those of reads that are under way."""
        with self._lock:
            self.is_active = False
            left = [(znode.path, znode) for znode in self.subtree.znodes()]
        self._client.remove_listener(self._listen)
        for path, watch in left:
            self._forget(path, watch)

    def snapshot(self) -> tuple[int, dict[str, Found]] | None:
        """The number of changes, and the state; None until it is whole.

        :raises: why the first znode cannot be read.
        """
        with self._lock:
            if self.failure is not None:
                raise self.failure
            return (self.subtree.count, dict(self.subtree.found)) if self.subtree.is_whole else None

    def is_newer(self, count: int) -> bool:
        """Whether the whole state has changed since it had so many changes."""
        return self.subtree.is_whole and self.subtree.count != count

    def take_changes(self) -> list[Change]:
        with self._lock:
            changes, self.subtree.changes = self.subtree.changes, []
            return changes

    def read_all(self) -> None:
        with self._lock:
            self.subtree.read_all()
        self._go_on()

    def _listen(self, state: str) -> None:
        if state == KazooState.CONNECTED:
            self._ask_again()

    def _told(self, znode: TreeZnode, event: WatchedEvent) -> None:
        with self._lock:
            self.subtree.told(znode, event.type)
        self._go_on()

    def _go_on(self) -> None:
        thread = threading.get_ident()
        if thread in self._issuing:  # a client that is closed answers at once, while one issues
            return
        self._issuing.add(thread)
        try:
            self._issue()
        finally:
            self._issuing.discard(thread)
        if self.is_active:
            self._tell()

    def _issue(self) -> None:
        """Makes the reads that are due."""
        while True:
            with self._lock:
                left, self.subtree.left = self.subtree.left, []
                is_active = self.is_active and self.failure is None
                read = self.subtree.next() if is_active else None
            for path, watch in left:
                self._forget(path, watch)
            if read is None:
                break
            self._client._call(self._request(read), OnAnswer(partial(self._answered, read)))

    def _request(self, read: TreeRead) -> Request:
        asked = self._client.chroot, read.znode.path, read.znode
        if read.kind == DATA:
            return asking.get_data(*asked)
        return asking.get_children(*asked, False) if read.kind == NAMES else asking.exists(*asked)

    def _answered(self, read: TreeRead, answer: Any) -> None:
        pause_s = 0.0
        is_closed = isinstance(answer, ConnectionClosedError)  # which is a SessionExpiredError
        with self._lock:
            if not self.is_active:
                if not isinstance(answer, Exception):
                    self.subtree.left.append((read.znode.path, read.znode))
            elif is_closed and self._ends_with_client:
                self.failure = answer
            elif isinstance(answer, LOST):
                self.subtree.lose(read)
                if not self._is_paused and not is_closed:
                    self._is_paused = True
                    pause_s, self._pause_s = self._pause_s, min(2 * self._pause_s, MOST_PAUSE_S)
            else:
                self._pause_s = FIRST_PAUSE_S
                self.subtree.take(read, answer)
                self.failure = self.subtree.failure
        if pause_s:
            self._call_later(pause_s, self._ask_again)
        self._go_on()

    def _ask_again(self) -> None:
        with self._lock:
            self._is_paused = False
            self.subtree.ask_again()
        self._go_on()
