"""Which member watch serves which user watch.

A watch on data or existence is left on the home, one on the children on the znode they live under: the member
that gets the event translates its path, and nothing else is needed. The exception is a watch on the children
of a directory that has no mirror yet. It must not write, so it waits on the home's children for the pin, then
on the mirror for its creation and its first child, and answers for all as one watch that is called once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kazoo.protocol.states import EventType, WatchedEvent


class DirectoryWatch:
    """One user watch on the children of a directory without a mirror.

    It is left in kazoo's tables in the user watch's place. Every method is called on kazoo's watch thread, one
    at a time, so there is no lock.

    :param watcher: the user's watch.
    :param look: looks again where the directory stands, and then calls :meth:`fire` if anything has changed.
    :param withdraw: takes out of the members' tables, and ends, this watch; or with True every armed watch of
        the same function on the same directory, for kazoo calls a function once for an event.
    """

    __slots__ = (
        "__weakref__",
        "_early",
        "_has_heard",
        "_look",
        "_state",
        "_withdraw",
        "home_czxid",
        "path",
        "peers",
        "watcher",
    )

    def __init__(
        self,
        watcher: Callable[[WatchedEvent], Any],
        look: Callable[[DirectoryWatch, WatchedEvent], None],
        withdraw: Callable[[DirectoryWatch, bool], None],
    ) -> None:
        self.watcher = watcher
        self.path = ""
        self.peers: Any = None  # the armed watches of this path, which live as long as one of them
        self.home_czxid = 0  # of the life of the directory that is watched
        self._look = look
        self._withdraw = withdraw
        self._state = "calling"  # calling -> armed -> ended
        self._has_heard = False  # of any event
        self._early: list[WatchedEvent] = []  # events that came before the call had succeeded

    @property
    def is_armed(self) -> bool:
        return self._state == "armed"

    def replace(self, other: DirectoryWatch) -> None:
        """Stand for another of the same function, if both are armed and that one has nothing to tell of yet.

        What comes from now on, this one hears too. So polling with a watch leaves one, as in kazoo's tables.
        """
        if self.is_armed and other.is_armed and not other._has_heard and other.watcher == self.watcher:
            other._withdraw(other, False)

    def end(self) -> None:
        self._state = "ended"

    def settle(self, has_succeeded: bool) -> None:
        """The call that left the watch has ended: a watch of a failed call is never called."""
        if not has_succeeded:
            self._withdraw(self, False)
            return
        self._state = "armed"
        for event in self._early:
            self(event)
        self._early.clear()

    def __call__(self, event: WatchedEvent) -> None:
        self._has_heard = True
        if self._state == "calling":
            self._early.append(event)
        elif event.type in (EventType.CHILD, EventType.CREATED):  # the pin, the mirror, or its first child came
            if self._state == "armed":
                self._look(self, event)
        else:
            self.fire(event)

    def fire(self, event: WatchedEvent) -> None:
        """Call the user's watch, if it has not been called."""
        if self._state == "armed":
            self._withdraw(self, True)
            self.watcher(event)
