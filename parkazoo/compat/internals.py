"""Parts of a KazooClient that programs use although kazoo does not document them: connection and tables of
watches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableSet, Sequence
from contextvars import ContextVar
from functools import partial
from socket import socket
from typing import Any

from parkazoo.compat.kazoo_member import ConnectMethod, KazooMember
from parkazoo.engine.ports import RequestPort
from parkazoo.protocol.context import Context
from parkazoo.protocol.placement import Place, logical
from parkazoo.protocol.watches import DirectoryWatch
from parkazoo.types.znodes import Watch

Members = Callable[[], tuple[KazooMember, ...]]
Table = tuple[KazooMember, dict[str, set[Watch]], str]  # whose table it is, and a physical path
_connecting: ContextVar[ConnectMethod] = ContextVar("connecting")


class JointConnection:
    """Stands in for ``client._connection``.

    If ``_connect`` is replaced, as Patroni does, it is called for each member; ``_socket`` closes every member's;
    any other attribute is the first member's.
    """

    def __init__(self, members: Members, sasl_options: dict[str, object] | None) -> None:
        self._members = members
        self._connect = _connect_member
        self.sasl_options = sasl_options

    def connect_hook(self, connect: ConnectMethod) -> ConnectMethod | None:
        """Returns how to connect a member that would call `connect`; None unless ``_connect`` was replaced."""
        if self._connect is _connect_member:
            return None
        return partial(self._connect_by, connect)

    def _connect_by(self, connect: ConnectMethod, *address: object) -> tuple[float, float]:
        token = _connecting.set(connect)
        try:
            return self._connect(*address)
        finally:
            _connecting.reset(token)

    @property
    def _socket(self) -> Sockets:
        return Sockets(lambda: [member._connection._socket for member in self._members()])

    def close(self) -> None:
        for member in self._members():
            member._connection.close()

    def __getattr__(self, name: str) -> Any:
        members = self._members()
        if not members:
            raise AttributeError(name)
        return getattr(members[0]._connection, name)


def _connect_member(*address: object) -> tuple[float, float]:
    return _connecting.get()(*address)


class Sockets:
    """Closes and shuts down all members' sockets together; for everything else it is the first member's.

    :param find: returns the present sockets: an ensemble may be joined later.
    """

    def __init__(self, find: Callable[[], list[socket | None]]) -> None:
        self._find = find

    def close(self) -> None:
        for sock in self._find():
            if sock is not None:
                sock.close()

    def shutdown(self, how: int) -> None:
        for sock in self._find():
            if sock is not None:
                sock.shutdown(how)

    def __eq__(self, other: object) -> bool:
        """Equals each of them, for handlers that look for the connection's socket in a select's answer."""
        return any(other is sock for sock in self._find())

    def __hash__(self) -> int:
        return id(self)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._find()[0], name)


class Watchers(Mapping[str, "WatcherSet"]):
    """Stands in for ``client._data_watchers`` or ``client._child_watchers``. Its paths have the chroot.

    :param find: returns the watches on a path. :param watched: returns the paths that have watches.
    """

    def __init__(self, find: Callable[[str], WatcherSet], watched: Callable[[], list[str]]) -> None:
        self._find = find
        self._watched = watched

    def __getitem__(self, path: str) -> WatcherSet:
        """Returns an empty set for a path without a watch, as kazoo's table does."""
        return self._find(path)

    def __iter__(self) -> Iterator[str]:
        return iter(self._watched())

    def __len__(self) -> int:
        return len(self._watched())

    def __contains__(self, path: object) -> bool:
        return path in self._watched()

    def get(self, path: str, default: object = None) -> WatcherSet:
        return self[path]


class WatcherSet(MutableSet[Watch]):
    """Shows the watches on one path, on any ensemble, as the functions that the user gave.

    :param leave: forgets the stand-in for a function anywhere.
    """

    def __init__(self, places: list[Table], leave: Callable[[Watch], None]) -> None:
        self._places = places
        self._leave = leave

    def __iter__(self) -> Iterator[Watch]:
        return iter({_users(watcher) for _, table, path in self._places for watcher in list(table.get(path, ()))})

    def __len__(self) -> int:
        return len(set(self))

    def __contains__(self, wanted: object) -> bool:
        return any(watcher == wanted for watcher in self)

    def add(self, value: Watch) -> None:
        for _, table, path in self._places[:1]:
            table.setdefault(path, set()).add(value)

    def discard(self, value: Watch) -> None:
        for member, table, path in self._places:
            watchers = table.get(path, set())
            for watcher in list(watchers):
                if _users(watcher) == value:
                    watchers.discard(watcher)
                    member.tidy(path)
        self._leave(value)


def _users(watcher: Watch) -> Watch:
    return watcher.watcher if isinstance(watcher, DirectoryWatch) else watcher


def watched_paths(members: Sequence[KazooMember], of_children: bool) -> list[str]:
    """Returns the paths that have watches, on their children or else on their data."""
    paths: dict[str, None] = {}
    for member in members:
        for table in (member._data_watchers, member._child_watchers):
            for path, watchers in list(table.items()):  # other threads may be adding to both
                for watcher in list(watchers):
                    if isinstance(watcher, DirectoryWatch):
                        if watcher.is_of_children is of_children:
                            paths[watcher.path] = None
                    elif (table is member._child_watchers) is of_children:
                        paths[logical(path)] = None
    return list(paths)


def data_places(context: Context, members: Sequence[RequestPort], path: str) -> list[Table]:
    """Returns where watches on the data of `path` are left; an ensemble that is not joined has none."""
    places = [(members[place.ensemble], place.path) for place in _real(context, context.known(path).home)]
    return [(member, member._data_watchers, path) for member, path in places if isinstance(member, KazooMember)]


def child_places(context: Context, members: Sequence[RequestPort], path: str) -> list[Table]:
    """Returns where watches on the children of `path` are left: on its mirror or, without one, on its home."""
    d = context.known(path)
    thought = {real for place in (d.mirror, d.home) for real in _real(context, place)}
    places = [(members[place.ensemble], place.path) for place in thought]
    return [(member, member._child_watchers, path) for member, path in places if isinstance(member, KazooMember)]


def _real(context: Context, place: Place) -> list[Place]:
    """Where a place may be: before a move and after it, if nobody knows yet whether that happens."""
    if context.moving is None:
        return [place]
    d = context.known(context.moving.directory)
    if not d.is_nowhere or not f"{place.path}/".startswith(f"{d.mirror.path}/"):
        return [place]
    below = place.path[len(d.mirror.path) :]
    return [each._replace(path=each.path + below) for each in context.moving.places(context.names, d.home)]
