"""Views of the items and values of a DistributedDict. To iterate over one is one read, of one moment."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, Mapping, ValuesView
from typing import Any


class Copied(Mapping[str, Any]):
    """A mapping whose :meth:`copy` returns all items by one read."""

    def copy(self) -> dict[str, Any]:
        raise NotImplementedError

    def items(self) -> ItemsView[str, Any]:
        """Returns the items, as a dict's; to iterate over them is one read."""
        return _ItemsView(self)

    def values(self) -> ValuesView[Any]:
        """Returns the values, as a dict's; to iterate over them is one read."""
        return _ValuesView(self)


class _ItemsView(ItemsView[str, Any]):
    _mapping: Copied

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        return iter(self._mapping.copy().items())


class _ValuesView(ValuesView[Any]):
    _mapping: Copied

    def __iter__(self) -> Iterator[Any]:
        return iter(self._mapping.copy().values())

    def __contains__(self, value: object) -> bool:
        return value in self._mapping.copy().values()
