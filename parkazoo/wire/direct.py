"""kazoo's methods of several steps, without a detour over the thread that calls completion callbacks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from kazoo.client import KazooClient


class Direct:
    """A client as kazoo's methods see it that look at the answers before the user does.

    They do it in completion callbacks. The handler calls these on one thread, so a completion
    callback of the user's that waits for a `create` would wait for itself. Here the answer's thread calls them.
    """

    create_async = KazooClient.create_async
    ensure_path_async = KazooClient.ensure_path_async
    exists_async = KazooClient.exists_async
    sync_async = KazooClient.sync_async
    _create_async_inner = KazooClient._create_async_inner

    def __init__(self, client: KazooClient) -> None:
        self._client = client
        self.handler = self

    def async_result(self) -> Result:
        return Result()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


class Result:
    """An async result that calls its one callback at once, and cannot be waited for."""

    def __init__(self) -> None:
        self.value: Any = None
        self.exception: Exception | None = None
        self._is_ready = False
        self._callback: Callable[[Result], None] | None = None
        self._lock = threading.Lock()

    def set(self, value: Any = None) -> None:
        self._end(value, None)

    def set_exception(self, exception: Exception) -> None:
        self._end(None, exception)

    def _end(self, value: Any, exception: Exception | None) -> None:
        with self._lock:
            self.value, self.exception = value, exception
            self._is_ready = True
            callback = self._callback
        if callback is not None:
            callback(self)

    def rawlink(self, callback: Callable[[Result], None]) -> None:
        with self._lock:
            self._callback = callback
            is_ready = self._is_ready
        if is_ready:
            callback(self)

    def get(self) -> Any:
        if self.exception is not None:
            raise self.exception
        return self.value

    def pass_on(self, reply: Any) -> None:
        """Give this result to `reply`, now or when it comes."""
        self.rawlink(
            lambda result: (
                reply.set(result.value) if result.exception is None else reply.set_exception(result.exception)
            )
        )
