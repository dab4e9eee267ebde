"""How a client's watches on the children of a directory follow them, when they have moved.

What happened in the old place has fired there: it is told before the server answers a write. Then each watch is
left again in the new place, and told at once if something has happened there before. Who has seen neither sees
nothing: the copy was as the original when it was sealed, and what is newer has a higher zxid than the seal.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import Any

from kazoo.exceptions import NoAuthError, NoNodeError
from kazoo.protocol.states import EventType, WatchedEvent

from parkazoo.engine.driver import Driver
from parkazoo.engine.ports import OnAnswer, RequestPort, Runtime
from parkazoo.engine.rewatching import AT_ONCE
from parkazoo.kazoo_private import Exists, GetChildren2
from parkazoo.protocol.outlasting import outlasts
from parkazoo.protocol.past import CATCH_UP, REFUSED
from parkazoo.protocol.placement import OURS, Directory, Place, logical
from parkazoo.protocol.steps import ExistsForWatch, WireRequest
from parkazoo.protocol.watches import DirectoryWatch
from parkazoo.types.znodes import Watch


def moving_watches(port: RequestPort, old: str, is_native: bool) -> list[tuple[bool, str, Watch]]:
    """Those where the children of a directory are, or have been, that have not fired.

    :param old: the path of the mirror, or of the home if the directory is native.
    :returns: whether each is on children, where it is, and which.
    """
    of_data, of_children = port.data_watches(), port.child_watches()
    both = [*((False, *each) for each in of_data), *((True, *each) for each in of_children)]
    return [each for each in both if _moves(*each[:2], old, is_native)]


def lose_outlasting(
    runtime: Runtime, port: RequestPort, watches: Sequence[tuple[bool, str, Watch]], state: str
) -> None:
    """Tell NONE to the watches that outlast a connection: on the next one, nothing could be told of them any more.

    :param watches: as :func:`moving_watches` returns them. :param state: the client's KeeperState.
    """
    event = WatchedEvent(EventType.NONE, state, None)
    for is_of_children, path, watch in watches:
        if outlasts(watch) and port.forget_watch(path, watch, is_of_children):
            runtime.deliver(watch, event)


def _moves(is_of_children: bool, path: str, old: str, is_native: bool) -> bool:
    if is_native:
        below = path.startswith(old + "/") and path.removeprefix(old + "/").split("/", 1)[0] not in OURS
        return below or (is_of_children and path == old)
    return path == old or path.startswith(old + "/")


class Carrying:
    """Carries over the watches of one directory. All of it is on the loop.

    :param ports: indexed as in the placement. :param client_state: gives the client's KeeperState.
    :param d: the directory as it is now. :param old: the place of before; its home if it was native.
    :param when_over: is called when each is left again, or told.
    """

    def __init__(
        self,
        runtime: Runtime,
        driver: Driver,
        ports: Sequence[RequestPort],
        client_state: Callable[[], str],
        d: Directory,
        old: Place,
        when_over: Callable[[], None],
    ) -> None:
        self._runtime = runtime
        self._driver = driver
        self._client_state = client_state
        self._d = d
        self._old, self._new = old, d.mirror
        self._from, self._to = ports[old.ensemble], ports[d.mirror.ensemble]
        self._when_over = when_over
        self._rest: deque[tuple[bool, str, Watch]] = deque()  # on children?, where it was, which
        self._stand_ins: dict[DirectoryWatch, None] = {}  # for what is not there; they look again
        self._under_way = 0
        self._seal = 0
        if not driver.context.is_connected(old.ensemble):
            self._lose_outlasting()
        if self._left():
            self._ask(self._from, CATCH_UP, self._have_heard)
        else:
            when_over()

    def _ask(self, port: RequestPort, request: WireRequest, then: Callable[[Any], None]) -> None:
        """Make a call on the loop with the answer, which may be an exception."""
        port.submit(request, OnAnswer(lambda answer: self._runtime.call(partial(then, answer))))

    def _left(self) -> list[tuple[bool, str, Watch]]:
        """The watches that have not fired."""
        return moving_watches(self._from, self._old.path, self._old == self._d.home)

    def _have_heard(self, answer: object) -> None:
        """If the connection was lost in place of an answer, all that was left there is told NONE."""
        if not isinstance(answer, REFUSED):
            self._lose_outlasting()
        self._rest += self._left()
        self._to.submit(CATCH_UP, None)  # it may be behind, and not show the copy
        self._ask(self._to, ExistsForWatch(self._new.path, None), self._have_seal)

    def _lose_outlasting(self) -> None:
        lose_outlasting(self._runtime, self._from, self._left(), self._client_state())

    def _have_seal(self, answer: Any) -> None:
        if answer is None or isinstance(answer, Exception):
            while (taken := self._take_one()) is not None:
                self._tell(*taken, answer)
        else:
            self._seal = answer.mzxid
        self._go_on()

    def _take_one(self) -> tuple[bool, str, Watch] | None:
        """The next one, which is in no table any more. Until then it may be withdrawn, or told NONE."""
        while self._rest:
            is_of_children, path, watch = first = self._rest.popleft()
            if self._from.forget_watch(path, watch, is_of_children):
                if isinstance(watch, DirectoryWatch):
                    watch.places.discard(Place(self._old.ensemble, path))
                    if watch.home is None and watch.path != self._d.path:
                        self._stand_ins[watch] = None
                        continue
                return first
        return None

    def _go_on(self) -> None:
        while self._under_way < AT_ONCE and (taken := self._take_one()) is not None:
            self._under_way += 1
            self._leave(*taken)
        if not self._under_way:
            self._when_over()
            self._look_again()

    def _look_again(self) -> None:
        """Some at a time: others' turn comes in between."""
        for watch in [*islice(self._stand_ins, AT_ONCE)]:
            del self._stand_ins[watch]
            if watch.is_armed:
                watch(WatchedEvent(EventType.CHILD, self._client_state(), watch.told))
        if self._stand_ins:
            self._runtime.call(self._look_again)

    def _leave(self, is_of_children: bool, path: str, watch: Watch) -> None:
        new = self._new.path + path[len(self._old.path) :]
        if isinstance(watch, DirectoryWatch):
            watch.places.add(Place(self._new.ensemble, new))
            watch.home = watch.home and Place(self._new.ensemble, new)
        request = GetChildren2(new, watch) if is_of_children else Exists(new, watch)
        self._to.submit(request, OnAnswer(partial(self._take_answer, is_of_children, new, watch)))

    def _take_answer(self, is_of_children: bool, path: str, watch: Watch, answer: Any) -> None:
        """The answer is judged before an event is read that comes right behind it: that is of a later change."""
        judge = partial(self._judge, is_of_children, path, watch, answer)
        if isinstance(answer, Exception):  # no watch is left; any thread may have made it
            self._runtime.call(judge)
        else:
            judge()
        self._runtime.call(self._have_left)

    def _judge(self, is_of_children: bool, path: str, watch: Watch, answer: Any) -> None:
        stat = answer[1] if is_of_children and not isinstance(answer, Exception) else answer
        if stat is None or isinstance(stat, Exception):
            is_same = False
        else:
            newest = stat.pzxid if is_of_children else stat.mzxid
            is_same = max(newest, stat.czxid) <= self._seal or (path == self._new.path and newest <= self._seal)
        if not is_same:
            is_left = self._to.forget_watch(path, watch, is_of_children)
            if is_left or isinstance(answer, Exception):  # else it was withdrawn
                self._tell(is_of_children, path, watch, stat)

    def _tell(self, is_of_children: bool, path: str, watch: Watch, stat: Any) -> None:
        """:param stat: of the znode, which has changed; None: it has gone; or why it is not known."""
        self._driver.hear(self._new.ensemble)
        kind = EventType.CHILD if is_of_children else EventType.CHANGED
        if stat is None or isinstance(stat, NoNodeError) or getattr(stat, "czxid", 0) > self._seal:
            kind = EventType.DELETED
        elif isinstance(stat, Exception) and not isinstance(stat, NoAuthError):
            kind = EventType.NONE
        told = None if kind == EventType.NONE else self._driver.unchroot(logical(path))
        event = WatchedEvent(kind, self._client_state(), told)
        if isinstance(watch, DirectoryWatch):
            watch.fire(event)
        else:
            self._runtime.deliver(watch, event)

    def _have_left(self) -> None:
        self._under_way -= 1
        self._go_on()
