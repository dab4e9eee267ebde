"""The bytes of frequent requests are those of kazoo."""

from __future__ import annotations

import unittest

from parkazoo.kazoo_private import Create, Delete, Exists, GetData, SetData
from parkazoo.wire.bodies import serialize

REQUESTS = (
    Exists("/a", None),
    Exists("/a", print),
    GetData("/ä/b", None),
    GetData("/a", print),
    SetData("/ä", b"value", -1),
    SetData("/a", b"", 7),
    SetData("/a", None, True),
    Create("/a", b"value", (), 0),
    Delete("/a", -1),
)
REFUSED = (
    SetData("/a", b"", 1 << 40),
    SetData("/a", b"", None),
    SetData("/a", "text", -1),
    GetData("/\udc80", None),
    GetData(7, None),
)


class TestBodies(unittest.TestCase):
    def test_written(self) -> None:
        for request in REQUESTS:
            with self.subTest(request=request):
                self.assertEqual(serialize(request), request.serialize())

    def test_refused(self) -> None:
        for request in REFUSED:
            with self.subTest(request=request):
                with self.assertRaises(Exception) as kazoos:
                    request.serialize()
                with self.assertRaises(type(kazoos.exception)):
                    serialize(request)
