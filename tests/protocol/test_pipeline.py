"""A random stream of one client's operations, nothing awaited: every answer is that of one ZooKeeper.

Each ensemble answers in the order in which it was asked, after any delay; the seed decides.
"""

from __future__ import annotations

import os
import random
import unittest
from collections import Counter
from typing import Any

from kazoo.protocol.states import ZnodeStat
from kazoo.security import OPEN_ACL_UNSAFE

from parkazoo.kazoo_private import (
    CheckVersion,
    Create,
    Create2,
    Delete,
    Exists,
    GetACL,
    GetChildren,
    GetChildren2,
    GetData,
    SetACL,
    SetData,
    Transaction,
)
from parkazoo.protocol.placement import Placement, logical
from tests.explore.alone import must, prepared
from tests.explore.client import Client
from tests.explore.model import Model
from tests.explore.znodes import EPHEMERAL, SEQUENCE
from tests.fakes.result import Result

ROOT = "/r"  # sequence numbers at "/" count /parkazoo
NAMES = ("a", "b", "c", "s0000000000", "s0000000001", "0000000000")
OPERATIONS, SEEDS = 3000, 8
FIELDS = ("version", "cversion", "aversion", "ephemeralOwner", "dataLength", "numChildren")


class Stream:
    """Makes requests at random."""

    def __init__(self, dice: random.Random, placement: Placement) -> None:
        self.dice = dice
        self.placement = placement

    def path(self) -> str:
        depth = self.dice.choice((1, 1, 2, 2, 2, 3, 3, 4))
        return ROOT + "".join("/" + self.dice.choices(NAMES, (6, 6, 2, 2, 1, 1))[0] for _ in range(depth))

    def version(self) -> int:
        return self.dice.choice((-1, -1, -1, 0, 1))

    def create(self, path: str, kind: Any = Create) -> Any:
        data, flags = b"x" * self.dice.randrange(4), 0
        if self.dice.random() < 0.08:
            flags |= EPHEMERAL
        if self.dice.random() < 0.2:
            flags |= SEQUENCE
            path = path.rpartition("/")[0] + "/" + self.dice.choice(("s", "s", ""))
        return kind(path, data, OPEN_ACL_UNSAFE, flags)

    def request(self) -> Any:
        path = self.path()
        kind = self.dice.choices(
            (
                Create,
                Create2,
                Delete,
                SetData,
                GetData,
                Exists,
                GetChildren,
                GetChildren2,
                GetACL,
                SetACL,
                Transaction,
            ),
            (30, 4, 26, 8, 8, 8, 6, 6, 3, 3, 6),
        )[0]
        if kind in (Create, Create2):
            return self.create(path, kind)
        if kind is Delete:
            return Delete(path, self.version())
        if kind is SetData:
            return SetData(path, b"x" * self.dice.randrange(4), self.version())
        if kind is SetACL:
            return SetACL(path, OPEN_ACL_UNSAFE, self.version())
        if kind is GetACL:
            return GetACL(path)
        if kind is Transaction:
            return self.transaction(path.rpartition("/")[0])
        return kind(path, None)

    def transaction(self, parent: str) -> Any:
        """Siblings. Nothing else concerns what one of them deletes: docs/design/protocol.md, "Known gaps"."""
        operations: list[Any] = []
        for _ in range(self.dice.randrange(1, 4)):
            path = f"{parent}/{self.dice.choices(NAMES, (6, 6, 2, 2, 1, 1))[0]}"
            kind = self.dice.choice((Create, Create, Delete, Delete, SetData, CheckVersion))
            if kind is Create:
                operations.append(self.create(path))
            elif kind is SetData:
                operations.append(SetData(path, b"x", self.version()))
            else:
                operations.append(kind(path, self.version()))
        return Transaction(
            [
                each
                for at, each in enumerate(operations)
                if not any(
                    isinstance(other, Delete) and other.path.startswith(each.path)
                    for other in operations[:at] + operations[at + 1 :] * (not isinstance(each, Delete))
                )
            ]
        )


def plain(answer: Any) -> Any:
    """What of an answer is the same whatever the zxids."""
    if isinstance(answer, ZnodeStat):
        return tuple(getattr(answer, field) for field in FIELDS)
    if isinstance(answer, Exception):
        return type(answer).__name__
    if isinstance(answer, (list, tuple)):
        return tuple(plain(each) for each in answer)
    return answer


def as_user(request: Any, answer: Any) -> Any:
    """What the user is told of a path."""
    if isinstance(request, Create) and isinstance(answer, str):
        return logical(answer)
    if isinstance(request, Create2) and isinstance(answer, tuple):
        return logical(answer[0]), answer[1]
    return answer


class TestPipeline(unittest.TestCase):
    def test_random_streams(self) -> None:
        first = int(os.environ.get("PARKAZOO_TEST_SEED", "1"))
        outcomes: Counter[str] = Counter()
        for seed in range(first, first + SEEDS):
            print(f"test_random_streams: seed {seed}")
            with self.subTest(seed=seed):
                outcomes += self.stream(seed)
        for kind in ("Create: ok", "Delete: ok", "SetData: ok", "GetChildren2: ok", "Transaction: ok"):
            self.assertGreater(outcomes[kind], 100, outcomes)
        for kind in ("Create: NodeExistsError", "Delete: NotEmptyError", "Delete: BadVersionError"):
            self.assertGreater(outcomes[kind], 100, outcomes)

    def stream(self, seed: int) -> Counter[str]:
        dice = random.Random(seed)
        placement = Placement(dice.choice((2, 3, 5)))
        client, specification = Client(placement, prepared(placement)), Model(1)
        must(client.get(Create(ROOT, b"", OPEN_ACL_UNSAFE, 0)))
        must(specification.execute(0, Create(ROOT, b"", OPEN_ACL_UNSAFE, 0)))
        stream = Stream(dice, placement)
        issued: list[tuple[Any, Any, Result]] = []
        haste = dice.choice((0.0, 0.5, 0.9, 1.0))  # how much is issued before an answer is awaited
        for _ in range(OPERATIONS):
            request = stream.request()
            issued.append((request, plain(specification.execute(0, request)), client.call(request)))
            while dice.random() > haste and (choices := client.choices()):
                dice.choice(choices)()
        client.run(dice)
        self.assertFalse(client.driver.order)
        outcomes: Counter[str] = Counter()
        for number, (request, expected, result) in enumerate(issued):
            got = plain(as_user(request, result.value))
            outcomes[f"{type(request).__name__}: {got if isinstance(result.value, Exception) else 'ok'}"] += 1
            self.assertEqual(got, expected, f"seed {seed}, operation {number}: {request}")
        return outcomes
