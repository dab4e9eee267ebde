"""The client's sessions on its ensembles: with an ephemeral on each they live and die together."""

from __future__ import annotations

import errno
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from unittest import mock

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionClosedError, ConnectionLoss, NoNodeError, SessionExpiredError
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.states import EventType, KazooState, KeeperState, WatchedEvent
from kazoo.retry import KazooRetry, RetryFailedError

from parkazoo import ParKazooClient
from parkazoo.engine.session import Session
from parkazoo.local import LocalServer
from parkazoo.protocol.client_id import SESSION_BYTES, pack_sessions, unpack_sessions
from parkazoo.protocol.cluster_map import FIRST
from parkazoo.wire.member import Member
from tests.fakes.owner import Emptied
from tests.handlers import make_handler
from tests.live.world import DEADLINE_S, LiveTest, Seen, sockets, wait_until

CONNECTED, SUSPENDED, LOST = KazooState.CONNECTED, KazooState.SUSPENDED, KazooState.LOST


class SessionTest(LiveTest):
    def setUp(self) -> None:
        super().setUp()
        self.watcher = self.parkazoo()
        self.root = self.new_root(self.watcher)

    def server(self, ensemble: int) -> LocalServer:
        return self.cluster.ensembles[ensemble].servers[0]

    @contextmanager
    def killed(self, ensemble: int) -> Iterator[None]:
        server = self.server(ensemble)
        server.kill()
        try:
            yield
        finally:
            server.start()
            server.wait_serving()

    def expire(self, client: Any, ensemble: int) -> None:
        """End the client's session on one ensemble behind its back."""
        session = self.member(client, ensemble).client_id

        def has_ended() -> bool:  # the last to connect has the session: the client may have been faster
            thief = self.kazoo(ensemble, client_id=session)
            is_other = thief.client_id != session
            thief.stop()
            thief.close()
            return is_other

        wait_until(has_ended, "the end of the session")

    def wait_connected(self, *clients: Any) -> None:
        for client in clients:
            wait_until(lambda c=client: c.connected, "connected")


class TestStates(SessionTest):
    def test_start_and_stop(self) -> None:
        client = self.parkazoo(start=False)
        seen = Seen()
        client.add_listener(seen)
        self.assertEqual((client.state, client.client_state, client.connected), (LOST, KeeperState.CLOSED, False))
        self.assertIsNone(client.client_id)
        client.start()
        self.assertEqual((client.state, client.client_state, client.connected), (CONNECTED, "CONNECTED", True))
        client.start()
        self.assertEqual(seen, [CONNECTED])
        client.stop()
        self.assertEqual((client.state, client.client_state, client.connected), (LOST, KeeperState.CLOSED, False))
        self.assertIsNone(client.client_id)
        client.stop()
        client.start()
        self.assertEqual(client.exists(self.root).version, 0)
        client.restart()
        self.assertEqual(client.exists(self.root).version, 0)
        client.stop()
        client.close()
        client.close()
        self.assertEqual(seen, [CONNECTED, LOST] * 3)
        self.assertRaises(ConnectionClosedError, client.get, self.root)
        client.start()
        client.remove_listener(seen)
        client.stop()
        self.assertEqual(seen, [CONNECTED, LOST] * 3 + [CONNECTED])

    def test_start_async(self) -> None:
        client = self.parkazoo(start=False)
        live = client.start_async()
        early = client.get_async(self.root)
        live.wait(DEADLINE_S)
        self.assertTrue(live.is_set())
        self.assertEqual(early.get(timeout=DEADLINE_S)[0], b"")
        self.assertIs(client.start_async(), live)

    def test_a_stop_whose_time_has_passed(self) -> None:
        """As in a process that was frozen meanwhile: the sessions still get the time to be closed."""
        client = self.parkazoo()
        path = client.create(f"{self.root}/e", ephemeral=True)
        with mock.patch.object(ParKazooClient, "_close_timeout_s", 0.0):
            client.stop()
        self.assertEqual(client.client_state, KeeperState.CLOSED)
        self.assertIsNone(self.watcher.exists(path))

    def test_before_start_and_after_stop(self) -> None:
        client = self.parkazoo(start=False)
        self.assertRaises(ConnectionClosedError, client.get, self.root)
        self.assertIsNone(client.cluster_map)
        client.start()
        self.assertEqual([*client.members], ["a"])
        client.join()
        self.assertEqual(sorted(client.members), ["a", "b", "c"])
        self.assertEqual(client.cluster_map.placement, ("a", "b", "c"))
        client.stop()
        self.assertRaises(ConnectionClosedError, client.create, self.root + "/never")
        self.assertRaises(ConnectionClosedError, client.get_async(self.root).get)

    def test_one_ensemble_down(self) -> None:
        """Its state shows in the client's, the others' work goes on, and all is well when it is back."""
        # It tries again soon enough for its session, however long the server takes to start.
        retry = {"max_tries": -1, "max_delay": 1.0, "sleep_func": make_handler().sleep_func}
        client = self.parkazoo(connection_retry=retry)
        znodes = self.on_each(client, ephemeral=True)
        for down in range(self.ensembles):
            with self.subTest(down):
                seen = Seen()
                client.add_listener(seen)
                number = client.client_id
                with self.killed(down):
                    wait_until(lambda: client.state == SUSPENDED, "suspended")
                    self.assertFalse(client.connected)
                    for index, path in enumerate(znodes):
                        if index != down:
                            self.assertIsNotNone(client.set(path, b"%d" % down))
                            self.assertEqual(client.get(path)[0], b"%d" % down)
                    waiting = client.get_async(znodes[down])
                wait_until(lambda: client.state == CONNECTED, "connected")
                with suppress(ConnectionLoss):  # as with kazoo, if it was issued at the wrong moment
                    waiting.get(timeout=DEADLINE_S)
                self.assertEqual(seen.wait(2), [SUSPENDED, CONNECTED])
                self.assertEqual(client.client_id, number)
                client.remove_listener(seen)
                self.wait_connected(self.watcher)
                for path in znodes:
                    self.assertIsNotNone(client.get(path))

    def test_closed_sockets(self) -> None:
        """Patroni closes the client's socket, and has a handler that can stand it."""

        class Handler(SequentialThreadingHandler):
            def select(self, *args: Any, **kwargs: Any) -> Any:
                try:
                    return super().select(*args, **kwargs)
                except (TypeError, ValueError) as error:
                    raise OSError(errno.EBADF, str(error)) from None

        client = self.parkazoo(handler=Handler(), timeout=6)
        znodes = self.on_each(client)
        for path in znodes:
            client.get(path, watch=Seen())
        seen = Seen()
        client.add_listener(seen)
        sockets = [member._connection._socket for member in client.members.values()]
        client._connection._socket.close()
        for index, member in enumerate(client.members.values()):
            wait_until(
                lambda m=member, old=sockets[index]: m._connection._socket not in (None, old) and m.connected,
                f"member {index} with another socket",
            )
        wait_until(lambda: client.connected and CONNECTED in seen, "connected, and the listener told so")
        self.assertEqual(seen[0], SUSPENDED)
        self.assertEqual({*seen}, {SUSPENDED, CONNECTED})
        for path in znodes:
            self.assertEqual(client.get(path)[0], b"")

    def test_every_socket_is_reached(self) -> None:
        client = self.joined()
        before = [member._connection._socket for member in client.members.values()]
        client._connection._socket.shutdown(socket.SHUT_RDWR)
        for index, member in enumerate(client.members.values()):
            wait_until(
                lambda m=member, old=before[index]: m._connection._socket not in (None, old) and m.connected,
                f"member {index} with another socket",
            )
        self.wait_connected(client)

    def test_start_while_suspended(self) -> None:
        client = self.parkazoo()
        self.on_each(client, ephemeral=True)
        with self.killed(1):
            wait_until(lambda: client.state == SUSPENDED, "suspended")
            self.assertFalse(client.start_async().is_set())
        client.start(DEADLINE_S)
        self.assertTrue(client.connected)


class TestIdentity(SessionTest):
    def test_owner(self) -> None:
        client = self.joined()
        number, password = client.client_id
        self.assertEqual(len(password), sum(1 + len(name) + SESSION_BYTES for name in client.members))
        for path in self.on_each(client, ephemeral=True):
            parent = path.rpartition("/")[0]
            stats = [
                client.exists(path),
                client.get(path)[1],
                client.get_children(path, include_data=True)[1],
                client.get_acls(path)[1],
                client.set(path, b"new"),
                client.create(f"{parent}/two", ephemeral=True, include_data=True)[1],
                client.set_acls(path, client.get_acls(path)[0]),
            ]
            self.assertEqual({stat.ephemeralOwner for stat in stats}, {number})
            self.assertEqual({stat.owner_session_id for stat in stats}, {number})
            transaction = client.transaction()
            transaction.set_data(path, b"newer")
            self.assertEqual(transaction.commit()[0].ephemeralOwner, number)
            self.assertEqual(self.watcher.exists(path).ephemeralOwner, number)
            self.assertEqual(self.watcher.exists(parent).ephemeralOwner, 0)

    def test_resume(self) -> None:
        first = self.parkazoo()
        znodes = self.on_each(first, ephemeral=True)
        session = first.client_id
        for member in first.members.values():  # it must not take its session back
            member.set_hosts("127.0.0.1:1")
        second = self.parkazoo(client_id=session)
        self.assertEqual(second.client_id[0], session[0])
        for path in znodes:
            self.assertEqual(second.exists(path).ephemeralOwner, session[0])
        self.assertEqual(unpack_sessions(second.client_id[1]), unpack_sessions(session[1]))
        second.stop()
        for index, path in enumerate(znodes):
            self.assertIsNone(self.kazoo(index).exists(self.home(path).path))

    def test_resume_what_has_ended(self) -> None:
        first = self.joined()
        session = first.client_id
        first.stop()
        second = self.parkazoo(client_id=session, start=False)
        second.start(DEADLINE_S)
        self.assertNotEqual(second.client_id, session)
        for path in self.on_each(second, ephemeral=True):
            self.assertEqual(second.exists(path).ephemeralOwner, second.client_id[0])

    def test_resume_what_has_ended_on_one_ensemble(self) -> None:
        """Then it has ended everywhere, at once."""
        for ensemble in range(self.ensembles):
            with self.subTest(ensemble):
                plain = [self.kazoo(index, timeout=60) for index in range(self.ensembles)]
                ephemerals = [each.create(f"/ephemeral-{each.client_id[0]}", ephemeral=True) for each in plain]
                names = [each.name for each in self.cluster.ensembles]
                sessions = dict(zip(names, (each.client_id for each in plain), strict=True))
                number = 4711
                plain[ensemble].stop()
                for each in plain:
                    if each.connected:  # it must not take its session back
                        each.set_hosts("127.0.0.1:1")
                        each._connection._socket.shutdown(socket.SHUT_RDWR)
                client = self.parkazoo(client_id=(number, pack_sessions(sessions)))
                self.assertTrue(client.connected)
                self.assertNotEqual(client.client_id[0], number)
                for index, path in enumerate(ephemerals):
                    other = self.kazoo(index)
                    wait_until(lambda o=other, p=path: not o.exists(p), f"no ephemeral on {index}")

    def test_expiry(self) -> None:
        """When one session has expired the client is LOST, and nothing of it is left on any ensemble."""
        for ensemble in range(self.ensembles):
            with self.subTest(ensemble):
                client = self.parkazoo()
                plain = [self.kazoo(index) for index in range(self.ensembles)]
                old = client.client_id
                znodes = self.on_each(client, ephemeral=True)
                seen = Seen()
                client.add_listener(seen)
                watches = [Seen() for _ in znodes]
                for path, events in zip(znodes, watches, strict=True):
                    client.exists(f"{path}-missing", watch=events)
                self.expire(client, ensemble)
                wait_until(lambda s=seen: LOST in s and s[-1] == CONNECTED, "lost and connected")
                for index, path in enumerate(znodes):
                    home = self.home(path).path
                    wait_until(
                        lambda p=plain[index], h=home: not p.exists(h), f"none on {index} after {ensemble} expired"
                    )
                self.assertNotEqual(client.client_id[0], old[0])
                self.assertEqual(seen[-2:], [LOST, CONNECTED])
                # It may have taken its session back from the thief, and lost it to him again.
                self.assertLessEqual({*seen[:-2]}, {SUSPENDED, CONNECTED})
                for path in znodes:
                    client.create(path, ephemeral=True)
                    self.assertEqual(client.exists(path).ephemeralOwner, client.client_id[0])
                    client.delete(path)
                for events in watches:
                    events.wait()
                self.assertEqual({event.type for events in watches for event in events}, {EventType.NONE})
                self.assertEqual([len(events) for events in watches], [1, 1, 1])
                states = {event.state for events in watches for event in events}
                self.assertIn(states, ({KeeperState.CONNECTING}, {KeeperState.EXPIRED_SESSION}))
                client.stop()

    def test_expiry_while_another_ensemble_is_down(self) -> None:
        """Its ephemerals go as soon as it is back."""
        client = self.parkazoo()
        znodes = self.on_each(client, ephemeral=True)
        old = client.client_id
        seen = Seen()
        client.add_listener(seen)
        with self.killed(2):
            wait_until(lambda: client.state == SUSPENDED, "suspended")
            events = Seen()
            client.exists(f"{znodes[1]}-missing", watch=events)
            self.expire(client, 0)
            wait_until(lambda: LOST in seen, "lost")
            events.wait()
            self.assertEqual([*events], [WatchedEvent(EventType.NONE, KeeperState.EXPIRED_SESSION, None)])
            wait_until(lambda: not self.kazoo(1).exists(self.home(znodes[1]).path), "no ephemeral on b")
        wait_until(lambda: client.connected, "connected again")
        self.assertNotEqual(client.client_id[0], old[0])
        wait_until(lambda: not self.kazoo(2).exists(self.home(znodes[2]).path), "no ephemeral on c")

    def test_expired_operations(self) -> None:
        """Whatever is under way when the session goes gets an answer."""
        client = self.parkazoo()
        self.on_each(client, ephemeral=True)
        client.create(self.root + "/d")
        results = []
        seen = Seen()
        client.add_listener(seen)
        for number in range(300):
            results.append(client.create_async(f"{self.root}/d/{number}"))
            results.append(client.create_async(f"{self.root}/d/{number}/x"))
        self.expire(client, 1)
        for number in range(300, 600):
            results.append(client.create_async(f"{self.root}/d/{number}"))
            results.append(client.create_async(f"{self.root}/d/{number}/x"))
        for result in results:
            with suppress(
                ConnectionLoss, SessionExpiredError, NoNodeError
            ):  # the last: its parent's create was lost
                result.get(timeout=DEADLINE_S)
        wait_until(lambda: LOST in seen and client.connected, "lost and connected")
        self.assertEqual(client.create(f"{self.root}/d/after"), f"{self.root}/d/after")


class TestStop(SessionTest):
    def test_what_was_issued_is_finished(self) -> None:
        client = self.parkazoo()
        results = [
            client.create_async(f"{self.root}/{number}{below}")
            for number in range(100)
            for below in ("", "/b", "/b/c", "/b/c/d")
        ]
        client.stop()
        for result in results:
            result.get(timeout=DEADLINE_S)
        for number in range(100):
            self.assertIsNotNone(self.watcher.exists(f"{self.root}/{number}/b/c/d"))

    def test_calls_of_several_requests_are_finished(self) -> None:
        client = self.joined()
        results: list[Any] = []
        for number in range(30):
            results.append(client.create_async(f"{self.root}/{number}/a/b", makepath=True))
            results.append(client.ensure_path_async(f"{self.root}/{number}/c/d"))
        client.stop()
        paths = [result.get(timeout=0) for result in results]
        self.assertEqual(paths, [f"{self.root}/{number}/{end}" for number in range(30) for end in ("a/b", "c/d")])
        self.assertFalse(client._unfinished.has_any())

    def test_one_call_of_several_requests_is_finished(self) -> None:
        """Alone: between two of its requests, nothing is under way."""
        for number in range(5):
            client, path = self.joined(), f"{self.root}/{number}/a/b/c"
            result = client.create_async(path, makepath=True)
            client.stop()
            self.assertEqual(result.get(timeout=0), path)

    def test_ephemerals_are_gone_when_it_returns(self) -> None:
        client = self.parkazoo()
        plain = [self.kazoo(index) for index in range(self.ensembles)]
        znodes = self.on_each(client, ephemeral=True)
        client.stop()
        for index, path in enumerate(znodes):
            self.assertIsNone(plain[index].exists(self.home(path).path))

    def test_interrupted(self) -> None:
        """By ^C, or a time limit, while it waits for what is on its way: the session ends all the same."""
        client = self.parkazoo()
        session = client._session
        plain = [self.kazoo(index) for index in range(self.ensembles)]
        znodes = self.on_each(client, ephemeral=True)
        with mock.patch.object(session.driver, "when_idle", side_effect=KeyboardInterrupt):
            self.assertRaises(KeyboardInterrupt, client.stop)
        self.assertEqual(client.state, LOST)
        for index, path in enumerate(znodes):
            self.assertIsNone(plain[index].exists(self.home(path).path))
        self.assertRaises(ConnectionClosedError, client.get, self.root)
        client.stop()
        client.start(DEADLINE_S)
        seen = Seen()
        client.get(self.root, watch=seen)
        client.set(self.root, b"again")
        self.assertEqual([event.type for event in seen.wait()], [EventType.CHANGED])

    def test_while_an_ensemble_is_down(self) -> None:
        client = self.parkazoo()
        znodes = self.on_each(client, ephemeral=True)
        with self.killed(1):
            wait_until(lambda: client.state == SUSPENDED, "suspended")
            waiting = [client.get_async(path) for path in znodes]
            client.stop()
            for index in (0, 2):
                waiting[index].get(timeout=DEADLINE_S)
            with self.assertRaises((ConnectionClosedError, ConnectionLoss)):
                waiting[1].get(timeout=DEADLINE_S)
            client.close()
        client.start(DEADLINE_S)
        self.assertIsNotNone(client.exists(self.root))

    def test_while_the_map_is_read(self) -> None:
        """A start() that times out at that moment: no other ensemble is joined, whatever waits for one."""
        begun, met = Seen(), Seen()
        begin, recognize = Member.begin, Session.recognize

        def note_begin(member: Member) -> None:
            begun(member.name)
            begin(member)

        def stop_and_recognize(session: Any, member: Member, *answers: Any) -> Exception | None:
            session.begin_stop()
            met(member.name)
            return recognize(session, member, *answers)

        with (
            mock.patch.object(Member, "begin", note_begin),
            mock.patch.object(Session, "recognize", stop_and_recognize),
        ):
            client = self.parkazoo(start=False)
            client.start_async()
            waiting = [client.exists_async(f"/{number}/z") for number in range(10)]
            met.wait()
            client.stop()
            client.close()
        for each in waiting:
            self.assertRaises(ConnectionClosedError, each.get, timeout=DEADLINE_S)
        self.assertEqual(begun, [FIRST])

    def test_nothing_is_left(self) -> None:
        """Threads and sockets are gone after stop() and close(), any number of times."""

        def once(client: Any) -> None:
            client.start(DEADLINE_S)
            client.create(f"{self.root}/left", makepath=True)
            client.delete(f"{self.root}/left")
            client.stop()
            client.close()

        client = self.parkazoo(start=False)
        once(client)  # what Python and gevent make once
        before = threading.active_count(), len(sockets())
        for _ in range(5):
            once(client)
            once(self.parkazoo(start=False))
        wait_until(
            lambda: threading.active_count() <= before[0] and len(sockets()) <= before[1],
            f"{threading.enumerate()} and {sockets()}, at first {before}",
        )


class TestFlood(SessionTest):
    def test_a_backlog_that_is_failed_meanwhile(self) -> None:
        """An expiry elsewhere fails what is queued, while the connection is about to send it."""
        client = self.parkazoo()
        member = client.members["a"]
        member.backlog = member._connection._link._backlog = Emptied()
        self.assertTrue(member._connection.wake())
        for path in self.on_each(client):
            self.assertEqual(client.get(path)[0], b"")
        self.assertEqual(client.state, CONNECTED)

    def test_many_in_flight(self) -> None:
        """kazoo's wake-up socket is full after some hundred bytes; nothing may hang on it."""
        client = self.parkazoo()
        parent = self.directory(self.root, is_native=False)
        client.create(parent)
        creates = [client.create_async(f"{parent}/{number}") for number in range(3000)]
        gets = [client.get_async(f"{parent}/{number}") for number in range(3000)]
        for result in (*creates, *gets):
            result.get(timeout=DEADLINE_S)
        self.assertEqual(len(client.get_children(parent)), 3000)

    def test_calls_in_callbacks(self) -> None:
        """Completion callbacks may issue operations, as with kazoo."""
        client = self.parkazoo()
        done = make_handler().event_object()
        left = [300]

        def created(result: Any) -> None:
            left[0] -= 1
            path = result.get()
            if left[0] > 0:
                client.create_async(f"{path}/n" if len(path) < 200 else f"{self.root}/c{left[0]}").rawlink(created)
            else:
                done.set()

        client.create_async(f"{self.root}/c").rawlink(created)
        done.wait(DEADLINE_S)
        self.assertTrue(done.is_set())

    def test_blocking_calls_in_watches(self) -> None:
        """A watch runs on its own thread, where kazoo lets it wait for other operations."""
        client = self.parkazoo()
        parent = self.directory(self.root, is_native=False)
        client.create(parent)
        seen = Seen()

        def watch(event: Any) -> None:
            client.create(f"{parent}/from-watch/below", makepath=True)
            seen(client.get_children(parent))

        client.get_children(parent, watch=watch)
        client.create(f"{parent}/first")
        seen.wait()
        self.assertEqual(sorted(seen[0]), ["first", "from-watch"])

    def test_many_threads(self) -> None:
        client = self.parkazoo()
        handler = client.handler
        errors = Seen()

        def work(worker: int) -> None:
            try:
                for number in range(40):
                    path = f"{self.root}/{worker % 3}/{number % 5}/{worker}"
                    client.create(path, makepath=True)
                    client.delete(path)
            except Exception as error:
                errors(error)
            finally:
                finished(worker)

        finished = Seen()
        for worker in range(8):
            handler.spawn(work, worker)
        finished.wait(8)
        self.assertEqual(errors, [])


class TestWhatKazooHas(SessionTest):
    def test_command_and_version(self) -> None:
        client = self.joined()
        self.assertEqual(client.command(b"ruok"), "imok")
        self.assertEqual(client.server_version()[:2], (3, 9))
        for member in client.members.values():
            self.assertEqual(member.command(b"ruok"), "imok")
            self.assertEqual(member.server_version()[:2], (3, 9))
            self.assertIsInstance(member, KazooClient)
        client.stop()
        self.assertRaises(ConnectionLoss, client.command, b"ruok")

    def test_sync(self) -> None:
        client = self.parkazoo(self.root)
        for path in ("/", "/a", "/missing/too"):
            self.assertEqual(client.sync(path), path)
            self.assertEqual(client.sync_async(path).get(timeout=DEADLINE_S), path)

    def test_set_hosts(self) -> None:
        client = self.parkazoo()
        hosts = self.cluster.hosts
        client.set_hosts(hosts)
        client.set_hosts(f"{hosts},127.0.0.1:1", randomize_hosts=False)
        self.assertEqual(client.hosts[-1], ("127.0.0.1", 1))
        self.assertIsNotNone(client.exists(self.root))
        client.restart()
        self.assertIsNotNone(client.exists(self.root))

    def test_read_only_option(self) -> None:
        client = self.parkazoo(read_only=True)
        self.assertEqual(client.client_state, KeeperState.CONNECTED)
        client.create(self.root + "/written")

    def test_retry(self) -> None:
        counts = []
        for make in (self.parkazoo, self.kazoo):
            client = make(command_retry={"max_tries": 3, "delay": 0.01, "sleep_func": make_handler().sleep_func})
            calls = Seen()

            def fail(calls: Seen = calls) -> None:
                calls(None)
                raise ConnectionLoss

            self.assertRaises(RetryFailedError, client.retry, fail)
            counts.append(len(calls))
            self.assertEqual(client.retry(client.get, "/")[0], b"")
        self.assertEqual(counts, [3, 3])

    def test_connection_retry(self) -> None:
        handler = make_handler()
        retry = KazooRetry(max_tries=-1, delay=0.01, sleep_func=handler.sleep_func)
        client = self.parkazoo(handler=handler, connection_retry=retry)
        self.on_each(client, ephemeral=True)
        with self.killed(1):
            wait_until(lambda: client.state == SUSPENDED, "suspended")
        wait_until(lambda: client.connected, "connected")

    def test_out_of_connection_retries(self) -> None:
        """A member that gives up ends the client, as a connection that gives up ends kazoo's."""
        handler = make_handler()
        retry = KazooRetry(max_tries=1, delay=0.01, sleep_func=handler.sleep_func)
        client = self.parkazoo(handler=handler, connection_retry=retry)
        self.on_each(client, ephemeral=True)
        seen = Seen()
        client.add_listener(seen)
        with self.killed(1):
            wait_until(lambda: client.state == LOST, "lost")
            self.assertRaises(ConnectionClosedError, client.get, self.root)
        self.assertEqual(seen.wait(2), [SUSPENDED, LOST])
        client.stop()
        client.start(DEADLINE_S)
        self.assertEqual(client.get(self.root)[0], b"")

    def test_subclass_that_overrides_call(self) -> None:
        """Patroni does this."""

        class Mine(ParKazooClient):
            seen = Seen()

            def _call(self, request: Any, async_object: Any) -> Any:
                self.seen(request)
                return super()._call(request, async_object)

        client = self.parkazoo(client_class=Mine)
        client.seen.clear()
        client.create(self.root + "/x/y", b"z", makepath=True)
        self.assertEqual(client.get(self.root + "/x/y")[0], b"z")
        self.assertEqual(client.seen[0].path, self.root + "/x/y")
        self.assertIsInstance(client, KazooClient)

    def test_replaced_connect(self) -> None:
        """Patroni does this too: the replacement is called for every member, and may refuse."""
        client = self.parkazoo(start=False)
        seen = Seen()
        original = client._connection._connect

        def connect(host: str, hostip: str, port: int) -> Any:
            seen(port)
            return original(host, hostip, port)

        client._connection._connect = connect
        client.start(DEADLINE_S)
        client.join(timeout=DEADLINE_S)
        ports = {server.port for ensemble in self.cluster.ensembles for server in ensemble.servers}
        self.assertEqual({*seen}, ports)
        self.assertIsNotNone(client.exists(self.root))

    def test_reconfig_is_of_one_ensemble(self) -> None:
        """A standalone server cannot be reconfigured, and says so: the request has come to it."""
        client, plain = self.joined(), self.kazoo()
        arguments = (None, None, "server.1=127.0.0.1:1:2:participant;127.0.0.1:3")
        expected = self.raises_as(lambda: plain.reconfig(*arguments))
        self.assertIsNotNone(expected)
        self.assertEqual(self.raises_as(lambda: client.reconfig(*arguments)), expected)
        for member in client.members.values():
            self.assertEqual(self.raises_as(lambda m=member: member_reconfig(m, arguments)), expected)


def member_reconfig(member: Any, arguments: tuple[Any, ...]) -> Any:
    return member.reconfig(*arguments)
