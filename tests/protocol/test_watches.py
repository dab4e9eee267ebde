"""A watch on the children of a directory without a mirror: it writes nothing, and is called once, truthfully."""

from __future__ import annotations

import itertools
import unittest
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any
from unittest import mock

from kazoo.exceptions import ConnectionLoss, NoNodeError
from kazoo.protocol.states import EventType, KeeperState, WatchedEvent
from kazoo.security import OPEN_ACL_UNSAFE

from parkazoo.engine.watching import Watching
from parkazoo.kazoo_private import Delete, Exists, GetChildren, GetChildren2, SetACL, SetData, Transaction
from parkazoo.protocol.order import children
from parkazoo.protocol.placement import Placement
from parkazoo.protocol.plans import PLANS
from parkazoo.protocol.watches import DirectoryWatch
from tests.explore.alone import find_directory, make_context, outcome, prepared
from tests.explore.client import Client
from tests.explore.directories import create
from tests.explore.znodes import Who
from tests.where_is import where_is

PLACEMENT = Placement(2)
D = find_directory(PLACEMENT, False)
HOME, MIRROR = where_is(PLACEMENT, D)[1:3]
OTHER = Who(owners=(70, 80, 90, 100, 110))
CHILD = WatchedEvent(EventType.CHILD, KeeperState.CONNECTED, D)
DELETED = WatchedEvent(EventType.DELETED, KeeperState.CONNECTED, D)


class WatchTest(unittest.TestCase):
    def setUp(self) -> None:
        self.model = prepared(PLACEMENT, [D])
        self.client = Client(PLACEMENT, self.model)
        self.context = make_context(PLACEMENT, "other", OTHER)
        self.seen: list[WatchedEvent] = []
        self.other(create(D))

    def other(self, *requests: Any) -> None:
        """Another client does this, all at once."""
        for request in requests:
            got = outcome(self.model, PLANS[request.type].operation(self.context, request), OTHER)
            self.assertNotIsInstance(got, Exception, request)

    def abandon(self, request: Any, steps: int) -> Callable[[], None]:
        """Another client sends the first requests of an operation; a call sends the rest."""
        context = make_context(PLACEMENT, "third", OTHER)  # which knows nothing yet
        operation = PLANS[request.type].operation(context, request)
        answers: Any = None
        for _ in range(steps):
            answers = [self.model.execute(*step, OTHER) for step in operation.send(answers)]

        def finish(answers: Any = answers) -> None:
            with suppress(StopIteration):
                while True:
                    answers = [self.model.execute(*step, OTHER) for step in operation.send(answers)]

        return finish

    def watch(self, watcher: Any = None) -> Any:
        return self.client.get(GetChildren(D, watcher or self.seen.append))

    def expect(self, *events: WatchedEvent) -> None:
        self.client.run()
        self.assertEqual(self.seen, list(events))

    def watches_left(self) -> list[Any]:
        return [watch for member in self.client.members for watch in member.watches.left()]


class TestWithoutMirror(WatchTest):
    def test_it_writes_nothing(self) -> None:
        self.assertEqual(self.watch(), [])
        self.assertEqual([type(request) for _, request in self.client.sent], [GetChildren, GetChildren2])

    def test_first_child(self) -> None:
        self.watch()
        self.other(create(D + "/x"))
        self.expect(CHILD)
        self.other(create(D + "/y"), Delete(D + "/y", -1))
        self.expect(CHILD)
        self.assertEqual(self.watches_left(), [])

    def test_deleted(self) -> None:
        self.watch()
        self.other(Delete(D, -1))
        self.expect(DELETED)
        self.assertEqual(self.watches_left(), [])

    def test_data_and_acl_of_the_directory_do_not_matter(self) -> None:
        self.watch()
        self.other(SetData(D, b"1", -1), SetACL(D, OPEN_ACL_UNSAFE, -1))
        self.expect()
        self.other(create(D + "/x"))
        self.expect(CHILD)

    def test_a_promotion_that_is_abandoned(self) -> None:
        """The pin alone is no child."""
        self.watch()
        finish = self.abandon(create(D + "/x"), 3)
        self.expect()
        finish()
        self.expect(CHILD)

    def test_watched_after_the_pin(self) -> None:
        finish = self.abandon(create(D + "/x"), 3)
        self.assertEqual(self.watch(), [])
        finish()
        self.expect(CHILD)
        self.assertEqual(self.watches_left(), [])

    def test_watched_after_the_pin_then_deleted(self) -> None:
        self.abandon(create(D + "/x"), 3)
        self.watch()
        self.other(Delete(D, -1))
        self.expect(DELETED)

    def test_a_promotion_is_abandoned_and_the_directory_deleted(self) -> None:
        self.watch()
        self.abandon(create(D + "/x"), 3)
        self.expect()
        self.other(Delete(D, -1))
        self.expect(DELETED)

    def test_deleted_and_made_again_before_it_looks(self) -> None:
        """The pin of the second life is there when the client looks; the watch is on the first."""
        self.watch()
        self.other(Delete(D, -1), create(D), create(D + "/x"))
        self.expect(DELETED)
        self.assertEqual(self.watches_left(), [])

    def test_first_child_and_delete_before_it_looks(self) -> None:
        self.watch()
        self.other(create(D + "/x"), Delete(D + "/x", -1), Delete(D, -1), create(D))
        self.client.run()
        self.assertEqual(len(self.seen), 1)
        self.assertIn(self.seen[0], (CHILD, DELETED))

    def test_a_mirror_without_a_child(self) -> None:
        """A transaction had the directory promoted, and failed."""
        for steps in range(3):
            with self.subTest(steps=steps):
                self.setUp()
                self.watch()
                finish = self.abandon(create(D + "/x"), 3 * (steps > 0))
                if steps > 1:
                    self.client.run()
                got = outcome(
                    self.model,
                    PLANS[Transaction.type].operation(
                        self.context, Transaction([create(D + "/x"), Delete(D + "/none", -1)])
                    ),
                    OTHER,
                )
                self.assertIsInstance(got[1], NoNodeError)
                self.assertIn(MIRROR.path, self.model.nodes[MIRROR.ensemble])
                self.expect()
                finish()
                self.other(create(D + "/y"))
                self.expect(CHILD)
                self.assertEqual(self.watches_left(), [])

    def test_each_moment_of_a_promotion(self) -> None:
        """The call comes between any two requests of the first create: its watch is called, or it listed."""
        for steps in range(4):
            for answered in range(3):
                with self.subTest(steps=steps, answered=answered):
                    self.setUp()
                    finish = self.abandon(create(D + "/x"), steps)
                    result = self.client.call(GetChildren(D, self.seen.append))
                    for _ in range(2 * answered):
                        if choices := self.client.choices():
                            choices[0]()
                    finish()
                    self.client.run()
                    if result.value == []:
                        self.expect(CHILD)
                    else:
                        self.assertEqual(result.value, ["x"])
                        self.expect()
                        self.other(create(D + "/y"))
                        self.expect(CHILD)
                    self.assertEqual(self.watches_left(), [])

    def test_each_moment_of_a_delete(self) -> None:
        self.other(create(D + "/x"), Delete(D + "/x", -1))
        for steps, answered in itertools.product(range(8), range(6)):
            with self.subTest(steps=steps, answered=answered):
                self.setUp()
                self.other(create(D + "/x"), Delete(D + "/x", -1))
                finish = self.abandon(Delete(D, -1), steps)
                result = self.client.call(GetChildren(D, self.seen.append))
                for _ in range(2 * answered):
                    if choices := self.client.choices():
                        choices[0]()
                finish()
                self.client.run()
                if isinstance(result.value, Exception):
                    self.assertIsInstance(result.value, NoNodeError)
                    self.expect()
                else:
                    self.assertEqual(result.value, [])
                    self.expect(DELETED)
                self.assertEqual(self.watches_left(), [])

    def test_events_of_an_earlier_life_are_not_told(self) -> None:
        """The listing helps a delete to its end; then the directory is made again, and lives."""
        self.other(create(D + "/x"), Delete(D + "/x", -1))
        self.abandon(Delete(D, -1), 7)
        result = self.client.call(GetChildren(D, self.seen.append))
        home = self.client.members[HOME.ensemble]
        while HOME.path in self.model.nodes[HOME.ensemble]:
            self.client.choices()[0]()
        self.other(create(D))
        self.assertEqual(result.told, [])
        self.client.run()
        self.assertEqual((result.value, home.outbox), ([], type(home.outbox)()))
        self.expect()
        self.other(create(D + "/y"))
        self.expect(CHILD)


class TestFailedCalls(WatchTest):
    def test_no_such_directory(self) -> None:
        self.other(Delete(D, -1))
        self.assertIsInstance(self.watch(), NoNodeError)
        self.other(create(D), create(D + "/x"))
        self.expect()
        self.assertEqual(self.watches_left(), [])

    def test_the_last_request_is_lost(self) -> None:
        """The first watch is left, the second request's answer is lost: the call fails, no watch is called."""
        self.abandon(create(D + "/x"), 3)
        result = self.client.call(GetChildren(D, self.seen.append))
        while not any(
            isinstance(request, Exists) for member in self.client.members for request, _ in member.outbox
        ):
            self.client.choices()[0]()
        request, reply = self.client.members[MIRROR.ensemble].outbox.popleft()
        self.assertIsInstance(request, Exists)
        reply.set_exception(ConnectionLoss())
        self.client.run()
        self.assertIsInstance(result.value, ConnectionLoss)
        self.other(create(D + "/x"))
        self.expect()
        self.assertEqual(self.watches_left(), [])

    def test_look_fails(self) -> None:
        """The watch cannot find out what has happened: NONE, as with kazoo after a lost connection."""
        self.watch()
        self.other(create(D + "/x"))
        while not self.client.members[HOME.ensemble].outbox:
            self.client.choices()[0]()
        _, reply = self.client.members[HOME.ensemble].outbox.popleft()
        reply.set_exception(ConnectionLoss())
        self.expect(WatchedEvent(EventType.NONE, KeeperState.CONNECTED, None))


class TestTwins(WatchTest):
    """kazoo keeps watches in sets: one function is called once for an event, however often it was left."""

    def test_one_function_twice(self) -> None:
        watcher = self.seen.append
        self.watch(watcher)
        self.watch(watcher)
        self.other(create(D + "/x"))
        self.expect(CHILD)
        self.assertFalse([watch for watch in self.watches_left() if watch.is_armed])

    def test_polling_leaves_one(self) -> None:
        for _ in range(1000):
            self.watch(self.seen.append)
        (watch,) = self.watches_left()
        self.assertTrue(watch.is_armed)
        self.other(create(D + "/x"))
        before = len(self.client.sent)
        self.expect(CHILD)
        self.assertLess(len(self.client.sent) - before, 10, "only one looks again")
        self.assertEqual(self.watches_left(), [])

    def test_polling_at_each_moment_of_a_promotion(self) -> None:
        """The older watch gives way only as long as it has heard of nothing: there is one call in the end."""
        for steps, answered in itertools.product(range(5), range(8)):
            with self.subTest(steps=steps, answered=answered):
                self.setUp()
                self.watch()
                finish = self.abandon(create(D + "/x"), min(steps, 4))
                result = self.client.call(GetChildren(D, self.seen.append))
                for _ in range(answered):
                    if choices := self.client.choices():
                        choices[-1 if steps == 4 else 0]()
                finish()
                self.client.run()
                self.assertEqual(self.seen[:1], [CHILD])
                if result.value == []:
                    self.expect(CHILD)
                else:  # it found the child, and waits for another
                    self.other(create(D + "/y"))
                    self.expect(CHILD, CHILD)
                self.assertEqual(self.watches_left(), [])

    def test_two_functions(self) -> None:
        more: list[WatchedEvent] = []
        self.watch()
        self.watch(more.append)
        self.other(create(D + "/x"))
        self.expect(CHILD)
        self.assertEqual(more, [CHILD])

    def test_left_again_when_called(self) -> None:
        """A watch that leaves itself again, as ChildrenWatch does, hears of the next event too."""

        def watcher(event: WatchedEvent) -> None:
            self.seen.append(event)
            self.client.call(GetChildren(D, watcher))

        self.watch(watcher)
        self.other(create(D + "/x"))
        self.expect(CHILD)
        self.other(create(D + "/y"))
        self.expect(CHILD, CHILD)


class TestStates(unittest.TestCase):
    """DirectoryWatch alone, with every order of settling and events."""

    EVENTS = (
        WatchedEvent(EventType.CHILD, KeeperState.CONNECTED, D),
        WatchedEvent(EventType.CREATED, KeeperState.CONNECTED, D),
        WatchedEvent(EventType.DELETED, KeeperState.CONNECTED, D),
        WatchedEvent(EventType.NONE, KeeperState.CONNECTING, None),
    )

    def test_every_order(self) -> None:
        for has_succeeded in (True, False):
            for events in itertools.permutations(self.EVENTS):
                for settled in range(len(events) + 1):
                    self.check(has_succeeded, events[:settled], events[settled:])

    def test_withdrawn_at_any_moment(self) -> None:
        """While there is no watch, nothing is asked of the loop: recipes withdraw theirs after each wait."""
        for settled in range(3):
            with self.subTest(settled=settled):
                calls: deque[Callable[[], None]] = deque()
                watching = Watching([mock.Mock()], calls.append, mock.Mock(), lambda: KeeperState.CONNECTED)
                watching.driver = mock.Mock(unchroot=str)
                watching.leave(children("/d"), print)
                self.assertFalse(calls)
                watch = watching.watch(children("/d"), print)
                if settled:
                    watching.settle(watch, True)
                if settled == 2:
                    calls.popleft()()
                watching.leave(children("/d"), print)
                if not settled:  # it is withdrawn before it is there, as on one ZooKeeper
                    watching.settle(watch, False)
                while calls:
                    calls.popleft()()
                del watch
                self.assertEqual(len(watching), 0)
                watching.leave(children("/d"), print)
                self.assertFalse(calls)

    def test_the_callbacks_are_late(self) -> None:
        """A lost connection is told while a callback blocks; the watch that is set again meanwhile stays."""
        told: list[WatchedEvent] = []
        late: deque[Callable[[], None]] = deque()
        watching = Watching(
            [mock.Mock()],
            late.append,
            lambda watch, event: late.append(partial(watch, event)),
            lambda: KeeperState.CONNECTED,
        )
        watching.driver = mock.Mock(unchroot=str)
        first = watching.watch(children("/d1"), told.append)
        watching.settle(first, True)
        late.popleft()()
        watching.drop(self.EVENTS[-1])
        again = watching.watch(children("/d1"), told.append)
        watching.settle(again, True)
        while late:
            late.popleft()()
        self.assertEqual((told, first.is_armed, again.is_armed), ([self.EVENTS[-1]], False, True))

    def check(self, has_succeeded: bool, early: Any, late: Any) -> None:
        told: list[WatchedEvent] = []
        looks: list[WatchedEvent] = []
        watch = DirectoryWatch(
            children("/d1"),
            told.append,
            lambda w, event: looks.append(event),
            lambda w, has_fired: w.end(),
            "/d1",
            lambda watcher, event: watcher(event),
        )
        for event in early:
            watch(event)
        self.assertEqual((told, looks), ([], []), "not before the call has succeeded")
        watch.settle(has_succeeded)
        for event in late:
            watch(event)
        watch.fire(self.EVENTS[0])
        if not has_succeeded:
            self.assertEqual((told, looks), ([], []))
            return
        ends = [event.type in (EventType.DELETED, EventType.NONE) for event in (*early, *late)]
        self.assertEqual(told, [(*early, *late)[ends.index(True)]])
        self.assertEqual(len(looks), ends.index(True))
