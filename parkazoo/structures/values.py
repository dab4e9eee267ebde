"""Values of a DistributedDict as the bytes of znodes, by a serializer. Pure."""

from __future__ import annotations

from typing import Any, Protocol

from parkazoo.structures.local_copy import NOT_READ, Entry

_IMMUTABLE = (str, int, float, bool, type(None), bytes)


class Serializer(Protocol):
    """A module such as ``json`` or ``pickle``, or an object like one."""

    def dumps(self, value: Any, /) -> bytes | str: ...
    def loads(self, raw: bytes, /) -> Any: ...


class Values:
    """What a serializer makes of values and of bytes.

    :param serializer: None: values are bytes.
    """

    def __init__(self, serializer: Serializer | None) -> None:
        self._serializer = serializer

    def value_of(self, entry: Entry) -> Any:
        """Of mutable values each read makes a new one: a change of it changes nothing else."""
        if entry.value is not NOT_READ:
            return entry.value
        value = entry.raw if self._serializer is None else self._serializer.loads(entry.raw)
        if type(value) in _IMMUTABLE:
            entry.value = value
        return value

    def raw_of(self, key: str, value: Any) -> bytes:
        """
        :raises TypeError: the serializer does not take the value.
        """
        if self._serializer is not None:
            made = self._serializer.dumps(value)
            return made.encode() if isinstance(made, str) else made
        if not isinstance(value, bytes):
            raise TypeError(f"{key!r}: without a serializer values are bytes, not {type(value).__name__}")
        return value
