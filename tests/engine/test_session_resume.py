"""A client that goes on with the sessions of another one, by its client_id."""

from __future__ import annotations

from kazoo.protocol.states import KeeperState

from parkazoo.errors import ClusterMapError
from parkazoo.protocol.client_id import pack_sessions, unpack_sessions
from parkazoo.protocol.placement import ENSEMBLE
from tests.engine.test_session import CONNECTED, EXPIRED, SessionTest
from tests.fakes.client import Client
from tests.fakes.member import CONNECT_S, PASSWORD, SESSION_TIMEOUT_S

CONNECTING = KeeperState.CONNECTING


class TestResume(SessionTest):
    def left(self, joined: str = "abc", **options: str) -> Client:
        """The next client of these ensembles has the client_id of one that has joined these."""
        client = self.started(joined, **options)
        client.resume, client.client_state = client.session.client_id, CONNECTING
        return client

    def resume(self, client: Client) -> None:
        client.begin()
        client.runtime.turn(3 * CONNECT_S)

    def sessions(self, client: Client) -> dict[str, int]:
        return {name: client[name].session_id for name in client.joined}

    def test_whole(self) -> None:
        """Its sessions, on any set of ensembles, from any of them on, with its id."""
        for joined in ("a", "ab", "ac", "abc"):
            for first in joined:
                with self.subTest(joined=joined, first=first):
                    client = self.left(joined)
                    before, client_id = self.sessions(client), client.session.client_id
                    client.first = first
                    self.resume(client)
                    self.assertEqual((client.states, self.sessions(client)), ([CONNECTED], before))
                    assert client.session.client_id is not None and client_id is not None
                    number, password = client.session.client_id
                    self.assertEqual(number, client_id[0])
                    self.assertEqual(unpack_sessions(password), unpack_sessions(client_id[1]))
                    self.assertEqual([len(client.ensembles[name].sessions) for name in joined], [1] * len(joined))

    def test_what_it_may_have_left(self) -> None:
        """There may be ephemerals of each session: so each matters, until it has expired."""
        client = self.left("ab")
        self.resume(client)
        client.states.clear()
        client["b"].lose()
        self.assertEqual(client.states, [CONNECTING])

    def test_from_an_ensemble_that_it_had_not_joined(self) -> None:
        """That one is joined too."""
        client = self.left("ab")
        before, number = self.sessions(client), client.session.number
        client.first = "c"
        self.resume(client)
        after = self.sessions(client)
        self.assertEqual(sorted(after), ["a", "b", "c"])
        self.assertEqual({name: after[name] for name in "ab"}, before)
        self.assertEqual((client.states, client.session.number), ([CONNECTED], number))

    def test_an_ensemble_is_away(self) -> None:
        """It waits for what it may have there."""
        for first in "abc":
            with self.subTest(first):
                client = self.left("ab")
                client.first = first
                client.ensembles["b"].is_up = False
                self.resume(client)
                self.assertEqual(client.states, [])
                client.ensembles["b"].is_up = True
                client.runtime.turn(3 * CONNECT_S)
                self.assertEqual(client.states, [CONNECTED])

    def test_expired_everywhere(self) -> None:
        """A new session, as with kazoo."""
        client = self.left()
        number = client.session.number
        for ensemble in client.ensembles.values():
            ensemble.sessions.clear()
        self.resume(client)
        self.assertEqual(client.states[-1], CONNECTED)
        self.assertNotEqual(client.session.number, number)
        client.states.clear()
        client.runtime.turn(10 * SESSION_TIMEOUT_S)
        self.assertEqual(client.states, [])

    def test_expired_on_one(self) -> None:
        """On the first or on another: it ends on all, and the client is a new one."""
        for expired in "ab":
            for first in "abc":
                with self.subTest(expired=expired, first=first):
                    client = self.left("ab")
                    before, number = self.sessions(client), client.session.number
                    client.first = first
                    client.ensembles[expired].sessions.clear()
                    self.resume(client)
                    client.runtime.turn(3 * CONNECT_S)
                    self.assertEqual(client.client_state, CONNECTED)
                    self.assertNotEqual(client.session.number, number)
                    for name, session in before.items():
                        self.assertNotIn(session, client.ensembles[name].sessions)

    def test_it_has_expired_where_it_is_late(self) -> None:
        """LOST, after all: the client could not know before."""
        client = self.left("ab")
        client.ensembles["b"].is_up = False
        client.ensembles["b"].sessions.clear()
        self.resume(client)
        self.assertEqual(client.states, [])
        client.ensembles["b"].is_up = True
        client.runtime.turn(5 * CONNECT_S)
        self.assertEqual(client.states, [EXPIRED, CONNECTING, CONNECTED])

    def test_not_one_of_this_cluster(self) -> None:
        """The log says so, and the session is a new one."""
        for words, password in {
            "no client_id": b"password",
            "a byte is missing": pack_sessions({"a": (5, PASSWORD)})[:-1],
            "an ensemble that the map does not name": pack_sessions({"d": (5, PASSWORD)}),
            "one of these too": pack_sessions({"a": (5, PASSWORD), "d": (6, PASSWORD)}),
        }.items():
            with self.subTest(words):
                client = Client(resume=(5, password))
                with self.assertLogs("parkazoo.test", "WARNING") as logged:
                    client.runtime.turn(2 * CONNECT_S)
                self.assertIn("is not one of this cluster's", logged.output[0])
                self.assertEqual((client.states, client.joined), ([CONNECTED], ["a"]))
                self.assertNotEqual(client.session.number, 5)

    def test_several_ensembles_for_one(self) -> None:
        """A client_id of several ensembles, where there is one: the same."""
        client = Client("a", resume=(5, pack_sessions({"a": (7, PASSWORD)})))
        with self.assertLogs("parkazoo.test", "WARNING"):
            client.runtime.turn(2 * CONNECT_S)
        self.assertEqual((client.states, client.session.number), ([CONNECTED], client["a"].session_id))

    def test_no_session(self) -> None:
        """An id alone is nobody's: there is no session that it could be proved by."""
        client = Client(resume=(5, b""))
        client.runtime.turn(CONNECT_S)
        self.assertEqual(client.states, [CONNECTED])
        self.assertNotEqual(client.session.number, 5)

    def test_a_session_of_kazoo(self) -> None:
        """The first ensemble is asked for it."""
        for names in ("a", "abc"):
            with self.subTest(names):
                client = Client(names, resume=(5, PASSWORD))
                client.ensembles["a"].sessions.add(5)
                client.runtime.turn(CONNECT_S)
                self.assertEqual((client.states, client.session.number), ([CONNECTED], 5))
                self.assertEqual((client["a"].session_id, client["a"].has_ephemerals), (5, True))

    def test_a_session_of_kazoo_that_has_expired(self) -> None:
        for names in ("a", "abc"):
            with self.subTest(names):
                client = Client(names, resume=(5, PASSWORD))
                client.runtime.turn(2 * CONNECT_S)
                self.assertEqual(client.client_state, CONNECTED)
                self.assertNotEqual(client.session.number, 5)
                self.assertFalse(client["a"].has_ephemerals)

    def test_a_wrong_ensemble(self) -> None:
        """What needs it fails at once; the client waits for the right one."""
        client = self.left("ab")
        client.ensembles["b"].data[ENSEMBLE] = client.identity("c")
        client.begin()
        waiting = self.call(client, "b")
        client.runtime.turn(5 * CONNECT_S)
        self.assertIsInstance(waiting.value, ClusterMapError)
        self.assertEqual((client.states, client.session.failure), ([], None))
        client.ensembles["b"].data[ENSEMBLE] = client.identity("b")
        client.runtime.turn(CONNECT_S)
        self.assertEqual(client.states, [CONNECTED])
