"""The whole life of a session, over a runtime whose clock the test turns and members without a wire."""

from __future__ import annotations

import unittest
from typing import Any

from kazoo.exceptions import (
    AuthFailedError,
    ConnectionClosedError,
    ConnectionLoss,
    NoAuthError,
    SessionExpiredError,
)
from kazoo.protocol.states import EventType, KeeperState, WatchedEvent

from parkazoo.errors import ClusterMapError
from parkazoo.kazoo_private import GetData, Sync
from parkazoo.protocol.placement import ENSEMBLE, MAP
from tests.explore.client import Result
from tests.protocol.by_hand import CONNECT_S, PASSWORD, SESSION_TIMEOUT_S, Client

CONNECTED, CONNECTING, CLOSED = KeeperState.CONNECTED, KeeperState.CONNECTING, KeeperState.CLOSED
EXPIRED, AUTH_FAILED = KeeperState.EXPIRED_SESSION, KeeperState.AUTH_FAILED
START_S = 2 * CONNECT_S  # the bootstrap ensemble, then the others at once


class SessionTest(unittest.TestCase):
    def started(self, **options: Any) -> Client:
        client = Client(**options)
        client.runtime.turn(START_S)
        self.assertEqual(client.states, [CONNECTED])
        client.states.clear()
        return client

    def call(self, client: Client, request: Any = None) -> Result:
        """By default of all ensembles that hold /x or its children."""
        result = Result()
        client.session.call(request or Sync("/x"), result)
        return result

    def on(self, client: Client, name: str) -> GetData:
        """A read of a znode on that ensemble."""
        placement, names = client.map.make_placement(), client.map.names
        paths = (f"/p{number}/x" for number in range(100))
        return GetData(next(path for path in paths if names[placement.of(path)] == name), None)

    def assert_over(self, client: Client) -> None:
        """Nothing is left, here or on the servers."""
        self.assertTrue(client.session.is_over)
        self.assertEqual(client.runtime.users, 0)
        self.assertEqual([each.sessions for each in client.ensembles.values() if each.is_up and each.sessions], [])
        self.assertIsNone(client.session.client_id)


class TestStart(SessionTest):
    def test_all_connect(self) -> None:
        client = Client()
        client.runtime.turn(START_S - 0.5)
        self.assertEqual(client.states, [])
        self.assertEqual([client[name].begun_s for name in "abc"], [[0.0], [CONNECT_S], [CONNECT_S]])
        client.runtime.turn(0.5)
        self.assertEqual(client.states, [CONNECTED])
        assert client.session.cluster_map is not None and client.session.driver is not None
        self.assertEqual(client.session.cluster_map, client.map)
        self.assertEqual(client.runtime.users, 1)

    def test_early_operations_wait(self) -> None:
        """They are sent when the session is open, in their order and before later ones."""
        client = Client()
        early = [self.call(client, self.on(client, "b")) for _ in range(3)]
        client.runtime.turn(START_S)
        self.assertEqual(len(client.ensembles["b"].seen), 3)
        later = self.call(client)
        client.runtime.turn()
        self.assertEqual([len(result.told) for result in (*early, later)], [1] * 4)

    def test_one_is_missing(self) -> None:
        client = Client()
        client.ensembles["b"].is_up = False
        client.runtime.turn(10 * START_S)
        early = self.call(client)
        self.assertEqual((client.states, early.told), ([], []))
        self.assertEqual(client.session.describe_missing(), "ensemble b (it is down)")
        client.ensembles["b"].is_up = True
        client.runtime.turn(CONNECT_S)
        self.assertEqual((client.states, len(early.told)), ([CONNECTED], 1))

    def test_the_bootstrap_ensemble_is_missing(self) -> None:
        client = Client()
        client.ensembles["a"].is_up = False
        client.runtime.turn(START_S)
        self.assertEqual(client.session.describe_missing(), "the bootstrap ensemble (it is down)")

    def test_one_ensemble(self) -> None:
        client = Client("a")
        client.runtime.turn(CONNECT_S)
        self.assertEqual(client.states, [CONNECTED])

    def test_the_connection_is_lost_before_the_map_is_read(self) -> None:
        """The map is asked for again."""
        client = Client()
        client.ensembles["a"].data[MAP] = ConnectionLoss()
        client.runtime.turn(CONNECT_S)
        self.assertEqual(len(client.session.members), 1)
        client.ensembles["a"].data[MAP] = client.map.to_json()
        client["bootstrap"].lose()
        client.ensembles["a"].is_up = True
        client.runtime.turn(START_S)
        self.assertEqual(client.states, [CONNECTED])


class TestFailedStart(SessionTest):
    def check(self, client: Client, error: type[Exception], words: str, state: str = CLOSED) -> None:
        """What waits, and what comes, raises the reason; nothing is left."""
        early = self.call(client)
        with self.assertLogs("parkazoo.test", "ERROR") as logged:
            client.runtime.turn(START_S)
        late = self.call(client)
        self.assertEqual(client.states, [state])
        client.runtime.turn(CONNECT_S)
        for told in (client.session.failure, early.value, late.value):
            self.assertIsInstance(told, error)
            self.assertIn(words, str(told))
        self.assertIn(words, logged.output[0])
        self.assert_over(client)

    def test_no_map(self) -> None:
        client = Client()
        del client.ensembles["a"].data[MAP]
        self.check(client, ClusterMapError, "no cluster map")

    def test_no_map_and_no_identity(self) -> None:
        client = Client()
        client.ensembles["a"].data.clear()
        self.check(client, ClusterMapError, "either none has been made")

    def test_a_map_that_may_not_be_read(self) -> None:
        client = Client()
        client.ensembles["a"].data[MAP] = NoAuthError()
        self.check(client, ClusterMapError, "may not read")

    def test_a_damaged_map(self) -> None:
        client = Client()
        client.ensembles["a"].data[MAP] = b"{"
        self.check(client, ClusterMapError, "cannot use the cluster map")

    def test_a_wrong_ensemble(self) -> None:
        for name in "ab":
            with self.subTest(name):
                client = Client()
                client.ensembles[name].data[ENSEMBLE] = client.identity("c")
                self.check(client, ClusterMapError, f"are not ensemble {name} of this cluster")

    def test_an_ensemble_without_identity(self) -> None:
        client = Client()
        del client.ensembles["c"].data[ENSEMBLE]
        self.check(client, ClusterMapError, "they have lost their data")

    def test_credentials_refused_with_the_map(self) -> None:
        client = Client()
        client.ensembles["a"].data[MAP] = AuthFailedError("no")
        self.check(client, AuthFailedError, "no", AUTH_FAILED)


class TestStates(SessionTest):
    def test_suspended(self) -> None:
        """One ensemble is away for a while: operations on the others go on, and the session stays the same."""
        client = self.started()
        before = client.session.client_id
        client["b"].lose()
        self.assertEqual(client.states, [CONNECTING])
        on_b, on_c = self.call(client, self.on(client, "b")), self.call(client, self.on(client, "c"))
        client.runtime.turn(SESSION_TIMEOUT_S / 2)
        self.assertEqual((len(on_b.told), len(on_c.told)), (0, 1))
        client.ensembles["b"].is_up = True
        client.runtime.turn(CONNECT_S)
        self.assertEqual(client.states, [CONNECTING, CONNECTED])
        self.assertEqual((client.session.client_id, len(on_b.told)), (before, 1))

    def test_expired(self) -> None:
        """The other sessions are closed on their servers, and all begin anew."""
        client = self.started()
        old = {name: client[name].session_id for name in "abc"}
        client["b"].lose()
        waiting = self.call(client, self.on(client, "b"))
        client.runtime.turn(SESSION_TIMEOUT_S)
        self.assertEqual(client.states, [CONNECTING])  # unknown before a server says so
        client.ensembles["b"].is_up = True
        client.runtime.turn(3 * CONNECT_S)
        self.assertEqual(client.states, [CONNECTING, EXPIRED, CONNECTING, CONNECTED])
        self.assertEqual([each for each in client["a"].told if "renew" in each], ["renew for b"])
        self.assertEqual([each for each in client["c"].told if "renew" in each], ["renew for b"])
        for name, number in old.items():
            self.assertNotIn(number, client.ensembles[name].sessions)
            self.assertNotEqual(client[name].session_id, number)
        self.assertEqual(len(waiting.told), 1)
        again = self.call(client)
        client.runtime.turn()
        self.assertEqual(again.told, ["/x"])

    def test_expired_operations(self) -> None:
        """An operation that needs another request after the expiry is ended by it."""
        client = self.started()
        client["b"].lose()
        client.runtime.turn(SESSION_TIMEOUT_S)
        waiting = self.call(client, self.on(client, "a"))
        client.session.member_changed(client["b"], EXPIRED)
        self.assertIsInstance(waiting.value, SessionExpiredError)

    def test_watches_hear_of_the_end_of_a_connection(self) -> None:
        client = self.started()
        events: list[WatchedEvent] = []
        watch = self.watch(client, events)
        assert client.session.watching is not None
        self.assertEqual(len(client.session.watching), 1)
        client["b"].lose()
        self.make_dispatched(client)
        self.assertEqual(events, [WatchedEvent(EventType.NONE, CONNECTING, None)])
        told = [client[name].told.count(f"drop watches: {CONNECTING}") for name in "abc"]
        self.assertEqual(told, [1, 1, 1])
        del watch
        self.assertEqual(len(client.session.watching), 0)

    def test_watches_hear_of_an_expiry(self) -> None:
        """Those that were set while the client was SUSPENDED, also one that is just looking at its directory."""
        client = self.started()
        client["b"].lose()
        self.make_dispatched(client)
        events: list[WatchedEvent] = []
        watch = self.watch(client, events)
        watch(WatchedEvent(EventType.CHILD, CONNECTED, watch.path))
        self.make_dispatched(client)
        self.assertEqual(events, [])
        for name in "abc":
            client[name].told.clear()
        client.session.member_changed(client["b"], EXPIRED)
        self.make_dispatched(client)
        self.assertEqual(events, [WatchedEvent(EventType.NONE, EXPIRED, None)])
        for name in "ac":
            self.assertEqual(client[name].told[:2], ["renew for b", f"drop watches: {EXPIRED}"])

    def watch(self, client: Client, events: list[WatchedEvent]) -> Any:
        """Leave a watch on the children of a directory without a mirror."""
        assert client.session.driver is not None
        context = client.session.driver.context
        places = (context.resolver.known(f"/d{number}") for number in range(100))
        d = next(each for each in places if each is not None and not each.is_native)
        watch = context.watch(d, events.append)
        context.settle(watch, True)
        self.make_dispatched(client)
        return watch

    def make_dispatched(self, client: Client) -> None:
        while client.runtime.dispatched:
            client.runtime.dispatched.popleft()()

    def test_credentials_refused_later(self) -> None:
        client = self.started()
        client.ensembles["b"].refuses_credentials = True
        client["b"].lose()
        client.runtime.turn(START_S)
        self.assertEqual(client.states, [CONNECTING, AUTH_FAILED])
        self.assertEqual({client[name].state for name in "abc"}, {CLOSED})
        self.assert_over(client)

    def test_a_wrong_ensemble_later(self) -> None:
        """It is not talked to; the client waits for the right one."""
        client = self.started()
        client["b"].lose()
        client.ensembles["b"].is_up = True
        client.ensembles["b"].data[ENSEMBLE] = client.identity("c")
        client.runtime.turn(5 * CONNECT_S)
        self.assertEqual((client.states, client.session.failure), ([CONNECTING], None))
        client.ensembles["b"].data[ENSEMBLE] = client.identity("b")
        client.runtime.turn(CONNECT_S)
        self.assertEqual(client.states, [CONNECTING, CONNECTED])

    def test_interrupted(self) -> None:
        """After an exception in the middle of a request, every member drops its connection; once."""
        client = self.started()
        waiting = self.call(client)
        client.session.interrupted(7)
        client.session.recover()
        self.assertEqual([client[name].told.count("distrust 7") for name in "abc"], [1] * 3)
        self.assertIsInstance(waiting.value, ConnectionLoss)
        client.runtime.turn(CONNECT_S)
        self.assertEqual(client.states, [CONNECTING, CONNECTED])


class TestResume(SessionTest):
    def test_resumed(self) -> None:
        """Another client goes on with the sessions of all ensembles."""
        client = self.started()
        client_id = client.session.client_id
        assert client_id is not None
        self.assertEqual(client_id, (client["a"].session_id, client_id[1]))
        client.resume, client.client_state = client_id, CONNECTING
        client.begin()
        client.runtime.turn(START_S)
        self.assertEqual(client.session.client_id, client_id)

    def test_of_another_cluster(self) -> None:
        """A client_id of too few ensembles: the log says so, and the session is a new one."""
        client = Client(resume=(5, PASSWORD))
        client.ensembles["a"].sessions.add(5)
        with self.assertLogs("parkazoo.test", "WARNING"):
            client.runtime.turn(START_S)
        self.assertEqual(client.states, [CONNECTED])
        self.assertEqual(client["a"].told, ["renew for None", f"drop watches: {EXPIRED}"])
        self.assertNotIn(5, client.ensembles["a"].sessions)

    def test_expired(self) -> None:
        """What is to be resumed has expired on the bootstrap ensemble: it ends on the others too."""
        client = self.started()
        client.resume, client.client_state = client.session.client_id, CONNECTING
        others = {name: client[name].session_id for name in "bc"}
        client.ensembles["a"].sessions.clear()
        client.begin()
        client.runtime.turn(2 * START_S)
        self.assertEqual(client.client_state, CONNECTED)
        for name, number in others.items():
            self.assertNotIn(number, client.ensembles[name].sessions)


class TestStop(SessionTest):
    def stop(self, client: Client) -> list[float]:
        """When it was over."""
        over_s: list[float] = []
        client.session.stop(lambda: over_s.append(client.runtime.now_s))
        return over_s

    def test_stopped(self) -> None:
        client = self.started()
        over_s = self.stop(client)
        last = self.call(client)
        self.assertEqual(over_s, [])
        client.runtime.turn(CONNECT_S)
        self.assertEqual((over_s, last.told), ([START_S + CONNECT_S], ["/x"]))
        self.assert_over(client)
        self.assertIsInstance(self.call(client).value, ConnectionClosedError)
        self.assertEqual(len(self.stop(client)), 1)  # at once
        client.session.close()
        self.assertEqual([client[name].told[-1] for name in "abc"], ["close"] * 3)

    def test_at_any_moment(self) -> None:
        """From the first moment on; waiting operations raise, and each caller hears of the end once."""
        for tenths in range(25):
            with self.subTest(tenths):
                client = Client()
                client.runtime.turn(tenths / 10)
                early = self.call(client)
                asked = [self.stop(client), self.stop(client)]
                client.runtime.turn(2 * CONNECT_S)
                self.assertEqual([len(each) for each in asked], [1, 1])
                self.assertEqual(len(early.told), 1)
                self.assert_over(client)

    def test_before_anything_has_begun(self) -> None:
        client = Client()
        client.session.is_stopping = True  # its begin() was interrupted
        over_s = self.stop(client)
        client.runtime.turn()
        self.assertEqual(over_s, [0.0])
        self.assert_over(client)

    def test_an_ensemble_is_away(self) -> None:
        """It ends nevertheless; the session there will expire."""
        client = self.started()
        client["b"].lose()
        waiting = self.call(client, self.on(client, "b"))
        over_s = self.stop(client)
        client.runtime.turn(CONNECT_S)
        self.assertEqual(len(over_s), 1)
        self.assertIsInstance(waiting.value, ConnectionLoss)
        self.assert_over(client)

    def test_a_child_process(self) -> None:
        client = self.started()
        error = RuntimeError("a child")
        client.session.abandon(error)
        self.assertEqual([client[name].told for name in "abc"], [["abandon"]] * 3)
        self.assertEqual((client.session.failure, client.session.is_leaving), (error, True))
