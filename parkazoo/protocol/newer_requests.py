"""Requests that ZooKeeper knows and kazoo does not. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Any, NamedTuple

from kazoo.security import ACL, Id

from parkazoo.kazoo_private import Create, Create2, Transaction, int_struct, multiheader_struct, stat_struct

FLAG_CONTAINER, FLAG_TTL, FLAG_TTL_SEQUENCE = 4, 5, 6  # of a create, to a server
LONG = Struct("!q")
ANY_WATCH = 3  # of the kinds that there are


class WhoAmI:
    """Asks a server for the identities of the session's connection; ZooKeeper 3.7."""

    __slots__ = ()
    type = 107

    def serialize(self) -> bytes:
        return b""

    @classmethod
    def deserialize(cls, bytes: bytes, offset: int) -> list[Id]:
        texts = _read_texts(bytes, offset, 2)
        return [Id(scheme, each) for scheme, each in zip(texts[::2], texts[1::2], strict=True)]


class _OfPath(NamedTuple):
    path: str


class GetEphemerals(_OfPath):
    """Asks a server for the ephemerals of the session; ZooKeeper 3.6.

    :param path: to a server ``/``, for all; from a user the znode at or below which they are.
    """

    __slots__ = ()
    type = 103

    def serialize(self) -> bytes:
        return write_text(self.path)

    @classmethod
    def deserialize(cls, bytes: bytes, offset: int) -> list[str]:
        return _read_texts(bytes, offset, 1)


class RemoveWatches(_OfPath):
    """Has a server forget all watches of the session on a znode: its data's and its children's; ZooKeeper 3.5."""

    __slots__ = ()
    type = 18

    def serialize(self) -> bytes:
        return write_text(self.path) + bytes(int_struct.pack(ANY_WATCH))

    @classmethod
    def deserialize(cls, bytes: bytes, offset: int) -> bool:
        return True


class _OfWatch(NamedTuple):
    path: str
    mode: int
    watcher: Any


class AddWatch(_OfWatch):
    """Has a server keep a watch until it is removed; ZooKeeper 3.6.

    :param mode: see :class:`parkazoo.protocol.lasting_watch.AddWatchMode`.
    """

    __slots__ = ()
    type = 106

    def serialize(self) -> bytes:
        return write_text(self.path) + bytes(int_struct.pack(self.mode))

    @classmethod
    def deserialize(cls, bytes: bytes, offset: int) -> bool:
        return True


class _OfSingleWatches(NamedTuple):
    zxid: int
    data: tuple[str, ...]
    missing: tuple[str, ...]
    children: tuple[str, ...]


class SetWatches(_OfSingleWatches):
    """Has a server keep the watches of an earlier connection that come once, or tell what they have missed.

    :param zxid: what came later was missed. :param data: paths of znodes that were there.
    :param missing: paths of znodes that were not. :param children: paths of listed znodes.
    """

    __slots__ = ()
    type = 101

    def serialize(self) -> bytes:
        return LONG.pack(self.zxid) + b"".join(map(_write_texts, self[1:]))

    @classmethod
    def deserialize(cls, bytes: bytes, offset: int) -> bool:
        return True


class _OfWatches(NamedTuple):
    zxid: int
    single: tuple[str, ...]
    recursive: tuple[str, ...]


class SetWatches2(_OfWatches):
    """Has a server keep the watches of an earlier connection again; ZooKeeper 3.6.

    :param zxid: of the last answer. :param single: paths. :param recursive: paths.
    """

    __slots__ = ()
    type = 105

    def serialize(self) -> bytes:
        none = bytes(int_struct.pack(0))  # of the watches that come once
        return LONG.pack(self.zxid) + 3 * none + _write_texts(self.single) + _write_texts(self.recursive)

    @classmethod
    def deserialize(cls, bytes: bytes, offset: int) -> bool:
        return True


class _OfContainer(NamedTuple):
    path: str
    data: bytes | None
    acl: Sequence[ACL]
    flags: int


class _OfTTL(NamedTuple):
    path: str
    data: bytes | None
    acl: Sequence[ACL]
    flags: int
    ttl_ms: int


class CreateContainer(_OfContainer):
    """A create of a znode that ends once it has had children and has none any more; ZooKeeper 3.5.

    :param flags: none.
    """

    __slots__ = ()
    type = 19

    def serialize(self) -> bytes:
        return bytes(Create(*self._replace(flags=FLAG_CONTAINER)).serialize())

    @classmethod
    def deserialize(cls, bytes: bytes, offset: int) -> str:
        return _read_texts(bytes, offset, 1, 1)[0]


class CreateContainerIfAble(CreateContainer):
    """The same, but where a container would never end it is an ordinary znode."""

    __slots__ = ()


class CreateTTL(_OfTTL):
    """A create of a znode that ends when it was not changed for a time, and has no child; ZooKeeper 3.5.4.

    :param flags: SEQUENCE, or none.
    """

    __slots__ = ()
    type = 21

    def serialize(self) -> bytes:
        flags = FLAG_TTL_SEQUENCE if self.flags else FLAG_TTL
        return bytes(Create(*self[:3], flags).serialize()) + LONG.pack(self.ttl_ms)

    @classmethod
    def deserialize(cls, bytes: bytes, offset: int) -> str:
        return _read_texts(bytes, offset, 1, 1)[0]


class _EndsWithTTL(Transaction):
    """A multi whose last operation is a create with a TTL, the answer to which kazoo cannot read."""

    __slots__ = ()

    @classmethod
    def deserialize(cls, bytes: bytes, offset: int) -> list[Any]:
        """Kazoo's results."""
        results: list[Any] = []
        at = offset
        while True:
            kind, is_end, _ = multiheader_struct.unpack_from(bytes, at)
            at += multiheader_struct.size
            if is_end:
                return results
            if kind == ERROR:  # all are errors, or none is
                return list(Transaction.deserialize(bytes, offset))
            if kind in (Create.type, Create2.type):
                (path,) = _read_texts(bytes, at, 1, 1)
                results.append(path)
                at += int_struct.size + len(path.encode()) + (stat_struct.size if kind == Create2.type else 0)
            else:
                results.append(True)


def multi(operations: Sequence[Any]) -> Transaction:
    """A transaction of checks and creates, of which the last may have a TTL, or of others without one."""
    return (_EndsWithTTL if isinstance(operations[-1], CreateTTL) else Transaction)(operations)


ERROR = -1  # the type of a result in a multi
# The ZooKeeper that knows a type of request.
SINCE = {AddWatch.type: "3.6", GetEphemerals.type: "3.6", WhoAmI.type: "3.7"}


def write_text(text: str) -> bytes:
    encoded = text.encode()
    return bytes(int_struct.pack(len(encoded))) + encoded


def _write_texts(texts: Sequence[str]) -> bytes:
    return b"".join((int_struct.pack(len(texts)), *map(write_text, texts)))


def _read_texts(bytes: bytes, offset: int, each: int, count: int | None = None) -> list[str]:
    """A list whose entries have so many texts each, in one.

    :param count: of its entries; None: it comes first.
    """
    if count is None:
        (count,) = int_struct.unpack_from(bytes, offset)
        offset += int_struct.size
    texts = []
    for _ in range(max(count, 0) * each):
        (length,) = int_struct.unpack_from(bytes, offset)
        offset += int_struct.size
        texts.append(bytes[offset : offset + max(length, 0)].decode())
        offset += max(length, 0)
    return texts
