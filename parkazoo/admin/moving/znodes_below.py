"""How many znodes there are below one, in one request, which ZooKeeper knows since 3.6, and kazoo does not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from kazoo.exceptions import NoNodeError

from parkazoo.admin.all_znodes import Pace
from parkazoo.admin.clients import AdminClient, NoRightError
from parkazoo.admin.many_reads import send
from parkazoo.kazoo_private import int_struct


class CountBelow(NamedTuple):
    path: str

    @property
    def type(self) -> int:
        return 104

    def serialize(self) -> bytes:
        path = self.path.encode()
        return int_struct.pack(len(path)) + path

    @classmethod
    def deserialize(cls, bytes: bytes, offset: int) -> int:
        (number,) = int_struct.unpack_from(bytes, offset)
        return int(number)


def count_below(client: AdminClient, paths: Sequence[str], pace: Pace) -> Mapping[str, int]:
    """Returns how many znodes there are below each path; those that are gone, or may not be read, are left out.

    A server looks at all its znodes for each.

    :raises UnreadableError: the ensemble ceases to answer.
    """
    found: dict[str, int] = {}
    for path in paths:
        pace.wait()
        with suppress(NoNodeError, NoRightError):
            found[path] = client.patiently(lambda path=path: client.wait(path, send(client, CountBelow(path))))  # type: ignore[misc]  # each its own
    return found
