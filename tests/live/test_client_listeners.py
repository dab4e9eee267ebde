"""Listeners and counters of a client over real ensembles: all that it does is told once, and none of it waits."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

from kazoo.exceptions import BadVersionError, ConnectionLoss, KazooException, NodeExistsError, NoNodeError
from kazoo.protocol.states import EventType, KazooState

from parkazoo import ParKazooClient, monitoring
from parkazoo.kazoo_private import SESSION_EXPIRED
from parkazoo.monitoring import (
    AttemptFailed,
    Connected,
    ConnectionLost,
    Listener,
    MapChanged,
    OperationEnded,
    RequestEnded,
    SessionRenewed,
    StateChanged,
    WatchFired,
)
from tests.handlers import handler_name, make_handler
from tests.live.world import DEADLINE_S, LiveTest, drop_connections, wait_until

CONNECTED, SUSPENDED, LOST = KazooState.CONNECTED, KazooState.SUSPENDED, KazooState.LOST
MANY = 300


class Keeps(Listener):
    """Keeps all that it hears."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def of(self, kind: type) -> list[Any]:
        return [each for each in self.heard if type(each) is kind]

    def _hear(self, event: Any) -> None:
        self.heard.append(event)

    request_ended = operation_ended = connected = connection_lost = attempt_failed = _hear
    credentials_refused = session_expired = session_renewed = state_changed = map_changed = watch_fired = _hear
    ensemble_went_back = _hear


class Fails(Keeps):
    """Raises whatever it hears."""

    def _fail(self, event: Any) -> None:
        self._hear(event)
        raise ValueError("a listener's")

    request_ended = operation_ended = connected = connection_lost = state_changed = watch_fired = _fail


class Waits(Keeps):
    """Waits at its first event until it may go on."""

    def __init__(self) -> None:
        super().__init__()
        handler = make_handler()
        self.may_go_on, self.has_begun = handler.event_object(), handler.event_object()

    def _wait(self, event: Any) -> None:
        self.has_begun.set()
        self.may_go_on.wait(DEADLINE_S)
        self._hear(event)

    request_ended = operation_ended = connected = connection_lost = state_changed = watch_fired = _wait
    map_changed = _wait


class Asks(Listener):
    """Uses the client in each state that it hears of, and keeps the states and the answers."""

    client: ParKazooClient

    def __init__(self) -> None:
        self.states: list[str] = []
        self.answers: list[Any] = []

    def state_changed(self, event: StateChanged) -> None:
        self.states.append(event.new)
        try:
            self.answers.append(self.client.retry(self.client.exists, "/"))
        except KazooException as error:
            self.answers.append(error)


class ListenersTest(LiveTest):
    def heard(self, listener: Listener | None = None, **options: Any) -> tuple[ParKazooClient, Keeps]:
        """A client that has joined all, and a listener that keeps what it hears from then on."""
        keeps = Keeps()
        listeners = [keeps] if listener is None else [listener, keeps]
        client = self.joined(listeners=listeners, counters=True, **options)
        self.root = self.new_root(client)
        self.settle(client)
        keeps.heard.clear()
        return client, keeps

    def settle(self, client: ParKazooClient) -> None:
        """Wait until listeners have heard of all that has happened."""
        assert client.monitor is not None
        client.monitor.wait(DEADLINE_S)

    def all_ended(self, client: ParKazooClient) -> None:
        """Wait until no request is without its answer, and listeners have heard of all."""
        counters = client.counters
        wait_until(lambda: not any((*counters().in_flight.values(), *counters().queued.values())), "all answered")
        self.settle(client)

    def ended(self, client: ParKazooClient) -> Counter[tuple[str, str, str]]:
        return Counter(client.counters().requests)

    def check_same(self, client: ParKazooClient, keeps: Keeps, before: Counter[tuple[str, str, str]]) -> None:
        """Counters and listeners have been told the same requests, and so many seconds."""
        told: Counter[tuple[str, str, str]] = Counter()

        def is_same() -> bool:
            self.all_ended(client)
            told.clear()
            told.update((each.ensemble, each.operation, each.outcome) for each in keeps.of(RequestEnded))
            return self.ended(client) - before == told

        wait_until(is_same, "as many counted as told")
        counters = client.counters()
        by_kind: Counter[tuple[str, str]] = Counter()
        for (ensemble, operation, _), count in counters.requests.items():
            by_kind[ensemble, operation] += count
        self.assertEqual({key: each.total for key, each in counters.seconds.items()}, by_kind)
        self.assertTrue(all(each.seconds > 0 for each in keeps.of(RequestEnded)))


class TestRequests(ListenersTest):
    def test_a_start(self) -> None:
        keeps = Keeps()
        client = self.parkazoo(listeners=[keeps])
        self.settle(client)
        assert client.cluster_map is not None
        names = client.cluster_map.names
        (found,) = keeps.of(MapChanged)
        self.assertEqual((found.form, found.new_ensembles), (self.form, tuple(names)))
        self.assertEqual(found.epoch, client.cluster_map.epoch)
        (connected,) = keeps.of(Connected)
        self.assertEqual(connected.ensemble, next(iter(client.members)))
        self.assertIn(connected.server, self.cluster.hosts)
        self.assertEqual(keeps.of(StateChanged), [StateChanged(LOST, CONNECTED, connected.ensemble)])
        client.stop()
        self.settle(client)
        self.assertEqual(keeps.of(StateChanged)[-1], StateChanged(CONNECTED, LOST, ""))
        self.assertRaises(RuntimeError, client.counters)

    def test_outcomes(self) -> None:
        client, keeps = self.heard()
        path = f"{self.root}/a"
        client.create(path, b"secret")
        client.get(path)
        self.assertRaises(NodeExistsError, client.create, path)
        self.assertRaises(BadVersionError, client.set, path, b"", version=7)
        self.assertRaises(NoNodeError, client.get, f"{path}/b/c")
        client.add_auth("digest", "user:password")
        self.settle(client)
        told = [(each.operation, each.outcome) for each in keeps.of(OperationEnded)]
        words = [("create", "ok"), ("get", "ok"), ("create", "node_exists"), ("set", "bad_version")]
        self.assertEqual(told, [*words, ("get", "no_node")])
        self.assertNotIn("secret", str(keeps.heard))
        self.assertNotIn("password", str(keeps.heard))
        self.assertNotIn(self.root, str(keeps.heard))
        self.all_ended(client)
        counted = sum(each.requests for each in keeps.of(OperationEnded))
        self.assertLessEqual(counted, len(keeps.of(RequestEnded)))  # of two, one answer may be enough

    def test_all_kinds_of_work(self) -> None:
        """Recipes, transactions, deferred writes, writes done once, and what many threads do at once."""
        client, keeps = self.heard()
        before = self.ended(client)
        with client.Lock(f"{self.root}/lock"):
            client.once(client.create, f"{self.root}/once", b"1")
        transaction = client.transaction()
        transaction.create(f"{self.root}/t1")
        transaction.check(f"{self.root}/missing", 1)
        transaction.commit()
        with client.deferred() as later:
            for number in range(MANY):
                later.add(f"{self.root}/d{number}")
        results = [client.get_async(f"{self.root}/d{number}") for number in range(MANY)]
        for each in results:
            each.get(timeout=DEADLINE_S)
        self.check_same(client, keeps, before)
        operations = Counter((each.operation, each.outcome) for each in keeps.of(OperationEnded))
        self.assertEqual(operations["get", "ok"], MANY)
        self.assertEqual(operations["once", "ok"], 1)
        self.assertEqual(operations["transaction", "no_node"], 1)
        self.assertGreater(operations["deferred", "ok"], 0)

    def test_one_order(self) -> None:
        client, keeps = self.heard(consistency="total")
        paths = self.on_each(client)
        for path in paths:  # behind each request of a create that had enough with one answer of two
            client.get(path)
        self.all_ended(client)
        keeps.heard.clear()
        before = self.ended(client)
        for each in [client.get_async(path) for path in paths * 10]:
            each.get(timeout=DEADLINE_S)
        self.check_same(client, keeps, before)
        counted = sum(each.requests for each in keeps.of(OperationEnded))
        self.assertEqual(counted, len(keeps.of(RequestEnded)))

    def test_directories(self) -> None:
        class Labels(Keeps):
            directories = ("/jobs", "/users/*")

        labels = Labels()
        client, _ = self.heard(labels)
        inner = self.parkazoo(self.root, listeners=[labels])
        self.settle(client)
        labels.heard.clear()
        for path in ("/jobs/7", "/users/ann/mail", "/other/1"):
            inner.create(path, makepath=True)
        self.settle(inner)
        labels.heard.clear()
        for path in ("/jobs/7", "/users/ann/mail", "/other/1"):
            inner.get(path)
        inner.get_children("/jobs")
        self.settle(inner)
        expected = ["/jobs", "/users/*", "other", "/jobs"]
        self.assertEqual([each.directory for each in labels.of(OperationEnded)], expected)
        self.assertEqual({each.directory for each in labels.of(RequestEnded)}, {*expected})

    def test_watches(self) -> None:
        client, keeps = self.heard()
        client.get(self.root, watch=lambda event: None)
        client.set(self.root, b"1")
        self.settle(client)
        wait_until(lambda: keeps.of(WatchFired), "the event")
        (fired,) = keeps.of(WatchFired)
        self.assertEqual(fired.type, EventType.CHANGED)
        self.assertEqual(client.counters().watch_events, {fired.ensemble: 1})
        self.assertEqual(client.counters().map_epoch, client.cluster_map and client.cluster_map.epoch)

    def test_registered(self) -> None:
        self.addCleanup(monitoring.registered.clear)
        keeps = Keeps()
        monitoring.register(keeps)
        client = self.parkazoo()
        client.exists("/")
        self.settle(client)
        self.assertEqual([each.operation for each in keeps.of(OperationEnded)][-1], "exists")


class TestGrown(TestRequests):
    form = "grown"


class TestFailures(ListenersTest):
    def test_lost_connections(self) -> None:
        """Each request has one end, whatever becomes of its connection."""
        client, keeps = self.heard()
        paths = self.on_each(client)
        self.settle(client)
        keeps.heard.clear()
        before = self.ended(client)
        results: list[Any] = []
        for number in range(3):
            results += [client.set_async(path, b"%d" % number) for path in paths * MANY]
            drop_connections(client)
            wait_until(lambda: client.connected, "connected")
        ends = Counter(ConnectionLoss if _fails(each) else None for each in results)
        self.check_same(client, keeps, before)
        operations = Counter(each.outcome for each in keeps.of(OperationEnded))
        self.assertEqual((operations["ok"], operations["connection_loss"]), (ends[None], ends[ConnectionLoss]))
        wait_until(
            lambda: 0 < sum(client.counters().connections_lost.values()) == len(keeps.of(ConnectionLost)),
            "both tell of it",
        )
        self.all_ended(client)

    def test_an_expired_session(self) -> None:
        client, keeps = self.heard()
        client.create(f"{self.root}/e", ephemeral=True)
        results = [client.get_async(self.root) for _ in range(MANY)]
        client._call(SESSION_EXPIRED, None)
        for each in results:
            _fails(each)
        wait_until(lambda: [each.new for each in keeps.of(StateChanged)][-1:] == [CONNECTED], "another session")
        self.settle(client)
        self.assertEqual(keeps.of(StateChanged)[0], StateChanged(CONNECTED, LOST, ""))
        self.assertTrue(keeps.of(SessionRenewed))
        self.assertGreaterEqual(len(keeps.of(OperationEnded)), MANY + 1)

    def test_a_stop(self) -> None:
        """What it fails is told, and the counters stay."""
        client, keeps = self.heard()
        before = self.ended(client)
        results = [client.get_async(self.root) for _ in range(MANY)]
        client.stop()
        for each in results:
            _fails(each)
        self.check_same(client, keeps, before)
        self.assertEqual(len(keeps.of(OperationEnded)), MANY)
        counters = client.counters()
        self.assertEqual(({*counters.connected.values()}, sum(counters.in_flight.values())), ({False}, 0))
        client.start(DEADLINE_S)
        client.exists("/")
        self.assertGreater(self.ended(client).total(), sum(counters.requests.values()))

    def test_no_server(self) -> None:
        keeps = Keeps()
        client = self.parkazoo(hosts="127.0.0.1:1", listeners=[keeps], start=False)
        client.start_async()
        wait_until(lambda: keeps.of(AttemptFailed), "an attempt")
        attempt = keeps.of(AttemptFailed)[0]
        self.assertEqual((attempt.ensemble, attempt.why[:12]), ("", "127.0.0.1:1:"))


class TestBadListeners(ListenersTest):
    def test_it_raises(self) -> None:
        """The client, its connection and other listeners do not notice; the log has it once for each method."""
        fails = Fails()
        with self.assertLogs("parkazoo", "ERROR") as logs:
            client, keeps = self.heard(fails)
            client.create(f"{self.root}/e", ephemeral=True)  # it has something to lose
            states: list[str] = []
            client.add_listener(states.append)
            client.get(self.root, watch=lambda event: None)
            for number in range(MANY):
                client.set(self.root, b"%d" % number)
            self.settle(client)
            self.assertEqual(states, [])
            self.assertEqual(len(keeps.of(OperationEnded)), MANY + 2)
            drop_connections(client)
            wait_until(lambda: states[:1] == [SUSPENDED] and states[-1] == CONNECTED, "connected again")
            client.stop()
        self.assertEqual(states[-1], LOST)
        said = [record.getMessage() for record in logs.records]
        self.assertEqual(len(said), len({*said}), said)
        self.assertGreaterEqual(len(fails.of(OperationEnded)), MANY + 2)

    def test_it_waits(self) -> None:
        """Answers, states, watches, failures and other listeners do not wait for it."""
        waits = Waits()
        self.addCleanup(waits.may_go_on.set)
        keeps = Keeps()
        client = self.parkazoo(listeners=[waits, keeps], counters=True)
        self.assertTrue(waits.has_begun.wait(DEADLINE_S))
        events: list[Any] = []
        states: list[str] = []
        client.add_listener(states.append)
        self.root = self.new_root(client)
        client.get(self.root, watch=events.append)
        client.set(self.root, b"1")
        wait_until(lambda: events, "the watch")
        client.create(f"{self.root}/e", ephemeral=True)  # it has something to lose
        drop_connections(client)
        wait_until(lambda: states[:1] == [SUSPENDED] and states[-1] == CONNECTED, "the states")
        wait_until(lambda: keeps.of(ConnectionLost), "the other listener")
        self.assertEqual(waits.heard, [])
        waits.may_go_on.set()
        self.settle(client)
        self.assertEqual(waits.of(OperationEnded), keeps.of(OperationEnded))

    def test_it_uses_the_client(self) -> None:
        asks = Asks()
        client = self.parkazoo(listeners=[asks], start=False)
        asks.client = client
        client.start(DEADLINE_S)
        wait_until(lambda: asks.answers, "an answer")
        client.create(f"{self.new_root(client)}/e", ephemeral=True)  # it has something to lose
        drop_connections(client)
        wait_until(lambda: len(asks.answers) >= 3, "answers in both states")
        self.assertEqual(asks.states[:3], [CONNECTED, SUSPENDED, CONNECTED])
        self.assertEqual([each for each in asks.answers if isinstance(each, Exception)], [])

    def test_a_child_process(self) -> None:
        """It hears of nothing, and can still read the counters."""
        if handler_name() != "threading":
            self.skipTest("gevent forks in its own way")
        client, _ = self.heard()
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            counters = client.counters()
            os.write(
                writer, b"same" if any(counters.requests) and not any(counters.connected.values()) else b"not"
            )
            os._exit(0)
        os.close(writer)
        os.waitpid(child, 0)
        with os.fdopen(reader, "rb") as found:
            self.assertEqual(found.read(), b"same")
        client.exists("/")


def _fails(result: Any) -> bool:
    """Whether a result is an error, once it is there."""
    try:
        result.get(timeout=DEADLINE_S)
    except KazooException:
        return True
    return False
