"""The buckets of a Spread: their names, and one watch for all of them. Pure."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Protocol

from kazoo.protocol.states import EventType, WatchedEvent

from parkazoo.kazoo_private import normpath
from parkazoo.protocol.asking import check_path, check_watch
from parkazoo.protocol.placement import join
from parkazoo.types.znodes import Watch

MOST_BUCKETS = 4096


class Buckets:
    """Names the buckets of one directory.

    :param path: of the directory.
    :param buckets: 1 to 4096.
    :raises ValueError: the number is out of range. :raises TypeError: the path is no str.
    """

    def __init__(self, path: str, buckets: int) -> None:
        if isinstance(buckets, bool) or not isinstance(buckets, int) or not 1 <= buckets <= MOST_BUCKETS:
            raise ValueError(f"buckets must be a whole number from 1 to {MOST_BUCKETS}, not {buckets!r}")
        check_path(path)
        self.path = normpath(path)
        self.buckets = buckets
        self.data = json.dumps({"buckets": buckets}).encode()  # of the directory

    def path_of(self, name: str) -> str:
        """Returns the path of a child, for every method of the client.

        :raises ValueError: it is no name of a znode.
        """
        if not isinstance(name, str) or name in ("", ".", "..") or "/" in name:
            raise ValueError(f"{name!r} is no name for a child")
        return join(self.bucket(self.number_of(name)), name)

    def number_of(self, name: str) -> int:
        """Returns the number of the bucket for a child."""
        return int.from_bytes(sha256(name.encode()).digest()[:8], "big") % self.buckets

    def bucket(self, number: int) -> str:
        """Returns the path of a bucket, from 0 on."""
        return join(self.path, f"{number:0{len(str(self.buckets - 1))}}")

    def _all_buckets(self) -> list[str]:
        """Returns the paths of all buckets."""
        return [self.bucket(number) for number in range(self.buckets)]

    def describe_other(self, found: bytes) -> str:
        """Says why a directory with this data is not the expected one."""
        meant = f"{self.path} holds {found[:80]!r}, which does not say {self.buckets} buckets"
        return f"{meant}: give the number of buckets that it was made with"

    def _refuse_sequence(self, sequence: bool) -> None:
        """:raises ValueError: a child is to have a sequence number."""
        if sequence:
            raise ValueError(
                "children of a Spread have no sequence numbers: these need one order of all children. Use a plain "
                "directory"
            )


class Watched(Protocol):
    """What a watch needs of its Spread.

    :ivar path: of the directory.
    """

    path: str

    def called(self, once: OneWatch, watch: Watch) -> None:
        """The watch is about to be called: the other buckets forget it."""


class OneWatch:
    """One watch for all buckets.

    :ivar has_been_called: it has, and is not called again.
    """

    def __init__(self, watch: Watch, spread: Watched) -> None:
        check_watch(watch)
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
