"""A DistributedDict whose copy may lack a write of its process, while several threads use it."""

from __future__ import annotations

import unittest
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

from kazoo.exceptions import SessionExpiredError

from parkazoo.structures.distributed_dict import DistributedDict
from parkazoo.structures.policies import Lock
from parkazoo.structures.reading import EntryReader
from tests.handlers import make_handler


class TestBehind(unittest.TestCase):
    """The policy asks for nothing, so only such a write makes a read ask."""

    def setUp(self) -> None:
        self.asked = 0
        self.others: list[Callable[[], object]] = []  # what another thread does while one asks
        for name, instead in (("verify", lambda *_, **__: iter(())), ("fetch_all", lambda _: self.fetch_all())):
            patch = mock.patch.object(EntryReader, name, instead)
            patch.start()
            self.addCleanup(patch.stop)
        client = mock.Mock(chroot="", handler=make_handler())
        client.exactly_once.commit.side_effect = SessionExpiredError
        self.dictionary = DistributedDict(client, "/d", Lock(True))
        self.asked = 0

    def fetch_all(self) -> Iterator[Any]:
        self.asked += 1
        if self.others:
            self.others.pop()()
        yield from ()

    def fail_to_write(self) -> None:
        with self.assertRaises(SessionExpiredError):
            self.dictionary["a"] = 1

    def read(self, others: Callable[[], object] | None = None) -> int:
        """Returns how often the servers were asked, by the other thread too."""
        before = self.asked
        self.others = [] if others is None else [others]
        len(self.dictionary)
        return self.asked - before

    def test_one_read_asks(self) -> None:
        self.assertEqual(self.read(), 0)
        self.fail_to_write()
        self.assertEqual([self.read(), self.read()], [1, 0])

    def test_another_thread_reads_meanwhile(self) -> None:
        """It does not answer from the copy that is behind."""
        self.fail_to_write()
        self.assertEqual(self.read(self.read), 2)

    def test_another_thread_writes_meanwhile(self) -> None:
        self.fail_to_write()
        self.assertEqual([self.read(self.fail_to_write), self.read(), self.read()], [1, 1, 0])

    def test_a_read_that_fails(self) -> None:
        self.fail_to_write()
        with self.assertRaises(ZeroDivisionError):
            self.read(lambda: 1 // 0)
        self.assertEqual([self.read(), self.read()], [1, 0])
