"""What the operations of a client remember, when its map gains ensembles."""

from __future__ import annotations

from typing import Any

from kazoo.exceptions import BadVersionError

from parkazoo.kazoo_private import Create, Delete, GetData
from parkazoo.protocol.past import CATCH_UP
from parkazoo.protocol.placement import ENSEMBLE, MAP
from parkazoo.protocol.registration import encode_registration, registration_path
from tests.engine.test_session_growth import GrowthTest
from tests.fakes.client import Client
from tests.fakes.member import CONNECT_S, STAT, Ensemble
from tests.fakes.result import Result


class Refusing(Ensemble):
    """As a server does, it refuses the write that cannot succeed."""

    def answer(self, request: Any) -> Any:
        answer = super().answer(request)
        return BadVersionError() if request is CATCH_UP else answer


class TestOperations(GrowthTest):
    """What they remember grows along."""

    def grown(self, names: str, *writes: Any) -> Client:
        client = self.started(names, names=names)
        for request in writes:
            client.session.call(request, Result())
            client.runtime.turn(CONNECT_S)
        client.grow("n")
        client.ensembles["n"] = client.servers["n:1"] = Refusing({ENSEMBLE: client.identity("n")})
        self.hear(client)
        return client

    def read(self, client: Client, name: str, path: str) -> list[bool]:
        """Of the requests for a read by an operation on an ensemble, whether each is the write before it."""
        client.ensembles[name].data[path] = b"x"
        client.ensembles[name].seen.clear()
        assert client.session.driver is not None
        driver, result = client.session.driver, Result()
        operation = driver.context.ask(path, client.session.roster.names.index(name), GetData(path, None))
        driver.run(operation, result)
        client.runtime.turn(CONNECT_S)
        self.assert_read(result)
        seen = [each for each in client.ensembles[name].seen if not isinstance(each, Create)]
        return [isinstance(each, Delete) for each in seen]

    def test_own_past_of_one(self) -> None:
        """Nothing was counted, so the first read of a new ensemble goes behind a write."""
        for writes in ([], [Delete("/x", -1)]):
            client = self.grown("a", *writes)
            self.assertEqual(self.read(client, "a", "/x"), [False])
            self.assertEqual(self.read(client, "n", "/x"), [True, False])
            self.assertEqual(self.read(client, "n", "/y"), [False])

    def test_own_past_after_the_growth(self) -> None:
        client = self.grown("a")
        self.read(client, "n", "/x")
        client.session.call(Delete("/x", -1), Result())
        client.runtime.turn()
        self.assertEqual(self.read(client, "a", "/x"), [False])
        self.assertEqual(self.read(client, "n", "/y"), [False])
        self.assertEqual(self.read(client, "n", "/x"), [True, False])

    def test_a_change_under_way(self) -> None:
        """It began before the growth, and is answered after it."""
        client = self.started(names="a")
        client.session.call(Delete("/x", -1), Result())
        client.grow("n")
        client.ensembles["n"] = client.servers["n:1"] = Refusing({ENSEMBLE: client.identity("n")})
        trouble = client.session.take_copy(client["a"], client.ensembles["a"].read(MAP), "a:1")
        self.assertIsNone(trouble)
        client.runtime.turn()
        self.assertEqual(self.read(client, "a", "/x"), [False])
        self.assertEqual(self.read(client, "n", "/x"), [True, False])
        self.assertEqual(self.read(client, "n", "/x"), [False])

    def test_own_past_of_several(self) -> None:
        """What was counted counts: only what has changed goes behind a write on the new ensemble."""
        client = self.grown("ab", Delete("/x", -1))
        self.assertEqual(self.read(client, "n", "/y"), [False])
        self.assertEqual(self.read(client, "n", "/x"), [True, False])

    def test_owners(self) -> None:
        """Sessions of one ensemble are clients; later that is asked."""
        client = self.grown("a")
        other, theirs = 1234, 77
        assert client.session.driver is not None
        owners = client.session.driver.context.owners
        path, data = registration_path(theirs), encode_registration(other, {})
        client.ensembles["a"].data[path] = data
        find = owners.find(0, theirs)
        ((ensemble, request),) = next(find)
        self.assertEqual((ensemble, request.path), (0, path))
        with self.assertRaises(StopIteration) as stopped:
            find.send([(data, STAT)])
        self.assertEqual(stopped.exception.value, other)
        with self.assertRaises(StopIteration) as stopped:
            next(owners.find(0, client["a"].session_id))
        self.assertEqual(stopped.exception.value, client.session.number)
