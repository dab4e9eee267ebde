"""The watches of a program."""

from __future__ import annotations

import unittest
from typing import Any

from kazoo.protocol.states import EventType, KeeperState, WatchedEvent, ZnodeStat

from parkazoo.gateway.answer_row import AnswerPlace
from parkazoo.gateway.watch_table import CHILDREN, DATA, ProgramWatch, WatchTable
from parkazoo.protocol.outlasting import outlasts

OLD, NEW = (ZnodeStat(1, zxid, 3, 4, 5, 6, 7, 8, 9, 10, 11) for zxid in (2, 3))


class TestWatchTable(unittest.TestCase):
    def setUp(self) -> None:
        self.told: list[tuple[ProgramWatch, WatchedEvent]] = []
        self.now_s = 0.0
        self.held: list[ProgramWatch] = []  # by the client
        self.table = WatchTable(
            lambda watch, event: self.told.append((watch, event)), lambda: self.now_s, self.held.__contains__
        )

    def begun(self, kind: str = DATA, path: str = "/a") -> tuple[ProgramWatch, AnswerPlace]:
        watch, place = self.table.watch(kind, path), AnswerPlace()
        self.table.begin(watch, place)
        return watch, place

    def left(self, kind: str = DATA, path: str = "/a", answer: Any = OLD) -> ProgramWatch:
        watch, place = self.begun(kind, path)
        self.table.end(watch, place, answer, is_left=True)
        return watch

    def test_one_event(self) -> None:
        watch = self.left()
        self.assertIs(self.left(), watch)
        self.assertEqual(len(self.table), 1)
        watch(WatchedEvent(EventType.CHANGED, KeeperState.CONNECTED, "/a"))
        self.assertEqual(len(self.told), 1)
        self.assertEqual(self.table.fire(watch, EventType.CHANGED), [None])
        self.assertEqual(self.table.fire(watch, EventType.CHANGED), [])
        self.assertEqual(self.table.remembered, 0)

    def test_a_read_that_fails_leaves_none(self) -> None:
        watch, place = self.begun()
        self.table.end(watch, place, None, is_left=False)
        self.assertEqual(self.table.remembered, 0)
        self.assertEqual(self.table.fire(watch, EventType.CHANGED), [])

    def test_a_read_that_fails_leaves_an_earlier_one(self) -> None:
        self.left()
        watch, place = self.begun()
        self.table.end(watch, place, None, is_left=False)
        self.assertIs(self.table.left(DATA, "/a"), watch)

    def test_an_event_before_the_answer(self) -> None:
        watch, place = self.begun()
        self.assertEqual(self.table.fire(watch, EventType.CHANGED), [place])
        self.table.end(watch, place, OLD, is_left=True)
        self.assertEqual(self.table.remembered, 0)

    def test_an_event_while_it_is_left_again(self) -> None:
        """It may be that of the earlier watch alone."""
        for is_held, early in ((False, EventType.CHANGED), (True, None)):
            self.left()
            watch, place = self.begun()
            self.assertEqual(self.table.fire(watch, EventType.CHANGED), [None])
            self.held[:] = [watch] if is_held else []
            self.assertEqual(self.table.end(watch, place, OLD, is_left=True), early)
            self.assertEqual(len(self.table), is_held)

    def test_two_events_while_it_is_left_again(self) -> None:
        self.left()
        watch, place = self.begun()
        self.assertEqual(self.table.fire(watch, EventType.CHANGED), [None])
        self.assertEqual(self.table.fire(watch, EventType.DELETED), [place])
        self.assertIsNone(self.table.end(watch, place, OLD, is_left=True))
        self.assertEqual(self.table.remembered, 0)

    def test_an_event_while_a_read_fails(self) -> None:
        self.left()
        watch, place = self.begun()
        self.assertEqual(self.table.fire(watch, EventType.DELETED), [None])
        self.assertIsNone(self.table.end(watch, place, None, is_left=False))
        self.assertEqual(self.table.remembered, 0)

    def test_a_read_of_the_earlier_connection(self) -> None:
        """It leaves nothing, and no event waits for its answer, which the program never gets."""
        watch, place = self.begun()
        self.table.connect()
        self.assertEqual(self.table.fire(watch, EventType.CHANGED), [])
        again, other = self.begun()
        self.table.end(watch, place, OLD, is_left=True)
        self.assertEqual((len(self.table), self.table.fire(again, EventType.CHANGED)), (0, [other]))

    def test_a_deletion_is_the_event_of_both(self) -> None:
        data, children = self.left(), self.left(CHILDREN, answer=["x"])
        self.assertEqual(self.table.fire(children, EventType.DELETED), [None])
        self.assertEqual(self.table.fire(data, EventType.DELETED), [])
        self.assertEqual(self.table.remembered, 0)

    def test_a_deletion_that_is_told_late(self) -> None:
        """The one of the children, when the path has another znode."""
        data, children = self.left(), self.left(CHILDREN, answer=["x"])
        self.table.fire(data, EventType.DELETED)
        again = self.left()
        self.assertEqual(self.table.fire(children, EventType.DELETED), [])
        self.assertEqual(self.table.fire(again, EventType.CHANGED), [None])

    def test_a_deletion_of_one_that_the_program_does_not_know(self) -> None:
        data, place = self.begun()
        self.left(CHILDREN, answer=[])
        self.assertEqual(self.table.fire(data, EventType.DELETED), [None])
        self.assertEqual(self.table.end(data, place, OLD, is_left=True), EventType.DELETED)

    def test_missed(self) -> None:
        for kind, before, expected, after, event in (
            (DATA, OLD, True, OLD, None),
            (DATA, OLD, True, NEW, EventType.CHANGED),
            (DATA, OLD, True, None, EventType.DELETED),
            (DATA, (b"1", OLD), True, OLD, None),
            (DATA, None, False, None, None),
            (DATA, None, False, NEW, EventType.CREATED),
            (CHILDREN, ["a"], True, ["a"], EventType.CHILD),
            (CHILDREN, ([], OLD), True, ([], OLD), EventType.CHILD),
            (CHILDREN, ["a"], True, None, EventType.DELETED),
        ):
            with self.subTest(kind=kind, before=before, after=after):
                watch = self.left(kind, answer=before)
                self.assertEqual(watch.was_changed(expected, after), event)
                self.table.forget(watch)

    def test_what_is_not_remembered_counts_as_changed(self) -> None:
        self.assertEqual(self.table.watch(DATA, "/a").was_changed(True, OLD), EventType.CHANGED)
        self.assertEqual(self.table.watch(CHILDREN, "/a").was_changed(True, []), EventType.CHILD)
        self.assertIsNone(self.table.watch(DATA, "/a").was_changed(False, None))

    def test_a_loss(self) -> None:
        """What was seen is kept for the next connection, and no longer."""
        watch, again = self.left(), self.left(path="/b")
        for each in (watch, again):
            self.table.lose(each)
            self.table.lose(each)
        self.assertEqual((len(self.table), watch.has_seen, self.table.remembered), (0, True, 2))
        self.table.connect()
        self.left(path="/b")
        self.assertEqual((watch.was_changed(True, NEW), self.table.remembered), (EventType.CHANGED, 2))
        self.table.connect()
        self.assertEqual((self.table.remembered, self.table.left(DATA, "/b")), (1, again))

    def test_what_the_program_does_not_set_again(self) -> None:
        """It is forgotten at the second connection after its own, and the client need not keep it."""
        first, second, third = (self.left(path=path) for path in ("/a", "/b", "/c"))
        for _ in range(3):
            self.table.connect()
            self.table.renew(second)
            self.left(path="/c")
        self.assertEqual([each.is_left for each in (first, second, third)], [False, True, True])
        self.assertEqual([outlasts(each) for each in (first, second, third)], [False, True, True])
        self.assertEqual(self.table.remembered, 2)

    def test_a_watch_that_was_replaced(self) -> None:
        """The client may call it once more."""
        before = self.left()
        self.table.forget(before)
        after = self.left()
        self.assertEqual(self.table.fire(before, EventType.CHANGED), [])
        self.assertIs(self.table.left(DATA, "/a"), after)

    def test_missed_events_end_when_a_watch_is_left(self) -> None:
        self.table.miss(self.table.watch(DATA, "/a"), EventType.CHANGED)
        self.left()
        self.assertEqual(self.table.missed, {})

    def test_missed_events_are_told_once(self) -> None:
        """To the next connection, or to none; nothing is left of them."""
        for path in ("/a", "/b"):
            self.table.fire(self.left(path=path), EventType.CHANGED)
            self.table.miss(ProgramWatch(DATA, path, print), EventType.CHANGED)
        self.table.connect()
        again = self.table.watch(DATA, "/a")
        self.assertEqual([self.table.take_missed(again) for _ in range(2)], [EventType.CHANGED, None])
        self.assertEqual((self.table.remembered, len(self.table.missed)), (0, 1))
        self.table.connect()
        self.assertEqual(self.table.missed, {})

    def test_told_and_perhaps_not_read(self) -> None:
        """Nothing is known of a watch that was left again behind that, when it is set on the next connection."""
        for path, kind in (("/a", EventType.CHANGED), ("/b", EventType.DELETED)):
            for each in (self.left(path=path), self.left(CHILDREN, path)):
                for _ in self.table.fire(each, kind):
                    self.table.note_told(each, kind)
        for path in ("/a", "/b", "/c"):
            self.left(path=path)
            self.left(CHILDREN, path)
        self.table.connect()
        for again in (False, True):
            known = [
                (watch.is_left, watch.was_changed(True, OLD if kind == DATA else []))
                for path in ("/a", "/b", "/c")
                for kind in (DATA, CHILDREN)
                if (watch := self.table.set_again(kind, path))
            ]
            lost = [(False, EventType.CHANGED), (False, EventType.CHILD)]
            self.assertEqual(known, 2 * lost + [(True, None), (True, EventType.CHILD)], again)

    def test_told_long_ago(self) -> None:
        """The program has read it, and nothing is left of it."""
        self.table.unread_s = 10.0
        for self.now_s, path in ((0.0, "/a"), (1.0, "/b"), (2.0, "/a"), (11.5, "/c")):
            watch = self.left(path=path)
            self.table.fire(watch, EventType.CHANGED)
            self.table.note_told(watch, EventType.CHANGED)
        self.assertEqual([path for _, path in self.table._told_s], ["/a", "/c"])
        for path in ("/a", "/b", "/c"):
            self.left(path=path)
        self.now_s = 12.5
        self.table.connect()
        self.assertEqual(
            [self.table.set_again(DATA, path).is_left for path in ("/a", "/b", "/c")], [True, True, False]
        )
