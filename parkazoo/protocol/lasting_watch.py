"""A watch that stays until it is removed: on a znode, or on a whole subtree."""

from __future__ import annotations

from collections.abc import Callable

from kazoo.protocol.states import EventType, WatchedEvent

from parkazoo.protocol.placement import Place, is_reserved
from parkazoo.types import AddWatchMode
from parkazoo.types.znodes import Watch


class LastingWatch:
    """Stands in members' tables for a function of the user's. Every method is called on the loop.

    :param home: where the znode is. :param mirror: where its children are; only their events come from there, if
        it is another place.
    :param deliver: has the function called with an event.
    """

    def __init__(
        self,
        watcher: Watch,
        mode: AddWatchMode,
        home: Place,
        mirror: Place,
        deliver: Callable[[Watch, WatchedEvent], None],
    ) -> None:
        self.watcher = watcher
        self.mode = mode
        self.places = {home, mirror} if mode is AddWatchMode.PERSISTENT else {home}
        self._home = home
        self._mirror = mirror
        self._deliver = deliver
        self._has_ended = False

    def hear(self, path: str, event: WatchedEvent) -> None:
        """:param path: the physical one of the event: below the home, a pin counts as a child."""
        if self.mode is AddWatchMode.PERSISTENT_RECURSIVE:
            is_own = not is_reserved(path)
        else:
            is_own = path == (self._mirror if event.type == EventType.CHILD else self._home).path
        if is_own:
            self.tell(event)

    def tell(self, event: WatchedEvent) -> None:
        self._deliver(self.watcher, event)

    def end(self, event: WatchedEvent) -> None:
        """Tell of its end, once, though it is kept at two places."""
        if not self._has_ended:
            self._has_ended = True
            self.tell(event)
