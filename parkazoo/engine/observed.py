"""In front of the ports and of the driver, while somebody listens or counts: each request and operation is told.

If nobody does, neither is there, and nothing is paid.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from parkazoo.engine.ports import Meter, OperationMeter, Reply, RequestPort, is_abandoned, note_kept
from parkazoo.kazoo_private import Auth, Transaction
from parkazoo.protocol.lasting_watch import LastingWatch
from parkazoo.protocol.once import Once
from parkazoo.protocol.steps import Request, WireRequest, failure
from parkazoo.types.znodes import Watch

AUTH, TRANSACTION, ONCE = Auth.type, Transaction.type, Once.type


class ObservedPort:
    """Passes requests on to the port of one ensemble, and tells of each when its answer comes.

    A request that nobody will ever answer, as in a child process, is not told. Credentials are no requests.

    :param ports: of all ensembles; the one at `index` may be replaced by another.
    :param meter: is told, on the thread that brings the answer, before the answer goes on. It must not raise.
    :param now_s: the seconds of a clock.
    :param has_operations: whether each :class:`ObservedOperation` counts its requests.
    """

    __slots__ = ("_has_operations", "_index", "_ports", "meter", "now_s")

    def __init__(
        self,
        ports: Sequence[RequestPort],
        index: int,
        meter: Meter,
        now_s: Callable[[], float],
        *,
        has_operations: bool,
    ) -> None:
        self._ports = ports
        self._index = index
        self.meter = meter
        self.now_s = now_s
        self._has_operations = has_operations

    @property
    def session_id(self) -> int:
        return self._ports[self._index].session_id

    def submit(self, request: WireRequest, reply: Reply | None) -> None:
        if request.type == AUTH:
            self._ports[self._index].submit(request, reply)
            return
        if self._has_operations and (operation := _operation_of(reply)) is not None:
            operation.requests += 1
        self._ports[self._index].submit(request, _ObservedRequest(self, request, reply))

    def forget_watch(self, path: str, watch: Watch | LastingWatch, of_children: bool | None = None) -> bool:
        return self._ports[self._index].forget_watch(path, watch, of_children)

    def watches_on(self, path: str) -> list[Watch | LastingWatch]:
        return self._ports[self._index].watches_on(path)

    def data_watches(self) -> list[tuple[str, Watch]]:
        return self._ports[self._index].data_watches()

    def child_watches(self) -> list[tuple[str, Watch]]:
        return self._ports[self._index].child_watches()


class _ObservedRequest:
    """The reply to a request: tells of it, and hands the answer on, whatever happens."""

    __slots__ = ("_began_s", "_port", "_reply", "_request")

    def __init__(self, port: ObservedPort, request: WireRequest, reply: Reply | None) -> None:
        self._port = port
        self._request = request
        self._reply = reply
        self._began_s = port.now_s()

    @property
    def is_abandoned(self) -> bool:
        """See :func:`is_abandoned`."""
        return is_abandoned(self._reply)

    def note_kept(self) -> None:
        """See :func:`note_kept`."""
        note_kept(self._reply)

    def set(self, value: object = None) -> None:
        request, port = self._request, self._port
        try:
            error = _failure(value) if request.type == TRANSACTION else None
            port.meter(request, error, port.now_s() - self._began_s)
        finally:
            if self._reply is not None:
                self._reply.set(value)

    def set_exception(self, exception: Exception) -> None:
        port = self._port
        try:
            port.meter(self._request, exception, port.now_s() - self._began_s)
        finally:
            if self._reply is not None:
                self._reply.set_exception(exception)


class ObservedOperations:
    """Passes operations on, and tells of each when it has ended. Credentials are no operations.

    :param pass_on: issues an operation.
    :param meter: as for :class:`ObservedPort`; it is told how many requests the operation has sent, too.
    """

    def __init__(
        self, pass_on: Callable[[Request, Reply | None], None], meter: OperationMeter, now_s: Callable[[], float]
    ) -> None:
        self._pass_on = pass_on
        self.meter = meter
        self.now_s = now_s

    def call(self, request: Request, reply: Reply | None) -> None:
        """Any thread may call."""
        if request.type == AUTH:
            self._pass_on(request, reply)
        else:
            self._pass_on(request, ObservedOperation(self, request, reply))


class ObservedOperation:
    """The reply to an operation: tells of it, and hands the answer on, whatever happens.

    :ivar requests: how many it has sent so far.
    """

    __slots__ = ("_began_s", "_operations", "_reply", "_request", "requests")

    def __init__(self, operations: ObservedOperations, request: Request, reply: Reply | None) -> None:
        self._operations = operations
        self._request = request
        self._reply = reply
        self.requests = 0
        self._began_s = operations.now_s()

    @property
    def is_abandoned(self) -> bool:
        """See :func:`is_abandoned`."""
        return is_abandoned(self._reply)

    def set(self, value: object = None) -> None:
        try:
            self._tell(_failure(value) if self._request.type in (TRANSACTION, ONCE) else None)
        finally:
            if self._reply is not None:
                self._reply.set(value)

    def set_exception(self, exception: Exception) -> None:
        try:
            self._tell(exception)
        finally:
            if self._reply is not None:
                self._reply.set_exception(exception)

    def _tell(self, error: Exception | None) -> None:
        operations = self._operations
        operations.meter(self._request, error, operations.now_s() - self._began_s, self.requests)


def _failure(value: object) -> Exception | None:
    """The error of a transaction that was answered, if it has failed."""
    return failure(value)[1] if isinstance(value, list) else None


def _operation_of(reply: object) -> ObservedOperation | None:
    """The operation for which a request is sent; None if it is the client's own."""
    while reply is not None and not isinstance(reply, ObservedOperation):
        reply = getattr(reply, "asker", None)
    return reply
