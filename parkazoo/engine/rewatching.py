"""Watches that a client left while its map was plain, as it goes on to a form in which pins decide.

On a plain map a znode that is not there could come at one place alone, so the user's own watch waits there. Where
pins decide it may come elsewhere.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from parkazoo.engine.driver import Driver
from parkazoo.engine.ports import OnAnswer, RequestPort
from parkazoo.kazoo_private import Exists
from parkazoo.protocol.ops.watched import stand_in
from parkazoo.protocol.outlasting import outlasts
from parkazoo.protocol.placement import CERTAIN, logical, split
from parkazoo.protocol.watches import DirectoryWatch
from parkazoo.types.znodes import Watch

AT_ONCE = 32  # others' requests wait behind so many at most


class Rewatching:
    """Replaces such watches, as long as their znodes are missing. A lost connection's watches are called.

    :param driver: works by pins. :param ports: which may have such watches.
    :param call: :meth:`Runtime.call`. :param lose: has a watch called with NONE.
    :param when_over: is called on the loop.
    """

    def __init__(
        self,
        driver: Driver,
        ports: Sequence[RequestPort],
        call: Callable[[Callable[[], None]], None],
        lose: Callable[[Watch], None],
        when_over: Callable[[], None],
    ) -> None:
        self._driver = driver
        self._call = call
        self._lose = lose
        self._when_over = when_over
        self._rest: deque[tuple[RequestPort, str, Watch]] = deque()
        self._under_way = 1
        for port in ports:
            self._under_way += 1
            # Behind the answers to all requests that may have left a watch.
            port.submit(Exists("/", None), OnAnswer(partial(self._soon, partial(self._take_in, port))))
        self._have_done()

    def _soon(self, take: Callable[[object], None], answer: object) -> None:
        self._call(partial(take, answer))

    def _take_in(self, port: RequestPort, answer: object) -> None:
        for path, watcher in port.data_watches():
            if not isinstance(watcher, DirectoryWatch) and not self._is_certain(split(logical(path))[0]):
                if isinstance(answer, Exception):
                    self._give_up(port, path, watcher)
                else:
                    self._rest.append((port, path, watcher))
        while self._rest and self._under_way <= AT_ONCE:
            self._begin_one()
        self._have_done()

    def _is_certain(self, path: str) -> bool:
        return self._driver.context.known(path).certainty == CERTAIN

    def _begin_one(self) -> None:
        port, path, watcher = self._rest.popleft()
        take = partial(port.forget_watch, path, watcher)
        self._under_way += 1
        operation = stand_in(self._driver.context, logical(path), watcher, take)
        have_tried = partial(self._have_tried, port, path, watcher)
        self._driver.run(operation, OnAnswer(partial(self._soon, have_tried)))

    def _have_tried(self, port: RequestPort, path: str, watcher: Watch, answer: object) -> None:
        if isinstance(answer, Exception):
            self._give_up(port, path, watcher)
        self._have_done()

    def _give_up(self, port: RequestPort, path: str, watcher: Watch) -> None:
        """A connection was lost, and this watch has outlasted it: it would not hear what comes elsewhere."""
        if outlasts(watcher) and port.forget_watch(path, watcher, False):
            self._lose(watcher)

    def _have_done(self) -> None:
        if self._rest:
            self._begin_one()
        self._under_way -= 1
        if not self._under_way:
            self._when_over()
