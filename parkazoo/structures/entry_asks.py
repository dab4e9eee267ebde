"""What reading and writing a DistributedDict asks of its client. Pure.

:class:`EntryReader` and :class:`Writer` are generators that yield these. Who drives them sends the answer back in,
or throws its error, and goes on over lost connections.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")


class ReadOne(NamedTuple):
    """Asks for data and stat of one znode.

    :param is_certain: behind a write that is refused, so that a server that lags has caught up.
    """

    path: str
    is_certain: bool


class ReadSome(NamedTuple):
    """Asks for many at once. The answer has, for each, data and stat, NoNodeError or NoAuthError."""

    paths: Sequence[str]


class ListAll(NamedTuple):
    """Asks for the children of each directory at once. The answer has, for each, names and stat, or None.

    :param is_certain: as of :class:`ReadOne`.
    """

    directories: Sequence[str]
    is_certain: bool


class Look(NamedTuple):
    """Asks at once which of these znodes exist."""

    paths: Sequence[str]


class CommitOnce(NamedTuple):
    """Commits a transaction once. The answer has the results, and whether they tell of no later write."""

    transaction: Any


class Make(NamedTuple):
    """Makes a znode with this data, and all above it, unless it exists."""

    path: str
    data: bytes


class Ensure(NamedTuple):
    """Makes a directory, and all above it, unless it exists."""

    path: str


Ask = ReadOne | ReadSome | ListAll | Look | CommitOnce | Make | Ensure
Steps = Generator[Ask, Any, T]
