"""Listeners and counters without a client: what they are told, in which words, and what a bad listener changes."""

from __future__ import annotations

import logging
import sys
import threading
import unittest
from typing import Any

from kazoo.exceptions import (
    BadVersionError,
    ConnectionClosedError,
    ConnectionLoss,
    InvalidACLError,
    NoNodeError,
    SessionExpiredError,
)
from kazoo.protocol.states import KazooState

from parkazoo import monitoring
from parkazoo.compat.monitor import METHODS, MOST_WAITING, ClientMonitor, Directories, make_monitor
from parkazoo.compat.request_words import operation_of, outcome_of
from parkazoo.compat.tally import ClientTally
from parkazoo.kazoo_private import Create, Create2, GetChildren, GetData, SetData, Sync, Transaction
from parkazoo.monitoring import (
    BUCKETS_S,
    OUTCOMES,
    AttemptFailed,
    ConnectionLost,
    Listener,
    OperationEnded,
    RequestEnded,
    SessionExpired,
    StateChanged,
    WatchFired,
)
from parkazoo.protocol.cluster_map import FIRST
from parkazoo.protocol.placement import MIRRORS, logical
from tests.handlers import make_handler

LONG_S = 60.0
THREADS, COUNT = 4, 2000
READ = GetData("/jobs/7", None)
LOST = StateChanged(KazooState.CONNECTED, KazooState.LOST, "")


def unchroot(path: str) -> str:
    return logical(path).removeprefix("/app") or "/"


class Keeps(Listener):
    """Keeps requests and states."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def request_ended(self, event: RequestEnded) -> None:
        self.heard.append(event)

    def state_changed(self, event: StateChanged) -> None:
        self.heard.append(event)


class Fails(Keeps):
    """Raises behind each event."""

    def request_ended(self, event: RequestEnded) -> None:
        super().request_ended(event)
        raise ValueError(event)

    def state_changed(self, event: StateChanged) -> None:
        super().state_changed(event)
        raise SystemExit


class Waits(Keeps):
    """Waits at each request until it may go on."""

    def __init__(self) -> None:
        super().__init__()
        self.may_go_on = threading.Event()
        self.has_begun = threading.Event()

    def request_ended(self, event: RequestEnded) -> None:
        self.has_begun.set()
        assert self.may_go_on.wait(LONG_S)
        super().request_ended(event)


class TestListeners(unittest.TestCase):
    def monitor(self, *listeners: Listener, counts: bool = False) -> ClientMonitor:
        monitor = make_monitor(listeners, counts, make_handler(), unchroot, logging.getLogger("parkazoo.test"))
        assert monitor is not None
        return monitor

    def test_nobody(self) -> None:
        self.assertIsNone(make_monitor((), False, make_handler(), unchroot, logging.getLogger()))

    def test_each_method_has_its_event(self) -> None:
        methods = {name for name in vars(Listener) if not name.startswith("_")} - {"directories"}
        self.assertEqual({*METHODS.values()}, methods)

    def test_what_is_not_overridden_costs_nothing(self) -> None:
        class States(Listener):
            def state_changed(self, event: StateChanged) -> None: ...

        monitor = self.monitor(States())
        self.assertEqual((monitor.meter("a"), monitor.operation_meter), (None, None))

        class Operations(States):
            def operation_ended(self, event: OperationEnded) -> None: ...

        monitor = self.monitor(Operations())
        self.assertIsNotNone(monitor.meter("a"))  # by which an operation's requests are counted
        self.assertIsNotNone(monitor.operation_meter)

    def test_several_hear_in_order(self) -> None:
        one, other = Keeps(), Keeps()
        monitor = self.monitor(one, other, counts=True)
        meter = monitor.meter("a")
        assert meter is not None
        expected: list[Any] = []
        for number in range(100):
            meter(READ, NoNodeError() if number % 2 else None, number)
            monitor.tell(LOST)
            outcome = "no_node" if number % 2 else "ok"
            expected += [RequestEnded("a", "get", outcome, number, ""), LOST]
        monitor.wait(LONG_S)
        self.assertEqual(one.heard, expected)
        self.assertEqual(other.heard, expected)
        assert monitor.tally is not None
        self.assertEqual(monitor.tally.requests()[0], {("a", "get", "ok"): 50, ("a", "get", "no_node"): 50})

    def test_an_ensemble_that_is_not_known_yet(self) -> None:
        heard: list[AttemptFailed] = []

        class Attempts(Listener):
            def attempt_failed(self, event: AttemptFailed) -> None:
                heard.append(event)

        monitor = self.monitor(Attempts())
        monitor.tell(AttemptFailed(FIRST, "a1:2181: refused"))
        monitor.wait(LONG_S)
        self.assertEqual(heard, [AttemptFailed("", "a1:2181: refused")])

    def test_exceptions(self) -> None:
        """Each method's first one is logged; every event is told, and others hear too."""
        bad, good = Fails(), Keeps()
        monitor = self.monitor(bad, good)
        meter = monitor.meter("a")
        assert meter is not None
        with self.assertLogs("parkazoo.test", logging.ERROR) as logs:
            for _ in range(3):
                meter(READ, None, 1)
                monitor.tell(LOST)
            monitor.wait(LONG_S)
        self.assertEqual((len(bad.heard), len(good.heard), len(logs.records)), (6, 6, 2))

    def test_a_slow_one(self) -> None:
        """Requests are dropped when very many events wait; states are not. Others hear all."""
        slow, quick = Waits(), Keeps()
        monitor = self.monitor(slow, quick)
        meter = monitor.meter("a")
        assert meter is not None
        self.addCleanup(slow.may_go_on.set)
        with self.assertLogs("parkazoo.test", logging.WARNING) as logs:
            meter(READ, None, 1)
            self.assertTrue(slow.has_begun.wait(LONG_S))
            for _ in range(MOST_WAITING + 7):
                meter(READ, None, 1)
                monitor._ears[1].wait(LONG_S)
            monitor.tell(LOST)
            slow.may_go_on.set()
            monitor.wait(LONG_S)
        self.assertEqual(len(logs.records), 1)
        self.assertEqual((len(slow.heard), slow.heard[-1]), (MOST_WAITING + 2, LOST))
        self.assertEqual(len(quick.heard), MOST_WAITING + 9)

    def test_registered(self) -> None:
        self.addCleanup(monitoring.registered.clear)
        listener = Keeps()
        monitoring.register(listener)
        monitor = self.monitor()
        monitor.tell(LOST)
        monitor.wait(LONG_S)
        self.assertEqual(listener.heard, [LOST])

    def test_no_listener(self) -> None:
        wrong: Any = print
        self.assertRaises(TypeError, monitoring.register, wrong)
        self.assertRaises(TypeError, self.monitor, wrong)


class TestWords(unittest.TestCase):
    def test_outcomes(self) -> None:
        kinds = (None, NoNodeError, BadVersionError, ConnectionLoss, SessionExpiredError, ConnectionClosedError)
        words = ["ok", "no_node", "bad_version", "connection_loss", "session_expired", "session_expired"]
        self.assertEqual([outcome_of(each) for each in kinds], words)
        self.assertEqual(outcome_of(InvalidACLError), "other")
        self.assertLessEqual({*words}, {*OUTCOMES})

    def test_operations(self) -> None:
        kinds = (Create, Create2, GetChildren, Sync, Transaction)
        words = ["create", "create", "get_children", "sync", "transaction"]
        self.assertEqual([operation_of(each.type) for each in kinds], words)
        self.assertEqual(operation_of(99), "other")


class TestDirectories(unittest.TestCase):
    def test_labels(self) -> None:
        directories = Directories(["/jobs", "/users/*", "/"], unchroot)
        mirror = f"{MIRRORS}/%2Fapp%2Fjobs"
        for request, label in (
            (GetData("/app/jobs/7", None), "/jobs"),
            (GetData(f"{mirror}/7", None), "/jobs"),
            (GetChildren(mirror, None), "/jobs"),
            (GetData(mirror, None), "/"),  # of /jobs itself
            (GetData("/app/users/ann/mail", None), "/users/*"),
            (SetData("/app/users/ann", b"", -1), "other"),
            (GetData("/app/users/ann/mail/1", None), "other"),
            (GetData("/app/top", None), "/"),
            (GetChildren("/app/jobs", None), "/jobs"),
            (Transaction([SetData("/app/jobs/7", b"", -1)]), "/jobs"),
            (Transaction([]), "other"),
        ):
            for _ in range(2):  # the second time it is known
                with self.subTest(request=request):
                    self.assertEqual(directories.label(request), label)

    def test_no_patterns(self) -> None:
        self.assertEqual(Directories((), unchroot).label(READ), "")


class TestTally(unittest.TestCase):
    @unittest.skipIf("t" in sys.abiflags, "without the interpreter's lock, counts lose some")
    def test_threads(self) -> None:
        """No request is lost when threads count at once."""
        tally = ClientTally()
        meters = tally.meter("a"), tally.meter("b")

        def count() -> None:
            for number in range(COUNT):
                meters[number % 2](READ, None, 0.002)

        before = sys.getswitchinterval()
        self.addCleanup(sys.setswitchinterval, before)
        sys.setswitchinterval(1e-6)
        threads = [threading.Thread(target=count) for _ in range(THREADS)]
        for each in threads:
            each.start()
        for each in threads:
            each.join(LONG_S)
        counts, seconds = tally.requests()
        half = THREADS * COUNT // 2
        self.assertEqual(counts, {("a", "get", "ok"): half, ("b", "get", "ok"): half})
        self.assertEqual(seconds["a", "get"].total, half)
        self.assertAlmostEqual(seconds["a", "get"].sum_s, half * 0.002)

    def test_buckets(self) -> None:
        """One that has taken as long as a bound is in that bucket. Outcomes and both creates are one histogram."""
        tally = ClientTally()
        meter = tally.meter("a")
        create = Create("/x", b"", [], 0), Create2("/x", b"", [], 0)
        for seconds in (0, *BUCKETS_S, 11):
            meter(create[int(seconds) % 2], NoNodeError() if seconds > 1 else None, seconds)
        counts, found = tally.requests()
        self.assertEqual(counts, {("a", "create", "ok"): 11, ("a", "create", "no_node"): 3})
        self.assertEqual(found["a", "create"].buckets, (2, *[1] * len(BUCKETS_S)))

    def test_what_is_rarer(self) -> None:
        tally = ClientTally()
        for event in (ConnectionLost("a", "s", "x"), SessionExpired("b"), WatchFired("a", "CHILD"), LOST) * 2:
            tally.tell(event)
        found = tally.connections_lost, tally.sessions_expired, tally.watch_events
        self.assertEqual(found, ({"a": 2}, {"b": 2}, {"a": 2}))
