"""One flat directory with more children, or more writes, than one ensemble should have.

It is a structure on top of the client and not a rule of the map. A directory's own stat, sequence numbers and
child watches are one ensemble's, and kazoo's recipes rely on that; a rule could take it from them by accident.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from typing import Any

from kazoo.exceptions import NodeExistsError, NoNodeError
from kazoo.protocol.states import EventType, WatchedEvent

from parkazoo.protocol.placement import join, split
from parkazoo.recipe.swept import in_folder

MOST_BUCKETS = 4096


class Spread:
    """Children of one directory, spread over others below it, its buckets, by the hash of their names.

    Each bucket is a directory like any other, on the ensemble that its own hash gives, so the children are on all
    ensembles. A child is an ordinary znode at :meth:`path_of` its name: versions, ephemerals, ACLs and watches are
    as ever. What needs one order of all children is not there: sequence numbers, and transactions over several of
    them. A listing asks every bucket, one beside the other, so it is of no one moment.

    All clients give the same number of buckets; it is kept in the data of `path`, and another one is refused. A
    few times as many buckets as there are ever to be ensembles is enough. ``client.delete(path, recursive=True)``
    deletes all.

    :param path: of the directory; it is made with the first child, with all above it.
    :param buckets: 1 to 4096.
    :raises ValueError: the number is none of these.
    """

    def __init__(self, client: Any, path: str, buckets: int) -> None:
        if isinstance(buckets, bool) or not isinstance(buckets, int) or not 1 <= buckets <= MOST_BUCKETS:
            raise ValueError(f"buckets must be a whole number from 1 to {MOST_BUCKETS}, not {buckets!r}")
        self.client = client
        self.path = path
        self.buckets = buckets
        self._is_verified = False
        self._left: dict[Callable[[WatchedEvent], Any], _OneWatch] = {}  # by the user's watches

    def path_of(self, name: str) -> str:
        """The path of a child, for every method of the client.

        :raises ValueError: it is no name of a znode.
        """
        if not isinstance(name, str) or name in ("", ".", "..") or "/" in name:
            raise ValueError(f"{name!r} is no name for a child")
        return join(self.bucket(self.number_of(name)), name)

    def number_of(self, name: str) -> int:
        """The number of the bucket for a child."""
        return int.from_bytes(sha256(name.encode()).digest()[:8], "big") % self.buckets

    def create(
        self, name: str, value: bytes = b"", acl: Any = None, ephemeral: bool = False, sequence: bool = False
    ) -> str:
        """Create a child; returns its path. As ``client.create``, whose errors it raises.

        :raises ValueError: the directory has another number of buckets; or `sequence`: numbers need one order of
            all children, which one ensemble alone gives.
        """
        if sequence:
            raise ValueError(
                "children of a Spread have no sequence numbers: these need one order of all children. Use a plain "
                "directory"
            )
        path = self.path_of(name)
        made: str = in_folder(self._forget, self._create, path, value, acl, ephemeral)
        return made

    def _create(self, path: str, value: bytes, acl: Any, ephemeral: bool) -> Any:
        """Make what is missing of the directory and the bucket, the directory with its data."""
        self.verify(is_to_make=True)
        with suppress(NoNodeError):
            return self.client.create(path, value, acl, ephemeral=ephemeral)
        with suppress(NodeExistsError):
            self.client.create(split(path)[0], acl=acl)
        return self.client.create(path, value, acl, ephemeral=ephemeral)

    def get(self, name: str, watch: Callable[[WatchedEvent], Any] | None = None) -> tuple[bytes, Any]:
        """Data and stat of a child, as ``client.get``."""
        found: tuple[bytes, Any] = self.client.get(self._verified(name), watch)
        return found

    def set(self, name: str, value: bytes, version: int = -1) -> Any:
        """Set the data of a child, as ``client.set``."""
        return self.client.set(self._verified(name), value, version)

    def exists(self, name: str, watch: Callable[[WatchedEvent], Any] | None = None) -> Any:
        """The stat of a child, or None, as ``client.exists``."""
        return self.client.exists(self._verified(name), watch)

    def delete(self, name: str, version: int = -1) -> bool:
        """Delete a child, as ``client.delete``."""
        return bool(self.client.delete(self._verified(name), version))

    def get_children(self, watch: Callable[[WatchedEvent], Any] | None = None) -> list[str]:
        """The names of all children, in no order; none if there is no directory.

        :param watch: is called once: when a child comes or goes in any bucket, with the directory's path; or with
            the event NONE, as every watch, when the connection is lost.
        :raises: as ``client.get_children``; then the watch may have been left on some buckets.
        """
        self.verify()
        if watch is None:
            return self._list(None)
        once = _OneWatch(watch, self)
        try:
            names = self._list(once)
        finally:
            if once.has_been_called:  # answers have come since
                self._withdraw(once)
        earlier = self._left.pop(watch, None)
        if not once.has_been_called:
            self._left[watch] = once
        if earlier is not None:  # kazoo too calls a function once, however often it was left
            self._withdraw(earlier)
        return names

    def _list(self, once: _OneWatch | None) -> list[str]:
        paths = [self.bucket(number) for number in range(self.buckets)]
        names: list[str] = []
        while paths:
            listings = [(path, self.client.get_children_async(path, watch=once)) for path in paths]
            missing = [path for path, listing in listings if not _extend(names, listing)]
            if once is None:
                break
            # A bucket comes with its first child. If it has come just now, it is listed again.
            coming = [(path, self.client.exists_async(path, watch=once)) for path in missing]
            paths = [path for path, stat in coming if stat.get() is not None]
        return names

    def called(self, once: _OneWatch, watch: Callable[[WatchedEvent], Any]) -> None:
        """A watch is about to be called: the other buckets need not hold it any more."""
        if self._left.get(watch) is once:
            del self._left[watch]
        self._withdraw(once)

    def _withdraw(self, once: _OneWatch) -> None:
        for number in range(self.buckets):
            self.client.withdraw_watch(self.bucket(number), once)

    def count(self) -> int:
        """The number of children; as :meth:`get_children`, of no one moment."""
        self.verify()
        stats = [self.client.exists_async(self.bucket(number)) for number in range(self.buckets)]
        return sum(stat.numChildren for stat in (each.get() for each in stats) if stat is not None)

    def bucket(self, number: int) -> str:
        """The path of a bucket, from 0 on."""
        return join(self.path, f"{number:0{len(str(self.buckets - 1))}}")

    def _verified(self, name: str) -> str:
        path = self.path_of(name)
        self.verify()
        return path

    def _forget(self) -> None:
        self._is_verified = False

    def verify(self, is_to_make: bool = False) -> None:
        """Whether the directory has so many buckets; without one there is nothing to verify, unless it is made.

        :raises ValueError: it has another number of them.
        """
        if self._is_verified:
            return
        wanted = json.dumps({"buckets": self.buckets}).encode()
        if is_to_make:
            with suppress(NodeExistsError):
                self.client.create(self.path, wanted, makepath=True)
        try:
            found, _ = self.client.get(self.path)
        except NoNodeError:
            return
        if found != wanted:
            raise ValueError(self.describe_other(found))
        self._is_verified = True

    def describe_other(self, found: bytes) -> str:
        """Why a directory with this data is not the one that is meant."""
        meant = f"{self.path} holds {found[:80]!r}, which does not say {self.buckets} buckets"
        return f"{meant}: give the number of buckets that it was made with"


def _extend(names: list[str], listing: Any) -> bool:
    """Add what a bucket lists; False if there is no such bucket."""
    try:
        names += listing.get()
    except NoNodeError:
        return False
    return True


class _OneWatch:
    """One watch for all buckets."""

    def __init__(self, watch: Callable[[WatchedEvent], Any], spread: Spread) -> None:
        self.has_been_called = False
        self._watch = watch
        self._spread = spread

    def __call__(self, event: WatchedEvent) -> None:
        if self.has_been_called:  # watches are called one at a time
            return
        self.has_been_called = True
        self._spread.called(self, self._watch)
        is_of_session = event.type == EventType.NONE
        self._watch(event if is_of_session else event._replace(type=EventType.CHILD, path=self._spread.path))
