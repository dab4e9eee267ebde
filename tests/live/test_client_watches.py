"""Watches: the right event, on the path that the user named, exactly once."""

from __future__ import annotations

import itertools
import random
import socket
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

from kazoo.exceptions import NoNodeError
from kazoo.protocol.states import Callback, EventType, KazooState, KeeperState
from kazoo.security import OPEN_ACL_UNSAFE

from parkazoo.kazoo_private import CONNECTION_DROP
from parkazoo.protocol.placement import PIN
from tests.live.world import DEADLINE_S, LiveTest, Seen, seed, wait_until

CREATED, CHANGED, DELETED, CHILD, NONE = (
    EventType.CREATED,
    EventType.CHANGED,
    EventType.DELETED,
    EventType.CHILD,
    EventType.NONE,
)


class WatchTest(LiveTest):
    def setUp(self) -> None:
        super().setUp()
        self.other = self.parkazoo()  # who makes the changes
        self.root = self.new_root(self.other)
        self.client = self.parkazoo()  # who watches

    def settle(self, client: Any, *paths: str) -> None:
        """Return when every event so far has arrived."""
        for _ in range(3):  # a watch may look again before it tells
            for path in (self.root, *paths):
                client.sync(path)
            told = client.handler.event_object()
            client.handler.dispatch_callback(Callback("watch", told.set, ()))
            told.wait(DEADLINE_S)
            self.assertTrue(told.is_set())

    def directories(self) -> Iterator[tuple[str, str]]:
        """An empty directory of each kind."""
        native = self.directory(self.root, is_native=True)
        self.other.create(native)
        yield "native", native
        base = self.directory(self.root, is_native=False)
        promoted, unpromoted, pinned, emptied = (f"{base}{kind}" for kind in self.suffixes(base, 4))
        for path in (promoted, unpromoted, pinned, emptied):
            self.other.create(path)
        self.other.create(f"{promoted}/other")
        yield "promoted", promoted
        yield "unpromoted", unpromoted
        home = self.home(pinned)
        self.kazoo(home.ensemble).create(
            f"{home.path}/{PIN}", acl=OPEN_ACL_UNSAFE
        )  # a promotion that was interrupted
        yield "pinned", pinned
        self.other.create(f"{emptied}/x")
        self.other.delete(f"{emptied}/x")
        yield "emptied", emptied

    def suffixes(self, base: str, count: int) -> list[str]:
        """Endings that leave `base` a directory over two ensembles."""
        found = [f"-{n}" for n in range(100) if not self.placement.is_native(f"{base}-{n}")]
        return found[:count]

    def check(self, seen: Seen, path: str, *expected: str) -> None:
        seen.wait(len(expected))
        self.settle(self.client, path)
        self.assertEqual([(event.type, event.path) for event in seen], [(each, path) for each in expected])
        self.assertEqual({event.state for event in seen}, {KeeperState.CONNECTED})


class TestOneShot(WatchTest):
    def watched(self, leave: Callable[[str, Any], Any]) -> Iterator[tuple[str, str, Seen]]:
        for kind, path in self.directories():
            with self.subTest(kind):
                seen = Seen()
                leave(path, seen)
                yield kind, path, seen

    def leave_child_watch(self, path: str, watch: Any) -> Any:
        return self.client.get_children(path, watch=watch)

    def test_child_created(self) -> None:
        """By another client, with and without the stat; a second child calls no watch."""
        for include_data in (False, True):
            for _, path, seen in self.watched(
                lambda p, w, i=include_data: self.client.get_children(p, watch=w, include_data=i)
            ):
                self.other.create(f"{path}/a")
                self.other.create(f"{path}/b")
                self.check(seen, path, CHILD)
                self.assertIn("a", self.client.get_children(path))
            self.other.delete(self.root, recursive=True)
            self.other.create(self.root)

    def test_own_child(self) -> None:
        for _, path, seen in self.watched(self.leave_child_watch):
            self.client.create(f"{path}/a", include_data=True)
            self.client.delete(f"{path}/a")
            self.check(seen, path, CHILD)

    def test_child_of_a_transaction(self) -> None:
        for _, path, seen in self.watched(self.leave_child_watch):
            transaction = self.other.transaction()
            transaction.create(f"{path}/a")
            transaction.create(f"{path}/b")
            transaction.commit()
            self.check(seen, path, CHILD)

    def test_child_deleted(self) -> None:
        for _, path in self.directories():
            self.other.create(f"{path}/leaf")
            seen, leaf = Seen(), Seen()
            self.client.get_children(path, watch=seen)
            self.client.get(f"{path}/leaf", watch=leaf)
            self.client.get_children(f"{path}/leaf", watch=leaf)
            self.other.delete(f"{path}/leaf")
            self.check(seen, path, CHILD)
            self.check(leaf, f"{path}/leaf", DELETED, DELETED)  # one for the data, one for the children

    def test_directory_deleted(self) -> None:
        for kind, path, seen in self.watched(self.leave_child_watch):
            if kind == "promoted":
                self.other.delete(f"{path}/other")
                self.check(seen, path, CHILD)
                seen.clear()
                self.client.get_children(path, watch=seen)
            self.other.delete(path)
            self.check(seen, path, DELETED)

    def test_directory_deleted_in_a_transaction(self) -> None:
        for kind, path, seen in self.watched(self.leave_child_watch):
            if kind == "promoted":
                continue  # not empty
            transaction = self.other.transaction()
            transaction.delete(path)
            transaction.create(path)
            self.assertEqual(transaction.commit(), [True, path])
            self.check(seen, path, DELETED)

    def test_deleted_and_made_again(self) -> None:
        for kind, path, seen in self.watched(self.leave_child_watch):
            if kind != "promoted":
                self.other.delete(path)
                self.other.create(path)
                self.other.create(f"{path}/new")
                self.check(seen, path, DELETED)
                self.assertEqual(self.leave_child_watch(path, seen), ["new"])
                seen.clear()
                self.other.delete(f"{path}/new")
                self.check(seen, path, CHILD)

    def test_data(self) -> None:
        for leave in (self.client.get, self.client.exists):
            for _, path, seen in self.watched(lambda p, w, leave=leave: leave(p, watch=w)):
                self.other.create(f"{path}/child")  # no business of a data watch
                self.other.set_acls(path, OPEN_ACL_UNSAFE)
                self.settle(self.client, path)
                self.assertEqual(seen, [])
                self.other.set(path, b"new")
                self.other.set(path, b"newer")
                self.check(seen, path, CHANGED)
                seen.clear()
                leave(path, watch=seen)
                self.other.delete(path, recursive=True)
                self.check(seen, path, DELETED)

    def test_exists(self) -> None:
        for is_native in (True, False):
            path = self.directory(self.root, is_native)
            seen = Seen()
            self.assertIsNone(self.client.exists(path, watch=seen))
            self.other.create(path)
            self.other.set(path, b"")
            self.check(seen, path, CREATED)
            below = self.directory(path, is_native=False)
            seen = Seen()
            self.assertIsNone(self.client.exists(below, watch=seen))
            self.other.create(below)
            self.check(seen, below, CREATED)

    def test_data_and_children_at_once(self) -> None:
        for kind, path, seen in self.watched(self.leave_child_watch):
            data = Seen()
            self.client.get(path, watch=data)
            self.other.set(path, b"x")
            self.check(data, path, CHANGED)
            self.assertEqual(seen, [])
            self.other.create(f"{path}/{kind}")
            self.check(seen, path, CHILD)

    def test_twice_the_same_function(self) -> None:
        """kazoo calls a function once for an event, however often it was left."""
        for _ in range(5):
            for _, path, seen in self.watched(self.leave_child_watch):
                for _ in range(9):  # some look again before, some after the first child is there
                    self.client.get_children(path, watch=seen)
                self.other.create(f"{path}/a")
                self.check(seen, path, CHILD)
            self.other.delete(self.root, recursive=True)
            self.other.create(self.root)

    def test_twice_the_same_function_on_data(self) -> None:
        """By `get` and by `exists`, in any order."""
        calls = {"get": self.client.get, "exists": self.client.exists}
        for order in itertools.product(calls, repeat=3):
            with self.subTest(order):
                path = self.other.create(f"{self.root}/{'-'.join(order)}")
                for change, expected in ((lambda p=path: self.other.set(p, b"x"), CHANGED), (self._lose, NONE)):
                    seen = Seen()
                    for name in order:
                        calls[name](path, watch=seen)
                    change()
                    seen.wait()
                    self.settle(self.client, path)
                    self.assertEqual([event.type for event in seen], [expected])

    def _lose(self) -> None:
        """All connections of the client."""
        states = Seen()
        self.client.add_listener(states)
        self.client._call(CONNECTION_DROP, None)
        wait_until(lambda: states[-1] == KazooState.CONNECTED, "it is back")
        self.client.remove_listener(states)

    def test_several_functions(self) -> None:
        for _, path, seen in self.watched(self.leave_child_watch):
            more = [Seen() for _ in range(3)]
            for each in more:
                self.client.get_children(path, watch=each)
            self.other.create(f"{path}/a")
            for each in (seen, *more):
                self.check(each, path, CHILD)

    def test_failed_calls_leave_nothing(self) -> None:
        for is_native in (True, False):
            path = self.directory(self.root, is_native)
            seen = Seen()
            self.assertRaises(NoNodeError, self.client.get_children, path, watch=seen)
            self.assertRaises(NoNodeError, self.client.get, path, watch=seen)
            self.other.create(f"{path}/a", makepath=True)
            self.other.delete(path, recursive=True)
            self.settle(self.client, path)
            self.assertEqual(seen, [])

    def test_leaves_nothing_on_the_servers(self) -> None:
        """A watch writes nothing: a directory that is only watched stays as it is."""
        path = self.directory(self.root, is_native=False)
        self.other.create(path)
        for _ in range(3):
            self.client.get_children(path, watch=Seen())
        home = self.home(path)
        self.assertEqual(self.kazoo(home.ensemble).get_children(home.path), [])

    def test_below_a_chroot(self) -> None:
        for kind, path in self.directories():
            with self.subTest(kind):
                below = path[len(self.root) :]
                client = self.parkazoo(self.root)
                seen, data = Seen(), Seen()
                client.get_children(below, watch=seen)
                client.exists(below, watch=data)
                self.other.create(f"{path}/a")
                self.other.set(path, b"")
                for events, expected in ((seen, CHILD), (data, CHANGED)):
                    events.wait()
                    self.settle(client, below)
                    self.assertEqual([(event.type, event.path) for event in events], [(expected, below)])

    def test_lost_connections(self) -> None:
        """Each watch gets NONE, once, and never again."""
        watches = []
        for kind, path in self.directories():
            for leave in (self.client.get_children, self.client.get, self.client.exists):
                seen = Seen()
                leave(path, watch=seen)
                watches.append((kind, path, seen))
        sockets = [member._connection._socket for member in self.client.members.values()]
        self.client._connection._socket.shutdown(socket.SHUT_RDWR)
        for index, member in enumerate(self.client.members.values()):
            wait_until(
                lambda m=member, i=index: m.connected and m._connection._socket not in (None, sockets[i]),
                "a new socket",
            )
        wait_until(lambda: self.client.connected, "connected again")
        for _, _, seen in watches:
            seen.wait()
        for _, path, _ in watches:
            self.other.set(path, b"")
            self.other.create(f"{path}/n", sequence=True)
        for kind, path, seen in watches:
            self.settle(self.client, path)
            self.assertEqual([(event.type, event.path) for event in seen], [(NONE, None)], kind)

    def test_stop(self) -> None:
        """As with kazoo, each watch gets NONE once, when the client starts again."""
        watches = []
        for _, path in self.directories():
            seen = Seen()
            self.client.get_children(path, watch=seen)
            self.client.get(path, watch=seen)
            watches.append(seen)
        self.client.stop()
        self.assertEqual([event for seen in watches for event in seen], [])
        self.client.start(DEADLINE_S)
        for seen in watches:
            wait_until(lambda seen=seen: len(seen) >= 2, "both were called")
        self.settle(self.client)
        for seen in watches:
            self.assertEqual([(event.type, event.path) for event in seen], 2 * [(NONE, None)])

    def test_a_watch_that_reads_again(self) -> None:
        """When the client starts again: in the new session."""
        read: list[Any] = []
        self.client.get("/", watch=lambda event: read.append(self.client.exists_async("/")))
        self.client.stop()
        make = self.client._make_member

        def make_late(*arguments: Any) -> Any:
            """After the watches that have been called too early."""
            are_called = self.client.handler.event_object()
            self.client.handler.dispatch_callback(Callback("watch", are_called.set, ()))
            are_called.wait(DEADLINE_S)
            return make(*arguments)

        with mock.patch.object(self.client, "_make_member", make_late):
            self.client.start(DEADLINE_S)
        wait_until(lambda: read, "it was called")
        self.assertIsNotNone(read[0].get(timeout=DEADLINE_S))


class TestManyEvents(WatchTest):
    NAMES = ("a", "b", "c")

    def test_no_event_is_lost(self) -> None:
        """A client that reads again at every event knows, in the end, what is there."""
        number = seed()
        print(f"test_no_event_is_lost: PARKAZOO_TEST_SEED={number}")
        root = self.other.create(f"/watches-{number}")
        paths = [f"{root}/{first}" for first in self.NAMES]
        paths += [f"{path}/{second}" for path in paths for second in self.NAMES]
        known: dict[str, Any] = {}
        events: list[int] = [0]

        def follow(path: str) -> Callable[..., None]:
            def look(event: Any = None) -> None:
                events[0] += event is not None
                try:
                    known[path] = sorted(self.client.get_children(path, watch=look))
                except NoNodeError:
                    known[path] = None
                    if self.client.exists(path, watch=look) is not None:
                        look()

            return look

        for path in paths:
            follow(path)()
        done = Seen()

        def change(client: Any, dice: random.Random) -> None:
            try:
                for _ in range(300):
                    path = dice.choice(paths)
                    call = client.create if dice.random() < 0.6 else client.delete
                    if dice.random() < 0.5:
                        path += "/x"
                    self.raises_as(lambda call=call, path=path: call(path))
            finally:
                done(None)

        for offset, client in enumerate((self.other, self.parkazoo())):
            client.handler.spawn(change, client, random.Random(number + offset))
        done.wait(2)

        def real(path: str) -> Any:
            try:
                return sorted(self.other.get_children(path))
            except NoNodeError:
                return None

        expected = {path: real(path) for path in paths}
        wait_until(lambda: known == expected, f"{expected}, seed {number}")
        self.assertGreater(events[0], 50)
