"""What operations wait for that need the children of a directory about to move: until it is known where they are.

Such an operation has no place for the children: neither a memory of them nor a guess. So it reads the pin, and
there it is held. It yields no steps then, and goes on when the mark of the move is gone and the pin has been read.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

from parkazoo.protocol.moving import Moving


class HeldOperation(Protocol):
    """An operation that waits.

    :ivar order: in which it has begun. :ivar request: what it does.
    """

    order: Any
    request: object

    def go_on(self, *answers: object) -> None: ...

    def fail(self, error: Exception) -> None: ...


class Hold:
    """The operations that wait for the end of a move. Any thread may call.

    :param lock: is held while they change.
    :param on_first: is called when the first one waits.
    :ivar is_over: nobody waits any more.
    """

    def __init__(
        self, moving: Moving, lock: AbstractContextManager[object], on_first: Callable[[], None] = lambda: None
    ) -> None:
        self.moving = moving
        self.is_over = False
        self._lock = lock
        self._on_first = on_first
        self._held: list[HeldOperation] = []

    def concerns(self, directory: str) -> bool:
        """Whether nobody knows yet where the children of a directory are."""
        return not self.is_over and directory == self.moving.directory

    @property
    def has_any(self) -> bool:
        """Whether an operation waits."""
        return bool(self._held)

    def keep(self, operation: HeldOperation) -> bool:
        """Have it go on when the hold is over; False: that is so already."""
        with self._lock:
            if self.is_over:
                return False
            self._held.append(operation)
            is_first = len(self._held) == 1
        if is_first:
            self._on_first()
        return True

    def take(self, fits: Callable[[HeldOperation], bool] = lambda held: True) -> list[HeldOperation]:
        """Operations that are not kept any more."""
        with self._lock:
            taken = [each for each in self._held if fits(each)]
            self._held = [each for each in self._held if not fits(each)]
        return taken

    def end(self, error: Exception | None = None) -> None:
        """The pin has been read: all go on. Or they end with an error, and later ones are not kept."""
        with self._lock:
            self.is_over = True
        for each in self.take():
            if error is None:
                each.go_on()
            else:
                each.fail(error)
