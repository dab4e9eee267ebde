"""Requests that kazoo does not have: their bytes, and which ensembles get them."""

from __future__ import annotations

import unittest
from typing import Any

from kazoo.exceptions import ConnectionLoss, NoNodeError, UnimplementedError
from kazoo.security import Id

from parkazoo.kazoo_private import int_struct
from parkazoo.protocol.newer_requests import GetEphemerals, WhoAmI, write_text
from parkazoo.protocol.placement import CLIENTS, Placement
from parkazoo.protocol.plans import PLANS
from tests.explore.alone import make_context
from tests.where_is import where_is

PLACEMENT = Placement(3)


def answered(*texts: str) -> bytes:
    return b"".join(map(write_text, texts))


def ended(operation: Any, *answers: Any) -> tuple[list[Any], Any]:
    """The steps of an operation whose first ones are answered so, and its result or error."""
    steps = next(operation)
    try:
        operation.send(list(answers))
    except StopIteration as stop:
        return list(steps), stop.value
    except Exception as error:
        return list(steps), error
    raise AssertionError("it goes on")


class TestBytes(unittest.TestCase):
    def test_whoami(self) -> None:
        self.assertEqual(WhoAmI().serialize(), b"")
        data = int_struct.pack(2) + answered("digest", "u", "ip", "127.0.0.1")
        identities = [Id("digest", "u"), Id("ip", "127.0.0.1")]
        self.assertEqual(WhoAmI.deserialize(b"head" + data, 4), identities)

    def test_ephemerals(self) -> None:
        self.assertEqual(GetEphemerals("/").serialize(), b"\0\0\0\1/")
        data = int_struct.pack(2) + answered("/a", "/\N{SNOWMAN}")
        self.assertEqual(GetEphemerals.deserialize(data, 0), ["/a", "/\N{SNOWMAN}"])
        self.assertEqual(GetEphemerals.deserialize(int_struct.pack(-1), 0), [])


class TestOfSession(unittest.TestCase):
    def operation(self, request: Any, **others: Any) -> Any:
        return PLANS[request.type].operation(make_context(PLACEMENT, **others), request)

    def test_whoami_asks_one_that_is_connected(self) -> None:
        context = make_context(PLACEMENT)
        context.is_connected = lambda ensemble: ensemble == 2
        steps, result = ended(PLANS[WhoAmI.type].operation(context, WhoAmI()), [Id("ip", "1")])
        self.assertEqual(([ensemble for ensemble, _ in steps], result), ([2], [Id("ip", "1")]))

    def test_ephemerals_of_joined_ensembles(self) -> None:
        context = make_context(PLACEMENT)
        context.is_joined = lambda ensemble: ensemble != 1
        d = where_is(PLACEMENT, "/d")
        moved = [f"{d.mirror.path}/x", f"{CLIENTS}/0x7"]
        operation = PLANS[GetEphemerals.type].operation(context, GetEphemerals("/"))
        steps, result = ended(operation, ["/z", *moved], moved)
        self.assertEqual(steps, [(0, GetEphemerals("/")), (2, GetEphemerals("/"))])
        self.assertEqual(result, ["/d/x", "/z"])

    def test_ephemerals_below_a_path(self) -> None:
        paths = ["/a", "/a/b", "/ab"]
        self.assertEqual(ended(self.operation(GetEphemerals("/a")), paths, [], [])[1], ["/a", "/a/b"])

    def test_errors(self) -> None:
        several: list[list[Any]] = [[[], [], ConnectionLoss()], [[], NoNodeError(), []]]
        for answers in several:
            error = ended(self.operation(GetEphemerals("/")), *answers)[1]
            self.assertIn(error, answers)
        error = ended(self.operation(GetEphemerals("/")), [], UnimplementedError(), [])[1]
        self.assertIsInstance(error, UnimplementedError)
        self.assertEqual(
            str(error), "ensemble e1: its servers are older than ZooKeeper 3.6, which has GetEphemerals"
        )
        error = ended(self.operation(WhoAmI()), UnimplementedError())[1]
        self.assertRegex(str(error), "^ensemble e0: .* older than ZooKeeper 3.7, which has WhoAmI$")
