"""The bytes of a batch are kazoo's, and so are its errors."""

from __future__ import annotations

import unittest

from kazoo.exceptions import NoNodeError
from kazoo.security import OPEN_ACL_UNSAFE

from parkazoo.kazoo_private import CheckVersion, Create, Delete, SetData, Transaction, int_struct
from parkazoo.protocol.chain import ChainStep
from parkazoo.wire.bodies import serialize

STEPS = [
    SetData("/a", b"data", 3),
    SetData("/é", None, -1),
    CheckVersion("/b", -1),
    Create("/c", b"", OPEN_ACL_UNSAFE, 0),
    Delete("/d", 7),
]


class TestChain(unittest.TestCase):
    def test_bytes(self) -> None:
        for count in range(len(STEPS) + 1):
            self.assertEqual(serialize(ChainStep(STEPS[:count])), bytes(Transaction(STEPS[:count]).serialize()))

    def test_done(self) -> None:
        stat = bytes(68)
        answer = int_struct.pack(5) + b"\0" + int_struct.pack(0) + stat + int_struct.pack(-1) + b"\1"
        self.assertEqual(ChainStep.deserialize(answer + int_struct.pack(-1), 0), [])

    def test_errors(self) -> None:
        parts = [
            int_struct.pack(-1) + b"\0" + int_struct.pack(code) + int_struct.pack(code) for code in (0, -101, -2)
        ]
        answer = b"".join(parts) + int_struct.pack(-1) + b"\1" + int_struct.pack(-1)
        errors = ChainStep.deserialize(answer, 0)
        self.assertEqual(
            [type(each) for each in errors], [type(each) for each in Transaction.deserialize(answer, 0)]
        )
        self.assertIsInstance(errors[1], NoNodeError)
