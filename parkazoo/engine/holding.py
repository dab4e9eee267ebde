"""How a client that holds operations of a directory about to move finds out that the move has ended.

It looks again and again, and leaves no watch: by that the ensemble of the home would matter, and its event would
wait behind the program's callbacks. A client that holds nothing does not look before the map says that the
directory has moved; but now and then if it has watches there, for the command may have died before it said so.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kazoo.exceptions import NotReadOnlyCallError

from parkazoo.engine.driver import Driver
from parkazoo.engine.ports import OnAnswer, Runtime
from parkazoo.protocol.hold import Hold
from parkazoo.protocol.moving import Moving
from parkazoo.protocol.placement import PINNED, Directory
from parkazoo.protocol.where.lookup import READS
from parkazoo.protocol.where.move_end import look_at_mark

FIRST_PAUSE_S, MOST_PAUSE_S = 0.01, 0.1
# In about 3 s. Not a time: a process that is stopped meanwhile does not miss the end.
MOST_LOOKS = 33


class Holding:
    """The end of one hold. All of it is on the loop, but for what `hold` says.

    :param carry: carries over the watches of the directory, which has a new place now, and calls :meth:`end` then.
    :param when_over: is called when the operations have gone on.
    :param is_stopping: whether the session is.
    :ivar found: the directory, as it was seen last; None: it was not seen, or was not there.
    """

    def __init__(
        self,
        runtime: Runtime,
        driver: Driver,
        moving: Moving,
        carry: Callable[[Holding, Directory], None],
        when_over: Callable[[], None],
        is_stopping: Callable[[], bool],
    ) -> None:
        self.hold = Hold(moving, runtime.make_lock(), partial(runtime.call, self.find_end))
        self._runtime = runtime
        self._driver = driver
        self._carry = carry
        self._when_over = when_over
        self._is_stopping = is_stopping
        self.found: Directory | None = None
        self._places = driver.context.places  # when it has looked last
        self._since = 0  # their count then
        self._looks = 0  # since operations are held
        self._pause_s = FIRST_PAUSE_S
        self._is_looking = self._is_wanted = False

    def find_end(self) -> None:
        """Look until the move has ended. Whoever holds operations for long calls it off."""
        self._is_wanted = True
        self.look()

    def look(self) -> None:
        """Look once whether the move has ended."""
        if not self._is_looking and not self.hold.is_over:
            self._is_looking = True
            self._look()

    def _look(self) -> None:
        context, is_impatient = self._driver.context, self._looks >= MOST_LOOKS
        self._places, self._since = context.places, context.places.count
        operation = look_at_mark(context, self.hold.moving, self.found, is_impatient)
        self._driver.run(operation, OnAnswer(self._answered))

    def _answered(self, answer: tuple[bool, Directory | None] | Exception) -> None:
        self._runtime.call(partial(self._have_looked, answer))

    @property
    def has_moved(self) -> bool:
        """Whether the children are in the new place."""
        return self.found is not None and self.found.generation == self.hold.moving.name

    def end(self) -> None:
        """The place of the children is remembered again. Until now no operation has used it."""
        if not self.hold.is_over:
            places = self._driver.context.places
            places.trust_pin()
            if self.found is not None and self.found.certainty >= PINNED and places is self._places:
                places.remember(self.found, self._since)
            self.hold.end()
            self._when_over()

    def end_without_look(self) -> None:
        """The mark is gone, as the map says; each operation reads the pin."""
        self.found = None
        self._driver.context.places.trust_pin()
        self._driver.context.past.distrust()
        self.hold.end()

    def _have_looked(self, answer: tuple[bool, Directory | None] | Exception) -> None:
        if self._is_stopping() or self.hold.is_over:
            return
        if isinstance(answer, Exception):  # they have asked as well, so to speak
            is_cut_off = isinstance(answer, NotReadOnlyCallError)
            if is_cut_off:
                self.found = None  # the next look is to tell at once
            for held in self.hold.take():
                if is_cut_off and isinstance(held.request, READS):  # such a server serves what it has
                    held.go_on(answer)
                else:
                    held.fail(answer)
        else:
            has_ended, self.found = answer
            if has_ended:
                if self.found is not None and self.has_moved:
                    self._carry(self, self.found)
                else:
                    self.end()
                return
        if not self._is_wanted:
            self._is_looking = False
            return
        self._looks = self._looks + 1 if self.hold.has_any else 0
        self._runtime.call_later(self._pause_s, self._look)
        self._pause_s = min(2 * self._pause_s, MOST_PAUSE_S)
