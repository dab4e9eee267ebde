"""The reply to a get or set that has no turn."""

from __future__ import annotations

from typing import Any, Protocol

from kazoo.exceptions import NoNodeError

from parkazoo.engine.ports import AbandonedError, Reply, is_abandoned
from parkazoo.protocol.context import Context
from parkazoo.protocol.ops.brief import Brief, First, is_whole, rest_of
from parkazoo.protocol.order import Order
from parkazoo.protocol.placement import CERTAIN
from parkazoo.protocol.steps import Operation


class Running(Protocol):
    """A driver. The order in which an operation has begun goes with it to its end."""

    def run_brief(
        self, operation: Operation[object], request: object, reply: Reply, order: Order[Any], mode: int
    ) -> None: ...

    def release_node(self, path: str, order: Order[Any], mode: int) -> None: ...

    def told(self, error: Exception, request: object) -> Exception: ...


class ReadReply:
    """Replies to the first request of a get or set and, if that is not enough, to the rest of it.

    It does not wrap a reply alone, but is the operation: it takes the place of a generator and of its turn.
    """

    __slots__ = ("_context", "_driver", "_first", "_has_begun", "_is_first", "_order", "_reply", "_request")

    def __init__(
        self,
        driver: Running,
        order: Order[Any],
        context: Context,
        request: Brief,
        reply: Reply | None,
        first: First,
    ) -> None:
        self._driver = driver
        self._order = order
        self._context = context
        self._request = request
        self._reply = reply
        self._first = first
        self._is_first = first[1] is not None  # it was sent, and is not answered
        self._has_begun = False  # the rest has

    @property
    def asker(self) -> Reply | None:
        """The reply to the operation."""
        return self._reply

    @property
    def is_abandoned(self) -> bool:
        """See :func:`is_abandoned`."""
        return not self._has_begun and is_abandoned(self._reply)

    def set(self, value: Any = None) -> None:
        d, _, mode, guess, since = self._first
        if self._is_first:
            context = self._context
            if context.away:
                context.away.discard(d.home.ensemble)
            if guess is not None and value is not None:
                context.places.remember_found(guess, since)
            if not is_whole(d, self._request, value):
                self._go_on(value)
                return
        if self._reply is not None:
            self._reply.set(value)
        if mode:
            self._driver.release_node(d.path, self._order, mode)

    def set_exception(self, exception: Exception) -> None:
        d, _, mode, _, _ = self._first
        if self._is_first and not isinstance(exception, AbandonedError):
            self._context.answered(d.home.ensemble, exception)
            if isinstance(exception, NoNodeError) and d.certainty < CERTAIN:
                self._go_on(exception)
                return
        if self._reply is not None:
            self._reply.set_exception(self._driver.told(exception, self._request))
        if mode:
            self._driver.release_node(d.path, self._order, mode)

    def _go_on(self, answer: Any) -> None:
        self._is_first, self._has_begun = False, True
        (d, _, mode, _, _), request = self._first, self._request
        self._driver.run_brief(rest_of(self._context, request, d, answer), request, self, self._order, mode)
