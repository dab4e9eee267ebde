"""The states of a client whose ensembles come and go: what it waits for, what it loses, what begins anew."""

from __future__ import annotations

from typing import Any

from kazoo.exceptions import ConnectionLoss, SessionExpiredError
from kazoo.protocol.states import EventType, KeeperState, WatchedEvent

from parkazoo.errors import WentBackError
from parkazoo.protocol.order import children
from tests.engine.test_session import AUTH_FAILED, CLOSED, CONNECTED, EXPIRED, SessionTest
from tests.fakes.client import Client
from tests.fakes.member import CONNECT_S, SESSION_TIMEOUT_S

CONNECTING = KeeperState.CONNECTING
NEW_LIFE = [CONNECTING, EXPIRED, CONNECTING, CONNECTED]


class StatesTest(SessionTest):
    def holding(self, *what: str, joined: str = "ab", **options: Any) -> Client:
        """A client that has these on ensemble b."""
        client = self.started(joined, **options)
        for each in what:
            setattr(client["b"], f"has_{each}", True)
        return client

    def expire(self, client: Client, name: str) -> None:
        """The session there expires, and its servers come back and say so."""
        client[name].lose()
        client.runtime.turn(SESSION_TIMEOUT_S)
        client.ensembles[name].is_up = True
        client.runtime.turn(3 * CONNECT_S)


class TestSuspended(StatesTest):
    def test_nothing_there(self) -> None:
        """A lost connection costs the client nothing: it stays connected."""
        client = self.holding()
        client["b"].lose()
        client.runtime.turn(SESSION_TIMEOUT_S)
        client.ensembles["b"].is_up = True
        client.runtime.turn(3 * CONNECT_S)
        self.assertEqual((client.states, client["b"].state), ([], CONNECTED))

    def test_requests_without_an_answer(self) -> None:
        """As with kazoo, a program that gets a ConnectionLoss hears of SUSPENDED and CONNECTED."""
        client = self.holding()
        sent = self.call(client, "b")
        client["b"].lose()
        self.assertIsInstance(sent.value, ConnectionLoss)
        self.assertEqual(client.states, [CONNECTING])
        client.runtime.turn()
        self.assertEqual((client.states, client["b"].state), ([CONNECTING, CONNECTED], CONNECTING))

    def test_something_there(self) -> None:
        """Operations on the others go on, and the session stays the same."""
        for what in ("ephemerals", "watches"):
            with self.subTest(what):
                client = self.holding(what)
                before = client.session.client_id
                client["b"].lose()
                self.assertEqual(client.states, [CONNECTING])
                on_a, on_b, on_c = (self.call(client, name) for name in "abc")
                client.runtime.turn(SESSION_TIMEOUT_S / 2)
                self.assert_read(on_a, on_c)
                self.assertEqual(on_b.told, [])
                client.ensembles["b"].is_up = True
                client.runtime.turn(CONNECT_S)
                self.assertEqual(client.states, [CONNECTING, CONNECTED])
                self.assert_read(on_b)
                assert before is not None
                self.assertEqual(client.session.number, before[0])

    def test_until_it_is_connected_again(self) -> None:
        """Its watches are dropped with the connection; programs set them again at CONNECTED: so it waits."""
        client = self.holding("watches")
        client["b"].lose()
        self.assertFalse(client["b"].has_watches)
        client["a"].lose()
        client.ensembles["a"].is_up = True
        client.runtime.turn(2 * CONNECT_S)
        self.assertEqual((client.states, client["a"].state), ([CONNECTING], CONNECTED))
        client.ensembles["b"].is_up = True
        client.runtime.turn(CONNECT_S)
        self.assertEqual(client.states, [CONNECTING, CONNECTED])
        client["b"].lose()  # there is nothing by now
        self.assertEqual(client.states, [CONNECTING, CONNECTED])

    def test_two_of_them(self) -> None:
        client = self.holding("watches", joined="abc")
        client["c"].has_ephemerals = True
        for name in "bc":
            client[name].lose()
        for name, states in {"b": [CONNECTING], "c": [CONNECTING, CONNECTED]}.items():
            client.ensembles[name].is_up = True
            client.runtime.turn(CONNECT_S)
            self.assertEqual(client.states, states)

    def test_none_is_connected(self) -> None:
        client = self.started()
        client["a"].lose()
        self.assertEqual(client.states, [CONNECTING])
        self.join(client, "b")
        self.assertEqual(client.states, [CONNECTING, CONNECTED])

    def test_a_test_breaks_the_connections(self) -> None:
        """All of them, whatever is there; the client is suspended until all are back."""
        client = self.holding(joined="abc")
        client.runtime.call(client.session.drop_connections)
        client.runtime.turn()
        self.assertEqual(client.states, [CONNECTING])
        client.runtime.turn(CONNECT_S)
        self.assertEqual(client.states, [CONNECTING, CONNECTED])

    def test_read_only(self) -> None:
        client = self.holding(joined="abc")
        b = client.ensembles["b"]
        client["b"].lose()
        b.is_up, b.can_write = True, False
        client.runtime.turn(CONNECT_S)
        self.assertEqual(client.states, [KeeperState.CONNECTED_RO])
        client["b"].lose()
        b.is_up = b.can_write = True
        client.runtime.turn(CONNECT_S)
        self.assertEqual(client.client_state, CONNECTED)

    def test_interrupted(self) -> None:
        """After an exception in the middle of a request, every member drops its connection; once."""
        client = self.holding("watches")
        joining = self.call(client, "c")
        client.runtime.turn()
        waiting = self.call(client, "b")
        client.session.interrupted(7)
        client.session.recover()
        self.assertEqual([client[name].told.count("distrust 7") for name in "abc"], [1] * 3)
        self.assertIsInstance(waiting.value, ConnectionLoss)
        client.runtime.turn(3 * CONNECT_S)
        self.assertEqual(client.states, [CONNECTING, CONNECTED])
        self.assert_read(joining)


class TestRenewal(StatesTest):
    def test_without_ephemerals(self) -> None:
        """The session begins anew on that ensemble alone, and the client is the same."""
        for what, states in {(): [], ("watches",): [CONNECTING, CONNECTED]}.items():
            with self.subTest(what):
                client = self.holding(*what, joined="abc")
                before, number = [client[name].session_id for name in "abc"], client.session.number
                self.expire(client, "b")
                after = [client[name].session_id for name in "abc"]
                self.assertEqual(client.states, states)
                self.assertEqual([old == new for old, new in zip(before, after, strict=True)], [True, False, True])
                self.assertEqual(client.session.number, number)
                self.assertNotIn(before[1], client.ensembles["b"].sessions)

    def test_operations(self) -> None:
        """Those that were sent get a ConnectionLoss when the connection breaks; later ones wait, and are sent."""
        client = self.holding()
        sent = self.call(client, "b")
        client["b"].lose()
        self.assertIsInstance(sent.value, ConnectionLoss)
        client.runtime.turn(SESSION_TIMEOUT_S)
        client.states.clear()
        waiting = self.call(client, "b")
        client.ensembles["b"].is_up = True
        client.runtime.turn(3 * CONNECT_S)
        self.assert_read(waiting)
        self.assertEqual(client.states, [])

    def test_the_first_ensemble(self) -> None:
        """As any other."""
        client = self.holding()
        number = client.session.number
        self.expire(client, "a")
        self.assertEqual((client.states, client.session.number), ([], number))

    def test_the_only_ensemble(self) -> None:
        """LOST, as with kazoo."""
        client = self.started(names="a")
        old = client.session.number
        self.expire(client, "a")
        self.assertEqual(client.states, NEW_LIFE)
        self.assertEqual(client.session.number, client["a"].session_id)
        self.assertNotEqual(client.session.number, old)


class TestLost(StatesTest):
    def test_with_ephemerals(self) -> None:
        """The other sessions are closed on their servers, and all begin anew, as another client."""
        client = self.holding("ephemerals", joined="abc")
        old, number = {name: client[name].session_id for name in "abc"}, client.session.number
        client["b"].lose()
        waiting = self.call(client, "b")
        client.runtime.turn(SESSION_TIMEOUT_S)
        self.assertEqual(client.states, [CONNECTING])  # unknown before a server says so
        client.ensembles["b"].is_up = True
        client.runtime.turn(3 * CONNECT_S)
        self.assertEqual(client.states, NEW_LIFE)
        for name in "ac":
            self.assertIn("renew: that on ensemble b has expired", client[name].told)
        for name, session in old.items():
            self.assertNotIn(session, client.ensembles[name].sessions)
            self.assertNotIn(client[name].session_id, (session, 0))
        self.assertNotEqual(client.session.number, number)
        self.assertEqual(len(waiting.told), 1)
        again = self.call(client, "b")
        client.runtime.turn()
        self.assert_read(again)

    def test_a_new_life_on_what_answers(self) -> None:
        """Nothing is left of the old one: so it waits for no ensemble in particular."""
        client = self.holding("ephemerals", joined="abc")
        client["a"].has_ephemerals = client["c"].has_ephemerals = True
        for name in "ac":
            client[name].lose()
        self.expire(client, "b")
        self.assertEqual(client.states, NEW_LIFE)
        self.assertEqual([client[name].state for name in "abc"], [CONNECTING, CONNECTED, CONNECTING])
        for name in "ac":
            client.ensembles[name].is_up = True
        client.runtime.turn(2 * CONNECT_S)
        self.assertEqual([client[name].state for name in "abc"], [CONNECTED] * 3)
        self.assertEqual(client.states, NEW_LIFE)

    def test_expired_operations(self) -> None:
        """An operation that waits for another answer is ended by it."""
        client = self.holding("ephemerals")
        joining = self.call(client, "c")
        client.runtime.turn()
        waiting = self.call(client, "a")
        client.session.member_changed(client["b"], EXPIRED)
        self.assertEqual([type(each.value) for each in (waiting, joining)], [SessionExpiredError] * 2)

    def test_a_test_wants_it(self) -> None:
        client = self.holding()
        number = client.session.number
        client.session.expire("a test wants it")
        client.runtime.turn(2 * CONNECT_S)
        self.assertEqual(client.states, NEW_LIFE[1:])
        self.assertIn("renew: a test wants it", client["a"].told)
        self.assertNotEqual(client.session.number, number)

    def test_not_while_it_stops(self) -> None:
        client = self.holding()
        client.session.stop(lambda: None)
        client.runtime.turn()
        client.session.expire("a test wants it")
        client.runtime.turn(CONNECT_S)
        self.assertNotIn(EXPIRED, client.states)
        self.assert_over(client)

    def test_credentials_refused_later(self) -> None:
        client = self.holding("watches", joined="abc")
        client.ensembles["b"].refuses_credentials = True
        client["b"].lose()
        client.ensembles["b"].is_up = True
        client.runtime.turn(2 * CONNECT_S)
        self.assertEqual(client.states, [CONNECTING, AUTH_FAILED])
        self.assertEqual({client[name].state for name in "abc"}, {CLOSED})
        self.assert_over(client)


class TestOlderCopy(StatesTest):
    """Ensemble b has been restored from an older copy, as its member finds when it connects."""

    def test_the_session_ends(self) -> None:
        """On all ensembles, because acknowledged writes are gone."""
        client = self.holding(joined="abc")
        old = {name: client[name].session_id for name in "abc"}
        client["a"].is_slow = True
        waiting = self.call(client, "a")
        with self.assertLogs("parkazoo.test", "ERROR") as logged:
            client.session.went_back(client["b"])
        self.assertIn("The client's session ends on all ensembles", logged.output[0])
        self.assertIsInstance(waiting.value, WentBackError)
        client["a"].is_slow = False
        client.runtime.turn(CONNECT_S)
        self.assertEqual(client.states, [EXPIRED, CONNECTING, CONNECTED])
        for name in "abc":
            self.assertIn("renew: ensemble b has gone back to an older copy of its data", client[name].told)
            self.assertNotIn(old[name], client.ensembles[name].sessions)

    def test_it_has_ended_before(self) -> None:
        """The client has been LOST while b was away. Once more would only end what it has begun anew elsewhere."""
        client = self.holding("ephemerals", joined="abc")
        client["b"].lose()
        client.session.expire("a test wants it")
        client.runtime.turn(CONNECT_S)
        self.assertEqual(client.states, NEW_LIFE)
        sessions = [client[name].session_id for name in "ac"]
        with self.assertLogs("parkazoo.test", "ERROR") as logged:
            client.session.went_back(client["b"])
        self.assertIn("The client's session has ended before on all ensembles", logged.output[0])
        client.ensembles["b"].is_up = True
        client.runtime.turn(2 * CONNECT_S)
        self.assertEqual((client.states, client["b"].state), (NEW_LIFE, CONNECTED))
        self.assertEqual([client[name].session_id for name in "ac"], sessions)
        with self.assertLogs("parkazoo.test", "ERROR"):
            client.session.went_back(client["b"])
        self.assertEqual(client.states, [*NEW_LIFE, EXPIRED, CONNECTING])


class TestWatches(StatesTest):
    def test_the_end_of_a_connection(self) -> None:
        """As with kazoo, every watch hears when the client is no longer connected."""
        client = self.holding("watches", joined="abc")
        events: list[WatchedEvent] = []
        watch = self.watch(client, events)
        assert client.session.watching is not None
        self.assertEqual(len(client.session.watching), 1)
        client["b"].lose()
        self.make_dispatched(client)
        self.assertEqual(events, [WatchedEvent(EventType.NONE, CONNECTING, None)])
        for name in "abc":
            self.assertIn(f"drop watches: {CONNECTING}", client[name].told)
        del watch
        self.assertEqual(len(client.session.watching), 0)

    def test_a_connection_that_does_not_matter(self) -> None:
        client = self.holding(joined="abc")
        events: list[WatchedEvent] = []
        watch = self.watch(client, events)
        client["b"].lose()
        self.make_dispatched(client)
        self.assertEqual(events, [])
        for name in "ac":
            self.assertNotIn(f"drop watches: {CONNECTING}", client[name].told)
        del watch

    def test_an_expiry(self) -> None:
        """Those that were set while the client was SUSPENDED, also one that is just looking at its directory."""
        client = self.holding("ephemerals", joined="abc")
        client["b"].lose()
        self.make_dispatched(client)
        events: list[WatchedEvent] = []
        watch = self.watch(client, events)
        watch(WatchedEvent(EventType.CHILD, CONNECTED, watch.key))
        self.assertEqual((events, list(client.runtime.dispatched)), ([], []))
        for name in "abc":
            client[name].told.clear()
        client.session.member_changed(client["b"], EXPIRED)
        self.make_dispatched(client)
        self.assertEqual(events, [WatchedEvent(EventType.NONE, EXPIRED, None)])
        for name in "ac":
            renewed, dropped = client[name].told[:2]
            self.assertEqual((renewed[:5], dropped), ("renew", f"drop watches: {EXPIRED}"))

    def watch(self, client: Client, events: list[WatchedEvent]) -> Any:
        """Leave a watch on the children of a directory without a mirror."""
        assert client.session.driver is not None
        context = client.session.driver.context
        places = (context.known(f"/d{number}") for number in range(100))
        d = next(each for each in places if each is not None and not each.is_native)
        watch = context.watch(children(d.path), events.append)
        context.settle(watch, True)
        self.make_dispatched(client)
        return watch

    def make_dispatched(self, client: Client) -> None:
        client.runtime.turn()
        while client.runtime.dispatched:
            client.runtime.dispatched.popleft()()
