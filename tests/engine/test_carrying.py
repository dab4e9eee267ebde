"""Watches that follow the children of a directory to another ensemble."""

from __future__ import annotations

import unittest
from types import SimpleNamespace
from typing import Any

from kazoo.exceptions import BadVersionError, ConnectionLoss, NoAuthError, NoNodeError
from kazoo.protocol.states import EventType, WatchedEvent

from parkazoo.engine.carrying import Carrying
from parkazoo.engine.rewatching import AT_ONCE
from parkazoo.kazoo_private import Exists, GetChildren2
from parkazoo.protocol.holdings import leaves_watch
from parkazoo.protocol.outlasting import outlasting
from parkazoo.protocol.past import CATCH_UP
from parkazoo.protocol.placement import PIN, Place, mirror_path
from parkazoo.protocol.watches import DirectoryWatch
from parkazoo.protocol.where.places import directory
from tests.fakes.member import STAT

D, NAME = "/d", "0123456789abcdef" * 2
OLD, NEW = Place(0, mirror_path(D)), Place(1, mirror_path(D, NAME))
HOME = Place(1, D)
SEAL = 100
SEALED = STAT._replace(czxid=SEAL - 50, mzxid=SEAL, pzxid=SEAL - 10)


class Port:
    """An ensemble: it answers when a test says so."""

    def __init__(self) -> None:
        self.data: list[tuple[str, Any]] = []
        self.child: list[tuple[str, Any]] = []
        self.asked: list[tuple[Any, Any]] = []

    def submit(self, request: Any, reply: Any) -> None:
        self.asked.append((request, reply))

    def watches_on(self, path: str) -> list[Any]:
        return [watch for watched, watch in (*self.data, *self.child) if watched == path]

    def data_watches(self) -> list[tuple[str, Any]]:
        return [*self.data]

    def child_watches(self) -> list[tuple[str, Any]]:
        return [*self.child]

    def forget_watch(self, path: str, watch: Any, of_children: bool | None = None) -> bool:
        was_there = False
        for table in (self.data, self.child) if of_children is None else ((self.data, self.child)[of_children],):
            was_there = was_there or (path, watch) in table
            table[:] = [each for each in table if each != (path, watch)]
        return was_there

    def answer(self, answer: Any) -> Any:
        """To the oldest request; a watch of it is left, as servers leave it."""
        request, reply = self.asked.pop(0)
        watch = getattr(request, "watcher", None)
        if watch is not None and not isinstance(answer, Exception):
            (self.child if isinstance(request, GetChildren2) else self.data).append((request.path, watch))
        if reply is None:
            pass
        elif isinstance(answer, Exception):
            reply.set_exception(answer)
        else:
            reply.set(answer)
        return request


@outlasting
def lasting(event: WatchedEvent) -> None:
    """A watch that outlasts a connection."""


class CarryingTest(unittest.TestCase):
    def setUp(self) -> None:
        self.connected = {0, 1}
        self.context = SimpleNamespace(is_connected=lambda ensemble: ensemble in self.connected)
        self.ports = [Port(), Port()]
        self.told: list[tuple[Any, WatchedEvent]] = []
        self.heard: list[int] = []
        self.looks: list[DirectoryWatch] = []
        self.is_over = False

    # As the runtime and the driver.

    def call(self, call: Any) -> None:
        call()

    def deliver(self, watch: Any, event: WatchedEvent) -> None:
        self.told.append((watch, event))

    def unchroot(self, path: str) -> str:
        return path

    def hear(self, ensemble: int) -> None:
        self.heard.append(ensemble)

    def begin(self, old: Place = OLD) -> None:
        def over() -> None:
            self.is_over = True

        d = directory(D, HOME, NEW.ensemble, generation=NAME)
        Carrying(self, self, self.ports, lambda: "CONNECTED", d, old, over)  # type: ignore[arg-type]

    def begin_with(self, path: str, is_of_children: bool = False, answer: Any = SEALED) -> None:
        """The old place has answered, and so has the seal."""
        (self.ports[0].child if is_of_children else self.ports[0].data).append((path, print))
        self.begin()
        self.assertIs(self.ports[0].answer(BadVersionError()), CATCH_UP)
        self.assertIs(self.ports[1].answer(BadVersionError()), CATCH_UP)
        request = self.ports[1].answer(answer)
        self.assertEqual(request, Exists(NEW.path, None))
        self.assertTrue(leaves_watch(request), "a program hears of its loss: it has to leave its watches again")
        self.assertEqual((self.ports[0].data, self.ports[0].child), ([], []))


class TestCarrying(CarryingTest):
    def test_nothing_was_watched(self) -> None:
        self.ports[0].data.append(("/other", print))
        self.ports[0].child.append((mirror_path("/d2"), print))
        self.begin()
        self.assertEqual((self.is_over, self.ports[0].asked), (True, []))

    def test_what_has_fired_meanwhile_is_not_carried(self) -> None:
        """Its event was on its way."""
        self.ports[0].data.append((f"{OLD.path}/x", print))
        self.begin()
        self.assertFalse(self.is_over)
        self.ports[0].data.clear()
        self.ports[0].answer(BadVersionError())
        self.ports[1].answer(BadVersionError())
        self.ports[1].answer(SEALED)
        self.assertEqual((self.is_over, self.ports[1].asked, self.told), (True, [], []))

    def test_left_again(self) -> None:
        for is_of_children, request in (
            (False, Exists(f"{NEW.path}/x", print)),
            (True, GetChildren2(f"{NEW.path}/x", print)),
        ):
            self.setUp()
            self.begin_with(f"{OLD.path}/x", is_of_children)
            stat = STAT._replace(czxid=SEAL - 1, mzxid=SEAL - 1, pzxid=SEAL - 1)
            self.assertEqual(self.ports[1].answer(([], stat) if is_of_children else stat), request)
            left = self.ports[1].child if is_of_children else self.ports[1].data
            self.assertEqual((self.is_over, left, self.told), (True, [(request.path, print)], []))

    def test_on_its_own_children(self) -> None:
        self.begin_with(OLD.path, True)
        self.ports[1].answer((["x"], SEALED))
        self.assertEqual((self.ports[1].child, self.told, self.is_over), ([(NEW.path, print)], [], True))

    def test_told_at_once(self) -> None:
        """What is above the seal has happened in the new place; NoAuth: one may not leave it again."""
        new, same = SEAL + 1, SEAL - 1
        for is_of_children, answer, kind in (
            (False, STAT._replace(czxid=same, mzxid=new, pzxid=same), EventType.CHANGED),
            (False, STAT._replace(czxid=new, mzxid=new, pzxid=new), EventType.DELETED),
            (False, None, EventType.DELETED),
            (False, ConnectionLoss(), EventType.NONE),
            (True, ([], STAT._replace(czxid=same, mzxid=same, pzxid=new)), EventType.CHILD),
            (True, ([], STAT._replace(czxid=new, mzxid=new, pzxid=new)), EventType.DELETED),
            (True, NoNodeError(), EventType.DELETED),
            (True, NoAuthError(), EventType.CHILD),
        ):
            with self.subTest(answer):
                self.setUp()
                self.begin_with(f"{OLD.path}/x", is_of_children)
                self.ports[1].answer(answer)
                told = None if kind == EventType.NONE else f"{D}/x"
                self.assertEqual(self.told, [(print, WatchedEvent(kind, "CONNECTED", told))])
                self.assertEqual(self.heard, [NEW.ensemble])
                self.assertEqual((self.ports[1].data, self.ports[1].child, self.is_over), ([], [], True))

    def test_what_is_not_of_the_data(self) -> None:
        """New children do not change the data, nor new data the children."""
        new, same = SEAL + 1, SEAL - 1
        for is_of_children in (False, True):
            self.setUp()
            self.begin_with(f"{OLD.path}/x", is_of_children)
            other = {"mzxid": new} if is_of_children else {"pzxid": new}
            stat = STAT._replace(**{"czxid": same, "mzxid": same, "pzxid": same, **other})
            self.ports[1].answer(([], stat) if is_of_children else stat)
            self.assertEqual((self.told, self.is_over), ([], True))

    def test_one_function_for_both(self) -> None:
        """As kazoo's TreeCache has it. What it is told of the data leaves its watch on the children."""
        self.ports[0].data.append((f"{OLD.path}/x", print))
        self.begin_with(f"{OLD.path}/x", is_of_children=True)
        of_children, answered = self.ports[1].asked.pop(), self.ports[1].asked[0][1]
        self.ports[1].data.append((f"{NEW.path}/x", print))
        self.ports[1].child.append((f"{NEW.path}/x", print))
        self.ports[1].asked.clear()
        answered.set(STAT._replace(czxid=1, mzxid=SEAL + 1, pzxid=1))
        of_children[1].set(([], STAT._replace(czxid=1, mzxid=SEAL + 1, pzxid=1)))
        self.assertEqual([event.type for _, event in self.told], [EventType.CHANGED])
        self.assertEqual((self.ports[1].data, self.ports[1].child), ([], [(f"{NEW.path}/x", print)]))
        self.assertTrue(self.is_over)

    def test_withdrawn_or_told_meanwhile(self) -> None:
        """Until it is left in the new place it can be found in the old one."""
        self.ports[0].data += [(f"{OLD.path}/x", print), (f"{OLD.path}/y", print)]
        self.begin()
        self.ports[0].answer(BadVersionError())
        self.ports[0].forget_watch(f"{OLD.path}/x", print)
        self.ports[1].answer(BadVersionError())
        self.ports[1].answer(SEALED)
        self.assertEqual([request.path for request, _ in self.ports[1].asked], [f"{NEW.path}/y"])

    def stand_in(self, key: str) -> DirectoryWatch:
        """A watch that waits for what is not there, on the home of the directory's child x."""

        def deliver(watch: Any, event: WatchedEvent) -> None:
            self.told.append((watch, event))

        watch = DirectoryWatch(
            key,
            print,
            lambda watch, event: self.looks.append(watch),
            lambda watch, has_fired: watch.end(),
            key.rstrip("/"),
            deliver,
        )
        watch.settle(has_succeeded=True)
        self.ports[0].child.append((f"{OLD.path}/x", watch))
        self.ports[0].data.append((f"{OLD.path}/x/{PIN}", watch))
        return watch

    def test_what_is_not_there(self) -> None:
        """Its watch looks again when all is over, whatever has become of the new place."""
        for answer in (SEALED, None, ConnectionLoss()):
            self.setUp()
            watch = self.stand_in(f"{D}/x/")
            watch.places.add(Place(OLD.ensemble, f"{OLD.path}/x"))
            self.begin()
            for port, each in ((0, BadVersionError()), (1, BadVersionError())):
                self.ports[port].answer(each)
            self.assertEqual((self.looks, self.is_over), ([], False))
            self.ports[1].answer(answer)
            self.assertEqual((self.looks, self.told, self.is_over, watch.places), ([watch], [], True, set()))
            self.assertEqual(self.ports[1].asked, [])

    def test_one_that_was_told_does_not_look(self) -> None:
        watch = self.stand_in(f"{D}/x/")
        self.begin()
        self.ports[0].answer(BadVersionError())
        self.ports[1].answer(BadVersionError())
        watch.end()
        self.ports[1].answer(SEALED)
        self.assertEqual((self.looks, self.is_over), ([], True))

    def test_an_event_comes_right_behind_the_answer(self) -> None:
        """It is of a later change: the loop reads it before it makes a call, and must not find the watch."""
        for answer in (None, STAT._replace(czxid=SEAL + 1, mzxid=SEAL + 1, pzxid=SEAL + 1)):
            self.setUp()
            self.begin_with(f"{OLD.path}/x")
            later: list[Any] = []
            vars(self)["call"] = later.append
            self.ports[1].answer(answer)
            self.assertEqual([event.type for _, event in self.told], [EventType.DELETED])
            self.assertEqual((self.ports[1].data, self.is_over), ([], False))
            del vars(self)["call"]
            for call in later:
                call()
            self.assertEqual((len(self.told), self.is_over), (1, True))

    def test_it_was_withdrawn_meanwhile(self) -> None:
        self.begin_with(f"{OLD.path}/x")
        ports, forget = self.ports[1], self.ports[1].forget_watch
        ports.forget_watch = lambda *watch: forget(*watch) and False  # type: ignore[method-assign]
        ports.answer(STAT._replace(czxid=1, mzxid=SEAL + 1, pzxid=1))
        self.assertEqual((self.told, self.is_over), ([], True))

    def test_the_new_place_is_away_or_gone(self) -> None:
        for answer, kind in ((ConnectionLoss(), EventType.NONE), (None, EventType.DELETED)):
            self.setUp()
            self.begin_with(f"{OLD.path}/x", answer=answer)
            self.assertEqual(([event.type for _, event in self.told], self.is_over), ([kind], True))

    def test_the_old_place_is_away(self) -> None:
        """A watch that has outlasted the connection there has not heard of all, and cannot."""
        self.connected = {1}
        self.ports[0].data += [(f"{OLD.path}/x", lasting), ("/other", lasting)]
        self.begin()
        self.assertEqual(self.told, [(lasting, WatchedEvent(EventType.NONE, "CONNECTED", None))])
        self.assertEqual((self.ports[0].data, self.is_over), ([("/other", lasting)], True))
        self.assertEqual(self.ports[0].asked, [])

    def test_the_old_place_is_lost(self) -> None:
        """In place of an answer. What was left since then is carried."""
        self.ports[0].data.append((f"{OLD.path}/x", lasting))
        self.ports[0].child.append((OLD.path, lasting))
        self.begin()
        self.ports[0].data.append((f"{OLD.path}/y", print))
        self.ports[0].answer(ConnectionLoss())
        self.assertEqual(self.told, 2 * [(lasting, WatchedEvent(EventType.NONE, "CONNECTED", None))])
        self.ports[1].answer(BadVersionError())
        self.ports[1].answer(SEALED)
        self.assertEqual([request.path for request, _ in self.ports[1].asked], [f"{NEW.path}/y"])
        self.assertEqual((self.ports[0].data, self.ports[0].child), ([], []))

    def test_one_that_outlasts_a_connection(self) -> None:
        """It follows as the others do, if the old place has told all."""
        self.ports[0].data.append((f"{OLD.path}/x", lasting))
        self.begin()
        self.ports[0].answer(BadVersionError())
        self.ports[1].answer(BadVersionError())
        self.ports[1].answer(SEALED)
        self.ports[1].answer(STAT._replace(czxid=1, mzxid=1, pzxid=1))
        self.assertEqual((self.ports[1].data, self.told), ([(f"{NEW.path}/x", lasting)], []))

    def test_native(self) -> None:
        """Pin and proof are nobody's, and data of the directory itself stays where it is."""
        self.ports[1].data += [(D, print), (f"{D}/{PIN}", print), (f"{D}/x", print)]
        self.begin(HOME)
        for answer in (BadVersionError(), BadVersionError(), SEALED):
            self.ports[1].answer(answer)
        self.assertEqual(self.ports[1].data, [(D, print), (f"{D}/{PIN}", print)])
        self.assertEqual(self.ports[1].asked[0][0], Exists(f"{NEW.path}/x", print))

    def test_many(self) -> None:
        self.ports[0].data += [(f"{OLD.path}/{number}", print) for number in range(3 * AT_ONCE)]
        self.begin()
        self.ports[0].answer(BadVersionError())
        self.ports[1].answer(BadVersionError())
        self.ports[1].answer(SEALED)
        self.assertEqual(len(self.ports[1].asked), AT_ONCE)
        while self.ports[1].asked:
            self.ports[1].answer(STAT._replace(czxid=1, mzxid=1, pzxid=1))
        self.assertEqual((self.is_over, len(self.ports[1].data)), (True, 3 * AT_ONCE))
