"""A client whose map loses an ensemble while it is at work: it closes its session there."""

from __future__ import annotations

from typing import Any

from kazoo.exceptions import BadVersionError, NoNodeError
from kazoo.protocol.states import KeeperState

from parkazoo.engine.gone import Gone
from parkazoo.kazoo_private import Auth, Create, Exists, GetData, Sync, Transaction
from parkazoo.protocol.epochs import Form
from parkazoo.protocol.past import CATCH_UP
from parkazoo.protocol.placement import MAP
from parkazoo.protocol.watches import DirectoryWatch
from parkazoo.protocol.where.places import PINNED, directory
from tests.engine.test_session import CONNECTED, EXPIRED
from tests.engine.test_session_forms import FormTest
from tests.engine.test_session_growth import CONNECTING
from tests.fakes.client import Client
from tests.fakes.member import CONNECT_S
from tests.fakes.result import Result

GONE = 2  # the index of ensemble c


class TestParting(FormTest):
    def at_work(self, first: str = "a", joined: str = "ac") -> Client:
        client = Client(first=first)
        self.publish(client, Form.GROWN)
        for ensemble in client.ensembles.values():
            self.refuse_catch_up(ensemble)
        client.runtime.turn(CONNECT_S)
        for name in joined:
            self.ask(client, name)
        client.runtime.turn(CONNECT_S)
        client.states.clear()
        return client

    def refuse_catch_up(self, ensemble: Any) -> None:
        answer = ensemble.answer
        ensemble.answer = lambda request: BadVersionError() if request == CATCH_UP else answer(request)

    def leave(self, client: Client, on: str = "a", *, is_gone: bool = True) -> None:
        """The client hears on that ensemble that c leaves, and that it has left."""
        steps = [client.map.with_leaving("c")]
        for each in [*steps, steps[0].without("c")][: 1 + is_gone]:
            client.map = each
            client.ensembles[on].data[MAP] = each.to_json()
            self.hear(client, on)

    def test_it_leaves(self) -> None:
        """Nothing is pinned there from the first map on, and asked there from the second."""
        client = self.at_work()
        driver = client.session.driver
        assert driver is not None
        places = driver.context.places
        places.remember(directory("/d", places.known("/d").home, GONE), places.count)
        self.leave(client, is_gone=False)
        client.runtime.turn(CONNECT_S)
        leaving = driver.context.places
        self.assertEqual((leaving.leaving, self.epochs(client)), ({GONE}, [3, 3]))
        self.assertEqual((leaving.known("/d").mirror.ensemble, leaving.known("/d").certainty), (GONE, PINNED))
        guesses = {leaving.known(f"/e{number}").mirror.ensemble for number in range(50)}
        self.assertEqual(guesses, {0, 1})
        member, client.map = client["c"], client.map.without("c")
        client.ensembles["a"].data[MAP] = client.map.to_json()
        self.hear(client)
        client.runtime.turn(CONNECT_S)
        self.assertEqual((client.joined, client.states, member.told[-1]), (["a"], [], "close"))
        self.assertEqual(client.ensembles["c"].sessions, set())
        self.assertIsInstance(client.session.roster.ports[GONE], Gone)
        self.assertIn(driver.context.places.known("/d").mirror.ensemble, {0, 1})

    def test_it_stays_after_all(self) -> None:
        client = self.at_work()
        self.leave(client, is_gone=False)
        client.map = client.map.with_epoch({"a": 1, "b": 1, "c": 1}, ())
        client.ensembles["a"].data[MAP] = client.map.to_json()
        self.hear(client)
        client.runtime.turn(CONNECT_S)
        assert client.session.driver is not None
        places = client.session.driver.context.places
        self.assertEqual((places.leaving, self.epochs(client)), (frozenset(), [4, 4]))
        self.assertIn(GONE, {places.known(f"/e{number}").mirror.ensemble for number in range(50)})

    def test_a_server_that_cannot_write(self) -> None:
        """It may not have sent the last events yet."""
        client = self.at_work()
        client["c"]._change(KeeperState.CONNECTED_RO)
        self.leave(client)
        client.runtime.turn(CONNECT_S)
        self.assertEqual(client.joined, ["a", "c"])
        self.assertNotIn(CATCH_UP, client.ensembles["c"].seen)
        client["c"]._change(CONNECTED)
        client.runtime.turn(CONNECT_S)
        self.assertEqual(client.joined, ["a"])

    def test_an_ephemeral_that_others_have_deleted(self) -> None:
        client = self.at_work()
        client["c"].has_ephemerals = True
        self.leave(client)
        client.runtime.turn(CONNECT_S)
        self.assertEqual((client.joined, client.states), (["a"], [EXPIRED, CONNECTING, CONNECTED]))

    def test_its_only_session(self) -> None:
        """It begins another first."""
        client = self.at_work("c", "c")
        self.leave(client, "c")
        client.runtime.turn(2 * CONNECT_S)
        self.assertEqual((client.joined, client.states), (["a"], []))
        self.assertIs(client.session.roster.first, client["a"])

    def test_it_is_down(self) -> None:
        client = self.at_work()
        client["c"].lose()
        self.leave(client)
        client.runtime.turn(CONNECT_S)
        self.assertEqual((client.joined, client.states), (["a"], []))

    def test_a_watch_that_waits_elsewhere_too(self) -> None:
        """It goes on there, if it has heard of all here. One that has outlasted the connection is told NONE."""
        for is_down in (False, True):
            client = self.at_work()
            member, nothing = client["c"], lambda *_: None
            watch = DirectoryWatch("/d", print, nothing, nothing, "/d", nothing)
            member.watches = [("/d", watch)]
            if is_down:
                member.lose()
            self.leave(client)
            client.runtime.turn(CONNECT_S)
            self.assertEqual(client.joined, ["a"])
            self.assertEqual(member.watches, [("/d", watch)] if is_down else [])

    def test_not_joined(self) -> None:
        """What waits there is answered, and nothing joins it."""
        client = self.at_work(joined="a")
        self.leave(client)
        client.runtime.turn(CONNECT_S)
        result = self.ask(client, "c")
        client.runtime.turn(CONNECT_S)
        self.assertIsInstance(result.value, NoNodeError)
        self.assertEqual(client.joined, ["a"])

    def test_known_from_the_beginning(self) -> None:
        client = Client()
        self.publish(client, Form.GROWN)
        client.map = client.map.with_leaving("c").without("c")
        client.ensembles["a"].data[MAP] = client.map.to_json()
        client.runtime.turn(CONNECT_S)
        self.assertIsInstance(client.session.roster.ports[GONE], Gone)
        self.assertEqual(client.states, [CONNECTED])

    def test_what_is_answered_in_its_place(self) -> None:
        port = Gone()
        create = Create("/d", b"", [], 0)
        for request, expected in (
            (Exists("/d", None), None),
            (Sync("/d"), "/d"),
            (Auth(0, "digest", "a:b"), True),
            (GetData("/d", None), NoNodeError),
            (create, NoNodeError),
        ):
            result = Result()
            port.submit(request, result)
            self.assertEqual(type(result.value) if isinstance(result.value, Exception) else result.value, expected)
        result = Result()
        port.submit(Transaction([create, create]), result)
        self.assertEqual([type(each).__name__ for each in result.value], ["NoNodeError", "RuntimeInconsistency"])
        port.submit(create, None)
        self.assertEqual((port.data_watches(), port.forget_watch("/d", print)), ([], False))
