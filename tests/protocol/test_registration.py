"""Whose sessions are whose: names, data that anybody may have written, and when it is asked."""

from __future__ import annotations

import json
import unittest
from collections.abc import Generator
from typing import Any

from kazoo.exceptions import ConnectionLoss, NoAuthError, NoNodeError

from parkazoo.kazoo_private import GetData
from parkazoo.protocol.registration import (
    MOST_KNOWN,
    UNKNOWN_FOR,
    Owners,
    decode_registration,
    encode_registration,
    format_session,
    parse_session,
    registration_path,
)

SESSIONS = {
    0x1000A3B2C0004: "0x1000a3b2c0004",
    1: "0x1",
    -1: "0xffffffffffffffff",  # of a server whose id is above 127
    -(1 << 63): "0x8000000000000000",
    (1 << 63) - 1: "0x7fffffffffffffff",
}
OWN, FOREIGN, CLIENT = 11, 12, 500


class TestSession(unittest.TestCase):
    def test_names(self) -> None:
        """As the servers write them."""
        for number, text in SESSIONS.items():
            with self.subTest(text):
                self.assertEqual(format_session(number), text)
                self.assertEqual(parse_session(text), number)
                self.assertEqual(registration_path(number), f"/parkazoo/clients/{text}")

    def test_no_names(self) -> None:
        for text in ("", "1", "0x", "0xG", "0X1", "0x1 ", "0x" + "1" * 17, None, 7, [], {}):
            with self.subTest(text):
                self.assertIsNone(parse_session(text))


class TestData(unittest.TestCase):
    def test_there_and_back(self) -> None:
        data = encode_registration(-1, {"pid": 7})
        self.assertEqual(decode_registration(data), {"client": "0xffffffffffffffff", "pid": 7})

    def test_rubbish(self) -> None:
        for data in (None, b"", b"{", b"[]", b"7", b"\xff", b"[" * 100_000, b'{"client": ' + b"1" * 5000 + b"}"):
            with self.subTest(data=data and data[:20]):
                self.assertEqual(decode_registration(data), {})


class TestOwners(unittest.TestCase):
    def setUp(self) -> None:
        self.owners = Owners(lambda ensemble: OWN, lambda: CLIENT, is_alone=False)

    def find(self, session: int, *answers: Any, ensemble: int = 1) -> int:
        """Whose session it is, found with so many requests."""
        finding: Generator[Any, Any, int] = self.owners.find(ensemble, session)
        sent: Any = None
        left = list(answers)
        while True:
            try:
                steps = finding.send(sent)
            except StopIteration as stop:
                self.assertEqual(left, [])
                return int(stop.value)
            self.assertEqual(steps, ((ensemble, GetData(registration_path(session), None)),))
            sent = [left.pop(0)]

    def test_own(self) -> None:
        self.assertEqual(self.find(OWN), CLIENT)

    def test_one_ensemble(self) -> None:
        self.owners = Owners(lambda ensemble: OWN, lambda: CLIENT, is_alone=True)
        self.assertEqual(self.find(FOREIGN), FOREIGN)

    def test_foreign_is_asked_once(self) -> None:
        self.assertEqual(self.find(FOREIGN, (encode_registration(77, {}), None)), 77)
        self.assertEqual(self.find(FOREIGN), 77)
        self.assertEqual(self.find(FOREIGN, (encode_registration(78, {}), None), ensemble=2), 78)

    def test_not_registered(self) -> None:
        """Asked again after a while: there may be a place for registrations by then."""
        self.assertEqual(self.find(FOREIGN, NoNodeError()), FOREIGN)
        for _ in range(UNKNOWN_FOR):
            self.assertEqual(self.find(FOREIGN), FOREIGN)
        self.assertEqual(self.find(FOREIGN, (encode_registration(77, {}), None)), 77)
        self.assertEqual(self.find(FOREIGN), 77)

    def test_rubbish(self) -> None:
        for number, data in enumerate(
            (b"", b"{", b"{}", b'{"client": 7}', b'{"client": "0x0"}', json.dumps([1]).encode())
        ):
            with self.subTest(data):
                self.assertEqual(self.find(100 + number, (data, None)), 100 + number)

    def test_hidden(self) -> None:
        """Asked again: the client may add credentials."""
        self.assertEqual(self.find(FOREIGN, NoAuthError()), FOREIGN)
        self.assertEqual(self.find(FOREIGN, (encode_registration(77, {}), None)), 77)

    def test_not_answered(self) -> None:
        with self.assertRaises(ConnectionLoss):
            self.find(FOREIGN, ConnectionLoss())
        self.assertEqual(self.find(FOREIGN, (encode_registration(77, {}), None)), 77)

    def test_memory(self) -> None:
        for session in range(MOST_KNOWN):
            self.owners._known[1, session] = 1
        self.find(-5, (encode_registration(77, {}), None))
        self.assertEqual(len(self.owners._known), 1)
