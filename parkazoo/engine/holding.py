"""How a client that holds operations of a directory about to move finds out that the move has ended.

It looks again and again, and leaves no watch: by that the ensemble of the home would matter, and its event would
wait behind the program's callbacks. A client that holds nothing does not look before the map says that the
directory has moved.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from parkazoo.engine.driver import Driver
from parkazoo.engine.ports import OnAnswer, Runtime
from parkazoo.protocol.hold import Hold
from parkazoo.protocol.moving import Moving
from parkazoo.protocol.placement import Directory
from parkazoo.protocol.where.move_end import look_at_mark

FIRST_PAUSE_S, MOST_PAUSE_S = 0.01, 0.1
# In about 3 s. Not a time: a process that is stopped meanwhile does not miss the end.
MOST_LOOKS = 33


class Holding:
    """The end of one hold. All of it is on the loop, but for what `hold` says.

    :param carry: carries over the watches of a directory, which has a new place now, and makes a call then.
    :param when_over: is called when the operations have gone on.
    :param is_stopping: whether the session is.
    """

    def __init__(
        self,
        runtime: Runtime,
        driver: Driver,
        moving: Moving,
        carry: Callable[[Moving, Directory, Callable[[], None]], None],
        when_over: Callable[[], None],
        is_stopping: Callable[[], bool],
    ) -> None:
        self.hold = Hold(moving, runtime.make_lock(), partial(runtime.call, self.find_end))
        self._runtime = runtime
        self._driver = driver
        self._carry = carry
        self._when_over = when_over
        self._is_stopping = is_stopping
        self._seen: Directory | None = None  # with the mark
        self._looks = 0  # since operations are held
        self._pause_s = FIRST_PAUSE_S
        self._is_looking = False

    def find_end(self) -> None:
        """Look until the move has ended. Whoever holds operations for long calls it off."""
        if not self._is_looking and not self.hold.is_over:
            self._is_looking = True
            self._look()

    def _look(self) -> None:
        context, is_impatient = self._driver.context, self._looks >= MOST_LOOKS
        operation = look_at_mark(context, self.hold.moving, self._seen, is_impatient)
        self._driver.run(operation, OnAnswer(self._answered))

    def _answered(self, answer: Directory | Exception | None) -> None:
        self._runtime.call(partial(self._have_looked, answer))

    def _end(self) -> None:
        self.hold.end()
        self._when_over()

    def _have_looked(self, answer: Directory | Exception | None) -> None:
        if answer is None:
            places = self._driver.context.places
            places.trust_pin()
            d = places.known(self.hold.moving.directory)
            if d.generation == self.hold.moving.name:
                self._carry(self.hold.moving, d, self._end)
            else:
                self._end()
            return
        if isinstance(answer, Exception):  # they have asked as well, so to speak
            for held in self.hold.take():
                held.fail(answer)
        else:
            self._seen = answer
        if self._is_stopping():
            return
        self._looks = self._looks + 1 if self.hold.has_any else 0
        self._runtime.call_later(self._pause_s, self._look)
        self._pause_s = min(2 * self._pause_s, MOST_PAUSE_S)
