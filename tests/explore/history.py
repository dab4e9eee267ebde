"""What happened, in order: a chain of items, numbered so that two alike are compared by their numbers."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Generic, NamedTuple, TypeVar

from tests.explore.znodes import Request

T = TypeVar("T")


class Chain(Generic[T]):
    """An item and those before it. Two that have the same `number` are alike.

    :param previous: None for the empty chain, which has no item.
    """

    __slots__ = ("_numbers", "item", "length", "number", "previous")

    def __init__(
        self, previous: Chain[T] | None = None, item: T | None = None, number: int = 0, length: int = 0
    ) -> None:
        self.previous = previous
        self.item = item
        self.number = number
        self.length = length
        self._numbers: dict[tuple[int, Hashable], int] = {} if previous is None else previous._numbers

    def then(self, item: T, key: Hashable) -> Chain[T]:
        """One item more.

        :param key: what tells items from each other.
        """
        number = self._numbers.setdefault((self.number, key), len(self._numbers) + 1)
        return Chain(self, item, number, self.length + 1)

    def __iter__(self) -> Iterator[T]:
        return reversed([*self._backwards()])

    def _backwards(self) -> Iterator[T]:
        chain: Chain[T] | None = self
        while chain is not None and chain.item is not None:
            yield chain.item
            chain = chain.previous


class Called(NamedTuple):
    """A client has issued its operation number `operation`."""

    client: int
    operation: int
    request: Request


class Returned(NamedTuple):
    """It has the result.

    :param ensemble: that has given all answers to an awaited operation; -1 if there are several.
    """

    client: int
    operation: int
    result: Hashable
    ensemble: int


Event = Called | Returned
