"""Who may do what where pins decide: without READ on a directory, its mirror cannot be seen, but it is there."""

from __future__ import annotations

import unittest
from typing import Any

from kazoo.exceptions import NoNodeError
from kazoo.security import ACL, OPEN_ACL_UNSAFE, Id, Permissions

from parkazoo.kazoo_private import Create, Delete, Exists, GetACL, GetData, SetACL, SetData, Transaction
from tests.explore.client import Client
from tests.explore.grown import ADOPTED, STATES, D, Maps, brought, guess
from tests.explore.scenario import Knows
from tests.explore.znodes import Who

NO_READ = [ACL(Permissions.ALL & ~Permissions.READ, Id("world", "anyone"))]
X, BELOW = f"{D}/x", f"{D}/none/x"
ME, OTHER = Who((10, 20, 30), frozenset(), has_all=False), Who(owners=(70, 80, 90))


class TestWithoutRead(unittest.TestCase):
    def begin(self, state: str, my_guess: int, where: int = 1) -> Client:
        model = brought(STATES[state], Maps(ADOPTED, Knows(guess(where)), None), ((), ())).model
        self.rival = Client(ADOPTED, model, OTHER, "other", knows=Knows(guess(where)))
        self.assertNotIsInstance(self.rival.get(SetACL(D, NO_READ, -1)), Exception)
        return Client(ADOPTED, model, ME, knows=Knows(guess(my_guess)))

    def test_what_is_not_found(self) -> None:
        """It is not there, as one ZooKeeper says: no right to D is needed for that."""
        for state in ("leaf", "adopted", "native", "mirrored", "mirrored empty"):
            for my_guess in range(3):
                for path in (f"{D}/none", BELOW):
                    for request in (
                        GetData(path, None),
                        SetData(path, b"", -1),
                        GetACL(path),
                        Delete(path, -1),
                        Create(f"{path}/y", b"", OPEN_ACL_UNSAFE, 0),
                    ):
                        with self.subTest(state, my_guess=my_guess, request=request):
                            answer = self.begin(state, my_guess).get(request)
                            self.assertIsInstance(answer, NoNodeError)
                    self.assertIsNone(self.begin(state, my_guess).get(Exists(path, None)))
                    answer = self.begin(state, my_guess).get(Transaction([Delete(path, -1)]))
                    self.assertIsInstance(answer[0], NoNodeError)

    def test_a_transaction_deletes_it(self) -> None:
        """Its mirror is on the ensemble of its home."""
        for state in ("mirrored empty", "native empty"):
            client = self.begin(state, 0, where=0)
            answer: Any = client.get(Transaction([Delete(D, -1)]))
            self.assertEqual(answer, [True], state)
