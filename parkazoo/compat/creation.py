"""Calls that take several requests: a create with all missing levels above it; and paths without the chroot.

kazoo looks at such answers in completion callbacks. The handler calls these on one thread, so a completion
callback of the user's that waits for a `create` would wait for itself. Here the answer's thread calls them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any
from weakref import WeakSet

from kazoo.exceptions import NoAuthError, NodeExistsError, NoNodeError

from parkazoo.engine.ports import Reply, is_abandoned
from parkazoo.kazoo_private import Create
from parkazoo.protocol.asking import checked_acl
from parkazoo.protocol.ops.creates import Creation as AnyCreate
from parkazoo.protocol.placement import above, split
from parkazoo.protocol.presence import Presence


class Creation:
    """Runs a create, and replies to its request: `reply` gets the path, or path and stat, without the chroot.

    It does not wrap a reply alone, but is the operation: it issues the request, perhaps again.

    :param makes_above: create all missing levels above it first; otherwise a missing parent is an error.
    """

    __slots__ = ("_client", "_makes_above", "_reply", "_request")

    def __init__(self, client: Any, request: AnyCreate, reply: Reply, *, makes_above: bool = False) -> None:
        self._client = client
        self._request = request
        self._makes_above = makes_above
        self._reply = reply

    @property
    def is_abandoned(self) -> bool:
        """See :func:`parkazoo.engine.ports.is_abandoned`. Levels above it may have been made."""
        return is_abandoned(self._reply)

    def begin(self) -> None:
        try:
            self._client._call(self._request, self)
        except Exception as error:
            self._reply.set_exception(error)

    def set(self, value: Any = None) -> None:
        try:
            if isinstance(value, tuple):
                path, stat = value
                answer = self._client.unchroot(path), stat
            else:
                answer = self._client.unchroot(value)
        except Exception as error:  # a subclass's
            self._reply.set_exception(error)
        else:
            self._reply.set(answer)

    def set_exception(self, exception: Exception) -> None:
        if self._makes_above and isinstance(exception, NoNodeError):
            ensure_path(self._client, split(self._request.path)[0], self._request.acl, self).rawlink(self._go_on)
        else:
            self._reply.set_exception(exception)

    def _go_on(self, above: StepResult) -> None:
        if above.exception is None:
            self.begin()
        else:
            self._reply.set_exception(above.exception)


def ensure_path(client: Any, path: str, acl: Any, asker: Reply | None = None) -> StepResult:
    """Creates a path, as kazoo's; but if it is missing, asks for all levels at once and creates them without
    waiting.

    It asks for levels above the chroot only if the chroot is missing. It does not wait for an ensemble whose
    answer it does not need: of a home whose mirror exists, or of levels above the lowest that exists.

    :param path: with the chroot. :param asker: the reply that needs the result: they are abandoned together.
    :returns: a result that gets the path if it was created, True if it existed.
    """
    answer = StepResult(asker)
    root = client.chroot if len(path) >= len(client.chroot) else ""

    unseen: list[tuple[str, StepResult]] = []
    missing = [path]

    def exists(each: str) -> StepResult:
        found = StepResult(asker)
        client._call(Presence(each, None), found)
        return found

    def create(each: str) -> StepResult:
        made = StepResult(asker)
        Creation(client, Create(each, b"", checked_acl(acl or client.default_acl), 0), made).begin()
        return made

    def look_above() -> None:
        if seen.get():
            answer.set(True)
        else:
            unseen.extend([(each, exists(each)) for each in [*above(path)][::-1] if len(each) >= len(root)])
            look_up()

    def look_up() -> None:
        """Looks for the lowest level that exists; the client may have no right to read those above."""
        while unseen:
            each, found = unseen[-1]
            if not found.is_ready:
                answer.after([found], look_up)
                return
            unseen.pop()
            if found.get():
                break
            missing.insert(0, each)
        if missing[0] == root:
            higher = ensure_path(client, split(root)[0], acl, asker)
            answer.after([higher], lambda: make(higher))
        else:
            make()

    def make(higher: StepResult | None = None) -> None:
        refused = None
        if higher is not None:
            try:
                higher.get()
            except NoAuthError as error:  # it may be there: kazoo does not look above the chroot
                refused = error
        made = [create(each) for each in missing]
        answer.after(made, lambda: end(made, refused))

    def end(made: list[StepResult], refused: Exception | None) -> None:
        last: Any = True
        for result in made:
            last = True
            try:
                last = result.get()
            except NodeExistsError:
                pass
            except NoNodeError as error:
                raise refused or error from None
        answer.set(last)

    seen = exists(path)
    answer.after([seen], look_above)
    return answer


class Unfinished:
    """The calls of several requests that have not ended. `stop` waits for them, as for a request."""

    def __init__(self) -> None:
        self._replies: WeakSet[_UnfinishedReply] = WeakSet()  # weak: an interrupted call may get no answer

    def has_any(self) -> bool:
        return bool(self._replies)

    def reply(self, reply: Reply) -> Reply:
        """Returns a reply that passes on the answer to such a call."""
        unfinished = _UnfinishedReply(self._replies, reply)
        self._replies.add(unfinished)
        return unfinished


class _UnfinishedReply:
    __slots__ = ("__weakref__", "_all", "_reply")

    def __init__(self, all_of_them: WeakSet[_UnfinishedReply], reply: Reply) -> None:
        self._all = all_of_them
        self._reply = reply

    @property
    def is_abandoned(self) -> bool:
        """See :func:`parkazoo.engine.ports.is_abandoned`."""
        return is_abandoned(self._reply)

    def set(self, value: Any = None) -> None:
        self._reply.set(value)
        self._all.discard(self)

    def set_exception(self, exception: Exception) -> None:
        self._reply.set_exception(exception)
        self._all.discard(self)


class StepResult:
    """Calls one callback at once when the answer arrives. Nobody can wait for it."""

    def __init__(self, asker: Reply | None = None) -> None:
        self._asker = asker
        self.value: Any = None
        self.exception: Exception | None = None
        self.is_ready = False
        self._callback: Callable[[StepResult], None] | None = None
        self._lock = threading.Lock()

    @property
    def is_abandoned(self) -> bool:
        """See :func:`parkazoo.engine.ports.is_abandoned`."""
        return is_abandoned(self._asker)

    def set(self, value: Any = None) -> None:
        self._end(value, None)

    def set_exception(self, exception: Exception) -> None:
        self._end(None, exception)

    def _end(self, value: Any, exception: Exception | None) -> None:
        with self._lock:
            self.value, self.exception = value, exception
            self.is_ready = True
            callback = self._callback
        if callback is not None:
            callback(self)

    def rawlink(self, callback: Callable[[StepResult], None]) -> None:
        with self._lock:
            self._callback = callback
            is_ready = self.is_ready
        if is_ready:
            callback(self)

    def get(self) -> Any:
        if self.exception is not None:
            raise self.exception
        return self.value

    def after(self, results: list[StepResult], call: Callable[[], None]) -> None:
        """Makes a call when all the other results have arrived; this result gets its exception."""
        missing = iter(range(len(results), -1, -1))  # next() is atomic

        def is_there(_: StepResult | None = None) -> None:
            if not next(missing):
                try:
                    call()
                except Exception as error:
                    self.set_exception(error)

        for result in results:
            result.rawlink(is_there)
        is_there()  # if there were none, or all were there

    def pass_on(self, reply: Any) -> None:
        """Gives this result to `reply`, now or when it arrives."""
        self.rawlink(
            lambda result: (
                reply.set(result.value) if result.exception is None else reply.set_exception(result.exception)
            )
        )
