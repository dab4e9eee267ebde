"""Paths that belong to ParKazoo: no client makes or sees them, and nothing is sent for them."""

from __future__ import annotations

import unittest
from typing import Any

from kazoo.exceptions import BadArgumentsError, NoNodeError
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
    RolledBackError,
    RuntimeInconsistency,
    SetACL,
    SetData,
    Transaction,
)
from parkazoo.protocol.placement import Placement
from parkazoo.protocol.reserved import refusal
from tests.explore.alone import find_directory, prepared
from tests.explore.client import Client

PLACEMENT = Placement(3)
RESERVED = (
    "/parkazoo",
    "/parkazoo/map",
    "/parkazoo/mirrors/%2Fa/x",
    "/.parkazoo",
    "/a/.parkazoo",
    "/a/.parkazoo/mark",
    "/a/b/.parkazoo/c/d",
)
ALLOWED = (
    "/",
    "/parkazooo",
    "/parkazo",
    "/a/parkazoo",
    "/a/parkazoo/map",
    "/a/.parkazoo2",
    "/a/x.parkazoo",
    "/zookeeper",
)


class TestReserved(unittest.TestCase):
    def setUp(self) -> None:
        self.client = Client(PLACEMENT, prepared(PLACEMENT))

    def requests(self, path: str) -> list[Any]:
        return [
            GetData(path, None),
            SetData(path, b"", -1),
            Delete(path, -1),
            GetACL(path),
            SetACL(path, OPEN_ACL_UNSAFE, -1),
            GetChildren(path, None),
            GetChildren2(path, None),
        ]

    def test_refused_before_anything_is_sent(self) -> None:
        for path in RESERVED:
            for request in self.requests(path):
                self.assertIsInstance(self.client.get(request), NoNodeError)
            self.assertIsNone(self.client.get(Exists(path, None)))
            for kind in (Create, Create2):
                with self.assertRaisesRegex(BadArgumentsError, "reserved for ParKazoo"):
                    raise self.client.get(kind(path, b"", OPEN_ACL_UNSAFE, 0))
        self.assertEqual(self.client.sent, [])

    def test_similar_names_are_the_users(self) -> None:
        for path in ALLOWED:
            for request in self.requests(path):
                self.assertIsNone(refusal(request))

    def test_without_a_reply(self) -> None:
        self.client.driver.call(Delete("/parkazoo", -1), None)

    def test_in_transactions(self) -> None:
        parent = find_directory(PLACEMENT, True)
        self.client.get(Create(parent, b"", OPEN_ACL_UNSAFE, 0))
        sent = len(self.client.sent)
        good, pin = Create(parent + "/x", b"", OPEN_ACL_UNSAFE, 0), parent + "/.parkazoo"
        for bad, error in (
            (Create(pin, b"", OPEN_ACL_UNSAFE, 0), BadArgumentsError),
            (Delete(pin, -1), NoNodeError),
            (SetData(pin, b"", -1), NoNodeError),
            (CheckVersion(pin, -1), NoNodeError),
        ):
            results = self.client.get(Transaction([good, bad, good]))
            self.assertEqual([type(each) for each in results], [RolledBackError, error, RuntimeInconsistency])
        self.assertEqual(len(self.client.sent), sent)

    def test_never_listed(self) -> None:
        self.assertEqual(self.client.get(GetChildren("/", None)), [])
        directory = find_directory(PLACEMENT, False)
        for path in (directory, directory + "/x"):
            self.client.get(Create(path, b"", OPEN_ACL_UNSAFE, 0))
        self.assertEqual(self.client.get(GetChildren(directory, None)), ["x"])
        self.client.get(Delete(directory + "/x", -1))
        self.assertEqual(self.client.get(GetChildren(directory, None)), [])
