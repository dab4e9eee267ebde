"""What a client knows of its ephemerals on one ensemble: never too little."""

from __future__ import annotations

import unittest
from collections import namedtuple
from typing import Any
from unittest import mock

from kazoo.exceptions import NoNodeError, RolledBackError
from kazoo.protocol.states import ZnodeStat

from parkazoo.kazoo_private import CheckVersion, Create, Create2, Delete, Exists, GetData, SetData, Transaction
from parkazoo.protocol import holdings as holdings_module
from parkazoo.protocol.holdings import CHANGING, Holdings, is_ephemeral, leaves_watch

STAT = ZnodeStat(*[0] * len(ZnodeStat._fields))
PERSISTENT, EPHEMERAL, SEQUENCE = 0, 1, 2


def create(path: str, flags: int = EPHEMERAL) -> Any:
    return Create(path, b"", [], flags)


def create_2(path: str, flags: int = EPHEMERAL) -> Any:
    return Create2(path, b"", [], flags)


class TestHoldings(unittest.TestCase):
    def setUp(self) -> None:
        self.holdings = Holdings()

    def check(self, *holds: bool) -> None:
        """Whether it held something after each of several steps, of which this is the last."""
        self.assertEqual([bool(self.holdings)], [*holds])

    def test_nothing(self) -> None:
        self.check(False)

    def test_made_and_deleted(self) -> None:
        for make in (create, create_2):
            with self.subTest(make):
                for path in ("/a", "/b"):
                    self.holdings.answered(make(path), path if make is create else (path, STAT))
                self.holdings.answered(Delete("/a", -1), True)
                self.check(True)
                self.holdings.answered(Delete("/b", -1), True)
                self.check(False)

    def test_a_programs_own_classes(self) -> None:
        """kazoo tells requests apart by their number."""

        class OwnCreate(namedtuple("OwnCreate", "path data acl flags")):
            type = Create.type

        class OwnDelete(namedtuple("OwnDelete", "path version")):
            type = Delete.type

        self.holdings.answered(OwnCreate("/a", b"", [], EPHEMERAL), "/a")
        self.check(True)
        self.holdings.answered(OwnDelete("/a", -1), True)
        self.check(False)
        self.holdings.answered(Transaction([OwnCreate("/b", b"", [], EPHEMERAL)]), ["/b"])
        self.check(True)

    def test_with_a_sequence_number(self) -> None:
        """The server says the name."""
        flags = EPHEMERAL | SEQUENCE
        self.holdings.answered(create("/a", flags), "/a0000000007")
        self.holdings.answered(create_2("/b", flags), ("/b0000000008", STAT))
        self.holdings.answered(Delete("/a", -1), True)
        self.holdings.answered(Delete("/a0000000007", -1), True)
        self.check(True)
        self.holdings.answered(Delete("/b0000000008", -1), True)
        self.check(False)

    def test_persistent(self) -> None:
        for flags in (PERSISTENT, SEQUENCE):
            self.holdings.answered(create("/a", flags), "/a")
            self.holdings.answered(create_2("/a", flags), ("/a", STAT))
            self.holdings.lost([create("/a", flags), create_2("/a", flags)])
        self.check(False)

    def test_a_transaction(self) -> None:
        several = [create("/a"), CheckVersion("/c", 1), create("/b", EPHEMERAL | SEQUENCE), SetData("/c", b"", -1)]
        self.holdings.answered(Transaction(several), ["/a", True, "/b0000000001", STAT])
        self.check(True)
        self.holdings.answered(Transaction([Delete("/a", -1), Delete("/b0000000001", -1)]), [True, True])
        self.check(False)

    def test_made_and_deleted_in_one_transaction(self) -> None:
        """In their order."""
        self.holdings.answered(Transaction([create("/a"), Delete("/a", -1)]), ["/a", True])
        self.check(False)
        self.holdings.answered(Transaction([Delete("/a", -1), create("/a")]), [True, "/a"])
        self.check(True)

    def test_a_transaction_that_failed(self) -> None:
        """It has done nothing."""
        self.holdings.answered(Transaction([create("/a"), Delete("/b", -1)]), [RolledBackError(), NoNodeError()])
        self.check(False)
        self.holdings.answered(create("/a"), "/a")
        self.holdings.answered(
            Transaction([Delete("/a", -1), Delete("/b", -1)]), [RolledBackError(), NoNodeError()]
        )
        self.check(True)

    def test_lost_answers(self) -> None:
        """What may have been made counts, until it is deleted; what may have been deleted counts too."""
        self.holdings.lost(
            [create("/a"), GetData("/g", None), Transaction([create_2("/b"), SetData("/c", b"", 1)])]
        )
        self.holdings.lost([Delete("/a", -1), Transaction([Delete("/b", -1)])])
        self.holdings.answered(Delete("/a", -1), True)
        self.check(True)
        self.holdings.answered(Delete("/b", -1), None)
        self.check(False)

    def test_a_lost_answer_with_an_unknown_name(self) -> None:
        """Only the end of the session takes it away."""
        self.holdings.lost([create("/a", EPHEMERAL | SEQUENCE)])
        self.holdings.answered(Delete("/a", -1), True)
        self.check(True)
        self.holdings.clear()
        self.check(False)

    def test_of_another_client(self) -> None:
        self.holdings.assume()
        self.holdings.answered(Delete("/a", -1), True)
        self.check(True)
        self.holdings.clear()
        self.check(False)

    def test_a_new_session(self) -> None:
        self.holdings.answered(create("/a"), "/a")
        self.holdings.clear()
        self.check(False)

    def test_the_bound(self) -> None:
        """Of more it keeps no names: then there is something until the session ends."""
        with mock.patch.object(holdings_module, "MOST_PATHS", 2):
            for path in ("/a", "/b", "/c"):
                self.holdings.answered(create(path), path)
            for path in ("/a", "/b", "/c"):
                self.holdings.answered(Delete(path, -1), True)
            self.check(True)
            self.holdings.clear()
            for path in ("/a", "/b"):
                self.holdings.answered(create(path), path)
            for path in ("/a", "/b"):
                self.holdings.answered(Delete(path, -1), True)
            self.check(False)


class TestRequests(unittest.TestCase):
    def test_ephemeral(self) -> None:
        for flags in range(4):
            for make in (create, create_2):
                self.assertEqual(is_ephemeral(make("/a", flags)), bool(flags & EPHEMERAL))
        self.assertFalse(is_ephemeral(Delete("/a", 1)))

    def test_what_changes(self) -> None:
        """Only answers to these are looked at."""
        several = create("/a"), create_2("/a"), Delete("/a", -1), Transaction([])
        self.assertEqual(CHANGING, {each.type for each in several})

    def test_watches(self) -> None:
        self.assertTrue(leaves_watch(GetData("/a", print)))
        self.assertTrue(leaves_watch(Exists("/a", print)))
        self.assertFalse(leaves_watch(GetData("/a", None)))
        self.assertFalse(leaves_watch(create("/a")))
