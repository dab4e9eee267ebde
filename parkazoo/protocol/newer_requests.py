"""Requests that ZooKeeper knows and kazoo does not. Pure."""

from __future__ import annotations

from typing import NamedTuple

from kazoo.security import Id

from parkazoo.kazoo_private import int_struct


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


SINCE = {GetEphemerals.type: "3.6", WhoAmI.type: "3.7"}  # the ZooKeeper that knows a type of request


def write_text(text: str) -> bytes:
    encoded = text.encode()
    return bytes(int_struct.pack(len(encoded))) + encoded


def _read_texts(bytes: bytes, offset: int, each: int) -> list[str]:
    """A list whose entries have so many texts each, in one."""
    (count,) = int_struct.unpack_from(bytes, offset)
    offset += int_struct.size
    texts = []
    for _ in range(max(count, 0) * each):
        (length,) = int_struct.unpack_from(bytes, offset)
        offset += int_struct.size
        texts.append(bytes[offset : offset + max(length, 0)].decode())
        offset += max(length, 0)
    return texts
