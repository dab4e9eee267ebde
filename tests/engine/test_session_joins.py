"""Ensembles that a client joins when a request needs them, and what it finds there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kazoo.exceptions import AuthFailedError, ConnectionClosedError, ConnectionLoss, NoAuthError
from kazoo.protocol.states import KeeperState

from parkazoo.errors import ClusterMapError
from parkazoo.kazoo_private import GetData
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.placement import ENSEMBLE, MAP
from parkazoo.protocol.registration import decode_registration, registration_path
from tests.engine.test_session import AUTH_FAILED, CLOSED, CONNECTED, SessionTest
from tests.fakes.client import Client
from tests.fakes.member import CONNECT_S, SESSION_TIMEOUT_S, STAT
from tests.fakes.result import Result

CONNECTING = KeeperState.CONNECTING


class TestJoin(SessionTest):
    def test_when_it_is_needed(self) -> None:
        """The client stays connected meanwhile."""
        client = self.started()
        on_a, on_b = self.call(client, "a"), self.call(client, "b")
        client.runtime.turn(CONNECT_S / 2)
        self.assert_read(on_a)
        self.assertEqual((on_b.told, client.joined), ([], ["a", "b"]))
        client.runtime.turn(CONNECT_S / 2)
        self.assert_read(on_b)
        client.runtime.turn(10 * SESSION_TIMEOUT_S)
        self.assertEqual((client.states, client.joined), ([], ["a", "b"]))
        self.assertEqual((client["b"].hosts, client["b"].limit_s), ("b:1", SESSION_TIMEOUT_S))

    def test_a_server_of_another_cluster(self) -> None:
        """The client says that it is not used."""
        client = Client()
        client.describe_hosts = lambda: "a:1,Z:1"  # type: ignore[method-assign]
        with self.assertLogs("parkazoo.test", "WARNING") as logged:
            client.runtime.turn(CONNECT_S)
        self.assertIn("cluster test does not name z:1", logged.output[0])
        self.assertEqual(client.states, [CONNECTED])

    def test_once(self) -> None:
        """All requests are sent, in their order, whenever they came."""
        client = self.started()
        index = client.map.names.index("b")
        results = [Result() for _ in range(6)]
        for number, result in enumerate(results):
            client.session.roster.ports[index].submit(GetData(f"/{number}", None), result)
            if number % 2:
                client.runtime.turn(CONNECT_S / 3)
        client.runtime.turn(CONNECT_S)
        self.assertEqual([len(result.told) for result in results], [1] * 6)
        asked = [each.path for each in client.ensembles["b"].seen if isinstance(each, GetData)]
        self.assertEqual(asked, [f"/{number}" for number in range(6)])
        self.assertEqual((client.joined, len(client["b"].begun_s)), (["a", "b"], 1))

    def test_through_a_port_from_before(self) -> None:
        """A thread may have looked for the member before it was there."""
        client = self.started()
        before = client.session.roster.ports[client.map.names.index("b")]
        self.join(client, "b")
        late = Result()
        before.submit(GetData(ENSEMBLE, None), late)
        client.runtime.turn()
        self.assertEqual(late.value, (client.identity("b"), STAT))
        self.assertEqual(client.joined, ["a", "b"])

    def test_an_ensemble_is_away(self) -> None:
        """What needs it fails after a while; the rest of the client is not concerned. Later it is joined."""
        client = self.started()
        client.ensembles["b"].is_up = False
        on_b = self.call(client, "b")
        client.runtime.turn(SESSION_TIMEOUT_S - 0.1)
        on_a = self.call(client, "a")
        self.assertEqual(on_b.told, [])
        client.runtime.turn(0.1)
        self.assert_read(on_a)
        self.assertIsInstance(on_b.value, ConnectionLoss)
        self.assertEqual(client.session.roster.describe_missing(), "ensemble b (it is down)")
        again = self.call(client, "b")
        client.ensembles["b"].is_up = True
        client.runtime.turn(CONNECT_S)
        self.assert_read(again)
        self.assertEqual(client.states, [])

    def test_a_watch_that_could_not_be_left(self) -> None:
        """The client is suspended until that ensemble is there: programs set their watches again then."""
        client = self.started()
        client.ensembles["b"].is_up = False
        read, watching = self.call(client, "b"), self.call(client, "b", lambda event: None)
        client.runtime.turn(SESSION_TIMEOUT_S)
        self.assertEqual([type(each.value) for each in (read, watching)], [ConnectionLoss] * 2)
        self.assertEqual(client.states, [CONNECTING])
        client.ensembles["b"].is_up = True
        client.runtime.turn(CONNECT_S)
        self.assertEqual(client.states, [CONNECTING, CONNECTED])

    def test_states_of_ensembles(self) -> None:
        client = self.started("ab")
        self.call(client, "c")
        client.runtime.turn()
        client["b"].lose()
        self.assertEqual(
            [client.session.roster.state_on(at) for at in range(3)], [CONNECTED, CONNECTING, CONNECTING]
        )
        client = self.started("b", first="b")
        self.assertEqual([client.session.roster.state_on(at) for at in range(3)], [CLOSED, CONNECTED, CLOSED])

    def test_credentials_refused(self) -> None:
        """That is the end of the client, as with kazoo."""
        client = self.started()
        client.ensembles["b"].refuses_credentials = True
        on_b = self.call(client, "b")
        client.runtime.turn(2 * CONNECT_S)
        self.assertEqual(client.states, [AUTH_FAILED])
        self.assertIsInstance(on_b.value, (AuthFailedError, ConnectionLoss))
        for name in "abc":
            self.assertEqual(len(self.call(client, name).told), 1)
        self.assert_over(client)

    def test_no_more_attempts(self) -> None:
        """An ensemble that `connection_retry` gives up closes the client."""
        client = self.started("ab")
        client.session.member_changed(client["b"], CLOSED)
        client.runtime.turn(CONNECT_S)
        self.assertEqual(client.states, [CLOSED])
        self.assertIsInstance(self.call(client, "c").value, ConnectionClosedError)
        self.assert_over(client)


class TestWrongEnsemble(SessionTest):
    """The servers of b are not b's, or hold what does not belong to this map."""

    def check(self, client: Client, error: type[Exception], words: str) -> None:
        """What waits for b fails as soon as that is known, and nothing else does; b can be mended."""
        b = client.ensembles["b"]
        for _ in range(2):
            waiting = self.call(client, "b")
            client.runtime.turn(CONNECT_S)
            self.assertIsInstance(waiting.value, error)
            self.assertIn(words, str(waiting.value))
        self.assertEqual(b.sessions, set())
        on_c = self.call(client, "c")
        client.runtime.turn(CONNECT_S)
        self.assert_read(on_c)
        self.assertEqual((client.states, client.session.failure), ([], None))
        b.data |= {ENSEMBLE: client.identity("b"), MAP: client.map.to_json()}
        mended = self.call(client, "b")
        client.runtime.turn(CONNECT_S)
        self.assert_read(mended)
        self.assertEqual(client.states, [])

    def test_another_ensemble(self) -> None:
        client = self.started()
        client.ensembles["b"].data[ENSEMBLE] = client.identity("c")
        self.check(client, ClusterMapError, "are not ensemble b of this cluster")

    def test_no_identity(self) -> None:
        client = self.started()
        del client.ensembles["b"].data[ENSEMBLE]
        self.check(client, ClusterMapError, "they have lost their data")

    def test_an_identity_that_may_not_be_read(self) -> None:
        client = self.started()
        client.ensembles["b"].data[ENSEMBLE] = NoAuthError()
        self.check(client, NoAuthError, "")

    def test_copies(self) -> None:
        other = {"a": "a:1", "b": "b:1", "c": "elsewhere:1"}
        for words, answer in {
            "cannot use the cluster map": b"{",
            "may not read": NoAuthError(),
            "is of cluster other, not test": {"cluster": "other"},
            "differs from the client's map, number 1 too": {"ensembles": other},
            "places znodes otherwise": {"epoch": 2, "placement": ("b", "a", "c")},
        }.items():
            with self.subTest(words):
                client = self.started()
                found = replace(client.map, **answer).to_json() if isinstance(answer, dict) else answer
                client.ensembles["b"].data[MAP] = found
                self.check(client, ClusterMapError, words)

    def test_later(self) -> None:
        """It was the right one before. It is not talked to, and what needs it waits for the right one."""
        for path in (ENSEMBLE, MAP):
            with self.subTest(path):
                client = self.started("ab")
                client["b"].lose()
                client.ensembles["b"].is_up = True
                client.ensembles["b"].data[path] = client.identity("c")
                waiting = self.call(client, "b")
                client.runtime.turn(5 * CONNECT_S)
                self.assertEqual((waiting.told, client["b"].state), ([], CONNECTING))
                client.ensembles["b"].data |= {ENSEMBLE: client.identity("b"), MAP: client.map.to_json()}
                client.runtime.turn(CONNECT_S)
                self.assert_read(waiting)
                self.assertEqual((client.states, client.session.failure), ([], None))


class TestCopies(SessionTest):
    """The maps that the ensembles hold while a change is on its way."""

    def newer(self, client: Client, name: str, **changes: Any) -> ClusterMap:
        """That ensemble has a newer map."""
        newer = replace(client.map, epoch=2, **changes)
        client.ensembles[name].data[MAP] = newer.to_json()
        return newer

    def registered_epochs(self, client: Client) -> list[int]:
        return [
            decode_registration(client.ensembles[name].data[registration_path(client[name].session_id)])["epoch"]
            for name in client.joined
        ]

    def test_none(self) -> None:
        """The ensemble has just been added: its copy is yet to come."""
        client = self.started()
        del client.ensembles["b"].data[MAP]
        self.join(client, "b")
        self.assertEqual((client.session.roster.cluster_map, client.states), (client.map, []))

    def test_older(self) -> None:
        client = Client()
        newer = self.newer(client, "a")
        client.runtime.turn(CONNECT_S)
        self.join(client, "bc")
        self.assertEqual((client.session.roster.cluster_map, client.states), (newer, [CONNECTED]))
        self.assertEqual(self.registered_epochs(client), [2, 2, 2])

    def test_newer(self) -> None:
        """Each session says so, now or as soon as it is connected; the addresses are those of the newer map."""
        client = self.started("ac")
        client["c"].lose()
        newer = self.newer(client, "b", ensembles={"a": "a:1,a:2", "b": "b:1", "c": "moved:1"})
        client.servers |= {"a:2": client.ensembles["a"], "moved:1": client.ensembles["c"]}
        self.join(client, "b")
        self.assertEqual(client.session.roster.cluster_map, newer)
        self.assertEqual([client[name].hosts for name in "abc"], ["a:1,a:2", "b:1", "moved:1"])
        self.assertEqual(self.registered_epochs(client), [2, 1, 2])
        client.ensembles["c"].is_up = True
        client.runtime.turn(CONNECT_S)
        self.assertEqual((self.registered_epochs(client), client.states), ([2, 2, 2], []))

    def test_newer_where_it_begins(self) -> None:
        """Behind the registration, on a server that had lagged."""
        client = Client()
        a, older = client.ensembles["a"], client.map.to_json()
        reads = [older, self.newer(client, "a").to_json()]
        a.read = lambda path: (reads.pop(0), None) if path == MAP else type(a).read(a, path)  # type: ignore[method-assign]
        client.runtime.turn(CONNECT_S)
        assert client.session.roster.cluster_map is not None
        self.assertEqual((client.states, client.session.roster.cluster_map.epoch), ([CONNECTED], 2))
        self.assertEqual(self.registered_epochs(client), [2])

    def test_newer_at_a_later_connection(self) -> None:
        """No registration goes before: the session has one, which is raised."""
        client = self.started("ab")
        newer = self.newer(client, "b")
        client["b"].lose()
        client.ensembles["b"].is_up = True
        client.runtime.turn(CONNECT_S)
        self.assertEqual((client.session.roster.cluster_map, client.states), (newer, []))
        self.assertEqual(self.registered_epochs(client), [2, 2])

    def test_an_ensemble_that_has_moved(self) -> None:
        """It is joined where the newer map says."""
        client = self.started()
        self.newer(client, "b", ensembles={**client.map.ensembles, "c": "moved:1"})
        client.servers["moved:1"] = client.servers.pop("c:1")
        self.join(client, "bc")
        self.assertEqual(client["c"].hosts, "moved:1")

    def test_damaged_where_it_begins(self) -> None:
        """Behind the registration: the start fails."""
        client = Client()
        a = client.ensembles["a"]
        reads = [client.map.to_json(), b"{"]
        a.read = lambda path: (reads.pop(0), None) if path == MAP else type(a).read(a, path)  # type: ignore[method-assign]
        with self.assertLogs("parkazoo.test", "ERROR"):
            client.runtime.turn(2 * CONNECT_S)
        self.assertEqual(client.states, [CLOSED])
        self.assertIn("cannot use the cluster map", str(client.session.failure))
        self.assert_over(client)
