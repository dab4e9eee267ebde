"""Watches and completion callbacks that never end, raise anything, or come when no thread can be started."""

from __future__ import annotations

import importlib
import socket
import subprocess
import sys
import threading
import unittest
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

from kazoo.handlers.threading import KazooTimeoutError, SequentialThreadingHandler

from parkazoo import ParKazooClient
from parkazoo import client as client_module
from parkazoo.engine import session as session_module
from parkazoo.wire import connection as connection_module
from parkazoo.wire import handler as handler_module
from parkazoo.wire import loop as loops
from parkazoo.wire import member as member_module
from parkazoo.wire import runtime as runtime_module
from parkazoo.wire import workers as workers_module
from parkazoo.wire.handler import Result, ThreadingHandler, start_handler, stop_handler
from parkazoo.wire.workers import CALLBACKS, CallQueue, Workers
from tests.interruption import Interruption, each_handler, each_interruption, where_signals_come
from tests.live.test_wire_connect import Server, silent
from tests.live.world import DEADLINE_S, LiveTest, wait_until

EXIT_S = 60.0  # an exit that takes so long hangs
SOON_S = 0.01
SOME_S = 10.0
MANY = 3000
OTHERS = (
    "kazoo.handlers.threading.SequentialThreadingHandler",
    "kazoo.handlers.gevent.SequentialGeventHandler",
    "kazoo.handlers.eventlet.SequentialEventletHandler",
)
OUR_FILES = (handler_module.__file__, workers_module.__file__)
LIFE_FILES = tuple(
    module.__file__
    for module in (client_module, session_module, runtime_module, loops, member_module, connection_module)
)


@contextmanager
def no_threads(error: BaseException | None = None) -> Iterator[None]:
    """No thread can be started: the limit of processes is reached, or the interpreter exits."""
    with patch.object(threading.Thread, "start", side_effect=error or RuntimeError("can't start new thread")):
        yield


class Block:
    """A call that ends when the test says so."""

    def __init__(self) -> None:
        self.has_begun = threading.Event()
        self.may_end = threading.Event()

    def __call__(self, *_: Any) -> None:
        self.has_begun.set()
        self.may_end.wait(DEADLINE_S)


class CallsTest(unittest.TestCase):
    def block(self) -> Block:
        block = Block()
        self.addCleanup(block.may_end.set)
        return block


class TestWorkers(CallsTest):
    def setUp(self) -> None:
        self.workers = Workers("test")
        self.made: list[Any] = []

    def call(self, name: Any) -> Callable[[], None]:
        return lambda: self.made.append(name)

    def wait_for(self, *names: Any) -> None:
        wait_until(lambda: self.made == [*names], f"{names}")

    def test_no_thread(self) -> None:
        for error in (RuntimeError("can't start new thread"), MemoryError()):
            self.workers = Workers("test")  # without the idle thread of the one before
            with no_threads(error), self.assertLogs(workers_module.log, "WARNING") as logs:
                self.workers.run(self.call(1))
                self.workers.run(self.call(2))
            self.assertEqual(len(logs.records), 1)
            self.workers.run(self.call(3))
            wait_until(lambda: sorted(self.made) == [1, 2, 3], "all calls")
            self.made.clear()

    def test_no_further_thread(self) -> None:
        """The one that there is makes the calls when it is free."""
        block = self.block()
        self.workers.run(block)
        block.has_begun.wait(DEADLINE_S)
        with no_threads(), self.assertLogs(workers_module.log, "WARNING"):
            self.workers.run(self.call(1))
            self.workers.run(self.call(2))
            block.may_end.set()
            self.wait_for(1, 2)

    def test_interrupted_start(self) -> None:
        with no_threads(Interruption()), self.assertRaises(Interruption):
            self.workers.run(self.call(1))
        self.workers.run(self.call(2))
        wait_until(lambda: sorted(self.made) == [1, 2], "both calls")

    def test_interrupted(self) -> None:
        """Wherever a signal handler raises, and whether a thread is idle or not."""
        for is_kept in (False, True):
            if is_kept:
                self.workers.keep(self)

            def prepare() -> Callable[[], None]:
                return lambda: self.workers.run(self.call("interrupted"))

            def check() -> None:
                self.made.clear()
                self.workers.run(self.call("next"))
                wait_until(lambda: "next" in self.made, "the next call")

            with self.subTest(is_kept=is_kept), patch.object(workers_module, "IDLE_S", SOON_S):
                self.assertGreater(each_interruption(prepare, check, OUR_FILES), 20)

    def test_one_is_kept(self) -> None:
        """As long as a handler wants that."""
        owners = [ThreadingHandler(), ThreadingHandler()]
        with patch.object(workers_module, "IDLE_S", SOON_S):
            for owner in owners:
                self.workers.keep(owner)
            blocks = [self.block() for _ in range(5)]
            for block in blocks:
                self.workers.run(block)
            for block in blocks:
                block.has_begun.wait(DEADLINE_S)
            for block in blocks:
                block.may_end.set()
            wait_until(lambda: len(self.workers._threads) == 1, "one thread")
            self.workers.let_go(owners[0])
            for number in range(20):
                with no_threads():
                    self.workers.run(self.call(number))
                    self.wait_for(*range(number + 1))
            self.workers.let_go(owners[1])
            wait_until(lambda: not self.workers._threads, "no thread")

    def test_none_can_be_kept(self) -> None:
        owner = ThreadingHandler()
        with no_threads(), self.assertRaises(RuntimeError):
            self.workers.keep(owner)
        with patch.object(workers_module, "IDLE_S", SOON_S):
            self.workers.run(self.call(1))
            wait_until(lambda: self.made and not self.workers._threads, "no thread is kept")

    def test_what_a_call_raises(self) -> None:
        self.workers.keep(self)
        for error in (ValueError, SystemExit, KeyboardInterrupt, GeneratorExit):
            with no_threads(), self.assertLogs(workers_module.log, "ERROR"):
                self.workers.run(raiser(error))
                self.workers.run(self.call(error))
                wait_until(lambda e=error: e in self.made, "the call after it")


def raiser(error: type[BaseException]) -> Callable[..., None]:
    def call(*_: Any) -> None:
        raise error

    return call


class TestCallQueue(CallsTest):
    def setUp(self) -> None:
        self.call_queue = CallQueue()
        self.made: list[Any] = []

    def put(self, name: Any) -> None:
        self.call_queue.put(lambda: self.made.append(name))

    def test_what_a_call_raises(self) -> None:
        errors = (ValueError, SystemExit, KeyboardInterrupt, GeneratorExit)
        with self.assertLogs(workers_module.log, "ERROR") as logs:
            for error in errors:
                self.call_queue.put(raiser(error))
                self.put(error)
            self.assertTrue(self.call_queue.join(DEADLINE_S))
        self.assertEqual(self.made, [*errors])
        self.assertEqual(len(logs.records), len(errors))

    def test_no_thread(self) -> None:
        wait_until(lambda: not CALLBACKS._threads, "no thread of the callbacks'")
        with no_threads(), self.assertLogs(workers_module.log, "WARNING"):
            self.put(1)
            self.put(2)
            self.assertFalse(self.call_queue.join(SOON_S))
        self.put(3)
        self.assertTrue(self.call_queue.join(DEADLINE_S))
        self.assertEqual(self.made, [1, 2, 3])

    def test_interrupted_put(self) -> None:
        names = iter(range(10**6))

        def prepare() -> Callable[[], None]:
            return lambda: self.put(next(names))

        def check() -> None:
            self.put(next(names))
            self.assertTrue(self.call_queue.join(DEADLINE_S))

        self.assertGreater(each_interruption(prepare, check, OUR_FILES), 20)
        self.assertEqual(self.made, sorted(set(self.made)))

    def test_join(self) -> None:
        block = self.block()
        self.call_queue.put(block)
        self.assertFalse(self.call_queue.join(SOON_S))
        self.assertFalse(self.call_queue.join(0.0))
        block.may_end.set()
        self.assertTrue(self.call_queue.join(DEADLINE_S))

    def test_join_does_not_wait_for_what_comes_later(self) -> None:
        has_joined = threading.Event()
        self.addCleanup(has_joined.set)

        def again() -> None:
            if not has_joined.is_set():
                self.call_queue.put(again)

        again()
        self.assertTrue(self.call_queue.join(DEADLINE_S))

    def test_join_on_its_own_call(self) -> None:
        self.call_queue.put(lambda: self.made.append(self.call_queue.join(DEADLINE_S)))
        self.assertTrue(self.call_queue.join(DEADLINE_S))
        self.assertEqual(self.made, [False])

    def test_many_threads_put(self) -> None:
        """In each thread's order, none lost, none twice, never two at once."""
        lock = threading.Lock()

        def call(name: Any) -> None:
            with_lock = lock.acquire(blocking=False)
            self.made.append((with_lock, name))
            lock.release()

        def put(number: int) -> None:
            for count in range(500):
                self.call_queue.put(partial(call, (number, count)))

        threads = [threading.Thread(target=put, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertTrue(self.call_queue.join(DEADLINE_S))
        for number in range(4):
            mine = [name for is_alone, name in self.made if is_alone and name[0] == number]
            self.assertEqual(mine, [(number, count) for count in range(500)])


class TestResult(CallsTest):
    def setUp(self) -> None:
        self.handler = ThreadingHandler()
        self.handler.start()
        self.addCleanup(self.handler.stop)
        self.result = Result(self.handler)
        self.called: list[Any] = []

    def join(self) -> None:
        self.assertTrue(self.handler.completion_queue.join(DEADLINE_S))

    def link(self, name: Any) -> None:
        self.result.rawlink(lambda result: self.called.append((name, result.value)))

    def test_each_callback_once(self) -> None:
        self.link(1)
        self.link(2)
        self.result.set("a")
        self.link(3)
        self.link(4)
        self.join()
        self.assertEqual(self.called, [(name, "a") for name in (1, 2, 3, 4)])

    def test_linked_twice(self) -> None:
        callback = self.called.append
        self.result.rawlink(callback)
        self.result.rawlink(callback)
        self.result.set()
        self.join()
        self.assertEqual(self.called, [self.result])

    def test_never_where_it_is_set(self) -> None:
        """Nor where it is linked."""
        self.set_and_link()
        self.assertNotIn(threading.get_ident(), self.called)

    def set_and_link(self) -> None:
        self.result.rawlink(lambda _: self.called.append(threading.get_ident()))
        self.result.set()
        self.result.rawlink(lambda _: self.called.append(threading.get_ident()))
        self.join()
        self.assertEqual(len(self.called), 2)

    def test_a_handler_that_does_not_run(self) -> None:
        """As with kazoo, the thread that sets the result calls, but no loop does."""
        self.handler.stop()
        self.set_and_link()
        self.assertEqual(set(self.called), {threading.get_ident()})
        self.called.clear()
        self.result = Result(self.handler)
        with patch.object(loops, "is_here", lambda: True):
            self.set_and_link()
        self.assertNotIn(threading.get_ident(), self.called)

    def test_callbacks_that_use_it(self) -> None:
        def callback(result: Result) -> None:
            result.unlink(callback)
            result.rawlink(lambda each: self.called.append(each.get()))
            result.set("again")

        self.result.rawlink(callback)
        self.result.set("first")
        wait_until(lambda: self.called == ["again"], "the callback's callback")

    def test_what_a_callback_raises(self) -> None:
        with self.assertLogs(workers_module.log, "ERROR"):
            self.result.rawlink(raiser(SystemExit))
            self.link(1)
            self.result.set()
            self.join()
        self.assertEqual(self.called, [(1, None)])

    def test_as_kazoos(self) -> None:
        """The same script with kazoo's."""
        kazoos = SequentialThreadingHandler()
        kazoos.start()
        self.addCleanup(kazoos.stop)
        self.assertEqual(self.script(kazoos), self.script(self.handler))

    def script(self, handler: Any) -> list[Any]:
        said: list[Any] = []
        done = threading.Event()

        def say(call: Callable[[], Any]) -> None:
            try:
                said.append(call())
            except Exception as error:
                said.append(type(error))

        for end in ("set", "set_exception"):
            result = handler.async_result()
            unlinked = raiser(ValueError)
            result.rawlink(unlinked)
            result.unlink(unlinked)
            result.unlink(unlinked)
            for _ in range(2):
                for call in (result.ready, result.successful, result.get_nowait):
                    say(call)
                say(lambda r=result: r.get(timeout=0))
                say(lambda r=result: r.get(timeout=-1))
                say(lambda r=result: r.wait(0))
                said.append((result.value, type(result.exception)))
                getattr(result, end)("value" if end == "set" else KeyError())
            say(result.get)
            say(result.wait)
            done.clear()
            result.rawlink(lambda r: (said.append(r.ready()), done.set()))
            done.wait(DEADLINE_S)
        self.assertIn(KazooTimeoutError, said)
        return said

    def test_waiters(self) -> None:
        got: list[Any] = []
        threads = [
            threading.Thread(target=lambda: got.append(self.result.get(timeout=DEADLINE_S))) for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        wait_until(lambda: len(self.result._waiters) == 8, "all wait")
        self.result.set(1)
        for thread in threads:
            thread.join()
        self.assertEqual(got, [1] * 8)

    def test_waiting_again_and_again(self) -> None:
        for _ in range(100):
            self.result.wait(0)
        self.assertEqual(self.result._waiters, [])

    def test_interrupted_set(self) -> None:
        """There is a result and all know, or there is none."""

        def prepare() -> Callable[[], None]:
            self.result = Result(self.handler)
            self.called.clear()
            self.got: list[Any] = []
            self.waiter = threading.Thread(target=lambda: self.got.append(self.result.get(timeout=DEADLINE_S)))
            self.waiter.start()
            wait_until(lambda: self.result._waiters, "it waits")
            self.link(1)
            return lambda: self.result.set("a")

        def check() -> None:
            if not self.result.ready():
                self.assertEqual((self.called, self.got), ([], []))
                self.result.set("a")
            self.waiter.join()
            self.join()
            self.assertEqual((self.called, self.got), ([(1, "a")], ["a"]))

        self.assertGreater(each_interruption(prepare, check, OUR_FILES), 20)
        check()

    def test_interrupted_link_and_wait(self) -> None:
        for is_ready in (False, True):

            def prepare(is_ready: bool = is_ready) -> Callable[[], None]:
                self.result = Result(self.handler)
                if is_ready:
                    self.result.set("a")
                return lambda: (self.link(1), self.result.wait(0))

            def check() -> None:
                self.link(2)
                self.result.set("a")
                self.assertEqual(self.result.get(timeout=DEADLINE_S), "a")
                wait_until(lambda: (2, "a") in self.called, "the next callback")
                self.called.clear()

            self.assertGreater(each_interruption(prepare, check, OUR_FILES), 20)


class TestHandler(CallsTest):
    def setUp(self) -> None:
        self.handler = ThreadingHandler()
        self.addCleanup(self.handler.stop)

    def test_no_thread(self) -> None:
        """As with kazoo, a handler that is started can call, or it says that it cannot."""
        wait_until(lambda: not CALLBACKS._threads, "no thread of the callbacks'")
        with no_threads():
            self.assertRaises(RuntimeError, self.handler.start)
            self.assertFalse(self.handler.running)
        self.handler.start()
        result = self.handler.async_result()
        called = threading.Event()
        with no_threads():
            result.rawlink(lambda _: called.set())
            result.set()
            self.assertTrue(called.wait(DEADLINE_S))

    def test_few_threads(self) -> None:
        """However many handlers run."""
        handlers = [ThreadingHandler() for _ in range(100)]
        before = threading.active_count()
        for handler in handlers:
            handler.start()
        self.assertLessEqual(threading.active_count(), before + 1)
        for handler in handlers:
            self.assertTrue(handler.stop())

    def test_stop(self) -> None:
        called: list[Any] = []
        self.handler.start()
        for number in range(100):
            self.handler.completion_queue.put(lambda n=number: called.append(n))
        self.assertTrue(self.handler.stop())
        self.assertEqual(called, [*range(100)])

    def test_stop_is_bounded(self) -> None:
        block = self.block()
        self.handler.start()
        self.handler.callback_queue.put(block)
        block.has_begun.wait(DEADLINE_S)
        with self.assertLogs(handler_module.log, "WARNING") as logs:
            self.assertFalse(self.handler.stop(SOON_S))
        self.assertIn(repr(block), logs.output[0])
        block.may_end.set()
        self.handler.start()
        self.assertTrue(self.handler.stop())

    def test_stop_in_a_callback(self) -> None:
        stopped: list[Any] = []
        self.handler.start()
        for call_queue in (self.handler.callback_queue, self.handler.completion_queue):
            self.handler.start()
            call_queue.put(lambda: stopped.append(self.handler.stop()))
            self.assertTrue(call_queue.join(DEADLINE_S))
        self.assertEqual(stopped, [False, False])
        self.assertFalse(self.handler.running)


class TestOtherHandlers(CallsTest):
    """kazoo's, which wait for ever for a callback that never ends."""

    def test_stop(self) -> None:
        for kind in OTHERS:
            with self.subTest(kind=kind):
                module, name = kind.rsplit(".", 1)
                handler = getattr(importlib.import_module(module), name)()
                has_begun, may_end, has_ended, is_called = (handler.event_object() for _ in range(4))

                def block(*events: Any) -> None:
                    for act in events:
                        act()

                start_handler(handler)
                handler.callback_queue.put(
                    partial(block, has_begun.set, partial(may_end.wait, DEADLINE_S), has_ended.set)
                )
                has_begun.wait(DEADLINE_S)
                self.assertFalse(stop_handler(handler, SOON_S))
                may_end.set()
                has_ended.wait(DEADLINE_S)
                wait_until(lambda h=handler: (h.sleep_func(0), not h.running)[1], "it has stopped")
                start_handler(handler)
                handler.callback_queue.put(is_called.set)
                self.assertTrue(is_called.wait(DEADLINE_S))
                self.assertTrue(stop_handler(handler, DEADLINE_S))
                self.assertFalse(handler.running)


class TestClient(LiveTest):
    def test_callbacks_that_use_another_client(self) -> None:
        """They come when theirs stops, and wait for the other: neither is held up, nor is the loop."""
        stopping, living = self.parkazoo(), self.parkazoo()
        called: list[Any] = []
        path = self.new_root(living)

        def callback(_: Any) -> None:
            called.append(living.get(path)[0])

        for _ in range(MANY):
            stopping.get_async(path).rawlink(callback)
        stopping.stop()
        living.set(path, b"lives")
        self.assertEqual(living.get(path)[0], b"lives")
        wait_until(lambda: len(called) == MANY, "all are called")


class LoopsTest(CallsTest):
    def setUp(self) -> None:
        self.before = set(loops._all.values())
        mine = patch.dict(loops._loops, clear=True)
        mine.start()
        self.addCleanup(mine.stop)
        self.addCleanup(self.end_all)

    def end_all(self) -> None:
        """Also those that an interrupted thread has acquired without knowing it."""
        for loop in set(loops._all.values()) - self.before:
            if loop.users:
                del loop.users[1:]
                loops.release(loop)


class TestAcquire(LoopsTest):
    """A runtime that acquires a loop, and is interrupted or gets no thread, does not harm the others."""

    def check(self, loop: loops.Loop) -> None:
        is_called = threading.Event()
        loop.call(is_called.set)
        self.assertTrue(is_called.wait(DEADLINE_S))

    def check_another(self) -> None:
        loop = loops.acquire(ThreadingHandler())
        self.check(loop)
        loops.release(loop)

    def test_interrupted_acquire(self) -> None:
        def prepare() -> Callable[[], Any]:
            self.end_all()
            return lambda: loops.release(loops.acquire(ThreadingHandler()))

        points = each_interruption(prepare, self.check_another, (loops.__file__,), where_signals_come)
        self.assertGreater(points, 10)

    def test_no_thread(self) -> None:
        with no_threads(), self.assertRaises(RuntimeError):
            loops.acquire(ThreadingHandler())
        self.assertFalse(loops._loops)
        self.check_another()

    def test_no_thread_for_the_first_of_two(self) -> None:
        others: list[loops.Loop] = []
        begin = loops.Loop.begin

        def acquire_another_and_fail(_: loops.Loop) -> None:
            with patch.object(loops.Loop, "begin", begin):
                others.append(loops.acquire(ThreadingHandler()))
            raise RuntimeError("can't start new thread")

        with patch.object(loops.Loop, "begin", acquire_another_and_fail), self.assertRaises(RuntimeError):
            loops.acquire(ThreadingHandler())
        self.check(others[0])
        third = loops.acquire(ThreadingHandler())
        self.check(third)
        for loop in (*others, third):
            loops.release(loop)


class TestTurns(LoopsTest):
    """A turn of the loop ends, whatever its calls ask for."""

    def check(self, ask: str) -> None:
        loop = loops.acquire(ThreadingHandler())
        near, far = socket.socketpair()
        is_read, is_late, is_over = threading.Event(), threading.Event(), threading.Event()

        def again() -> None:
            if not is_over.is_set():
                getattr(loop, ask)(again)

        def read(_: int) -> None:
            near.recv(1)
            is_read.set()

        def begin() -> None:
            loop.watch(near, read)
            loop.call_later(SOON_S, is_late.set)
            again()

        loop.call(begin)
        far.send(b"x")
        told = is_read.wait(SOME_S), is_late.wait(SOME_S)
        is_over.set()
        loop.call(partial(loop.forget, near))
        loops.release(loop)
        wait_until(lambda: loop.read_sock.fileno() < 0, "the end of the loop")
        near.close()
        far.close()
        self.assertEqual(told, (True, True))

    def test_calls_that_ask_for_more(self) -> None:
        for ask in ("call", "call_at_end"):
            with self.subTest(ask):
                self.check(ask)


class LivesTest(LoopsTest):
    """start() and stop() of a client whose server says nothing."""

    def setUp(self) -> None:
        super().setUp()
        self.server = Server(silent)
        self.addCleanup(self.server.stop)
        self.client = self.make_client()

    def make_client(self) -> Any:
        client = ParKazooClient(self.server.address)
        self.addCleanup(client.stop)
        return client

    def start(self, client: Any) -> None:
        """It is about to connect."""
        client.start_async()
        self.assertFalse(client._session.is_leaving)
        wait_until(lambda: not client._session.roster.first._connection._race.is_idle(), "an attempt")


class TestLives(LivesTest):
    def check_all(self) -> None:
        """The client starts and stops, and so does another."""
        for client in (self.client, self.make_client()):
            self.start(client)
            client.stop()
            self.assertTrue(client._session.is_over)

    def test_interrupted_start(self) -> None:
        def prepare() -> Callable[[], Any]:
            return self.client.start_async

        self.assertGreater(each_interruption(prepare, self.check_all, LIFE_FILES, where_signals_come), 50)

    def test_interrupted_stop(self) -> None:
        """Whatever comes next, stop() or start(), it ends that session."""
        sessions: list[Any] = []

        def prepare() -> Callable[[], Any]:
            self.start(self.client)
            sessions.append(self.client._session)
            return self.client.stop

        def stop_again() -> None:
            self.client.stop()
            wait_until(lambda: sessions[-1].is_over, "the end of the session")

        def start_again() -> None:
            self.check_all()
            self.assertTrue(sessions[-1].is_over)

        for again in (stop_again, start_again):
            with self.subTest(again):
                self.assertGreater(each_interruption(prepare, again, LIFE_FILES, where_signals_come), 20)

    def test_no_thread_for_start(self) -> None:
        with patch.object(loops.Loop, "begin", side_effect=RuntimeError("can't start new thread")):
            self.assertRaises(RuntimeError, self.client.start_async)
        self.check_all()


class TestSignals(LivesTest):
    """A signal handler runs a client of its own, from start to stop, wherever it comes."""

    def run_another(self) -> None:
        client = self.make_client()
        self.start(client)
        client.stop()
        self.assertTrue(client._session.is_over)

    def check(self) -> None:
        """The client that was interrupted works."""
        if not self.client._stopped.is_set():
            wait_until(lambda: not self.client._session.roster.first._connection._race.is_idle(), "an attempt")
        self.client.stop()
        self.assertTrue(self.client._session.is_over)
        self.run_another()

    def test_in_start(self) -> None:
        def prepare() -> Callable[[], Any]:
            return self.client.start_async

        points = each_handler(prepare, self.run_another, self.check, LIFE_FILES, where_signals_come)
        self.assertGreater(points, 50)

    def test_in_stop(self) -> None:
        def prepare() -> Callable[[], Any]:
            self.start(self.client)
            return self.client.stop

        points = each_handler(prepare, self.run_another, self.check, LIFE_FILES, where_signals_come)
        self.assertGreater(points, 20)

    def test_in_what_all_clients_share(self) -> None:
        """Between any two instructions: of the last use of a loop too, and of the first of the next."""

        def prepare() -> Callable[[], Any]:
            return lambda: self.use(loops.acquire(ThreadingHandler()))

        def use_another() -> None:
            self.use(loops.acquire(ThreadingHandler()))

        points = each_handler(prepare, use_another, use_another, (loops.__file__,))
        self.assertGreater(points, 100)

    def use(self, loop: loops.Loop) -> None:
        """It runs, and lets go of all when it has ended."""
        is_called = threading.Event()
        loop.call(is_called.set)
        self.assertTrue(is_called.wait(DEADLINE_S))
        loops.release(loop)
        if not loop.users:
            wait_until(lambda: loop.read_sock.fileno() < 0, "the end of the loop")


PROGRAM = """
import sys, threading
{before}
import time
from parkazoo import ParKazooClient
from parkazoo.wire import handler
{after}
client = ParKazooClient({hosts!r})
client.start()
has_begun = threading.Event()
def never_ends(_):
    has_begun.set()
    threading.Event().wait()
def exits(_):
    has_begun.set()
    sys.exit(3)
def on_watch(watch):
    client.get({path!r}, watch=watch)
    client.set({path!r}, b"")
    has_begun.wait()
{main}
print("ends", flush=True)
"""
SHORT = "handler.CLOSE_TIMEOUT_S = 0.1"
NO_MORE_THREADS = """
def start(thread):
    raise RuntimeError("can't create new thread at interpreter shutdown")
threading.Thread.start = start
"""


SERVICE = """
from kazoo.exceptions import ConnectionClosedError
from kazoo.handlers.threading import KazooTimeoutError
{before}
from parkazoo import ParKazooClient
class Service:
    def __init__(self):
        self.zk = ParKazooClient({hosts!r}, timeout=60{options})
        self.zk.start()
        for path in {paths!r}:
            self.zk.create(path, ephemeral=True)
    def ask(self, error):
        try: self.zk.get("/")
        except error: print(error.__name__)
    def __del__(self, NoAnswer=KazooTimeoutError, Closed=ConnectionClosedError):  # the module's names may be gone
        if {asks}: self.ask(NoAnswer)
        self.zk.stop()
        self.zk.stop()
        if {asks}: self.ask(Closed)
        print("ends", flush=True)
service = Service()
"""


class TestService(LiveTest):
    """An object of a module, which the interpreter takes away at its end: no thread runs any more."""

    def check(self, before: str = "", options: str = "", *, asks: bool = False, says: str = "") -> None:
        client = self.parkazoo()
        self.root = self.new_root(client)
        paths = [f"{path}-e" for path in self.on_each(client)]
        program = SERVICE.format(before=before, hosts=self.cluster.hosts, options=options, paths=paths, asks=asks)
        answer = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", program],
            capture_output=True,
            text=True,
            timeout=EXIT_S,
            check=False,
        )
        self.assertEqual((answer.stdout, answer.stderr), (f"{says}ends\n", ""))
        for path in paths:
            client.sync(path)
            self.assertIsNone(client.exists(path))

    def test_other_handlers(self) -> None:
        for kind in OTHERS:
            module, name = kind.rsplit(".", 1)
            with self.subTest(kind=kind):
                self.check(f"from {module} import {name}", f", handler={name}()")

    def test_patched(self) -> None:
        before = "from gevent import monkey; monkey.patch_all()\nfrom {} import {} as Handler"
        self.check(before.format(*OTHERS[1].rsplit(".", 1)), ", handler=Handler()")

    def test_threads(self) -> None:
        """Before the session is closed no answer comes any more: an error, at once."""
        self.check(asks=True, says="KazooTimeoutError\nConnectionClosedError\n")

    def test_on_the_loop(self) -> None:
        """Where any garbage may be collected."""
        client, other = self.parkazoo(), self.parkazoo()
        path = self.new_root(other)
        client.create(f"{path}/e", ephemeral=True)
        session, loop = client._session, client._runtime.loop
        has_returned = threading.Event()
        loop.call(lambda: (client.stop(), has_returned.set()))
        self.assertTrue(has_returned.wait(SOME_S))
        wait_until(lambda: session.is_over, "the end of the session")
        self.assertIsNone(other.exists(f"{path}/e"))


class TestExit(LiveTest):
    """Programs end, without a word on what they were doing to end."""

    def run_program(self, main: str, before: str = "", after: str = "") -> str:
        client = self.parkazoo()
        program = PROGRAM.format(
            hosts=self.cluster.hosts, path=self.new_root(client), main=main, before=before, after=after
        )
        answer = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, timeout=EXIT_S, check=False
        )
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.errors = answer.stderr
        return answer.stdout

    def test_a_watch_that_exits(self) -> None:
        for stop in ("", "client.stop()", "import atexit; atexit.register(client.stop)"):
            with self.subTest(stop=stop):
                self.assertEqual(self.run_program(f"on_watch(exits)\n{stop}"), "ends\n")

    def test_a_watch_that_never_ends(self) -> None:
        for stop in ("", "client.stop()", "import atexit; atexit.register(client.stop)"):
            with self.subTest(stop=stop):
                self.assertEqual(self.run_program(f"on_watch(never_ends)\n{stop}", after=SHORT), "ends\n")
                self.assertIn("never_ends", self.errors)

    def test_a_completion_callback_that_never_ends(self) -> None:
        main = "client.get_async('/').rawlink(never_ends)\nhas_begun.wait()"
        self.assertEqual(self.run_program(main, after=SHORT), "ends\n")

    def test_no_thread_at_the_exit(self) -> None:
        """Since Python 3.12 none can be started any more."""
        main = (
            "result = client.get_async('/')\n"
            f"{NO_MORE_THREADS}\n"
            "result.rawlink(lambda _: print('called', flush=True))\n"
            "result.get()\n"
        )
        said = self.run_program(main)  # two threads print, so lines may be mixed
        self.assertEqual((said.count("called"), said.count("ends")), (1, 1))

    def test_other_handlers(self) -> None:
        for kind in OTHERS:
            module, name = kind.rsplit(".", 1)
            program = (
                f"from {module} import {name}\n"
                "from parkazoo.wire import handler\n"
                f"{SHORT}\n"
                f"own = {name}(); has_begun = own.event_object(); never = own.event_object()\n"
                "handler.start_handler(own)\n"
                "own.callback_queue.put(lambda: (has_begun.set(), never.wait()))\n"
                "has_begun.wait()\n"
            )
            with self.subTest(kind=kind):
                answer = subprocess.run(
                    [sys.executable, "-c", program], capture_output=True, text=True, timeout=EXIT_S, check=False
                )
                self.assertIn("has not ended within", answer.stderr)
                self.assertEqual(answer.returncode, 0)

    def test_what_is_due_is_called(self) -> None:
        main = "for number in range(100): client.handler.completion_queue.put(lambda: print('called', flush=True))"
        said = self.run_program(main)  # two threads print, so lines may be mixed
        self.assertEqual((said.count("called"), said.count("ends")), (100, 1))

    def test_patched_after_the_import(self) -> None:
        """As with kazoo, whose handler uses what is there when it is made."""
        main = (
            "client.get('/')\n"
            "on_watch(lambda _: (client.get('/'), has_begun.set()))\n"
            f"others = [ParKazooClient({self.cluster.hosts!r}) for _ in range(5)]\n"
            "threads = [threading.Thread(target=each.start) for each in others]\n"
            "for each in threads: each.start()\n"
            "for each in threads: each.join()\n"
            "for each in [client, *others]:\n"
            "    with each.Lock('/late'): each.get_async('/').get()\n"
            "    each.stop()\n"
        )
        for patching in (
            "from gevent import monkey; monkey.patch_all()",
            "import eventlet; eventlet.monkey_patch()",
        ):
            with self.subTest(patching=patching):
                self.assertEqual(self.run_program(main, after=patching), "ends\n")
