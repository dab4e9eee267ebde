"""A plain client has made a child below the home of a directory whose children live elsewhere: no client spins."""

from __future__ import annotations

import unittest
from typing import Any

from kazoo.exceptions import NotEmptyError
from kazoo.security import OPEN_ACL_UNSAFE

from parkazoo.kazoo_private import Create, Delete, Exists, GetChildren, Transaction
from parkazoo.protocol.placement import Placement
from parkazoo.protocol.rights import pin_acl
from tests.explore.alone import find_directory, must, prepared
from tests.explore.client import Client
from tests.where_is import where_is

PLACEMENT = Placement(3)
D = find_directory(PLACEMENT, False)
MOST_REQUESTS = 100


class TestStrangers(unittest.TestCase):
    def client(self, has_pin: bool, mark: str = "") -> Client:
        self.model = prepared(PLACEMENT, [D])
        client = Client(PLACEMENT, self.model)
        must(client.get(Create(D, b"", OPEN_ACL_UNSAFE, 0)))
        self.d = where_is(PLACEMENT, D)
        self.make(f"{self.d.home.path}/stranger")
        if has_pin:
            self.make(self.d.pin, pin_acl(OPEN_ACL_UNSAFE))
        if mark:
            self.make(self.d.mark(mark))
        return client

    def make(self, path: str, acl: Any = OPEN_ACL_UNSAFE) -> None:
        must(self.model.execute(self.d.home.ensemble, Create(path, b"", acl, 0)))

    def outcome(self, client: Client, request: Any) -> Any:
        """The result, after a few requests and no more."""
        result = client.call(request)
        for _ in range(MOST_REQUESTS):
            if not (choices := client.choices()):
                return result.value
            choices[0]()
        raise AssertionError(f"{request} goes on and on")

    def test_delete(self) -> None:
        for has_pin in (False, True):
            for mark in ("", "a.-1", "a.transaction") if has_pin else ("",):
                with self.subTest(has_pin=has_pin, mark=mark):
                    client = self.client(has_pin, mark)
                    self.assertIsInstance(self.outcome(client, Delete(D, -1)), NotEmptyError)
                    (error,) = self.outcome(client, Transaction([Delete(D, -1)]))
                    self.assertIsInstance(error, NotEmptyError)
                    self.assertIsNotNone(self.outcome(client, Exists(D, None)))

    def test_an_abandoned_delete_is_called_off(self) -> None:
        for request, expected in ((GetChildren(D, None), []), (Create(f"{D}/x", b"", OPEN_ACL_UNSAFE, 0), None)):
            with self.subTest(request):
                client = self.client(True, "a.-1")
                value = self.outcome(client, request)
                self.assertNotIsInstance(value, Exception)
                if expected is not None:
                    self.assertEqual(value, expected)
                marks = self.model.execute(self.d.home.ensemble, GetChildren(self.d.pin, None))
                self.assertEqual(marks, [])
