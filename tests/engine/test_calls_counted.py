"""How many Python functions of engine and protocol one operation calls: counts, which no other load disturbs.

``python -m tests.engine.test_calls_counted`` prints the table.
"""

from __future__ import annotations

import sys
import unittest
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from kazoo.security import OPEN_ACL_UNSAFE

import parkazoo
from parkazoo.kazoo_private import Create, GetChildren, GetData, SetData
from parkazoo.protocol.placement import FENCE_COUNT, FENCES, Placement
from tests.explore.alone import find_directory, must, prepared
from tests.explore.client import Client
from tests.explore.directories import create
from tests.explore.grown import ADOPTED, guess
from tests.explore.scenario import Knows
from tests.explore.znodes import Request

PACKAGE = Path(parkazoo.__file__).parent
COUNTED = (str(PACKAGE / "engine"), str(PACKAGE / "protocol"))


class Row(NamedTuple):
    """An operation.

    :param plain: as many calls at most on a plain map. :param grown: on a map that has grown.
    """

    name: str
    plain: int
    grown: int


ROWS = (
    Row("first child", 138, 143),
    Row("second child", 36, 36),
    Row("get by a second client", 17, 21),
    Row("get once more", 10, 11),
    Row("get of a sibling", 16, 14),
    Row("get of a directory", 33, 37),
    Row("set of a leaf", 9, 12),
    Row("list", 29, 29),
)


def counted(client: Client, request: Request) -> int:
    """The calls of one operation, from its issue to its result; each resumption of a generator is one."""
    count = 0

    def profile(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call" and frame.f_code.co_filename.startswith(COUNTED)

    sys.setprofile(profile)
    try:
        must(client.get(request))
    finally:
        sys.setprofile(None)
    return count


def counts(placement: Placement, directory: str, knows: Knows | None) -> Iterator[int]:
    """The calls of each row, in their order."""
    model = prepared(placement)
    for ensemble in range(placement.ensembles):
        for number in range(FENCE_COUNT):
            must(model.execute(ensemble, Create(f"{FENCES}/{number}", b"", OPEN_ACL_UNSAFE, 0)))
    one, other = (Client(placement, model, marks=marks, knows=knows) for marks in ("one", "other"))
    one.get(create(directory))
    x, y = f"{directory}/x", f"{directory}/y"
    yield counted(one, create(x))
    yield counted(one, create(y))
    yield counted(other, GetData(x, None))
    yield counted(other, GetData(x, None))
    yield counted(other, GetData(y, None))
    yield counted(other, GetData(directory, None))
    yield counted(other, SetData(x, b"new", -1))
    yield counted(other, GetChildren(directory, None))


def plain() -> Iterator[int]:
    placement = Placement(3)
    return counts(placement, find_directory(placement, False), None)


def grown() -> Iterator[int]:
    return counts(ADOPTED, "/d", Knows(guess(1)))


class TestCalls(unittest.TestCase):
    def test_on_a_plain_map(self) -> None:
        for row, count in zip(ROWS, plain(), strict=True):
            with self.subTest(row.name):
                self.assertLessEqual(count, row.plain)

    def test_on_a_map_that_has_grown(self) -> None:
        for row, count in zip(ROWS, grown(), strict=True):
            with self.subTest(row.name):
                self.assertLessEqual(count, row.grown)


if __name__ == "__main__":
    print(f"{'calls of one operation':<24} {'plain':>6} {'grown':>6}")
    for row, *both in zip(ROWS, plain(), grown(), strict=True):
        print(f"{row.name:<24} {both[0]:>6} {both[1]:>6}")
