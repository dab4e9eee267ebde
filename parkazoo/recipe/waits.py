"""How a recipe waits: until a watch is called, the session changes, the client is stopped, or the time is over."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from kazoo.protocol.states import WatchedEvent

from parkazoo.types.handlers import Event, Handler

T = TypeVar("T")


class Waits:
    """Keeps the events of one client for which a recipe waits.

    The session sets all of them at each of its changes. It does so on the loop, so no user's listener or watch,
    which may block, delays a waiter.
    """

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._events: set[Event] = set()

    def __len__(self) -> int:
        """How many wait."""
        return len(self._events)

    def wake(self) -> None:
        """Lets every waiter look again, because the session has changed or ended."""
        for event in tuple(self._events):
            event.set()

    @contextmanager
    def waking(self, event: Event) -> Iterator[None]:
        """Sets the event at each change of the session, during the block."""
        try:
            self._events.add(event)
            yield
        finally:
            self._events.discard(event)

    def pause(self, seconds: float) -> None:
        """Sleeps before the next attempt; a change of the session ends the pause."""
        event = self._handler.event_object()
        with self.waking(event):
            event.wait(seconds)


class Waiter:
    """Waits once for a recipe. It is itself the watch on every znode that it reads.

    :param timeout: seconds; None for no limit. A request under way ends first: if its ensemble is unreachable,
        that takes the session timeout.
    :ivar told: the types of the events that its watches were called with.
    :raises ForkError: a parent process started this client.
    """

    def __init__(self, client: Any, timeout: float | None = None) -> None:
        client.check_process()
        self.told: set[str] = set()
        self._client = client
        self._deadline_s = None if timeout is None else time.monotonic() + timeout
        self._event = client.handler.event_object()
        self._watched: set[str] = set()

    def __call__(self, event: WatchedEvent) -> None:
        self.told.add(event.type)
        self._event.set()

    @property
    def left_s(self) -> float | None:
        return None if self._deadline_s is None else max(0.0, self._deadline_s - time.monotonic())

    def watch(self, request: Callable[..., T], path: str) -> T:
        """Makes a request that leaves this watch, which is removed when the wait ends."""
        self._watched.add(path)
        return request(path, watch=self)

    def until(self, look: Callable[[], T]) -> T | None:
        """Calls `look` after each change until it returns a true value, and returns that; None after the timeout.

        It retries errors of `look` as ``client.retry`` does.

        :raises ConnectionClosedError: the client was stopped.
        """
        with self._client.waits.waking(self._event):
            try:
                while True:
                    self._event.clear()
                    found = self.retry(look)
                    if found:
                        return found
                    self._event.wait(self.left_s)
                    if not self._event.is_set():
                        return None
            except TimeIsOverError:
                return None
            finally:
                for path in self._watched:
                    self._client.withdraw_watch(path, self)

    def retry(self, func: Callable[..., T], *args: object) -> T:
        """Retries as ``client.retry`` does, within the timeout.

        :raises TimeIsOverError: no attempt succeeded in that time.
        """
        again = self._client.new_retry(self._pause)
        result: T = again(func, *args)
        return result

    def _pause(self, seconds: float) -> None:
        left_s = self.left_s
        self._client.waits.pause(seconds if left_s is None else min(seconds, left_s))
        if left_s is not None and not self.left_s:
            raise TimeIsOverError


class TimeIsOverError(Exception):
    """Reports that the timeout of a wait has passed and its last attempt failed."""
