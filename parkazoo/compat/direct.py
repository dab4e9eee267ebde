"""kazoo's methods of several steps, without a detour over the thread that calls completion callbacks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError


class Direct:
    """The client as it appears to those of kazoo's methods that look at the answers before the user does.

    They do so in completion callbacks. The handler calls these on one thread, so a completion
    callback of the user's that waits for a `create` would wait for itself. Here the answer's thread calls them.
    """

    create_async = KazooClient.create_async
    exists_async = KazooClient.exists_async
    sync_async = KazooClient.sync_async
    _create_async_inner = KazooClient._create_async_inner

    def __init__(self, client: KazooClient) -> None:
        self._client = client
        self.handler = self

    def ensure_path_async(self, path: str, acl: Any = None) -> Result:
        """As kazoo's; but if `path` is missing, it asks for all above at once, and makes them without waiting."""
        answer = Result()

        def look_above() -> None:
            if seen.get():
                answer.set(True)
            else:
                above = [(each, self.exists_async(each)) for each in parents_of(path)]
                answer.after([result for _, result in above], lambda: make(above))

        def make(above: list[tuple[str, Result]]) -> None:
            missing: list[str] = []
            # up to the first that is there: the client may have no right to read those above that
            for each, result in reversed(above):
                if result.get():
                    break
                missing.insert(0, each)
            made = [self.create_async(each, acl=acl or self.default_acl) for each in (*missing, path)]
            answer.after(made, lambda: end(made))

        def end(made: list[Result]) -> None:
            last: Any = True
            for result in made:
                last = True
                with suppress(NodeExistsError):
                    last = result.get()
            answer.set(last)

        seen = self.exists_async(path)
        answer.after([seen], look_above)
        return answer

    def async_result(self) -> Result:
        return Result()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


def parents_of(path: str) -> list[str]:
    """All above a path, from the top."""
    parents = []
    while path.strip("/"):
        path = path.rstrip("/").rpartition("/")[0]
        parents.append(path or "/")
    return parents[::-1]


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

    def after(self, results: list[Result], call: Callable[[], None]) -> None:
        """Make a call once all the others are there; this result gets what it raises."""
        missing = iter(range(len(results), -1, -1))  # next() is atomic

        def is_there(_: Result | None = None) -> None:
            if not next(missing):
                try:
                    call()
                except Exception as error:
                    self.set_exception(error)

        for result in results:
            result.rawlink(is_there)
        is_there()  # if there were none, or all were there

    def pass_on(self, reply: Any) -> None:
        """Give this result to `reply`, now or when it comes."""
        self.rawlink(
            lambda result: (
                reply.set(result.value) if result.exception is None else reply.set_exception(result.exception)
            )
        )
