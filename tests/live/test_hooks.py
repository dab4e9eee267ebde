"""What public programs override, replace or read of a KazooClient beyond its documented interface.

docs/reference/hooks.md lists it, with the programs. Each class here does what one of them does.
"""

from __future__ import annotations

import socket
import threading
from collections import namedtuple
from typing import Any

from kazoo.exceptions import SessionExpiredError, UnimplementedError
from kazoo.protocol.states import Callback, KazooState, KeeperState
from kazoo.retry import KazooRetry

from parkazoo import ParKazooClient
from parkazoo.kazoo_private import CONNECTION_DROP, SESSION_EXPIRED, Exists, GetChildren
from parkazoo.recipe.watchers import DUE
from tests.handlers import make_handler
from tests.live.world import DEADLINE_S, LiveTest, Seen, wait_until

CONNECTING, CONNECTED = KeeperState.CONNECTING, KeeperState.CONNECTED
EXPIRED, CLOSED = KeeperState.EXPIRED_SESSION, KeeperState.CLOSED
NEW_TIMEOUT_MS = 15_000


class HooksTest(LiveTest):
    def wait_for(self, client: Any, *states: str) -> None:
        """Until `client.heard` has these states, and no other."""
        wait_until(lambda: len(client.heard) >= len(states), f"{states}")
        self.assertEqual(client.heard, [*states])
        client.heard.clear()


class Observed(ParKazooClient):
    """TwitterKazooClient of twitter.common.zookeeper, which Aurora uses."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.connecting = threading.Event()
        self.heard: list[str] = []
        self.resets = 0

    def _session_callback(self, state: str) -> None:
        self.heard.append(state)
        super()._session_callback(state)
        if state == CONNECTING:
            self.connecting.set()

    def _reset_watchers(self) -> None:
        """ZuulKazooClient of Zuul overrides it, for kinds of watches of its own."""
        self.resets += 1
        super()._reset_watchers()


class TestSessionCallback(HooksTest):
    """Each state once, in order."""

    def setUp(self) -> None:
        super().setUp()
        self.client: Any = self.parkazoo(client_class=Observed, start=False)
        self.client.start_async()
        self.assertTrue(self.client.connecting.wait(DEADLINE_S))
        self.client.join(timeout=DEADLINE_S)
        self.wait_for(self.client, CONNECTING, CONNECTED)

    def test_a_lost_connection(self) -> None:
        self.client.create(f"{self.new_root(self.client)}/e", ephemeral=True)
        self.client._connection._socket.shutdown(socket.SHUT_RDWR)
        self.wait_for(self.client, CONNECTING, CONNECTED)
        self.assertEqual(self.client.resets, 1)

    def test_all_connections_twice(self) -> None:
        for _ in range(2):
            self.client._call(CONNECTION_DROP, None)  # as kazoo.testing, and Huskar's tests
            self.wait_for(self.client, CONNECTING, CONNECTED)

    def test_expired(self) -> None:
        session = self.client._session_id
        self.client._call(SESSION_EXPIRED, None)
        self.wait_for(self.client, EXPIRED, CONNECTING, CONNECTED)
        wait_until(lambda: self.client._session_id not in (session, None), "another session")

    def test_stopped_and_started(self) -> None:
        live = self.client._live
        self.assertTrue(live.is_set())
        self.client.stop()
        self.client.stop()
        self.wait_for(self.client, CLOSED)
        self.assertFalse(live.is_set())
        self.client.start(DEADLINE_S)
        self.wait_for(self.client, CONNECTING, CONNECTED)
        self.assertTrue(self.client._live.is_set())

    def test_a_start_in_vain(self) -> None:
        client: Any = self.parkazoo(client_class=Observed, hosts="127.0.0.1:1", start=False)
        self.assertRaises(client.handler.timeout_exception, client.start, 0.1)
        self.wait_for(client, CONNECTING, CLOSED)


class TestAttributes(HooksTest):
    """AugumentedClient of zk-shell: its command session_info. dubbo-client-py reads the socket's name too."""

    def test_of_the_session(self) -> None:
        client: Any = self.joined()
        host, port = client._connection._socket.getpeername()
        addresses = [each.hosts for each in self.cluster.ensembles]
        self.assertIn(f"{host}:{port}", addresses)
        self.assertEqual(client._connection._socket.getsockname()[0], "127.0.0.1")
        self.assertGreaterEqual(client._connection._xid, 0)
        self.assertGreater(client._session_id, 0)
        self.assertEqual(client._protocol_version, 0)
        self.assertEqual(client._state, CONNECTED)

    def test_of_watches(self) -> None:
        """Paths have the chroot, as in kazoo's tables."""
        client: Any = self.parkazoo()
        root = self.new_root(client)
        chrooted: Any = self.parkazoo(root)
        self.assertEqual(([*client._data_watchers], [*client._child_watchers]), ([], []))
        made = [self.directory(root, is_native) for is_native in (True, False)]
        bare = self.directory(f"{root}/other", is_native=False)
        for path in (*made, bare):
            client.create(path, makepath=True)
        for path in made:
            client.create(f"{path}/child")
        watched = Seen()
        for path in (*made, bare):
            chrooted.get(path.removeprefix(root), watch=watched)
            chrooted.get_children(path.removeprefix(root), watch=watched)
        chrooted.exists("/missing", watch=watched)
        self.assertEqual({*chrooted._data_watchers.keys()}, {*made, bare, f"{root}/missing"})
        self.assertEqual({*chrooted._child_watchers.keys()}, {*made, bare})
        self.assertEqual(len(chrooted._child_watchers), 3)
        self.assertIn(bare, chrooted._child_watchers)
        self.assertNotIn(f"{root}/missing", chrooted._child_watchers)
        self.assertEqual([{*each} for each in chrooted._child_watchers.values()], [{watched}] * 3)
        client.set(made[0], b"new")
        watched.wait()
        self.assertEqual({*chrooted._data_watchers.keys()}, {made[1], bare, f"{root}/missing"})

    def test_reconnect(self) -> None:
        """As its command of that name."""
        client: Any = self.parkazoo()
        client.create(f"{self.new_root(client)}/e", ephemeral=True)
        states = Seen()
        client.add_listener(states)
        client._connection._socket.shutdown(socket.SHUT_RDWR)
        self.assertEqual(states.wait(2), [KazooState.SUSPENDED, KazooState.CONNECTED])


class Impatient(ParKazooClient):
    """PatroniKazooClient of Patroni: while there is no connection, requests fail at once."""

    def _call(self, request: Any, async_object: Any) -> bool | None:
        if self._state == CONNECTING:
            async_object.set_exception(SessionExpiredError())
            return False
        return super()._call(request, async_object)


class TestPatroni(HooksTest):
    """`_connection._connect` is in tests/live/test_client_session.py."""

    def test_call(self) -> None:
        client: Any = self.parkazoo(client_class=Impatient, start=False)
        client.start_async()
        wait_until(lambda: client.connected, "connected")
        root = self.new_root(client)
        errors = list[BaseException | None]()
        client.add_listener(lambda state: errors.append(self.error_of(client, root, state)))
        client.create(f"{root}/e", ephemeral=True)
        (server,) = self.cluster.ensembles[self.home(f"{root}/e").ensemble].servers
        server.freeze()  # it cannot connect before the listener has used it
        self.addCleanup(server.thaw)
        client._connection._socket.close()
        wait_until(lambda: errors, "SUSPENDED")
        server.thaw()
        wait_until(lambda: len(errors) == 2 and client.connected, "SUSPENDED and CONNECTED")
        self.assertIsNotNone(client.retry(client.exists, root))

    def error_of(self, client: Any, path: str, state: str) -> BaseException | None:
        if state != KazooState.SUSPENDED:
            return None
        self.assertRaises(SessionExpiredError, client.exists, path)
        return None

    def test_session_timeout(self) -> None:
        client: Any = self.parkazoo()
        root, session = self.new_root(client), client._session_id
        client._session_timeout = NEW_TIMEOUT_MS
        client.restart()
        self.assertNotEqual(client._session_id, session)
        self.assertEqual(client._session_timeout, NEW_TIMEOUT_MS)
        self.assertEqual([each._session_timeout for each in client.members.values()], [NEW_TIMEOUT_MS])
        self.assertIsNotNone(client.exists(root))

    def test_retry(self) -> None:
        handler = make_handler()
        retry = KazooRetry(max_tries=-1, deadline=1, sleep_func=handler.sleep_func)
        client: Any = self.parkazoo(handler=handler, command_retry=retry)
        client._retry.deadline = DEADLINE_S
        self.assertIsNotNone(client.retry(client.exists, "/"))


class TestStopped(HooksTest):
    """AppScale's idiom: kazoo has no stop() for a DataWatch or a ChildrenWatch."""

    def setUp(self) -> None:
        super().setUp()
        self.client: Any = self.parkazoo()
        self.root = self.new_root(self.client)

    def test_each(self) -> None:
        data, names, after = Seen(), Seen(), Seen()
        watches = [
            self.client.DataWatch(self.root, lambda value, stat: data(value)),
            self.client.ChildrenWatch(self.root, names),
        ]
        self.client.set(self.root, b"1")
        self.client.create(f"{self.root}/a")
        self.assertEqual(data.wait(2)[-1], b"1")
        self.assertEqual(names.wait(2)[-1], ["a"])
        for watch in watches:
            watch._stopped = True
            self.assertTrue(watch._stopped)
        self.assertFalse([*self.client._data_watchers.keys(), *self.client._child_watchers.keys()])
        self.assertFalse(self.client.state_listeners)
        self.client.DataWatch(self.root, lambda value, stat: after(value))
        self.client.set(self.root, b"2")
        self.client.create(f"{self.root}/b")
        after.wait(2)
        self.client.stop()
        self.assertEqual((len(data), len(names)), (2, 2))
        for watch in watches:
            watch._stopped = True

    def test_when_the_call_is_due(self) -> None:
        """A callback holds up the calls; the watchers have read."""
        for kind in ("DataWatch", "ChildrenWatch"):
            with self.subTest(kind):
                path = f"{self.root}/{kind}"
                self.client.create(path)
                seen = Seen()
                watch = getattr(self.client, kind)(path, lambda *found, s=seen: s(found))
                may_go_on, gone_on = (self.client.handler.event_object() for _ in range(2))
                begun = Seen()

                def block(event: Any, begun: Seen = begun, may_go_on: Any = may_go_on) -> None:
                    begun(event)
                    may_go_on.wait(DEADLINE_S)

                self.client.exists(f"{path}-blocks", watch=block)
                self.client.create(f"{path}-blocks")
                begun.wait()
                self.client.set(path, b"new")
                self.client.create(f"{path}/child")
                wait_until(lambda w=watch: getattr(w._turns._turn, "stage", None) == DUE, "it has read")
                watch._stopped = True
                may_go_on.set()
                self.client.handler.dispatch_callback(Callback("watch", gone_on.set, ()))
                self.assertTrue(gone_on.wait(DEADLINE_S))
                self.assertEqual(len(seen), 1)

    def test_before_it_begins(self) -> None:
        for watch in (self.client.DataWatch(self.root), self.client.ChildrenWatch(self.root)):
            seen = Seen()
            watch._stopped = True
            watch(seen)
            self.assertEqual((seen, self.client.state_listeners), ([], set()))


class Listing(namedtuple("Listing", "path watcher list_type")):
    """GetChildren3 of KeeperFeatureClient, in ClickHouse's tests: of a type that kazoo has not."""

    type = 500


class TestOwnRequests(HooksTest):
    """Zuul's AddWatch, and multi_read of ClickHouse's tests, are requests that ParKazoo does not know."""

    def test_of_unknown_type(self) -> None:
        """Nobody knows which ensemble is meant; the bootstrap ensemble's answer could be wrong."""
        client: Any = self.parkazoo()
        result = client.handler.async_result()
        client._call(Listing("/", None, 0), result)
        with self.assertRaisesRegex(UnimplementedError, "Listing: .*client.members"):
            result.get()

    def test_of_kazoos_types(self) -> None:
        client: Any = self.parkazoo()
        root = self.new_root(client)
        client.create(f"{root}/child")
        results = [client.handler.async_result() for _ in range(2)]
        client._call(GetChildren(root, None), results[0])
        client._call(Exists(root, None), results[1])
        self.assertEqual(results[0].get(), ["child"])
        self.assertEqual(results[1].get().numChildren, 1)
