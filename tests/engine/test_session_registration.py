"""The registrations of a session's members, with a clock that the test turns."""

from __future__ import annotations

from kazoo.protocol.states import KeeperState

from parkazoo.kazoo_private import Create, SetData
from parkazoo.protocol.registration import decode_registration, parse_session, registration_path
from tests.engine.test_session import CONNECTED, SessionTest
from tests.engine.test_session_growth import GrowthTest
from tests.fakes.client import Client
from tests.fakes.member import CONNECT_S, PASSWORD, SESSION_TIMEOUT_S, STAT

CONNECTING = KeeperState.CONNECTING


class TestRegistration(SessionTest):
    def registered_as(self, client: Client) -> dict[str, int | None]:
        """The id of the client in each member's registration of its present session."""
        found = {}
        for name in client.joined:
            path = registration_path(client[name].session_id)
            found[name] = parse_session(decode_registration(client.ensembles[name].data[path])["client"])
        return found

    def check(self, client: Client, joined: str = "abc") -> None:
        """All have registered with the client's id."""
        self.assertEqual(client.client_state, CONNECTED)
        self.assertEqual(self.registered_as(client), dict.fromkeys(joined, client.session.number))

    def test_joined(self) -> None:
        """Each when it is joined, before anything else is sent there."""
        client = self.started()
        self.check(client, "a")
        self.join(client, "bc")
        self.check(client)
        for name in "bc":
            self.assertIsInstance(client.ensembles[name].seen[0], Create)

    def test_one_ensemble(self) -> None:
        client = self.started(names="a")
        self.assertEqual(self.registered_as(client), {"a": client["a"].session_id})

    def test_expired(self) -> None:
        """With the client's new id."""
        for name in "abc":
            with self.subTest(name):
                client = self.started("abc")
                old = client.session.number
                client[name].has_ephemerals = True
                client[name].lose()
                client.runtime.turn(SESSION_TIMEOUT_S)
                client.ensembles[name].is_up = True
                client.runtime.turn(4 * CONNECT_S)
                self.assertNotEqual(client.session.number, old)
                self.check(client)

    def test_renewed(self) -> None:
        """The new session registers with the same id."""
        client = self.started("abc")
        old = client["b"].session_id
        client["b"].lose()
        client.runtime.turn(SESSION_TIMEOUT_S)
        client.ensembles["b"].is_up = True
        client.runtime.turn(4 * CONNECT_S)
        self.assertNotEqual(client["b"].session_id, old)
        self.check(client)

    def test_connected_again(self) -> None:
        """The session has registered."""
        client = self.started("ab")
        client["b"].lose()
        client.ensembles["b"].is_up = True
        client.runtime.turn(CONNECT_S)
        creates = [each for each in client.ensembles["b"].seen if isinstance(each, Create)]
        self.assertEqual((len(creates), client["b"].state), (1, CONNECTED))

    def test_the_answer_is_lost(self) -> None:
        """The next connection registers."""
        client = Client()
        client.ensembles["a"].loses_registrations = True
        client.runtime.turn(3 * CONNECT_S)
        self.assertEqual((client.states, client.ensembles["a"].sessions), ([], set()))
        client.ensembles["a"].loses_registrations = False
        client.runtime.turn(CONNECT_S)
        self.check(client, "a")

    def test_read_only(self) -> None:
        """It registers when it can."""
        client = Client()
        client.ensembles["a"].can_write = False
        client.runtime.turn(CONNECT_S)
        self.assertEqual(client.states, [KeeperState.CONNECTED_RO])
        self.assertEqual(client.ensembles["a"].seen, [])
        client["a"].lose()
        client.ensembles["a"].is_up = client.ensembles["a"].can_write = True
        client.runtime.turn(CONNECT_S)
        self.check(client, "a")

    def test_resumed(self) -> None:
        """What is registered already is set."""
        client = self.started("abc")
        number = client.session.number
        client.resume, client.client_state = client.session.client_id, CONNECTING
        client.begin()
        client.runtime.turn(3 * CONNECT_S)
        self.assertEqual(client.session.number, number)
        self.check(client)
        for name in "abc":
            sets = [each for each in client.ensembles[name].seen if isinstance(each, SetData)]
            self.assertEqual(len(sets), 1)

    def test_of_another_cluster(self) -> None:
        client = Client(resume=(5, PASSWORD + b"x"))
        with self.assertLogs("parkazoo.test", "WARNING"):
            client.runtime.turn(CONNECT_S)
        self.assertNotEqual(client.session.number, 5)
        self.check(client, "a")


class TestLate(GrowthTest):
    """The cluster is older than registrations: they come with a newer map, if there is room by then."""

    def setUp(self) -> None:
        super().setUp()
        self.client = self.started("abc")
        self.path = registration_path(self.client["b"].session_id)
        self.client.ensembles["b"].data.pop(self.path)

    def sent(self) -> list[type]:
        """The kinds of the requests about it."""
        return [type(each) for each in self.client.ensembles["b"].seen if getattr(each, "path", "") == self.path]

    def test_there_is_a_place_now(self) -> None:
        self.grow(self.client, "d")
        self.assertEqual(self.sent(), [Create, SetData, Create])
        registered = decode_registration(self.client.ensembles["b"].data[self.path])
        self.assertEqual(parse_session(registered["client"]), self.client.session.number)
        self.grow(self.client, "e")
        self.assertEqual(self.sent(), [Create, SetData, Create, SetData])

    def test_it_has_no_right_to(self) -> None:
        """It is asked once for each map."""
        self.client.ensembles["b"].refuses_creates = True
        self.grow(self.client, "d")
        self.client.runtime.turn(SESSION_TIMEOUT_S)
        self.assertEqual(self.sent(), [Create, SetData, Create])
        self.assertNotIn(self.path, self.client.ensembles["b"].data)

    def test_its_session_is_replaced_meanwhile(self) -> None:
        """Another session must not own the ephemeral that bears its name."""
        self.client.grow("d")
        copy = self.client.map.to_json(), STAT
        self.assertIsNone(self.client.session.take_copy(self.client["a"], copy, "a:1"))
        self.client["b"].session_id += 1
        self.client.runtime.turn()
        self.assertEqual(self.sent(), [Create, SetData])
