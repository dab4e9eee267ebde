"""The directories of a DistributedDict: one, or one for each shard. Pure."""

from __future__ import annotations

import json

from parkazoo.kazoo_private import Create
from parkazoo.protocol.asking import prefixed
from parkazoo.protocol.placement import join
from parkazoo.protocol.reserved import refusal
from parkazoo.recipe.bucket_names import Buckets
from parkazoo.structures.keys import name_of

MOST_SHARDS = 4096


class Shards(Buckets):
    """Buckets have their number in their names: a dictionary with another one writes into none of them."""

    def bucket(self, number: int) -> str:
        return f"{super().bucket(number)}-{self.buckets}"


class EntryDirectories:
    """Places each key.

    :ivar path: of the dictionary. :ivar all: the paths of its directories: of itself alone, or of its shards.
    :ivar data: of `path`, which tells others the number of shards; None without shards.
    :raises TypeError: an argument has the wrong type. :raises ValueError: the path is the root, or the number of
        shards is out of range. :raises BadArgumentsError: the path is reserved for ParKazoo.
    """

    def __init__(self, chroot: str, path: str, shards: int) -> None:
        if not isinstance(path, str):
            raise TypeError("Invalid type for 'path' (string expected)")
        if isinstance(shards, bool) or not isinstance(shards, int) or not 1 <= shards <= MOST_SHARDS:
            raise ValueError(f"shards must be a whole number from 1 to {MOST_SHARDS}, not {shards!r}")
        self.path = "/" + path.strip("/")
        if self.path == "/":
            raise ValueError("the root cannot be a dictionary: it has znodes of ZooKeeper's own")
        if (error := refusal(Create(prefixed(chroot, self.path), b"", (), 0))) is not None:
            raise error
        self._shards = Shards(self.path, shards) if shards > 1 else None
        self.all = [self._shards.bucket(number) for number in range(shards)] if self._shards else [self.path]
        self.data = self._shards.data if self._shards else None

    def place(self, key: str) -> tuple[int, str]:
        """Returns the number of the directory, and the path.

        :raises TypeError: the key is no str.
        """
        name = name_of(key)
        number = self._shards.number_of(name) if self._shards else 0
        return number, join(self.all[number], name)

    def verify(self, found: bytes) -> None:
        """
        :param found: the data of `path`. :raises ValueError: it tells of another number of shards.
        """
        shards = _shards_in(found)
        if shards is not None and found != self.data:
            raise ValueError(f"{self.path} was made with shards={shards}: give the same")
        if self.data is not None and shards is None:
            raise ValueError(
                f"{self.path} was made without shards: leave shards={len(self.all)} out, or take another path"
            )


def _shards_in(data: bytes) -> object:
    """Returns the number of shards of a directory, by its data; None if it has none."""
    try:
        told = json.loads(data)
    except ValueError:
        return None
    return told.get("buckets") if isinstance(told, dict) else None
