"""Values of a DistributedDict as the bytes of znodes, by a serializer. Pure."""

from __future__ import annotations

from typing import Any, Protocol

from parkazoo.structures.local_copy import NOT_READ, Entry

SHOWN_BYTES = 40
SAFE_BYTES = 1_000_000  # that servers take by default, with room for what a transaction adds
_IMMUTABLE = (str, int, float, bool, type(None), bytes)


class Serializer(Protocol):
    """Describes a module such as ``json`` or ``pickle``, or an object like one."""

    def dumps(self, value: Any, /) -> bytes | str: ...
    def loads(self, raw: bytes, /) -> Any: ...


class Values:
    """Converts values to bytes and back by a serializer.

    :param serializer: None: values are bytes.
    :raises TypeError: it has no ``dumps``, or no ``loads``.
    """

    def __init__(self, serializer: Serializer | None) -> None:
        if serializer is not None and not (hasattr(serializer, "dumps") and hasattr(serializer, "loads")):
            raise TypeError(f"serializer must have dumps and loads, as json, not be {serializer!r}")
        self._serializer = serializer

    def value_of(self, key: str, entry: Entry) -> Any:
        """Returns the value of an entry. Each read makes a new object of a mutable value, so that a change of it
        stays local.

        :raises ValueError: the serializer cannot read it; its error is the cause.
        """
        if entry.value is not NOT_READ:
            return entry.value
        try:
            value = entry.raw if self._serializer is None else self._serializer.loads(entry.raw)
        except Exception as error:
            some = f"{entry.raw[:SHOWN_BYTES]!r}{'...' if len(entry.raw) > SHOWN_BYTES else ''}"
            raise ValueError(f"{key!r}: the serializer cannot read {some}: {error!r}") from error
        if type(value) in _IMMUTABLE:
            entry.value = value
        return value

    def shown(self, entries: dict[str, Entry]) -> str:
        """Returns the repr of all items, with a placeholder for a value that cannot be read. Raises nothing."""
        return f"{{{', '.join(f'{key!r}: {self._shown(key, entry)}' for key, entry in entries.items())}}}"

    def _shown(self, key: str, entry: Entry) -> str:
        try:
            return repr(self.value_of(key, entry))
        except Exception:  # also of a repr of the program's
            return "<cannot be read>"

    def raw_of(self, key: str, value: object) -> bytes:
        """
        :raises TypeError: the serializer does not take the value; its error is the cause.
        """
        if self._serializer is not None:
            try:
                made = self._serializer.dumps(value)
            except Exception as error:
                raise TypeError(f"{key!r}: the serializer does not take this value: {error!r}") from error
            return made.encode() if isinstance(made, str) else made
        if not isinstance(value, bytes):
            raise TypeError(f"{key!r}: without a serializer values are bytes, not {type(value).__name__}")
        return value
