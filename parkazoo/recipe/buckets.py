"""One flat directory with more children, or more writes, than one ensemble should have.

It is a structure on top of the client, not a rule of the map: kazoo's recipes rely on a directory's stat, sequence
numbers and child watches being of one ensemble, and a rule could break that by accident.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from kazoo.exceptions import NodeExistsError, NoNodeError

from parkazoo.protocol.placement import split
from parkazoo.recipe.bucket_names import Buckets, OneWatch
from parkazoo.recipe.swept import in_folder
from parkazoo.types.znodes import ACLs, AsyncResult, Watch, ZnodeStat


class Spread(Buckets):
    """Spreads the children of one directory over directories below it, its buckets, by the hash of their names.

    Each bucket is an ordinary directory, on the ensemble of its own hash, so the children are on all ensembles. A
    child is an ordinary znode at :meth:`path_of` its name, with versions, ephemerals, ACLs and watches. Sequence
    numbers, and transactions over several children, need one order of all children, so there are none. A listing
    asks every bucket at the same time, so it does not show one moment.

    All clients must give the same number of buckets; it is stored in the data of `path`, and another one is
    refused. A few times the number of ensembles that you will ever have is enough. ``client.delete(path,
    recursive=True)`` deletes everything.

    :param path: of the directory; the first child makes it, with all missing levels above it.
    :param buckets: 1 to 4096.
    :raises ValueError: the number is out of range.
    """

    def __init__(self, client: Any, path: str, buckets: int) -> None:
        super().__init__(path, buckets)
        self.client = client
        self._is_verified = False
        self._left: dict[Watch, OneWatch] = {}  # by the user's watches

    def create(
        self,
        name: str,
        value: bytes = b"",
        acl: ACLs | None = None,
        ephemeral: bool = False,
        sequence: bool = False,
    ) -> str:
        """Creates a child and returns its path. Raises the errors of ``client.create``.

        :raises ValueError: the directory has another number of buckets; or `sequence` is True: sequence numbers
            need one order of all children, which only one ensemble has.
        """
        self._refuse_sequence(sequence)
        path = self.path_of(name)
        made: str = in_folder(self._forget, self._create, path, value, acl, ephemeral)
        return made

    def _create(self, path: str, value: bytes, acl: ACLs | None, ephemeral: bool) -> str:
        """Creates the child, with a missing bucket and a missing directory, the directory with its data."""
        self.verify(is_to_make=True)
        with suppress(NoNodeError):
            return self.client.create(path, value, acl, ephemeral=ephemeral)
        with suppress(NodeExistsError):
            self.client.create(split(path)[0], acl=acl)
        return self.client.create(path, value, acl, ephemeral=ephemeral)

    def get(self, name: str, watch: Watch | None = None) -> tuple[bytes, ZnodeStat]:
        """Returns data and stat of a child, as ``client.get``."""
        found: tuple[bytes, ZnodeStat] = self.client.get(self._verified(name), watch)
        return found

    def set(self, name: str, value: bytes, version: int = -1) -> ZnodeStat:
        """Sets the data of a child, as ``client.set``."""
        return self.client.set(self._verified(name), value, version)

    def exists(self, name: str, watch: Watch | None = None) -> ZnodeStat | None:
        """Returns the stat of a child, or None, as ``client.exists``."""
        return self.client.exists(self._verified(name), watch)

    def delete(self, name: str, version: int = -1) -> bool:
        """Deletes a child, as ``client.delete``."""
        return bool(self.client.delete(self._verified(name), version))

    def get_children(self, watch: Watch | None = None) -> list[str]:
        """Returns the names of all children, in no order; none if the directory does not exist.

        :param watch: called once: when a child is created or deleted in any bucket, with the directory's path; or
            with the event NONE when the connection is lost.
        :raises: the errors of ``client.get_children``; then some buckets may have the watch.
        """
        self.verify()
        if watch is None:
            return self._list(None)
        once = OneWatch(watch, self)
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

    def _list(self, once: OneWatch | None) -> list[str]:
        paths = self._all_buckets()
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

    def called(self, once: OneWatch, watch: Watch) -> None:
        """Removes a watch that is about to be called from the other buckets."""
        if self._left.get(watch) is once:
            del self._left[watch]
        self._withdraw(once)

    def _withdraw(self, once: OneWatch) -> None:
        for path in self._all_buckets():
            self.client.withdraw_watch(path, once)

    def count(self) -> int:
        """Returns the number of children; as :meth:`get_children`, not of one moment."""
        self.verify()
        stats = [*map(self.client.exists_async, self._all_buckets())]
        return sum(stat.numChildren for stat in (each.get() for each in stats) if stat is not None)

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
        if is_to_make:
            with suppress(NodeExistsError):
                self.client.create(self.path, self.data, makepath=True)
        try:
            found, _ = self.client.get(self.path)
        except NoNodeError:
            return
        if found != self.data:
            raise ValueError(self.describe_other(found))
        self._is_verified = True


def _extend(names: list[str], listing: AsyncResult[list[str]]) -> bool:
    """Adds a bucket's listing; returns False if the bucket does not exist."""
    try:
        names += listing.get()
    except NoNodeError:
        return False
    return True
