"""Requests that wait for a connection, by a clock that the test turns."""

from __future__ import annotations

import unittest
from collections import deque
from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from kazoo.exceptions import ConnectionLoss, SessionExpiredError
from kazoo.protocol.states import KeeperState

from parkazoo.errors import ClusterMapError
from parkazoo.kazoo_private import GetData
from parkazoo.wire.patience import LOOKS, Patience
from parkazoo.wire.report import ConnectionReport
from tests.fakes.loop import HandLoop
from tests.fakes.owner import Owner, make_member
from tests.fakes.result import Result

LIMIT_S = 8.0
LONGEST_S = LIMIT_S * (LOOKS + 1) / LOOKS


class Queue:
    """What waits: the time at which each came. Those that have waited for too long fail, and say for how long."""

    def __init__(self) -> None:
        self.loop = HandLoop()
        self.times_s: deque[float] = deque()
        self.waited_s: list[float] = []
        self.patience = Patience(self.loop, LIMIT_S, self.times_s, self.fail)  # type: ignore[arg-type]

    def come(self) -> None:
        self.times_s.append(self.loop.clock.now_s)

    def fail(self, count: int) -> None:
        for _ in range(count):
            self.waited_s.append(self.loop.clock.now_s - self.times_s.popleft())

    def turn(self, seconds: float) -> None:
        self.loop.go_to(self.loop.clock.now_s + seconds)


class TestPatience(unittest.TestCase):
    def check(self, queue: Queue) -> None:
        """None has failed too early, none waits too long."""
        self.assertGreaterEqual(min(queue.waited_s, default=LIMIT_S), LIMIT_S)
        self.assertLessEqual(max(queue.waited_s, default=LIMIT_S), LONGEST_S)
        if queue.times_s:
            self.assertLessEqual(queue.loop.clock.now_s - queue.times_s[0], LONGEST_S)

    def test_one(self) -> None:
        queue = Queue()
        queue.turn(0.1)
        queue.come()
        queue.turn(LIMIT_S - 0.1)
        self.assertEqual(queue.waited_s, [])
        queue.turn(LONGEST_S - LIMIT_S + 0.1)
        self.assertEqual(len(queue.waited_s), 1)
        self.check(queue)

    @settings(max_examples=200, deadline=None, derandomize=True)
    @given(pauses_s=st.lists(st.floats(0.0, LIMIT_S), max_size=30))
    def test_whenever_they_come(self, pauses_s: list[float]) -> None:
        queue = Queue()
        for pause_s in pauses_s:
            queue.turn(pause_s)
            self.check(queue)
            queue.come()
        queue.turn(LONGEST_S)
        self.check(queue)
        self.assertEqual(len(queue.waited_s), len(pauses_s))

    def test_the_process_did_not_run(self) -> None:
        """It looks once then, not as often as it should have: what came just before has time."""
        queue = Queue()
        queue.come()
        queue.loop.clock.now_s += 100 * LIMIT_S
        queue.come()
        queue.turn(0)
        queue.turn(LIMIT_S - 0.1)
        self.assertLessEqual(len(queue.waited_s), 1)
        queue.turn(LONGEST_S)
        self.assertEqual(len(queue.waited_s), 2)

    def test_the_end(self) -> None:
        queue = Queue()
        queue.come()
        queue.patience.end()
        queue.turn(10 * LIMIT_S)
        self.assertEqual((len(queue.times_s), queue.waited_s), (1, []))
        self.assertFalse([timer for timer in queue.loop.timers if timer[2] is not None])


class TestMember(unittest.TestCase):
    """A member that is not connected."""

    def setUp(self) -> None:
        self.loop = HandLoop()
        self.owner = Owner(self.loop)
        self.member = make_member(self.owner, timeout=LIMIT_S)
        self.member._state = KeeperState.CONNECTING
        self.member.settle("b", None, (), LIMIT_S)
        self.member._be_patient()

    def wait(self, watch: Any = None) -> Result:
        result = Result()
        self.member._queue.append((GetData("/x", watch), result))
        return result

    def turn(self, seconds: float) -> None:
        self.loop.go_to(self.loop.clock.now_s + seconds)

    def test_too_long(self) -> None:
        """In their order; what comes later waits on."""
        early = self.wait()
        self.turn(LONGEST_S / 2)
        late = self.wait()
        self.turn(LONGEST_S / 2)
        self.assertIsInstance(early.value, ConnectionLoss)
        self.assertEqual((str(early.value), late.told, self.owner.missed), ("/x (ensemble b)", [], 0))

    def test_a_watch_is_missed(self) -> None:
        """The owner hears of it before the program does."""
        watching, heard = self.wait(print), []
        self.owner.member_missed = lambda member: heard.append(list(watching.told))  # type: ignore[method-assign]
        self.turn(LONGEST_S)
        self.assertEqual(heard, [[]])
        self.assertIsInstance(watching.value, ConnectionLoss)

    def test_for_ever(self) -> None:
        """The only ensemble, as with kazoo."""
        member = make_member(self.owner, timeout=LIMIT_S)
        member._state = KeeperState.CONNECTING
        member._be_patient()
        self.assertIsNone(member._patience)

    def test_there_are_more_ensembles_now(self) -> None:
        """What waits by now has the whole time, from the moment at which the limit came."""
        self.loop = HandLoop()
        member = self.member = make_member(Owner(self.loop), timeout=LIMIT_S)
        member._state = KeeperState.CONNECTING
        member.settle("c", None, (), LIMIT_S)
        self.assertIsNone(member._patience)  # the first ensemble: nothing waits yet
        member.settle("c", None, (), None)
        result = self.wait()
        member.settle("c", None, (), LIMIT_S)
        patience = member._patience
        member.settle("c", "c:2", (), LIMIT_S)
        self.assertIs(member._patience, patience)
        self.turn(LIMIT_S - 0.1)
        self.assertEqual(result.told, [])
        self.turn(LONGEST_S)
        self.assertIsInstance(result.value, ConnectionLoss)

    def test_a_reason(self) -> None:
        """All that wait hear it at once; what comes then has the whole time."""
        error = ClusterMapError("wrong")
        results = [self.wait(), self.wait(print)]
        self.turn(LIMIT_S - 0.1)
        self.member.fail_waiting(error)
        self.assertEqual([each.value for each in results], [error] * 2)
        self.assertEqual(self.owner.missed, 1)  # a watch
        late = self.wait()
        self.turn(LIMIT_S - 0.1)
        self.assertEqual(late.told, [])
        self.turn(LONGEST_S)
        self.assertIsInstance(late.value, ConnectionLoss)

    def test_without_a_reason(self) -> None:
        result = self.wait()
        self.member.fail_waiting(None)
        self.assertIsInstance(result.value, ConnectionLoss)

    def check_anew(self, lose: Callable[[], None]) -> None:
        """What waits expires; what comes then has the whole time."""
        early = self.wait()
        self.turn(LIMIT_S - 0.1)
        lose()
        self.assertIsInstance(early.value, SessionExpiredError)
        late = self.wait()
        self.turn(LIMIT_S - 0.1)
        self.assertEqual(late.told, [])
        self.turn(LONGEST_S)
        self.assertIsInstance(late.value, ConnectionLoss)

    def test_another_session_has_expired(self) -> None:
        self.member._connection.report = ConnectionReport(self.member)
        self.check_anew(lambda: self.member.renew("a test wants it"))

    def test_its_session_has_expired(self) -> None:
        def expire() -> None:
            self.member._session_callback(KeeperState.EXPIRED_SESSION)
            self.member._session_callback(KeeperState.CONNECTING)

        self.check_anew(expire)

    def test_connected(self) -> None:
        """Nothing fails any more, until the connection is lost."""
        result = self.wait()
        self.member._session_callback(KeeperState.CONNECTED)
        self.turn(10 * LIMIT_S)
        self.assertEqual(result.told, [])
        self.member._session_callback(KeeperState.CONNECTING)
        self.assertIsInstance(result.value, ConnectionLoss)
        late = self.wait()
        self.turn(LONGEST_S)
        self.assertIsInstance(late.value, ConnectionLoss)
