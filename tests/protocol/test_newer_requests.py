"""Requests that kazoo does not have: their bytes, and which ensembles get them."""

from __future__ import annotations

import unittest
from typing import Any

from kazoo.exceptions import ConnectionLoss, NoNodeError, UnimplementedError
from kazoo.security import OPEN_ACL_UNSAFE, Id

from parkazoo.kazoo_private import (
    Create,
    Create2,
    Delete,
    Transaction,
    int_struct,
    multiheader_struct,
    stat_struct,
)
from parkazoo.protocol.newer_requests import (
    LONG,
    CreateContainer,
    CreateTTL,
    GetEphemerals,
    WhoAmI,
    multi,
    write_text,
)
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

    def test_creates(self) -> None:
        """A server's flags say what they are; the path comes with a stat, which nobody wants."""
        for request, flags, rest in (
            (CreateTTL("/a", b"1", OPEN_ACL_UNSAFE, 0, 7), 5, LONG.pack(7)),
            (CreateTTL("/a", b"1", OPEN_ACL_UNSAFE, 2, 1 << 32), 6, LONG.pack(1 << 32)),
            (CreateContainer("/a", b"1", OPEN_ACL_UNSAFE, 0), 4, b""),
        ):
            self.assertEqual(request.serialize(), Create(*request[:3], flags).serialize() + rest)
            self.assertEqual(request.deserialize(answered("/a") + stat_struct.pack(*range(11)), 0), "/a")

    def test_a_multi_that_ends_with_a_ttl(self) -> None:
        operations = [Create("/b", b"", OPEN_ACL_UNSAFE, 0), CreateTTL("/a", b"", OPEN_ACL_UNSAFE, 0, 7)]
        request = multi(operations)
        self.assertEqual(request, Transaction(operations))
        end = multiheader_struct.pack(-1, True, -1)
        stat = stat_struct.pack(*range(11))
        done = [(Create.type, answered("/b")), (13, b""), (Create2.type, answered("/a") + stat)]
        data = b"".join(multiheader_struct.pack(kind, False, 0) + body for kind, body in done) + end
        self.assertEqual(request.deserialize(b"head" + data, 4), ["/b", True, "/a"])
        errors = b"".join(multiheader_struct.pack(-1, False, code) + int_struct.pack(code) for code in (0, -101))
        self.assertEqual(
            [type(each).__name__ for each in request.deserialize(errors + end, 0)],
            ["RolledBackError", "NoNodeError"],
        )
        self.assertIs(type(multi([Delete("/a", -1)])), Transaction)


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
