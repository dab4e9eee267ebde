"""The registrations of a session's members, with a clock that the test turns."""

from __future__ import annotations

from kazoo.protocol.states import KeeperState

from parkazoo.protocol.registration import decode_registration, parse_session, registration_path
from tests.protocol.by_hand import CONNECT_S, PASSWORD, SESSION_TIMEOUT_S, Client
from tests.protocol.test_session import START_S, SessionTest

CONNECTED, CONNECTING = KeeperState.CONNECTED, KeeperState.CONNECTING


class TestRegistration(SessionTest):
    def registered_as(self, client: Client) -> dict[str, int | None]:
        """The id of the client in each member's registration of its present session."""
        found = {}
        for name, ensemble in client.ensembles.items():
            self.assertIn(client[name].session_id, [session for session, _ in client[name].registrations])
            data = ensemble.data[registration_path(client[name].session_id)]
            found[name] = parse_session(decode_registration(data)["client"])
        return found

    def test_started(self) -> None:
        client = self.started()
        number = client["a"].session_id
        self.assertEqual(client.session.number, number)
        self.assertEqual(self.registered_as(client), dict.fromkeys("abc", number))

    def test_expired(self) -> None:
        """The others wait for the client's new id."""
        for name in "abc":
            with self.subTest(name):
                client = self.started()
                old = client.session.number
                client[name].lose()
                client.runtime.turn(SESSION_TIMEOUT_S)
                client.ensembles[name].is_up = True
                client.runtime.turn(4 * CONNECT_S)
                self.assertEqual(client.states[-1], CONNECTED)
                number = client["a"].session_id
                self.assertNotEqual(number, old)
                self.assertEqual(client.session.number, number)
                self.assertEqual(self.registered_as(client), dict.fromkeys("abc", number))

    def test_the_bootstrap_ensemble_stays_away(self) -> None:
        """No other session begins without the client's id; stop() ends it all the same."""
        client = self.started()
        client["a"].lose()
        client["b"].lose()
        client.runtime.turn(SESSION_TIMEOUT_S)
        client.ensembles["b"].is_up = True
        client.runtime.turn(10 * CONNECT_S)
        self.assertEqual((client.session.number, client["b"].session_id), (0, 0))
        client.session.stop(lambda: None)
        client.runtime.turn(2 * CONNECT_S)
        self.assert_over(client)

    def test_the_answer_is_lost(self) -> None:
        """The next connection registers."""
        client = Client()
        client.ensembles["a"].loses_registrations = True
        client.runtime.turn(3 * START_S)
        self.assertEqual(client.states, [])
        client["a"].lose()
        client.ensembles["a"].is_up = True
        client.runtime.turn(START_S)
        self.assertEqual(client.states, [CONNECTED])
        self.assertEqual(self.registered_as(client), dict.fromkeys("abc", client.session.number))

    def test_resumed(self) -> None:
        client = self.started()
        number = client.session.number
        client.resume, client.client_state = client.session.client_id, CONNECTING
        client.begin()
        client.runtime.turn(START_S)
        self.assertEqual(client.session.number, number)
        self.assertEqual(self.registered_as(client), dict.fromkeys("abc", number))

    def test_of_another_cluster(self) -> None:
        client = Client(resume=(5, PASSWORD))
        client.ensembles["a"].sessions.add(5)
        with self.assertLogs("parkazoo.test", "WARNING"):
            client.runtime.turn(2 * START_S)
        self.assertNotEqual(client.session.number, 5)
        self.assertEqual(self.registered_as(client), dict.fromkeys("abc", client.session.number))
