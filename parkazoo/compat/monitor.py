"""A client's listeners and counters, as engine and wire see them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from functools import partial
from time import perf_counter
from typing import Any

from parkazoo import monitoring
from parkazoo.compat.request_words import operation_of, outcome_of
from parkazoo.compat.tally import ClientTally
from parkazoo.engine.ports import Meter, OperationMeter
from parkazoo.kazoo_private import GetChildren, GetChildren2
from parkazoo.monitoring import OTHER, Listener, OperationEnded, RequestEnded
from parkazoo.protocol.cluster_map import FIRST
from parkazoo.protocol.placement import MIRRORS, logical, split
from parkazoo.protocol.steps import Request
from parkazoo.types.handlers import Handler, Log
from parkazoo.wire.workers import CallQueue

MOST_WAITING = 10_000  # events, before the FREQUENT ones are dropped
FREQUENT = frozenset({RequestEnded, OperationEnded, monitoring.WatchFired, monitoring.AttemptFailed})
DIRECTORIES_CACHED = 4096
LISTINGS = (GetChildren.type, GetChildren2.type)
METHODS: dict[type, str] = {
    RequestEnded: "request_ended",
    OperationEnded: "operation_ended",
    monitoring.Connected: "connected",
    monitoring.ConnectionLost: "connection_lost",
    monitoring.AttemptFailed: "attempt_failed",
    monitoring.CredentialsRefused: "credentials_refused",
    monitoring.SessionExpired: "session_expired",
    monitoring.SessionRenewed: "session_renewed",
    monitoring.EnsembleWentBack: "ensemble_went_back",
    monitoring.StateChanged: "state_changed",
    monitoring.MapChanged: "map_changed",
    monitoring.WatchFired: "watch_fired",
}


class Directories:
    """Names the directory of a request by the first pattern that fits.

    :param patterns: paths in which ``*`` stands for one name.
    :param unchroot: the user's name for a path.
    """

    def __init__(self, patterns: Sequence[str], unchroot: Callable[[str], str]) -> None:
        self._patterns = [
            (pattern, re.compile(re.escape(pattern).replace(r"\*", "[^/]+"))) for pattern in patterns
        ]
        self._unchroot = unchroot
        self._cached: dict[str, str] = {}  # by the directory's physical path

    def label(self, request: Request) -> str:
        """Returns the pattern; ``other`` if none fits, and ``""`` if there is none."""
        if not self._patterns:
            return ""
        path = _path_of(request)
        if not path:
            return OTHER
        if request.type in LISTINGS:
            return self._match(logical(path))
        above = path[: path.rfind("/")]
        if above == MIRRORS:  # a mirror is in its own directory's parent
            return self._match(split(logical(path))[0])
        known = self._cached.get(above)
        if known is None:
            if len(self._cached) >= DIRECTORIES_CACHED:
                self._cached.clear()
            known = self._cached[above] = self._match(logical(above or "/"))
        return known

    def _match(self, directory: str) -> str:
        users = self._unchroot(directory)
        return next((pattern for pattern, known in self._patterns if known.fullmatch(users)), OTHER)


def _path_of(request: Any) -> str:
    """The path of a request, or of its first write."""
    operations = getattr(request, "operations", None)
    first = operations[0] if operations else request
    return str(getattr(first, "path", ""))


_hearing: ContextVar[Ear | None] = ContextVar("hearing", default=None)  # in a listener: its Ear


class Ear:
    """Has one listener hear of one client, in order, on a thread (or greenlet) of its own.

    :param handler: of the client; None of one for asyncio.
    """

    def __init__(
        self, listener: Listener, handler: Handler | None, unchroot: Callable[[str], str], logger: Log
    ) -> None:
        self._listener = listener
        self._handler = handler
        self._logger = logger
        self._queue = CallQueue(handler)
        self._directories = Directories(listener.directories, unchroot)
        self._methods = {
            kind: method for kind, name in METHODS.items() if (method := _overridden(listener, name)) is not None
        }
        self._said: set[str] = set()

    def hears(self, kind: type) -> bool:
        """Returns whether the listener has a method of its own for such events."""
        return kind in self._methods

    def tell(self, event: object) -> None:
        """Has the listener called soon, if it wants that event, and is not far behind."""
        kind = type(event)
        method = self._methods.get(kind)
        if method is not None and (kind not in FREQUENT or self._has_room()):
            self._queue.put(partial(self._call, method, event))

    def request(self, ensemble: str, request: Request, error: Exception | None, seconds: float) -> None:
        """Tells of a request."""
        operation, outcome = operation_of(request.type), outcome_of(None if error is None else type(error))
        self.tell(RequestEnded(ensemble, operation, outcome, seconds, self._directories.label(request)))

    def operation(self, request: Request, error: Exception | None, seconds: float, requests: int) -> None:
        """Tells of an operation."""
        operation, outcome = operation_of(request.type), outcome_of(None if error is None else type(error))
        self.tell(OperationEnded(operation, outcome, seconds, self._directories.label(request), requests))

    def _has_room(self) -> bool:
        if self._queue.waiting < MOST_WAITING:
            return True
        self._say_once("slow", "is too slow: some of its events are dropped until it has caught up")
        return False

    def _say_once(self, what: str, text: str) -> None:
        if what not in self._said:
            self._said.add(what)
            self._logger.warning("The listener %r %s", self._listener, text)

    def _call(self, method: Callable[[Any], object], event: object) -> None:
        token = _hearing.set(self)
        try:
            method(event)
        except BaseException:  # SystemExit too: later events must be told
            name = METHODS[type(event)]
            if name not in self._said:
                self._said.add(name)
                self._logger.exception("Error in %s of %r; it is not logged again", name, self._listener)
        finally:
            _hearing.reset(token)

    def wait(self, timeout_s: float) -> None:
        """Waits until the listener has heard of all so far; not if it waits itself."""
        if _hearing.get() is not self and self._handler is not None:
            has_heard = self._handler.event_object()
            self.when_heard(has_heard.set)
            has_heard.wait(timeout_s)

    def when_heard(self, call: Callable[[], object]) -> None:
        """Makes a call when the listener has heard of all so far."""
        self._queue.put(call)


def _overridden(listener: Listener, name: str) -> Callable[[Any], object] | None:
    """The method of that name, if it is not the empty one."""
    method: Callable[[Any], object] = getattr(listener, name)
    return None if getattr(method, "__func__", method) is getattr(Listener, name) else method


class ClientMonitor:
    """Tells a client's listeners and its tally. See :class:`parkazoo.engine.ports.Monitor`.

    :ivar tally: None if the client does not count.
    :ivar operation_meter: is told of each operation; None if no listener wants that.
    """

    def __init__(self, ears: Sequence[Ear], tally: ClientTally | None) -> None:
        self._ears = ears
        self.tally = tally
        self.now_s = perf_counter
        of_operations = [each.operation for each in ears if each.hears(OperationEnded)]
        self.operation_meter: OperationMeter | None = partial(_tell_all, of_operations) if of_operations else None

    def meter(self, ensemble: str) -> Meter | None:
        """Returns the meter of requests to an ensemble; None if nobody wants to hear of requests, nor how many an
        operation has sent.
        """
        meters: list[Meter] = [] if self.tally is None else [self.tally.meter(ensemble)]
        meters += [partial(each.request, ensemble) for each in self._ears if each.hears(RequestEnded)]
        if not meters and self.operation_meter is None:
            return None
        return meters[0] if len(meters) == 1 else partial(_tell_all, meters)

    def tell(self, event: Any) -> None:
        """Tells of an event that is no request's."""
        if getattr(event, "ensemble", "") == FIRST:
            event = event._replace(ensemble="")
        if self.tally is not None:
            self.tally.tell(event)
        for each in self._ears:
            each.tell(event)

    def wait(self, timeout_s: float) -> None:
        """Waits until each listener has heard of all so far, `timeout_s` at most for all."""
        deadline_s = self.now_s() + timeout_s
        for each in self._ears:
            each.wait(max(0.0, deadline_s - self.now_s()))

    def when_heard(self, call: Callable[[], object]) -> int:
        """Makes a call for each listener, when that has heard of all so far; returns how many there are."""
        for each in self._ears:
            each.when_heard(call)
        return len(self._ears)


def _tell_all(meters: Sequence[Callable[..., None]], *about: object) -> None:
    for each in meters:
        each(*about)


def make_monitor(
    listeners: Iterable[Listener],
    counts: bool,
    handler: Handler | None,
    unchroot: Callable[[str], str],
    logger: Log,
) -> ClientMonitor | None:
    """Makes what tells the listeners of a client, and the registered ones; None if there is nobody to tell.

    :raises TypeError: one is no Listener.
    """
    all_listeners = [*map(monitoring.verified, listeners), *monitoring.registered]
    if not all_listeners and not counts:
        return None
    ears = [Ear(each, handler, unchroot, logger) for each in all_listeners]
    return ClientMonitor(ears, ClientTally() if counts else None)
