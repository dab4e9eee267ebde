"""kazoo's DataWatch and ChildrenWatch, which read at an event without blocking other watches."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Generic, TypeVar

from kazoo.exceptions import ConnectionClosedError, NoNodeError
from kazoo.protocol.states import Callback, EventType, KazooState, WatchedEvent
from kazoo.recipe.watchers import ChildrenWatch as KazooChildrenWatch
from kazoo.recipe.watchers import DataWatch as KazooDataWatch
from kazoo.retry import KazooRetry

from parkazoo.engine.ports import OnAnswer
from parkazoo.kazoo_private import Exists, GetChildren, GetData, prefix_root
from parkazoo.protocol.outlasting import outlasting
from parkazoo.protocol.steps import DataAnswer
from parkazoo.types.znodes import Watch, ZnodeStat

log = logging.getLogger(__name__)

FIRST_PAUSE_S, MOST_PAUSE_S = 0.1, 2.0
RETRIED = KazooRetry().retry_exceptions  # by client.retry, with which kazoo's watchers read
FoundT = TypeVar("FoundT")
Data = tuple[bytes | None, ZnodeStat | None]
Names = tuple[list[str], bool]
ASKING, WAITING, DUE, CALLING = "asking", "waiting", "due", "calling"


class WatcherTurn:
    """Reads once for a watcher, then calls the user's function with the result.

    :param event: the event that made it read; None: the client has connected.
    :ivar stage: ASKING, WAITING to ask again, the call is DUE, or CALLING.
    """

    __slots__ = ("event", "found", "pause_s", "stage")

    def __init__(self, event: WatchedEvent | None) -> None:
        self.event = event
        self.found: Any = None
        self.pause_s = FIRST_PAUSE_S
        self.stage = ASKING


class Turns(Generic[FoundT]):
    """Runs the turns of one watcher, one at a time.

    The user's function runs where all watches of the user run. Everything else returns at once, wherever it is
    called.

    :param ask: reads, and sets a watch; calls its argument with the result, or with an exception.
    :param call: calls the user's function with an event and a result.
    :param leave: ends the watcher.
    :ivar is_watching: the last read has set a watch. If that is called, another read follows.
    """

    is_watching = False

    def __init__(
        self,
        client: Any,
        ask: Callable[[Callable[[FoundT | Exception], None]], None],
        call: Callable[[WatchedEvent | None, FoundT], None],
        leave: Callable[[], None],
    ) -> None:
        self._client = client
        self._ask = ask
        self._call = call
        self._leave = leave
        self._lock = threading.Lock()
        self._events: deque[WatchedEvent | None] = deque()
        self._first = WatcherTurn(None)
        self._first.stage = CALLING
        self._turn: WatcherTurn | None = self._first
        self.are_over = False  # nothing begins any more

    def make_first(self, event: WatchedEvent | None, read: Callable[[], FoundT | None]) -> None:
        """Runs the constructor's turn. If the client closes, it ends; any other error of the read is raised.

        :param read: waits; sets a watch.
        """
        turn = self._first
        try:
            if not self.are_over:
                turn.found = read()
                self.is_watching = True
            if self.are_over:
                self._leave()
            else:
                self._call(event, turn.found)
        except ConnectionClosedError:
            pass
        except BaseException:
            if turn.found is None:
                self._leave()
            raise
        finally:
            self._end(turn)

    def end_all(self) -> None:
        """Begins no more turns."""
        with self._lock:
            self.are_over = True
            self._events.clear()

    def take(self, event: WatchedEvent | None) -> None:
        """Queues a turn for an event; None: for one more read, which counts for all turns that have not begun."""
        with self._lock:
            if self.are_over or (event is None and None in self._events):
                return
            self._events.append(event)
            if self._turn is not None:
                return
            turn = self._next()
        if turn is not None:
            self._begin(turn)

    def connected(self) -> None:
        """Ends the pause of a waiting turn, or reads again if no watch is set. If a stop lost the call of a turn,
        makes it now.
        """
        turn = self._turn
        if turn is None or not (self._ask_again(turn) or turn.stage == ASKING):
            if turn is not None and turn.stage == DUE:
                self._dispatch(turn)
            if not self.is_watching:
                self.take(None)

    def _next(self) -> WatcherTurn | None:
        """Returns the next turn, if there is one. The caller holds the lock."""
        self._turn = WatcherTurn(self._events.popleft()) if self._events else None
        return self._turn

    def _begin(self, turn: WatcherTurn) -> None:
        if self.are_over:
            self._end(turn)
        else:
            self._ask(partial(self._answered, turn))

    def _answered(self, turn: WatcherTurn, found: FoundT | Exception) -> None:
        self.is_watching = not isinstance(found, Exception)
        if self.are_over:  # the read has set a watch after the watcher left
            self._leave()
            self._end(turn)
        elif isinstance(found, RETRIED):
            pause_s, turn.pause_s = turn.pause_s, min(2 * turn.pause_s, MOST_PAUSE_S)
            turn.stage = WAITING
            self._client.call_later(pause_s, partial(self._ask_again, turn))
        elif isinstance(found, Exception):
            if not isinstance(found, ConnectionClosedError):
                log.error("A watcher cannot read: %r", found)
            self._end(turn)
        else:
            turn.found, turn.stage = found, DUE
            self._dispatch(turn)

    def _ask_again(self, turn: WatcherTurn) -> bool:
        """Asks again if the turn waits for that; returns whether it did."""
        with self._lock:
            if turn is not self._turn or turn.stage != WAITING:
                return False
            turn.stage = ASKING
        self._begin(turn)
        return True

    def _dispatch(self, turn: WatcherTurn) -> None:
        self._client.handler.dispatch_callback(Callback("watch", self._make_call, (turn,)))

    def _make_call(self, turn: WatcherTurn) -> None:
        with self._lock:
            if turn is not self._turn or turn.stage != DUE:
                return
            turn.stage = CALLING
        try:
            if not self.are_over:
                self._call(turn.event, turn.found)
        finally:
            self._end(turn)

    def _end(self, turn: WatcherTurn) -> None:
        with self._lock:
            if turn is not self._turn:
                return
            following = self._next()
        if following is not None:
            self._begin(following)


class Stoppable:
    """Ends a watcher. kazoo has no stop() for one, so programs set `_stopped`: no call begins after that."""

    _client: Any
    _path: str
    _session_watcher: Callable[[str], None]
    _turns: Turns[Any]
    _watcher: Watch

    @property
    def _watch(self) -> Watch:
        """The function that is called with events."""
        return self._watcher

    @property
    def _stopped(self) -> bool:
        return self._turns.are_over

    @_stopped.setter
    def _stopped(self, is_stopped: bool) -> None:
        if is_stopped:
            self._leave()

    def _leave(self) -> None:
        self._turns.end_all()
        self._client.remove_listener(self._session_watcher)
        self._client.withdraw_watch(self._path, self._watch)


class DataWatch(Stoppable, KazooDataWatch):
    """Replaces kazoo's DataWatch: same constructor, same arguments of its function.

    At an event it reads without waiting, so no other watch of the client waits for an unreachable ensemble. It
    ends when its function returns False, or when the constructor cannot read; then it leaves no listener and no
    watch.
    """

    _func: Any
    _version: tuple[int, int] | None

    def __init__(self, client: Any, path: str, func: Any = None, *args: object, **kwargs: object) -> None:
        self._turns = Turns(client, self._ask, self._call, self._leave)
        super().__init__(client, path, func, *args, **kwargs)

    def _get_data(self, event: WatchedEvent | None = None) -> None:
        """Overrides kazoo's: the first time alone, in the thread of the caller."""
        self._turns.make_first(event, self._read_now)

    def _read_now(self) -> Data:
        retry = KazooRetry(max_tries=None, sleep_func=self._client.handler.sleep_func)
        with suppress(NoNodeError):
            found: Data = retry(self._client.get, self._path, self._watcher)
            return found
        stat = retry(self._client.exists, self._path, self._watcher)
        return (None, None) if stat is None else self._read_now()  # it has just come

    def _ask(self, take: Callable[[Data | Exception], None]) -> None:
        path = prefix_root(self._client.chroot, self._path)
        self._client._call(GetData(path, self._watcher), OnAnswer(partial(self._got, path, take)))

    def _got(self, path: str, take: Callable[[Data | Exception], None], answer: DataAnswer) -> None:
        if isinstance(answer, NoNodeError):
            self._client._call(Exists(path, self._watcher), OnAnswer(partial(self._looked, take)))
        else:
            take(answer)

    def _looked(self, take: Callable[[Data | Exception], None], answer: ZnodeStat | Exception | None) -> None:
        if answer is None or isinstance(answer, Exception):
            take(answer or (None, None))
        else:  # it has just come
            self._ask(take)

    def _call(self, event: WatchedEvent | None, found: Data) -> None:
        data, stat = found
        # Where its directory has moved since, it may have the mzxid of before by chance.
        version, self._version = self._version, None if stat is None else (stat.mzxid, stat.version)
        if version == self._version and self._ever_called:
            return
        self._log_func_exception(data, stat, event)

    @outlasting
    def _watcher(self, event: WatchedEvent) -> None:
        self._turns.take(event)

    def _session_watcher(self, state: str) -> None:
        if state == KazooState.LOST:  # an event may have got lost with a stop
            self._turns.is_watching = False
        elif state == KazooState.CONNECTED:
            self._turns.connected()


class ChildrenWatch(Stoppable, KazooChildrenWatch):
    """Replaces kazoo's ChildrenWatch, as :class:`DataWatch` does. It also ends if the directory does not exist."""

    _allow_session_lost: bool
    _func: Any
    _prior_children: list[str] | None
    _watch_established: bool

    def __init__(
        self, client: Any, path: str, func: Any = None, allow_session_lost: bool = True, send_event: bool = False
    ) -> None:
        self._turns = Turns(client, self._ask, self._call, self._leave)
        super().__init__(client, path, func, allow_session_lost, send_event)

    def _get_children(self, event: WatchedEvent | None = None) -> None:
        """Overrides kazoo's: the first time alone, in the thread of the caller."""
        self._turns.make_first(event, self._read_now)

    def _read_now(self) -> Names | None:
        try:
            children = self._client.retry(self._client.get_children, self._path, self._watch)
        except NoNodeError:
            self._leave()
            return None
        return children, self._establish()

    def _ask(self, take: Callable[[Names | Exception], None]) -> None:
        path = prefix_root(self._client.chroot, self._path)
        self._client._call(GetChildren(path, self._watch), OnAnswer(partial(self._got, take)))

    def _got(self, take: Callable[[Names | Exception], None], answer: list[str] | Exception) -> None:
        if isinstance(answer, NoNodeError):
            self._leave()
        take(answer if isinstance(answer, Exception) else (answer, self._establish()))

    def _establish(self) -> bool:
        """Notes that the watch is set; returns whether it was not. Then the function is called only for other
        children.
        """
        was_established, self._watch_established = self._watch_established, True
        return not was_established

    def _call(self, event: WatchedEvent | None, found: Names) -> None:
        children, is_anew = found
        if is_anew and self._prior_children is not None and self._prior_children == children:
            return
        self._prior_children = children
        try:
            result = self._func(children, event) if self._send_event else self._func(children)
        except Exception as error:
            log.exception(error)
            raise
        if result is False:
            self._func = None
            self._leave()

    @property
    def _watch(self) -> Watch:
        return self._watcher if self._allow_session_lost else self._watcher_of_connection

    def _watcher_of_connection(self, event: WatchedEvent) -> None:
        """As kazoo's: after a lost connection it hears of nothing more."""
        self._watcher(event)

    @outlasting
    def _watcher(self, event: WatchedEvent) -> None:
        if event.type != EventType.NONE:
            self._turns.take(event)
        elif self._allow_session_lost:  # perhaps it is another ensemble that is away
            self._watch_established = False
            self._turns.take(None)

    def _session_watcher(self, state: str) -> None:
        if state in (KazooState.LOST, KazooState.SUSPENDED):
            self._watch_established = False
            self._turns.is_watching &= state == KazooState.SUSPENDED  # an event may have got lost with a stop
        elif state == KazooState.CONNECTED and not self._watch_established:
            self._turns.connected()
