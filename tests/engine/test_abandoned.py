"""Requests whose callers have given up: what was not sent by then is not sent."""

from __future__ import annotations

import threading
import unittest
from typing import Any
from unittest import mock

from kazoo.security import OPEN_ACL_UNSAFE

from parkazoo.compat.creation import Creation, Unfinished
from parkazoo.engine.deferred.own_operations import OwnOperations
from parkazoo.engine.early import Early
from parkazoo.engine.gate import Gate
from parkazoo.engine.gather import Gather, Slot
from parkazoo.engine.observed import ObservedOperation, ObservedOperations
from parkazoo.engine.ports import AbandonedError, is_abandoned, note_kept
from parkazoo.engine.total import TotalDriver
from parkazoo.engine.unjoined import Unjoined
from parkazoo.kazoo_private import Create, Delete, Exists, GetData, SetData
from parkazoo.protocol.hold import Hold
from parkazoo.protocol.past import CATCH_UP
from tests.explore.alone import make_context
from tests.fakes.asked import PLACEMENT, AskedMember, AskedTest
from tests.fakes.result import Result


class AbandonedTest(unittest.TestCase):
    def assert_abandoned(self, *callers: Result) -> None:
        self.assertEqual([type(each.value) for each in callers], [AbandonedError] * len(callers))
        for each in callers:
            self.assertRegex(str(each.value), "so it was not$")


class TestKept(AbandonedTest):
    def setUp(self) -> None:
        self.callers = [Result() for _ in range(3)]
        self.requests = [GetData(f"/{each}", None) for each in range(3)]
        self.seen: list[Any] = []

    def take(self, request: Any, reply: Any) -> None:
        self.seen.append(request.path)

    def check(self, call: Any, open_now: Any) -> None:
        """The second has given up."""
        for request, caller in zip(self.requests, self.callers, strict=True):
            call(request, caller)
        self.callers[1].is_abandoned = True
        open_now()
        self.assert_abandoned(self.callers[1])
        self.assertEqual((self.seen, [each.told for each in self.callers[::2]]), (["/0", "/2"], [[], []]))

    def test_early(self) -> None:
        early: Early[GetData] = Early(threading.Lock(), lambda: None)
        self.check(early.call, lambda: early.open(self.take))

    def test_at_a_gate(self) -> None:
        gate = Gate(self.take, threading.Lock, lambda: None)
        gate.shut()
        self.check(gate.call, gate.open)

    def test_for_an_ensemble_that_is_not_joined(self) -> None:
        unjoined = Unjoined(threading.Lock(), lambda: None, lambda: None)
        member: Any = AskedMember()
        self.check(unjoined.submit, lambda: (unjoined.pass_on(member), self.seen.extend(["/0", "/2"])))
        self.assertEqual([each.path for each in member.requests], ["/0", "/2"])


class TestBehindDeferredWrites(AbandonedTest):
    def test_while_a_lane_is_in_doubt(self) -> None:
        session, runtime = mock.Mock(), mock.Mock()
        own = OwnOperations(session, runtime, 0.0, OPEN_ACL_UNSAFE, threading.Lock())
        own.changed(is_in_doubt=True)
        callers = Result(), Result()
        for number, caller in enumerate(callers):
            own.call(GetData(f"/{number}", None), caller)
        callers[0].is_abandoned = True
        own.changed(is_in_doubt=False)
        (release,) = runtime.call.call_args.args
        release()
        self.assert_abandoned(callers[0])
        session.call.assert_called_once_with(GetData("/1", None), callers[1])


class TestOperations(AskedTest, AbandonedTest):
    def call(self, request: Any) -> Result:
        caller = Result()
        self.driver.call(request, caller)
        return caller

    def test_in_its_turn(self) -> None:
        """One that waits for another is not begun, and lets go of its claims."""
        first = self.call(Create("/a/b", b"", OPEN_ACL_UNSAFE, 0))
        second, third = self.call(Delete("/a/b", -1)), self.call(Create("/a/b", b"", OPEN_ACL_UNSAFE, 0))
        self.assertEqual(len(self.driver.order.waiting()), 2)
        second.is_abandoned = True
        self.fail_members()
        self.assert_abandoned(second)
        self.assertEqual((len(first.told), len(third.told), bool(self.driver.order)), (1, 1, False))
        self.assertFalse(any(isinstance(each, Delete) for member in self.members for each in member.requests))

    def test_its_first_request(self) -> None:
        """A connection that has not sent it may leave it; the operation ends, whatever it would do next."""
        for request in (
            Create("/a/b", b"", OPEN_ACL_UNSAFE, 0),
            Delete("/a/b", -1),
            SetData("/a/b", b"", -1),
            GetData("/a/b", None),
        ):
            with self.subTest(request):
                caller = self.call(request)
                sent, reply = self.sent, self.take()
                self.assertFalse(is_abandoned(reply))
                caller.is_abandoned = True
                if is_abandoned(reply):
                    reply.set_exception(AbandonedError())
                    self.assert_abandoned(caller)
                    self.assertEqual(self.sent, sent)
                else:  # it has sent several at once
                    self.assertGreater(sum(len(member.waiting) for member in self.members), 0)
                    self.fail_members()
                self.assertFalse(self.driver.order)
                self.setUp()

    def test_a_read_behind_a_write(self) -> None:
        """It does not begin with the one request that would be enough."""
        for request in (GetData("/a", None), GetData("/b", None), Exists("/c", None), GetData("/a/b", None)):
            with self.subTest(request):
                self.driver.context.past.distrust()
                caller = self.call(request)
                replies = [reply for member in self.members for reply in member.waiting]
                self.assertGreater(len(replies), 1)
                for reply in replies:
                    note_kept(reply)
                caller.is_abandoned = True
                self.assertTrue(all(map(is_abandoned, replies)))
                for reply in replies:
                    reply.set_exception(AbandonedError())
                self.assert_abandoned(caller)
                self.assertFalse(self.driver.order)
                self.setUp()

    def test_after_a_hold(self) -> None:
        """The end of a move lets operations go on."""
        caller = self.call(Delete("/a", -1))
        caller.is_abandoned = True
        hold, sent = Hold(mock.Mock(), threading.Lock()), self.sent
        hold.keep(self.take())
        hold.end()
        self.assert_abandoned(caller)
        self.assertEqual((self.sent, bool(self.driver.order)), (sent, False))

    def test_later_requests(self) -> None:
        """What has begun is finished."""
        caller = self.call(Create("/a/b", b"", OPEN_ACL_UNSAFE, 0))
        caller.is_abandoned = True
        self.take().set_exception(LookupError())
        while any(member.waiting for member in self.members):
            reply = self.take()
            self.assertFalse(is_abandoned(reply))
            reply.set_exception(LookupError())
        self.assertEqual(len(caller.told), 1)


class Operation:
    """Waits for the answers to two steps."""

    def __init__(self) -> None:
        self.has_begun = self.is_abandoned = False
        self.got: Any = None

    def advance(self, answers: Any) -> None:
        self.got = answers

    def fail(self, error: Exception) -> None:
        self.got = error


class TestSeveralSteps(unittest.TestCase):
    """All of them are sent, or none."""

    def setUp(self) -> None:
        self.asker = Operation()
        gather = Gather(((0, GetData("/a", None)), (1, GetData("/b", None))), threading.Lock(), self.asker)
        self.slots = [Slot(gather, index) for index in range(2)]

    def test_both_are_kept(self) -> None:
        for slot in self.slots:
            note_kept(slot)
        self.asker.is_abandoned = True
        self.assertTrue(is_abandoned(self.slots[1]))
        error = AbandonedError()
        self.slots[1].set_exception(error)
        self.asker.is_abandoned = False  # a thread waits again: it is too late
        self.assertTrue(is_abandoned(self.slots[0]))
        self.slots[0].set_exception(AbandonedError())
        self.assertIs(self.asker.got, error)

    def test_one_was_sent_at_once(self) -> None:
        note_kept(self.slots[0])
        self.asker.is_abandoned = True
        self.assertFalse(is_abandoned(self.slots[0]))

    def test_one_was_sent_later(self) -> None:
        for slot in self.slots:
            note_kept(slot)
        self.assertFalse(is_abandoned(self.slots[0]))
        self.asker.is_abandoned = True
        self.assertFalse(is_abandoned(self.slots[1]))
        for number, slot in enumerate(self.slots):
            slot.set(number)
        self.assertEqual((self.asker.got, self.asker.has_begun), ([0, 1], True))

    def test_later_steps(self) -> None:
        self.asker.has_begun = self.asker.is_abandoned = True
        gather = Gather(((0, GetData("/a", None)),) * 2, threading.Lock(), self.asker)
        for slot in (slots := [Slot(gather, index) for index in range(2)]):
            note_kept(slot)
        self.assertFalse(is_abandoned(slots[0]))


class TestOneOrder(AskedTest, AbandonedTest):
    def setUp(self) -> None:
        super().setUp()
        members: Any = self.members
        self.driver = TotalDriver(make_context(PLACEMENT), members, threading.Lock)

    def call(self, request: Any) -> Result:
        caller = Result()
        self.driver.call(request, caller)
        return caller

    def test_in_line(self) -> None:
        first, second, third = (
            self.call(Create(path, b"", OPEN_ACL_UNSAFE, 0)) for path in ("/a", "/b/x", "/c/x")
        )
        second.is_abandoned = True
        self.fail_members()
        self.assert_abandoned(second)
        self.assertEqual((len(first.told), len(third.told)), (1, 1))
        self.assertTrue(self.driver.is_idle)

    def test_its_first_request(self) -> None:
        for request in (SetData("/a", b"", -1), Create("/a", b"", OPEN_ACL_UNSAFE, 0)):
            with self.subTest(request):
                caller = self.call(request)
                reply = self.take()
                self.assertFalse(is_abandoned(reply))
                caller.is_abandoned = True
                self.assertTrue(is_abandoned(reply))
                reply.set_exception(AbandonedError())
                self.assert_abandoned(caller)
                self.assertTrue(self.driver.is_idle)

    def test_a_write_in_front(self) -> None:
        """Others may count on it."""
        self.call(SetData("/a", b"", -1))
        self.take().set(None)
        read = self.call(GetData("/b/x", None))
        read.is_abandoned = True
        (member,) = (each for each in self.members if each.waiting)
        asked = dict(zip(member.requests, map(is_abandoned, member.waiting), strict=True))
        self.assertEqual([type(each) for each, is_given_up in asked.items() if is_given_up], [GetData])
        self.assertFalse(asked[CATCH_UP])


class TestReplies(unittest.TestCase):
    def test_they_pass_it_on(self) -> None:
        caller = Result()
        request = Create("/a", b"", OPEN_ACL_UNSAFE, 0)
        operations = ObservedOperations(lambda request, reply: None, lambda *_: None, lambda: 0.0)
        replies = [
            ObservedOperation(operations, request, caller),
            Creation(None, request, caller),
            Unfinished().reply(caller),
        ]
        self.assertEqual([is_abandoned(each) for each in replies], [False] * len(replies))
        caller.is_abandoned = True
        self.assertEqual([is_abandoned(each) for each in replies], [True] * len(replies))
        self.assertFalse(is_abandoned(None))
