"""Which member watch serves which user watch.

A watch on data or existence is left on the home, a watch on the children on the znode that they live under. The
member that gets the event translates its path; nothing else is needed. The exception is a watch on the children of
a directory that has no mirror yet. Setting it must not write. So it waits on the home's children for the pin, then
on the mirror for its creation and its first child. For the user it is one watch that is called once.

Where pins decide, a watch on what is not there is such an exception too: it waits for all that proves its absence.
"""

from __future__ import annotations

from collections.abc import Callable
from weakref import WeakSet

from kazoo.protocol.states import EventType, WatchedEvent

from parkazoo.protocol.outlasting import outlasts
from parkazoo.protocol.placement import Place
from parkazoo.types.znodes import Watch


class DirectoryWatch:
    """One user watch on the children of a directory without a mirror, or on what is not there.

    It is left in kazoo's tables in the user watch's place. Every method is called on the loop, so there is no
    lock, and nothing waits for a callback of the user's.

    :param key: the path and what is watched of it, as :mod:`parkazoo.protocol.order` names them.
    :param watcher: the user's watch.
    :param told: the user's name for the path, as it stands in events.
    :ivar places: where it has been left. :ivar home: where the znode is, if it was found; then its events alone
        are the user's.
    :param look: looks at the directory again, and then calls :meth:`fire` if anything has changed.
    :param withdraw: removes this watch from the members' tables, and ends it; or with True every armed watch of
        the same function on the same directory, because kazoo calls a function once for an event.
    :param deliver: has the user's watch called with an event.
    """

    __slots__ = (
        "__weakref__",
        "_deliver",
        "_early",
        "_has_heard",
        "_look",
        "_state",
        "_withdraw",
        "home",
        "home_cversion",
        "home_czxid",
        "key",
        "peers",
        "places",
        "seen_at",
        "told",
        "watcher",
    )

    def __init__(
        self,
        key: str,
        watcher: Watch,
        look: Callable[[DirectoryWatch, WatchedEvent], None],
        withdraw: Callable[[DirectoryWatch, bool], None],
        told: str,
        deliver: Callable[[Watch, WatchedEvent], None],
    ) -> None:
        self.watcher = watcher
        self.key = key
        self.told = told
        self.home: Place | None = None
        self.places: set[Place] = set()
        self.peers: WeakSet[DirectoryWatch] | None = (
            None  # the armed watches of this key, which live as long as one of them
        )
        self.home_cversion = 0
        self.home_czxid = 0  # of the life of the directory that is watched
        self.seen_at: Place | None = None  # its home then
        self._look = look
        self._withdraw = withdraw
        self._deliver = deliver
        self._state = "calling"  # calling -> armed -> ended
        self._has_heard = False  # of any event
        self._early: list[WatchedEvent] = []  # events that came before the call had succeeded

    @property
    def path(self) -> str:
        """The watched znode; the key of its children ends in a slash."""
        return self.key.rstrip("/") or "/"

    def take_elsewhere(self) -> set[Place]:
        """Where it is of no use any more, because the znode was found; it counts as withdrawn there."""
        elsewhere = self.places - {self.home} if self.home is not None else set()
        self.places -= elsewhere
        return elsewhere

    @property
    def outlasts_connection(self) -> bool:
        """Whether the user's watch does: then what it is left on is compared on the next one."""
        return outlasts(self.watcher)

    @property
    def is_of_children(self) -> bool:
        return len(self.key) > len(self.path)

    @property
    def is_armed(self) -> bool:
        return self._state == "armed"

    @property
    def has_ended(self) -> bool:
        return self._state == "ended"

    def replace(self, other: DirectoryWatch) -> None:
        """Replace another watch of the same function, if both are armed and that one has no event yet.

        This one hears of everything from now on. So polling with a watch leaves one, as in kazoo's tables.
        """
        if self.is_armed and other.is_armed and not other._has_heard and other.watcher == self.watcher:
            other.leave()

    def leave(self) -> None:
        """Withdraw it uncalled."""
        self._withdraw(self, False)

    def end(self) -> None:
        self._state = "ended"

    def settle(self, has_succeeded: bool) -> None:
        """The call that left the watch has ended: a watch of a failed call is never called."""
        if not has_succeeded:
            self.leave()
        if self.has_ended:
            return
        self._state = "armed"
        for event in self._early:
            self(event)
        self._early.clear()

    def __call__(self, event: WatchedEvent) -> None:
        self._has_heard = True
        if self._state == "calling":
            self._early.append(event)
        elif self.home is not None:
            if self._is_own(event):
                self.fire(event)
        elif self._is_to_look(event):
            if self._state == "armed":
                self._look(self, event)
        else:
            self.fire(event)

    def _is_own(self, event: WatchedEvent) -> bool:
        """Not about what was looked at before the znode was found: what is above it, or where it is not."""
        if event.type == EventType.NONE:
            return True
        return event.type in (EventType.CHANGED, EventType.DELETED) and bool(event.path == self.told)

    def _is_to_look(self, event: WatchedEvent) -> bool:
        if self.is_of_children:  # the pin, the mirror, or its first child came
            return event.type in (EventType.CHILD, EventType.CREATED)
        # Else what proved the absence has changed. Where it is looked for, the znode is made if that is its place.
        return event.type != EventType.NONE and not (event.type == EventType.CREATED and self._names_it(event))

    def _names_it(self, event: WatchedEvent) -> bool:
        """Whether the event has the path of the znode, and no znode above it has that name below the chroot."""
        return bool(event.path == self.told) and not self.path.startswith(self.told + "/")

    def fire(self, event: WatchedEvent) -> None:
        """Have the user's watch called, if it has not been called."""
        if self.disarm():
            self._deliver(self.watcher, event)

    def disarm(self) -> bool:
        """Withdraw it, because an event has come. False if there is nothing to withdraw, nor to call."""
        is_armed = self.is_armed
        if is_armed:
            self._withdraw(self, True)
        return is_armed
