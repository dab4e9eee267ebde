"""The watches of one client on the children of directories that have no mirror, and on missing znodes.

Each stands in the members' tables in place of the user's watch. This module has what they share: which function
watches which directory, and how a watch leaves the tables.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from weakref import WeakSet, WeakValueDictionary

from kazoo.protocol.states import EventType, KeeperState, WatchedEvent

from parkazoo.engine.driver import Driver
from parkazoo.engine.ports import OnAnswer, Reply, RequestPort
from parkazoo.protocol.lasting_watch import LastingWatch
from parkazoo.protocol.newer_requests import AddWatch, RemoveWatches
from parkazoo.protocol.order import children, node
from parkazoo.protocol.outlasting import outlasts
from parkazoo.protocol.placement import Place, logical
from parkazoo.protocol.server_list import CONFIG
from parkazoo.protocol.watches import DirectoryWatch
from parkazoo.types.znodes import Watch


class Watching:
    """Makes the watches, arms them, looks at their directories again, and withdraws them.

    Private methods run on the loop, so there is no lock.

    :param members: indexed as in the placement.
    :param call: makes a call on the loop.
    :param deliver: :meth:`Runtime.deliver`.
    :param client_state: gives the client's KeeperState.
    """

    driver: Driver  # runs the operations that look again; set before the first watch

    def __init__(
        self,
        members: Sequence[RequestPort],
        call: Callable[[Callable[[], None]], None],
        deliver: Callable[[Watch, WatchedEvent], None],
        client_state: Callable[[], str],
    ) -> None:
        self._members = members
        self._call = call
        self._deliver = deliver
        self._client_state = client_state
        # By key, also watches that are just looking again and so are in no table. Each watch holds its key's set.
        self._armed: WeakValueDictionary[str, WeakSet[DirectoryWatch]] = WeakValueDictionary()
        self._unsettled: WeakSet[DirectoryWatch] = WeakSet()

    def __len__(self) -> int:
        """How many znodes are watched."""
        return len(self._armed)

    def watch(self, key: str, watcher: Watch) -> DirectoryWatch:
        """Stand in for a user's watch, until :meth:`settle` without an effect."""
        told = self.driver.unchroot(key.rstrip("/") or "/")
        watch = DirectoryWatch(key, watcher, self._look_again, self._withdraw, told, self._deliver)
        self._unsettled.add(watch)
        return watch

    def settle(self, watch: DirectoryWatch, has_succeeded: bool) -> None:
        """The call that left the watch has ended: arm the watch, or drop it."""
        self._call(partial(self._settle, watch, has_succeeded))

    def drop(self, event: WatchedEvent) -> None:
        """Call every armed watch with this event, once, and forget it; some outlast CONNECTING."""
        self._call(partial(self._fire_all, event))

    def leave(self, key: str, watcher: Watch) -> None:
        """Forget the watches of that function."""
        if self._unsettled or self._armed:  # in this order: a watch is armed before it counts as settled
            self._call(partial(self._leave, key, watcher))

    def forget(self, path: str, watcher: Watch) -> None:
        """On the loop: forget the watches of that function on the data and on the children of a path."""
        directory = self.driver.context.known(path)
        for place in {directory.home, directory.mirror}:
            self._members[place.ensemble].forget_watch(place.path, watcher)
        for key in (node(path), children(path)):
            self._leave(key, watcher)

    def remove(self, path: str, watcher: Watch | None, reply: Reply) -> None:
        """Withdraw the watches of a function, or all, on the data and the children of a znode.

        One whose call has no answer yet stays. `reply` gets whether there was one, when no server keeps it.
        """
        self._call(partial(self._remove, path, watcher, reply))

    def _remove(self, path: str, watcher: Watch | None, reply: Reply) -> None:
        places: set[Place] = set()
        for key in (node(path), children(path)):
            for watch in list(self._armed.get(key, ())):
                if watch.is_armed and watcher in (None, watch.watcher):
                    places |= watch.places
                    watch.leave()
        d = self.driver.context.places.both(path)[1]
        known = {d.home, d.mirror}
        places |= self._forget(known, watcher) or self._forget(self._places_of(path) - known, watcher)
        self.have_forgotten(places, reply)

    def have_forgotten(self, places: set[Place], reply: Reply) -> None:
        """On the loop: have servers forget, too, what nobody watches any more. `reply` gets whether any was."""
        # Without a connection no server keeps any. The members' own watch on the servers' list stays.
        last = [
            place
            for place in places
            if place.path != CONFIG
            and self.driver.context.is_connected(place.ensemble)
            and not self._members[place.ensemble].watches_on(place.path)
        ]
        removal = _Removal(reply, bool(places), 1 + len(last))
        for place in last:
            ending = OnAnswer(partial(self._have_removed, place, removal))
            self._members[place.ensemble].submit(RemoveWatches(place.path), ending)
        removal.end_one()

    def _forget(self, places: set[Place], watcher: Watch | None) -> set[Place]:
        """Forget the user's own watches there; returns where there was one."""
        found = set()
        for place in places:
            member = self._members[place.ensemble]
            for watch in member.watches_on(place.path):
                function = watch.watcher if isinstance(watch, LastingWatch) else watch
                if not isinstance(watch, DirectoryWatch) and watcher in (None, function):
                    member.forget_watch(place.path, watch)
                    found.add(place)
        return found

    def _places_of(self, path: str) -> set[Place]:
        """Where a znode is watched, wherever it was when the watches were left."""
        return {
            Place(ensemble, physical)
            for ensemble, member in enumerate(self._members)
            for physical, _ in (*member.data_watches(), *member.child_watches())
            if logical(physical) == path
        }

    def _have_removed(self, place: Place, removal: _Removal, answer: object) -> None:
        """A server has forgotten its watches, one too that was left just before: that gets NONE."""
        member = self._members[place.ensemble]
        for watch in member.watches_on(place.path):
            event = WatchedEvent(EventType.NONE, self._client_state(), None)
            if isinstance(watch, LastingWatch):
                member.submit(AddWatch(place.path, watch.mode, watch), None)
                watch.tell(event)
            else:
                member.forget_watch(place.path, watch)
                self._deliver(watch, event)
        removal.end_one()

    def _leave(self, key: str, watcher: Watch) -> None:
        for watch in list(self._armed.get(key, ())):
            if watch.watcher == watcher:
                watch.leave()

    def _settle(self, watch: DirectoryWatch, has_succeeded: bool) -> None:
        if has_succeeded:
            watch.peers = self._armed.setdefault(watch.key, WeakSet())
            watch.peers.add(watch)
            for place in watch.take_elsewhere():
                self._members[place.ensemble].forget_watch(place.path, watch)
        self._unsettled.discard(watch)
        watch.settle(has_succeeded)
        for other in set(watch.peers or ()) - {watch}:
            watch.replace(other)

    def _fire_all(self, event: WatchedEvent) -> None:
        """All at once: a watch that the same function sets meanwhile is not called, nor withdrawn."""
        for watches in list(self._armed.values()):
            for watch in list(watches):
                if event.state != KeeperState.CONNECTING or not outlasts(watch):
                    watch.fire(event)

    def _look_again(self, watch: DirectoryWatch, event: WatchedEvent) -> None:
        self.driver.look(watch, OnAnswer(partial(self._have_looked, watch, event)))

    def _have_looked(self, watch: DirectoryWatch, event: WatchedEvent, answer: str | Exception | None) -> None:
        """:param answer: the type of the event to fire; None to watch on; or why it is not known."""
        if isinstance(answer, Exception):  # as with kazoo's watches of a lost connection
            event = WatchedEvent(EventType.NONE, self._client_state(), None)
            self._call(partial(watch.fire, event))
        elif answer is not None:
            # The event may be about a znode above it.
            self._call(partial(watch.fire, event._replace(type=answer, path=watch.told)))

    def _withdraw(self, watch: DirectoryWatch, has_fired: bool) -> None:
        armed = self._armed.get(watch.key, WeakSet())
        withdrawn = [watch]
        if has_fired:
            withdrawn += [each for each in armed if each.is_armed and each.watcher == watch.watcher]
        for each in withdrawn:
            for place in tuple(each.places):
                self._members[place.ensemble].forget_watch(place.path, each)
            armed.discard(each)
            each.end()


class _Removal:
    """A removal of watches, until every server has answered.

    :param was_there: what the reply gets. :param missing: how often :meth:`end_one` is called.
    """

    def __init__(self, reply: Reply, was_there: bool, missing: int) -> None:
        self._reply = reply
        self._was_there = was_there
        self._missing = missing

    def end_one(self) -> None:
        self._missing -= 1
        if not self._missing:
            self._reply.set(self._was_there)
