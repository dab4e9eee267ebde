"""What the connections are made of, without a server: pauses, names, state listeners, the log."""

from __future__ import annotations

import importlib
import os
import random
import socket
import threading
import unittest
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st
from kazoo.exceptions import ConnectionDropped
from kazoo.retry import ForceRetryError, KazooRetry, RetryFailedError

from parkazoo import ParKazooClient
from parkazoo.compat.listeners import Listeners
from parkazoo.wire import loop as loops
from parkazoo.wire import names
from parkazoo.wire import report as report_module
from parkazoo.wire import rounds as rounds_module
from parkazoo.wire.attempt import ConnectAttempt, Steps
from parkazoo.wire.handler import ThreadingHandler
from parkazoo.wire.handshake import Address
from parkazoo.wire.names import LookUp
from parkazoo.wire.report import REPEAT_S, ConnectionReport
from parkazoo.wire.rounds import Backoff
from tests.fakes.loop import Clock, HandLoop
from tests.fakes.owner import Owner, make_member
from tests.interruption import each_handler
from tests.live.world import DEADLINE_S, Seen, wait_until

POLICIES = st.fixed_dictionaries(
    {
        "max_tries": st.sampled_from([-1, 1, 2, 5]),
        "delay": st.floats(0.0, 100.0),
        "backoff": st.integers(1, 10),
        "max_jitter": st.floats(0.0, 1.0),
        "max_delay": st.floats(0.0, 3600.0),
        "deadline": st.none() | st.floats(0.0, 500.0),
    }
)


class TestBackoff(unittest.TestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        patch = mock.patch.object(rounds_module, "time", self.clock)
        patch.start()
        self.addCleanup(patch.stop)

    def delays(self, backoff: Backoff, most: int) -> list[float]:
        """What it waits until it gives up, or so many times."""
        found: list[float] = []
        while len(found) < most and (delay_s := backoff.next_delay_s()) is not None:
            found.append(delay_s)
            self.clock.now_s += delay_s
        return found

    @settings(max_examples=200, deadline=None)
    @given(policy=POLICIES, most_s=st.floats(0.01, 2.0))
    def test_never_longer_than_the_cap(self, policy: dict[str, Any], most_s: float) -> None:
        delays = self.delays(Backoff(KazooRetry(**policy), most_s), 100)
        self.assertLessEqual(max(delays, default=0.0), most_s)
        self.assertGreaterEqual(min(delays, default=0.0), 0.0)

    def test_many_clients_do_not_come_at_once(self) -> None:
        """Delays that are cut short are not all the same, nor near nothing."""
        delays = self.delays(Backoff(KazooRetry(max_tries=-1, delay=60.0, max_jitter=0.0), 2.0), 200)
        self.assertGreater(len({*delays}), 190)
        self.assertGreaterEqual(min(delays), 1.0)

    def test_as_kazoos(self) -> None:
        """As many attempts as kazoo's, and the same delays while they are below the cap."""
        for number, (max_tries, deadline) in enumerate([(1, None), (4, None), (-1, 3.0), (7, 3.0), (2, 3.0)]):
            with self.subTest(max_tries=max_tries, deadline=deadline):
                kept: list[float] = []

                def sleep(delay_s: float, kept: list[float] = kept) -> None:
                    kept.append(delay_s)
                    self.clock.now_s += delay_s

                def fail() -> None:
                    raise ForceRetryError

                retry = KazooRetry(max_tries=max_tries, deadline=deadline, max_jitter=0.0, sleep_func=sleep)
                random.seed(number)
                with mock.patch("kazoo.retry.time", self.clock), self.assertRaises(RetryFailedError):
                    retry(fail)
                self.assertEqual(self.delays(Backoff(retry, 1000.0), 100), kept)

    def test_the_deadline_begins_with_a_loss(self) -> None:
        """However long the client was connected before."""
        backoff = Backoff(KazooRetry(max_tries=-1, deadline=10.0), 2.0)
        for _ in range(2):
            self.clock.now_s += 3600.0
            self.assertGreater(sum(self.delays(backoff, 1000)), 7.0)
            backoff.reset()

    def test_a_member_s(self) -> None:
        """Whatever the program's policy: at most 2 s, and a third of the session time-out."""
        for timeout_s, most_s in ((1.5, 0.5), (60.0, 2.0)):
            retry = KazooRetry(max_tries=-1, delay=500.0, max_delay=500.0)
            member = make_member(Owner(HandLoop()), timeout=timeout_s, connection_retry=retry)
            member.begin()
            self.assertLessEqual(max(self.delays(member._connection._rounds._backoff, 100)), most_s)


NAMES = {"one": ["10.0.0.1", "::1"], "two": ["10.0.0.2"]}


class TestLookUp(unittest.TestCase):
    def setUp(self) -> None:
        self.loop = HandLoop()
        self.asked: list[str] = []
        self.may_answer = {"slow": threading.Event()}
        patch = mock.patch.object(socket, "getaddrinfo", self.answer)
        patch.start()
        self.addCleanup(patch.stop)
        for event in self.may_answer.values():
            self.addCleanup(event.set)

    def answer(self, host: str, port: int, *_: Any) -> list[Any]:
        self.asked.append(host)
        if host in self.may_answer:
            self.may_answer[host].wait(DEADLINE_S)
            return [(socket.AF_INET, 0, 0, "", ("10.9.9.9", port))]
        if host == "not a name":
            raise UnicodeError("label too long")
        if host not in NAMES:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET, 0, 0, "", (each, port)) for each in NAMES[host]]

    def look_up(self, *servers: tuple[str, int]) -> list[Any]:
        found: list[Any] = []
        LookUp(self.loop, servers, lambda *answer: found.append(answer))  # type: ignore[arg-type]
        return found

    def wait(self, found: list[Any]) -> Any:
        def have_found() -> list[Any]:
            self.loop.make_calls()
            return found

        wait_until(have_found, "the addresses")
        (answer,) = found
        return answer

    def test_numbers(self) -> None:
        """At once, without a question."""
        found = self.look_up(("127.0.0.1", 1), (" ::1 ", 2))
        self.assertEqual(found, [([Address("127.0.0.1", "127.0.0.1", 1), Address("::1", "::1", 2)], {})])
        self.assertEqual(self.asked, [])

    def test_none(self) -> None:
        self.assertEqual(self.look_up(), [([], {})])

    def test_names(self) -> None:
        """All of their addresses, in the servers' order."""
        addresses, troubles = self.wait(self.look_up(("two", 2), ("127.0.0.1", 1), ("one", 3)))
        self.assertEqual([each.ip for each in addresses], ["10.0.0.2", "127.0.0.1", "10.0.0.1", "::1"])
        self.assertEqual([str(each) for each in addresses], ["two:2", "127.0.0.1:1", "one:3", "one:3"])
        self.assertEqual(troubles, {})

    def test_one_question_for_many(self) -> None:
        found = [self.look_up(("slow", 1)) for _ in range(50)]
        wait_until(lambda: self.asked, "a question")
        found += [self.look_up(("slow", 1)) for _ in range(50)]
        self.may_answer["slow"].set()
        answers = [self.wait(each) for each in found]
        self.assertEqual({len(addresses) for addresses, _ in answers}, {1})
        self.assertEqual(self.asked, ["slow"])
        self.wait(self.look_up(("slow", 1)))  # names change: it is asked again
        self.assertEqual(self.asked, ["slow", "slow"])

    def test_a_slow_name(self) -> None:
        """Only those wait for it who asked for it."""
        slow = self.look_up(("slow", 1), ("one", 1))
        for _ in range(20):
            self.wait(self.look_up(("one", 1), ("two", 2)))
        self.assertEqual(slow, [])
        self.may_answer["slow"].set()
        self.assertEqual(len(self.wait(slow)[0]), 3)

    def test_names_that_fail(self) -> None:
        """The others are used all the same."""
        addresses, troubles = self.wait(self.look_up(("gone", 1), ("two", 2), ("not a name", 3)))
        self.assertEqual([each.host for each in addresses], ["two"])
        self.assertEqual(
            troubles,
            {
                ("gone", 1): "cannot resolve gone: Name or service not known",
                ("not a name", 3): "cannot resolve not a name: label too long",
            },
        )

    def test_a_resolver_that_raises_anything(self) -> None:
        """It raises, and the next request is not forgotten."""
        for error in (RuntimeError("it is shut down"), SystemExit("it exits"), KeyboardInterrupt("it is killed")):
            with self.subTest(error), mock.patch.object(socket, "getaddrinfo", side_effect=error):
                addresses, troubles = self.wait(self.look_up(("one", 1)))
                self.assertEqual(addresses, [])
                self.assertIn(str(error), troubles["one", 1])
        self.assertEqual(len(self.wait(self.look_up(("one", 1)))[0]), 2)

    def test_no_thread(self) -> None:
        """It raises, and the next request is not forgotten."""
        with mock.patch.object(self.loop, "run_blocking", side_effect=RuntimeError("can't start new thread")):
            addresses, troubles = self.wait(self.look_up(("one", 1)))
        self.assertEqual(addresses, [])
        self.assertIn("can't start new thread", troubles["one", 1])
        self.assertEqual(len(self.wait(self.look_up(("one", 1)))[0]), 2)

    def test_an_answer_that_comes_just_then(self) -> None:
        """In the middle of a question, for under gevent a signal handler lets other greenlets run."""
        first: list[Any] = []
        second: list[Any] = []
        key = (self.loop.kind, "one", 1)
        answer = partial(names._answer, key, [])

        def prepare() -> Callable[[], None]:
            first.clear()
            second.clear()
            names._asked[key] = deque([first.append])
            return partial(names._ask, self.loop, ("one", 1), second.append)  # type: ignore[arg-type]

        def check() -> None:
            answer()
            self.assertEqual((first, second), ([[]], [[]]))

        with mock.patch.object(self.loop, "run_blocking", lambda _: answer()):
            self.assertGreater(each_handler(prepare, answer, check, (names.__file__,)), 20)
            check()


class TestTalk(unittest.TestCase):
    def test_a_socket_that_comes_too_late(self) -> None:
        """A program has made it; it is closed."""
        near, far = socket.socketpair()
        self.addCleanup(far.close)
        self.addCleanup(near.close)
        far.settimeout(DEADLINE_S)
        loop, may_return, outcomes = HandLoop(), threading.Event(), list[Any]()
        self.addCleanup(may_return.set)

        def make() -> Any:
            may_return.wait(DEADLINE_S)
            return near

        def steps(attempt: ConnectAttempt) -> Steps[None]:
            attempt.sock = yield make

        attempt = ConnectAttempt(loop, steps, outcomes.append, self.fail)  # type: ignore[arg-type]
        attempt.cancel(ConnectionDropped("x"))
        may_return.set()
        wait_until(lambda: loop._calls, "the function has returned")
        loop.make_calls()
        self.assertEqual(far.recv(1), b"")
        self.assertEqual([type(each) for each in outcomes], [ConnectionDropped])


class TestLoop(unittest.TestCase):
    def test_no_secret_in_the_log(self) -> None:
        """A call that fails is named, but not what it is called with."""

        def fail(*_: Any) -> None:
            raise ValueError

        loop = loops.acquire(ThreadingHandler())
        with self.assertLogs(loops.log, "ERROR") as logs:
            loop.call(partial(partial(fail, b"xyzzy"), {"a": "xyzzy"}))
            wait_until(lambda: logs.output, "the line")
        loops.release(loop)
        self.assertIn("fail", logs.records[0].getMessage())
        self.assertNotIn("xyzzy", logs.output[0])

    def test_closed_while_it_was_watched(self) -> None:
        """Its number is another's now. That one is watched, whether or not the owner of the first forgets it."""
        for forgets in (True, False):
            with self.subTest(forgets=forgets):
                loop = loops.acquire(ThreadingHandler())
                (first, first_far), (second, second_far) = socket.socketpair(), socket.socketpair()
                called: list[str] = []

                def notice(events: int, loop: Any = loop, first: Any = first, forgets: bool = forgets) -> None:
                    if forgets:
                        loop.forget(first)

                loop.call(partial(loop.watch, first, notice))
                number = first.fileno()
                wait_until(lambda: number in loop._selector.get_map(), "it is watched")  # noqa: B023
                os.dup2(second.fileno(), number)
                first.detach()
                again = socket.socket(fileno=number)
                loop.call(partial(loop.watch, again, lambda events: called.append("again")))  # noqa: B023
                second_far.send(b"x")
                wait_until(lambda: called, "it can be read")  # noqa: B023
                loop.call(partial(loop.forget, again))
                loop.call(again.close)
                loops.release(loop)
                for sock in (first_far, second, second_far):
                    sock.close()

    def test_each_gevent_hub_has_its_own(self) -> None:
        """Threads that end leave their number to others."""
        gevent = importlib.import_module("gevent")
        kind = importlib.import_module("kazoo.handlers.gevent").SequentialGeventHandler
        acquired: list[Any] = []

        def acquire() -> None:
            mine = [loops.acquire(kind()) for _ in range(2)]
            acquired.append(mine)
            for loop in mine:
                loops.release(loop)
            gevent.sleep(0)  # the loop ends
            gevent.get_hub().destroy()

        numbers = SimpleNamespace(Lock=threading.Lock, get_ident=lambda: 7)
        with mock.patch.object(loops, "threading", numbers):
            kept = loops.acquire(kind())
            thread = threading.Thread(target=acquire)
            thread.start()
            thread.join(DEADLINE_S)
            loops.release(kept)
            gevent.sleep(0)
        ((first, second),) = acquired
        self.assertIs(first, second)
        self.assertIsNot(first, kept)


class TestListeners(unittest.TestCase):
    """The gate is closed from a state until its listeners have returned."""

    def setUp(self) -> None:
        self.loop = HandLoop()
        self.called: list[str] = []
        self.opened: list[list[str]] = []
        self.held: dict[str, threading.Event] = {}
        self.within: dict[str, Callable[[], None]] = {}
        self.listeners = Listeners(
            ThreadingHandler(), self.call, 5.0, lambda: self.opened.append(list(self.called))
        )

    def call(self, state: str) -> None:
        self.within.get(state, bool)()
        self.called.append(state)
        if state in self.held:
            self.held[state].wait(DEADLINE_S)

    def hold(self, state: str) -> threading.Event:
        self.held[state] = event = threading.Event()
        self.addCleanup(event.set)
        return event

    def tell(self, *states: str) -> None:
        for state in states:
            self.listeners.tell(state, self.loop)  # type: ignore[arg-type]

    def wait_for(self, *states: str) -> None:
        wait_until(lambda: self.called == [*states], f"{states}")

    def wait_idle(self) -> None:
        self.listeners.wait(DEADLINE_S)
        wait_until(lambda: not self.listeners.is_closed and self.opened, "an open gate")

    def test_closed_at_once_and_open_after_them(self) -> None:
        hold = self.hold("a")
        self.tell("a")
        self.assertTrue(self.listeners.is_closed)
        self.wait_for("a")
        self.assertTrue(self.listeners.is_closed)
        self.assertEqual(self.opened, [])
        hold.set()
        self.wait_idle()
        self.assertEqual(self.opened, [["a"]])

    def test_a_signal_handlers_exception(self) -> None:
        """It comes before a thread is asked to call them: the next state has both told."""
        interrupted = mock.patch("parkazoo.wire.workers.run_on", side_effect=KeyboardInterrupt)
        with interrupted, self.assertRaises(KeyboardInterrupt):
            self.tell("a")
        self.tell("b")
        self.wait_for("a", "b")
        self.wait_idle()

    def test_in_order(self) -> None:
        """States that come while they run follow afterwards; the gate stays closed until the last."""
        first, last = self.hold("0"), self.hold("29")
        states = [str(number) for number in range(30)]
        self.tell(*states[:10])
        self.wait_for("0")
        self.tell(*states[10:])
        first.set()
        self.wait_for(*states)
        self.assertTrue(self.listeners.is_closed)
        self.assertEqual(self.opened, [])
        last.set()
        self.wait_idle()
        self.assertEqual(self.opened, [states])

    def test_not_on_the_loop(self) -> None:
        """A state that the user's own call brings does not close the gate."""
        hold = self.hold("a")
        self.listeners.tell("a", None)
        self.wait_for("a")
        self.assertFalse(self.listeners.is_closed)
        hold.set()
        self.wait_idle()

    def test_a_listener_that_uses_the_client(self) -> None:
        """The gate opens; and stays open for the states that come until it has returned."""
        hold = self.hold("a")
        self.within["a"] = self.listeners.before_use
        self.tell("a")
        self.wait_for("a")
        self.assertFalse(self.listeners.is_closed)
        self.assertEqual(self.opened, [[]])
        self.tell("b")
        self.assertFalse(self.listeners.is_closed)
        hold.set()
        self.wait_for("a", "b")
        self.wait_idle()
        again = self.hold("c")
        self.tell("c")
        self.wait_for("a", "b", "c")
        self.assertTrue(self.listeners.is_closed)
        again.set()

    def test_others_open_nothing(self) -> None:
        hold = self.hold("a")
        self.tell("a")
        self.wait_for("a")
        self.listeners.before_use()
        self.assertTrue(self.listeners.is_closed)
        hold.set()
        self.wait_idle()

    def test_patience(self) -> None:
        """It is counted from the first state, and is lost until all have been called."""
        hold = self.hold("a")
        began_s = self.loop.clock.now_s
        self.tell("a")
        self.wait_for("a")
        self.loop.go_to(began_s + 3.0)
        self.tell("b")
        self.loop.go_to(began_s + 4.9)
        self.assertTrue(self.listeners.is_closed)
        self.loop.go_to(began_s + 5.1)
        self.assertFalse(self.listeners.is_closed)
        self.assertEqual(self.opened, [["a"]])
        self.tell("c")
        self.assertFalse(self.listeners.is_closed)
        hold.set()
        self.wait_for("a", "b", "c")

    def test_wait(self) -> None:
        """Others wait for the listeners; a listener does not wait for itself."""
        hold = self.hold("b")
        self.within["a"] = partial(self.listeners.wait, 10 * DEADLINE_S)
        self.tell("a", "b")
        self.wait_for("a", "b")
        returned = Seen()

        def wait() -> None:
            self.listeners.wait(DEADLINE_S)
            returned(hold.is_set())

        threading.Thread(target=wait, daemon=True).start()
        hold.set()
        self.assertEqual(returned.wait(), [True])

    def test_of_a_client(self) -> None:
        """What one raises, SystemExit too, hinders neither the next listener nor the next state."""
        client = ParKazooClient("127.0.0.1:1")
        client._stopped.clear()  # while it stops, a SystemExit is not logged
        seen = Seen()

        def leave(_: str) -> None:
            raise SystemExit

        client.add_listener(leave)
        client.add_listener(seen)
        with self.assertLogs(client.logger, "ERROR") as logs:
            for state in ("SUSPENDED", "LOST"):
                client.listeners.tell(state, self.loop)  # type: ignore[arg-type]
            seen.wait(2)
            client.listeners.wait(DEADLINE_S)
        self.assertEqual({*seen}, {"SUSPENDED", "LOST"})
        self.assertEqual(len(logs.records), 2)
        self.assertFalse(client.listeners.is_closed)


class TestReport(unittest.TestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        patch = mock.patch.object(report_module, "time", self.clock)
        patch.start()
        self.addCleanup(patch.stop)
        self.owner = Owner(HandLoop())
        self.report = ConnectionReport(make_member(self.owner))
        self.said: list[str] = []
        for level in ("info", "warning", "error"):
            note = mock.patch.object(self.owner.log, level, partial(self.note, level))
            note.start()
            self.addCleanup(note.stop)

    def note(self, level: str, text: str, *values: Any, extra: Mapping[str, Any]) -> None:
        self.said.append(f"{level} {text % values}")

    def lines(self) -> list[str]:
        """Since the last time."""
        said, self.said = self.said, []
        return said

    def test_an_outage(self) -> None:
        """One line for each change, and one every half minute while nothing changes."""
        report = self.report
        report.connected("s1:1", 0x10)
        self.assertEqual(self.lines(), ["info ensemble b: connected to s1:1, session 0x10"])
        report.lost("socket connection broken")
        self.assertEqual(
            self.lines(), ["warning ensemble b: lost the connection to s1:1: socket connection broken"]
        )
        for server in ("s1:1", "s2:1", "s1:1"):
            report.failed(f"{server} Connection refused")
        self.assertEqual(
            self.lines(),
            ["warning ensemble b: s1:1 Connection refused", "warning ensemble b: s2:1 Connection refused"],
        )
        for _ in range(100):
            self.clock.now_s += 1.0
            report.trying("s1:1")
            report.failed("s1:1 Connection refused")
        self.assertEqual(
            self.lines(),
            [
                f"warning ensemble b: not connected for {seconds:.0f} s; the last reason: s1:1 Connection refused"
                for seconds in (REPEAT_S, 2 * REPEAT_S, 3 * REPEAT_S)
            ],
        )
        report.connected("s2:1", 0x10)
        self.assertEqual(self.lines(), ["warning ensemble b: back after 100.0 s, on s2:1, session 0x10"])
        report.lost("socket connection broken")
        report.failed("s1:1 Connection refused")  # another outage
        self.assertEqual(len(self.lines()), 2)

    def test_the_first_connection(self) -> None:
        """It is not back, for it was not lost."""
        self.report.failed("s1:1 Connection refused")
        self.report.connected("s2:1", 0x10)
        self.assertEqual(self.lines()[1:], ["info ensemble b: connected to s2:1, session 0x10"])

    def test_why_a_session_ends(self) -> None:
        self.report.expired()
        self.report.renewed("that on ensemble c has expired")
        self.report.refused("s1:1")
        self.report.gave_up()
        said = self.lines()
        self.assertEqual(len(said), 4)
        reasons = "has expired", "ends, because that on ensemble c has expired", "s1:1 refuses", "retry"
        for line, text in zip(said, reasons, strict=True):
            self.assertIn("ensemble b: ", line)
            self.assertIn(text, line)
