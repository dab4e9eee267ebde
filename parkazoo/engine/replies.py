"""Replies to operations that have no turn: what they give up when the answer comes."""

from __future__ import annotations

from typing import Any, Protocol

from kazoo.exceptions import NoNodeError

from parkazoo.engine.ports import Reply
from parkazoo.protocol.context import Context
from parkazoo.protocol.grown.common import GrownContext
from parkazoo.protocol.grown.reading import is_whole, rest_of_read
from parkazoo.protocol.operations import complete_answer, is_complete
from parkazoo.protocol.order import Order
from parkazoo.protocol.placement import Directory
from parkazoo.protocol.steps import Operation, Request, Step


class Running(Protocol):
    """A driver. The order in which an operation has begun goes with it to its end."""

    def run_counted(
        self, operation: Operation[Any], d: Directory, request: Request, reply: Reply | None, order: Any
    ) -> None: ...

    def release_count(self, path: str, order: Order[Any], has_read: bool = False) -> None: ...

    def run_read(self, operation: Operation[Any], request: Request, reply: Reply, order: Any) -> None: ...

    def told(self, error: Exception, request: Request) -> Exception: ...

    def let_go(self, order: Order[Any]) -> None: ...


class CountReply:
    """The reply to an operation that counts children, or may: it gives up the claim on their number.

    :param directory: whose children; if it is native, nothing is claimed.
    """

    __slots__ = ("_directory", "_driver", "_order", "_reply", "_request")

    def __init__(
        self, driver: Running, order: Order[Any], directory: Directory, request: Request, reply: Reply | None
    ) -> None:
        self._driver = driver
        self._order = order
        self._directory = directory
        self._request = request
        self._reply = reply

    def set(self, value: Any = None) -> None:
        if self._reply is not None:
            self._reply.set(value)
        if not self._directory.is_native:
            self._driver.release_count(self._directory.path, self._order)

    def set_exception(self, exception: Exception) -> None:
        if self._reply is not None:
            self._reply.set_exception(exception)
        if not self._directory.is_native:
            self._driver.release_count(self._directory.path, self._order)


class BriefReply(CountReply):
    """The reply to an operation of one request, unless the znode has children on another ensemble."""

    __slots__ = ("_context",)

    def __init__(
        self,
        driver: Running,
        order: Order[Any],
        directory: Directory,
        request: Request,
        reply: Reply | None,
        context: Context,
    ) -> None:
        self._driver = driver  # as in super(), which would be one more call
        self._order = order
        self._directory = directory
        self._request = request
        self._reply = reply
        self._context = context

    def set(self, value: Any = None) -> None:
        d, driver, request, order = self._directory, self._driver, self._request, self._order
        if not is_complete(d, request, value):
            rest = complete_answer(self._context, request, value)
            driver.run_counted(rest, d, request, self._reply, order)
            return
        if self._reply is not None:  # as super() does, which would be one more call
            self._reply.set(value)
        if not d.is_native:
            driver.release_count(d.path, order)


class ReadReply:
    """The reply to a read where pins decide: to its one request and, if that is not enough, to the rest of it.

    :param step: that request; None if it begins with others.
    """

    __slots__ = ("_context", "_driver", "_order", "_reply", "_request", "_step")

    def __init__(
        self,
        driver: Running,
        order: Order[Any],
        request: Request,
        reply: Reply | None,
        context: GrownContext,
        step: Step | None,
    ) -> None:
        self._driver = driver
        self._order = order
        self._request = request
        self._reply = reply
        self._context = context
        self._step = step  # until it is answered

    def set(self, value: Any = None) -> None:
        if self._step is not None and not is_whole(self._request, value):
            self._go_on(self._step, value)
            return
        if self._reply is not None:
            self._reply.set(value)
        self._driver.release_count(self._request.path, self._order, True)

    def set_exception(self, exception: Exception) -> None:
        if self._step is not None and isinstance(exception, NoNodeError):
            self._go_on(self._step, exception)
            return
        if self._reply is not None:
            self._reply.set_exception(self._driver.told(exception, self._request))
        self._driver.release_count(self._request.path, self._order, True)

    def _go_on(self, step: Step, answer: Any) -> None:
        self._step = None
        rest = rest_of_read(self._context, self._request, step, answer)
        self._driver.run_read(rest, self._request, self, self._order)


class FreeReply:
    """The reply to what runs without a claim."""

    __slots__ = ("_driver", "_order", "_reply")

    def __init__(self, driver: Running, order: Order[Any], reply: Reply) -> None:
        self._driver = driver
        self._order = order
        self._reply = reply

    def set(self, value: Any = None) -> None:
        self._driver.let_go(self._order)
        self._reply.set(value)

    def set_exception(self, exception: Exception) -> None:
        self._driver.let_go(self._order)
        self._reply.set_exception(exception)
