"""Watches where pins decide: what a client looks at before it finds a znode is no concern of the user's."""

from __future__ import annotations

import unittest
from contextlib import suppress
from typing import Any

from kazoo.protocol.states import EventType, KeeperState, WatchedEvent
from kazoo.security import ACL, OPEN_ACL_UNSAFE, Id, Permissions

from parkazoo.kazoo_private import Create, Delete, Exists, SetACL, SetData
from parkazoo.protocol.watches import DirectoryWatch
from tests.explore.client import Client
from tests.explore.grown import ADOPTED, STATES, D, Maps, brought, guess
from tests.explore.scenario import Knows
from tests.explore.znodes import Who

X = f"{D}/x"
ME = Who((10, 20, 30), frozenset(), has_all=False)
OTHER = Who(owners=(70, 80, 90))
NO_READ = [ACL(Permissions.ALL & ~Permissions.READ, Id("world", "anyone"))]


def event(kind: str) -> WatchedEvent:
    return WatchedEvent(kind, KeeperState.CONNECTED, X)


class TestExistsWithWatch(unittest.TestCase):
    """The directory was decided by an earlier epoch; the client's own guess is another ensemble."""

    def begin(self, state: str, my_guess: int = 2) -> None:
        self.model = brought(STATES[state], Maps(ADOPTED, Knows(guess(1)), None), ((), ())).model
        self.client = Client(ADOPTED, self.model, ME, knows=Knows(guess(my_guess)))
        self.rival = Client(ADOPTED, self.model, OTHER, "other", knows=Knows(guess(1)))
        self.seen: list[WatchedEvent] = []

    def other(self, *requests: Any) -> None:
        for request in requests:
            self.assertNotIsInstance(self.rival.get(request), Exception, request)

    def watch(self) -> Any:
        return self.client.get(Exists(X, self.seen.append))

    def expect(self, *events: WatchedEvent) -> None:
        self.client.run()
        self.assertEqual(self.seen, list(events))

    def places_left(self) -> list[tuple[int, str]]:
        return [
            (member.ensemble, path)
            for member in self.client.members
            for table in (member.watches.data, member.watches.child)
            for path, watches in table.items()
            if watches
        ]

    def test_what_is_there_is_watched_where_it_is(self) -> None:
        self.begin("mirrored")
        self.assertIsNotNone(self.watch())
        self.assertEqual(self.places_left(), [(1, "/parkazoo/mirrors/%2Fd/x")])

    def test_a_change_of_the_directory_is_not_told(self) -> None:
        for state in ("mirrored", "adopted", "native"):
            with self.subTest(state):
                self.begin(state)
                self.assertIsNotNone(self.watch())
                self.other(SetData(D, b"1", -1), Create(f"{D}/y", b"", OPEN_ACL_UNSAFE, 0))
                self.expect()
                self.other(SetData(X, b"1", -1))
                self.expect(event(EventType.CHANGED))

    def test_a_change_of_the_directory_during_the_call(self) -> None:
        """At each moment."""
        for state in ("mirrored", "adopted", "native"):
            at = 0
            while True:
                self.begin(state)
                result = self.client.call(Exists(X, self.seen.append))
                for _ in range(at):
                    if choices := self.client.choices():
                        choices[0]()
                is_over = not self.client.choices()
                self.other(SetData(D, b"1", -1))
                self.client.run()
                self.assertIsNotNone(result.value)
                self.expect()
                self.other(Delete(X, -1))
                self.expect(event(EventType.DELETED))
                if is_over:
                    break
                at += 1
            self.assertGreater(at, 4)

    def test_the_directory_goes_during_the_call(self) -> None:
        """exists() never raises NoNodeError."""
        for at in range(20):
            self.begin("leaf")
            result = self.client.call(Exists(X, self.seen.append))
            for _ in range(at):
                if choices := self.client.choices():
                    choices[0]()
            self.other(Delete(D, -1))
            self.client.run()
            self.assertIsNone(result.value)
            self.other(*(Create(path, b"", OPEN_ACL_UNSAFE, 0) for path in (D, X)))
            self.expect(event(EventType.CREATED))

    def test_a_directory_that_may_not_be_read(self) -> None:
        self.begin("leaf")
        self.other(SetACL(D, NO_READ, -1))
        self.assertIsNone(self.watch())
        self.assertIsNone(self.client.get(Exists(X, None)))
        self.other(Create(X, b"", OPEN_ACL_UNSAFE, 0))
        self.expect(event(EventType.CREATED))

    def test_it_comes_and_goes(self) -> None:
        for state in ("mirrored empty", "native empty", "adopted empty", "promotion abandoned"):
            for my_guess in (1, 2):
                with self.subTest(state, my_guess=my_guess):
                    self.begin(state, my_guess)
                    self.assertIsNone(self.watch())
                    self.other(Create(f"{D}/y", b"", OPEN_ACL_UNSAFE, 0))
                    self.expect()
                    self.other(Create(X, b"", OPEN_ACL_UNSAFE, 0), Delete(X, -1))
                    self.expect(event(EventType.CREATED))

    def test_the_connection_is_lost_and_a_watch_raises(self) -> None:
        """The others are told all the same, as with kazoo."""
        self.begin("mirrored")

        def watcher(number: int) -> Any:
            def told(lost: WatchedEvent) -> None:
                self.seen.append(lost)
                raise ValueError(number)

            return told

        for number in range(4):
            self.client.get(Exists(f"{D}/{number}", watcher(number)))
        lost = WatchedEvent(EventType.NONE, KeeperState.CONNECTING, None)
        self.client.watching.drop(lost)
        while choices := self.client.choices():
            with suppress(ValueError):
                choices[0]()
        self.assertEqual(self.seen, [lost] * 4)

    def test_a_znode_above_the_chroot_has_its_name(self) -> None:
        told: list[WatchedEvent] = []
        looks: list[WatchedEvent] = []
        watch = DirectoryWatch(
            "/a/b/a",
            told.append,
            lambda w, e: looks.append(e),
            lambda w, fired: w.end(),
            "/a",
            lambda watcher, event: watcher(event),
        )
        watch.settle(True)
        watch(WatchedEvent(EventType.CREATED, KeeperState.CONNECTED, "/a"))
        self.assertEqual((told, len(looks)), ([], 1))

    def test_it_comes_and_may_not_be_read(self) -> None:
        for state in ("missing", "leaf", "mirrored empty", "native empty"):
            with self.subTest(state):
                self.begin(state)
                self.assertIsNone(self.watch())
                made = [] if state != "missing" else [Create(D, b"", OPEN_ACL_UNSAFE, 0)]
                self.other(*made, Create(X, b"", NO_READ, 0))
                self.expect()  # as with one ZooKeeper
