"""Each request and each operation is told exactly once, with its outcome, if somebody wants to hear of it."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any, NamedTuple

from kazoo.exceptions import ConnectionLoss, NodeExistsError, NoNodeError, SessionExpiredError
from kazoo.security import OPEN_ACL_UNSAFE

from parkazoo.engine.observed import ObservedOperations, ObservedPort
from parkazoo.kazoo_private import Auth, Create, Delete, GetChildren, GetData, SetData, Transaction
from parkazoo.monitoring import MapChanged
from parkazoo.protocol.placement import Placement
from tests.engine.test_session import SessionTest
from tests.explore import client as explored
from tests.explore.alone import find_directory, prepared
from tests.explore.grown import ADOPTED, guess
from tests.explore.scenario import Knows
from tests.fakes.client import Client
from tests.fakes.member import CONNECT_S, SESSION_TIMEOUT_S
from tests.fakes.result import Result

REQUESTS, OPERATIONS = "requests", "operations"


class Told(NamedTuple):
    """What was told of a request or an operation.

    :param ensemble: the request's. :param count: the operation's requests.
    """

    type: int
    error: type[Exception] | None
    seconds: float
    ensemble: str = ""
    count: int = -1


class Heard:
    """A monitor that keeps what it is told. Its clock goes on by a second whenever somebody looks.

    :param wants: REQUESTS, OPERATIONS, or both.
    """

    def __init__(self, *wants: str) -> None:
        self.requests: list[Told] = []
        self.operations: list[Told] = []
        self.events: list[Any] = []
        self._looks = 0.0
        self._wants = wants

    def now_s(self) -> float:
        self._looks += 1
        return self._looks

    def meter(self, ensemble: str) -> Any:
        def tell(request: Any, error: Any, seconds: float) -> None:
            self.requests.append(Told(request.type, error and type(error), seconds, ensemble))

        return tell if REQUESTS in self._wants else None

    @property
    def operation_meter(self) -> Any:
        def tell(request: Any, error: Any, seconds: float, count: int) -> None:
            self.operations.append(Told(request.type, error and type(error), seconds, count=count))

        return tell if OPERATIONS in self._wants else None

    def tell(self, event: Any) -> None:
        self.events.append(event)

    @property
    def outcomes(self) -> list[tuple[str, type[Exception] | None]]:
        return [(each.ensemble, each.error) for each in self.requests]


class TestSession(SessionTest):
    """A session tells of all that its members answer or fail."""

    def heard(self, *wants: str, joined: str = "ab", **options: Any) -> tuple[Client, Heard]:
        """A client that has joined these ensembles, and what is heard from then on."""
        heard = Heard(*wants)
        client = self.started(joined, monitor=heard, **options)
        heard.requests.clear()
        heard.operations.clear()
        return client, heard

    def test_nobody_listens(self) -> None:
        """Then the driver has the ports themselves, and nothing is in front of the gate."""
        for monitor in (None, Heard()):
            with self.subTest(monitor):
                client = self.started(monitor=monitor)
                session = client.session
                assert session.driver is not None
                self.assertIs(session.driver.members, session.roster.ports)
                self.assertEqual(session.call, session.gate.call)

    def test_answers(self) -> None:
        client, heard = self.heard(REQUESTS)
        for name in "abca":
            self.call(client, name)
        client.runtime.turn(CONNECT_S)
        self.assertEqual(Counter(heard.outcomes), {("a", None): 2, ("b", None): 1, ("c", None): 1})
        self.assertTrue(all(each.seconds > 0 for each in heard.requests))
        self.assertEqual(heard.operations, [])

    def test_before_the_map_is_known(self) -> None:
        heard = Heard(REQUESTS, OPERATIONS)
        client = Client(monitor=heard)
        early = [self.call(client, name) for name in "bab"]
        self.assertEqual((heard.requests, heard.operations), ([], []))
        client.runtime.turn(2 * CONNECT_S)
        self.assert_read(*early)
        self.assertEqual(Counter(heard.outcomes), {("a", None): 1, ("b", None): 2})
        self.assertEqual([(each.error, each.count) for each in heard.operations], [(None, 1)] * 3)

    def test_a_lost_connection(self) -> None:
        """What was sent fails, what waits is sent later: each is one request."""
        client, heard = self.heard(REQUESTS, OPERATIONS)
        sent = self.call(client, "b")
        client["b"].lose()
        waits = self.call(client, "b")
        self.assertEqual(heard.outcomes, [("b", ConnectionLoss)])
        client.ensembles["b"].is_up = True
        client.runtime.turn(2 * CONNECT_S)
        self.assertIsInstance(sent.value, ConnectionLoss)
        self.assert_read(waits)
        self.assertEqual(heard.outcomes, [("b", ConnectionLoss), ("b", None)])
        self.assertEqual([(each.error, each.count) for each in heard.operations], [(ConnectionLoss, 1), (None, 1)])

    def test_in_vain(self) -> None:
        """It waits for a connection until the session would have expired."""
        client, heard = self.heard(REQUESTS, OPERATIONS)
        client["b"].lose()
        self.call(client, "b")
        client.runtime.turn(SESSION_TIMEOUT_S)
        self.assertEqual(heard.outcomes, [("b", ConnectionLoss)])
        self.assertEqual([each.error for each in heard.operations], [ConnectionLoss])

    def test_an_expired_session(self) -> None:
        """All that waits fails, also where the client has not connected yet."""
        client, heard = self.heard(REQUESTS, OPERATIONS)
        client["b"].is_slow = True
        results = [self.call(client, name) for name in "bbc"]
        client.session.expire("a test wants it")
        self.assertEqual({type(each.value) for each in results}, {SessionExpiredError})
        error = SessionExpiredError
        self.assertEqual(Counter(heard.outcomes), {("b", error): 2, ("c", error): 1})
        self.assertEqual([each.error for each in heard.operations], [error] * 3)
        client.runtime.turn(SESSION_TIMEOUT_S)
        self.assertEqual(len(heard.requests), 3)

    def test_a_stop(self) -> None:
        client, heard = self.heard(REQUESTS, OPERATIONS)
        client["b"].lose()
        results = [self.call(client, name) for name in "bcb"]
        client.session.stop(lambda: None)
        client.runtime.turn(SESSION_TIMEOUT_S)
        self.assert_over(client)
        self.assertEqual([len(each.told) for each in results], [1, 1, 1])
        self.assertEqual(Counter(each.ensemble for each in heard.requests), {"b": 2, "c": 1})
        self.assertEqual(len(heard.operations), 3)

    def test_credentials(self) -> None:
        client, heard = self.heard(REQUESTS, OPERATIONS)
        client.session.call(Auth(0, "digest", "user:password"), Result())
        client.runtime.turn(CONNECT_S)
        self.assertEqual((heard.requests, heard.operations), ([], []))

    def test_ensembles_that_come(self) -> None:
        client, heard = self.heard(REQUESTS)
        client.grow("d")
        client.session.roster.take_beside(0, client.ensembles["a"].read("/parkazoo/map"))
        assert client.session.driver is not None
        self.assertEqual(len(client.session.driver.members), 4)
        client.session.driver.members[3].submit(GetData("/x", None), Result())
        client.runtime.turn(2 * CONNECT_S)
        self.assertEqual(heard.outcomes, [("d", NoNodeError)])
        self.assertEqual(
            heard.events[0 :: len(heard.events) - 1],
            [
                MapChanged(client.map.epoch - 1, "plain", ("a", "b", "c")),
                MapChanged(client.map.epoch, "plain", ("d",)),
            ],
        )

    def test_who_has_changed_the_state(self) -> None:
        client, _ = self.heard(REQUESTS)
        client["b"].has_ephemerals = True
        client.causes.clear()
        client["b"].lose()
        client.ensembles["b"].is_up = True
        client.runtime.turn(CONNECT_S)
        client.session.expire("a test wants it")
        self.assertEqual(client.causes[:3], ["b", "b", ""])


class TestOperations(SessionTest):
    """How many requests each operation has sent, on every kind of map, whatever comes between."""

    def client(self, heard: Heard, *, has_grown: bool, has_total_order: bool) -> explored.Client:
        placement = ADOPTED if has_grown else Placement(3)
        knows = Knows(guess(1)) if has_grown else None
        client = explored.Client(placement, prepared(placement), knows=knows, has_total_order=has_total_order)
        ports: list[Any] = [
            ObservedPort(client.members, at, heard.meter(str(at)), heard.now_s, has_operations=True)
            for at in range(placement.ensembles)
        ]
        inner: Any = client.driver.members if has_total_order else client.driver
        if has_total_order:
            inner._members = ports
        else:
            inner.members = ports
        return client

    def test_counts(self) -> None:
        for has_grown in (False, True):
            for has_total_order in (False, True):
                with self.subTest(has_grown=has_grown, has_total_order=has_total_order):
                    heard = Heard(REQUESTS, OPERATIONS)
                    client = self.client(heard, has_grown=has_grown, has_total_order=has_total_order)
                    operations = ObservedOperations(client.driver.call, heard.operation_meter, heard.now_s)
                    results = self.issue(operations, Placement(3))
                    client.run(random.Random(1))
                    self.assertEqual([len(each.told) for each in results], [1] * len(results))
                    self.assertEqual(len(heard.operations), len(results))
                    self.assertEqual(len(heard.requests), len(client.sent))
                    self.assertEqual(sum(each.count for each in heard.operations), len(client.sent))
                    errors = Counter(each.error for each in heard.operations)
                    self.assertEqual(errors, {None: 7, NoNodeError: 1, NodeExistsError: 1})

    def issue(self, operations: ObservedOperations, placement: Placement) -> list[Result]:
        """Some of each kind, at once."""
        directory = find_directory(placement, False)
        requests: list[Any] = [
            Create(directory, b"", OPEN_ACL_UNSAFE, 0),
            *(Create(f"{directory}/{name}", b"", OPEN_ACL_UNSAFE, 0) for name in "ab"),
            Create(f"{directory}/a", b"", OPEN_ACL_UNSAFE, 0),
            GetData(f"{directory}/a", None),
            GetData(directory, None),
            SetData(f"{directory}/missing", b"", -1),
            GetChildren(directory, None),
            Delete(f"{directory}/b", -1),
        ]
        results = [Result() for _ in requests]
        for request, result in zip(requests, results, strict=True):
            operations.call(request, result)
        return results


class TestPort(SessionTest):
    def setUp(self) -> None:
        self.heard = Heard(REQUESTS)
        self.replies: list[Any] = []
        self.port = ObservedPort([self], 0, self.heard.meter("a"), self.heard.now_s, has_operations=False)  # type: ignore[list-item]

    def submit(self, request: Any, reply: Any) -> None:
        self.replies.append(reply)

    def test_a_transaction_that_has_failed(self) -> None:
        """Its answer is a list; the error in it counts."""
        for answer in ([True, "/a"], [NoNodeError(), NodeExistsError()], []):
            self.port.submit(Transaction([]), None)
            self.replies.pop().set(answer)
        self.assertEqual([each.error for each in self.heard.requests], [None, NoNodeError, None])

    def test_a_meter_that_raises(self) -> None:
        """The request is answered all the same."""

        def fail(*about: object) -> None:
            raise MemoryError

        self.port.meter = fail
        result = Result()
        self.port.submit(GetData("/x", None), result)
        self.assertRaises(MemoryError, self.replies[-1].set, 1)
        self.port.submit(GetData("/x", None), result)
        self.assertRaises(MemoryError, self.replies[-1].set_exception, NoNodeError())
        self.assertEqual(result.told[0], 1)
        self.assertIsInstance(result.told[1], NoNodeError)
