"""Deferred writes where pins decide, on real servers."""

from __future__ import annotations

from kazoo.exceptions import NoNodeError

from parkazoo import CrossEnsembleError, DeferredError
from parkazoo.admin import grow_map, init_map
from parkazoo.structures.deferred import Ticket
from tests.live.grow_case import GrowCase
from tests.live.map_case import MapCase
from tests.live.world import DEADLINE_S

DIRECTORIES, EACH = 20, 50


class TestDeferredGrown(GrowCase):
    """One ZooKeeper with children in /old/d, which has grown to a and b."""

    def setUp(self) -> None:
        MapCase.setUp(self)
        self.plain[0].create("/old/d/x", makepath=True)
        init_map(self.a, {"a": self.a})
        grow_map(self.a, {"b": self.b}, strangers_gone=True)
        self.one, _ = self.client()
        self.other, _ = self.client()
        self.directories = [self.one.create(f"/d{number}") for number in range(DIRECTORIES)]

    def make_again(self, directory: str) -> None:
        """By the other client, with a child x."""
        self.other.delete(f"{directory}/x")
        self.other.delete(directory)
        self.other.create(directory)
        self.other.create(f"{directory}/x")

    def assert_all_done(self, tickets: list[Ticket]) -> None:
        self.assertEqual([each for each in tickets if each.state != "committed"], [])

    def test_places_that_the_client_does_not_know(self) -> None:
        for directory in self.directories:
            self.other.create(f"{directory}/x")
        paths = [f"{each}/x" for each in (*self.directories, "/old/d")]
        with self.one.deferred() as later:
            tickets = [later.put(path, b"%d" % number) for number in range(EACH) for path in paths]
            self.assertEqual(self.one.get(paths[0])[0], b"%d" % (EACH - 1))
        self.assert_all_done(tickets)
        for path in paths:
            data, stat = self.other.get(path)
            self.assertEqual((data, stat.version), (b"%d" % (EACH - 1), EACH))
        self.assertEqual({self.place(each) for each in self.directories}, {"a", "b"})

    def test_children_that_are_made_and_deleted(self) -> None:
        """In directories without a pin: new ones, and one that was adopted."""
        with self.one.deferred() as later:
            directories = [*self.directories, "/old/d", "/own", "/own/too"]
            tickets = [later.add("/own"), later.add("/own/too")]
            for number in range(EACH):
                tickets += [later.add(f"{each}/{number}") for each in directories]
            later.barrier(DEADLINE_S)
            self.assertEqual(len(self.other.get_children("/own/too")), EACH)
            for number in range(EACH):
                tickets += [later.drop(f"{each}/{number}") for each in directories]
            later.barrier(DEADLINE_S)
            tickets += [later.drop(each) for each in (*self.directories, "/own/too")]
            later.barrier(DEADLINE_S)
            tickets.append(later.drop("/own"))
        self.assert_all_done(tickets)
        self.assertEqual(sorted(self.other.get_children("/")), ["old", "zookeeper"])
        self.assertEqual(self.other.get_children("/old/d"), ["x"])

    def test_directories_that_are_made_again_elsewhere(self) -> None:
        """What is missing where it was is looked for, and written there: each write once, in its order."""
        for directory in self.directories:
            self.other.create(f"{directory}/x")
        before = [self.place(each) for each in self.directories]
        later = self.one.deferred()
        for directory in self.directories:
            later.put(f"{directory}/x", b"before")
        later.barrier(DEADLINE_S)
        self.follows(self.other, self.grow())
        for directory in self.directories:
            self.make_again(directory)
        self.assertNotEqual([self.place(each) for each in self.directories], before)
        tickets = []
        for number in range(EACH):
            tickets += [later.put(f"{each}/x", b"%d" % number) for each in self.directories]
        later.close(DEADLINE_S)
        self.assert_all_done(tickets)
        for directory in self.directories:
            data, stat = self.other.get(f"{directory}/x")
            self.assertEqual((data, stat.version), (b"%d" % (EACH - 1), EACH))

    def test_what_is_not_there_is_refused(self) -> None:
        directory = self.directories[0]
        self.other.create(f"{directory}/x")
        later = self.one.deferred(on_error="skip")
        tickets = [
            later.put(f"{directory}/x", b""),
            later.put(f"{directory}/missing", b""),
            later.put("/missing/x", b""),
            later.drop("/old/d/missing"),
            later.add("/old/missing/x"),
            later.put(f"{directory}/x", b""),
        ]
        with self.assertRaises(DeferredError):
            later.close(DEADLINE_S)
        self.assertEqual(
            [(each.state, type(each.error)) for each in tickets],
            [("committed", type(None)), *[("failed", NoNodeError)] * 4, ("committed", type(None))],
        )

    def test_a_directory_that_is_gone(self) -> None:
        """Its write is refused where it was, wherever it would be made again: the lane stops there."""
        for directory in self.directories:
            self.other.create(f"{directory}/x")
        with self.one.deferred() as later:
            for directory in self.directories:
                later.put(f"{directory}/x", b"")
            later.barrier(DEADLINE_S)
        gone, *others = [each for each in self.directories if self.place(each) == "a"]
        self.grow()
        later = self.one.deferred()
        first = [later.put(f"{each}/x", b"") for each in (gone, *others)]
        later.barrier(DEADLINE_S)
        self.other.delete(f"{gone}/x")
        self.other.delete(gone)
        tickets = [later.put(f"{each}/x", b"") for each in (gone, *others)]
        with self.assertRaises(DeferredError):
            later.close(DEADLINE_S)
        self.assert_all_done(first)
        self.assertEqual([each.state for each in tickets], ["failed", *["dropped"] * len(others)])
        self.assertIsInstance(tickets[0].error, NoNodeError)

    def test_guard(self) -> None:
        guard = self.one.create("/old/d/guard")
        later = self.one.deferred(guard=guard)
        later.put("/old/d/x", b"1")
        away = self.one.create("/away")
        self.one.create(f"{away}/x")
        while self.place(away) == "a":
            away = self.one.create(f"{away}-")
            self.one.create(f"{away}/x")
        with self.assertRaises(CrossEnsembleError):
            later.put(f"{away}/x", b"")
        later.barrier(DEADLINE_S)
        self.other.delete(guard)
        ticket = later.put("/old/d/x", b"2")
        self.assertTrue(ticket.wait(DEADLINE_S))
        self.assertEqual((ticket.state, type(ticket.error)), ("dropped", NoNodeError))
        with self.assertRaises(DeferredError):
            later.close(DEADLINE_S)

    def test_the_guard_s_ensemble_is_that_of_all(self) -> None:
        """A directory that leaves it is written to no more."""
        directories = self.directories
        for directory in directories:
            self.other.create(f"{directory}/x")
        guarded = [each for each in directories if self.place(each) == "b"]
        guard = self.other.create(f"{guarded[0]}/guard")
        later = self.one.deferred(guard=guard, on_error="skip")
        for directory in guarded[1:]:
            later.put(f"{directory}/x", b"")
        later.barrier(DEADLINE_S)
        self.follows(self.other, self.grow())
        for directory in guarded[1:]:
            self.make_again(directory)
        tickets = {each: later.put(f"{each}/x", b"") for each in guarded[1:]}
        with self.assertRaises(DeferredError):
            later.close(DEADLINE_S)
        for directory, ticket in tickets.items():
            stayed = self.place(directory) == "b"
            self.assertIs(type(ticket.error), type(None) if stayed else CrossEnsembleError)
