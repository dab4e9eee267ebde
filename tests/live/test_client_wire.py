"""One connection, shared: many threads, floods, large values, all on one loop."""

from __future__ import annotations

import unittest
from collections.abc import Callable
from functools import partial
from typing import Any

from kazoo.handlers.threading import SequentialThreadingHandler

from parkazoo.wire import loop as loops
from tests.handlers import handler_name, make_handler
from tests.live.world import DEADLINE_S, LiveTest, Seen, wait_until

THREADS = 16
LARGE = 900_000  # bytes; a server takes a mebibyte


class TestWire(LiveTest):
    def setUp(self) -> None:
        super().setUp()
        self.client = self.parkazoo()
        self.root = self.new_root(self.client)
        self.states = Seen()
        self.client.add_listener(self.states)

    def at_once(self, work: Callable[[int], None], client: Any = None) -> None:
        """Do it on many threads, or greenlets; none may raise."""
        errors, ended = Seen(), Seen()

        def run(number: int) -> None:
            try:
                work(number)
            except BaseException as error:
                errors(error)
            finally:
                ended(number)

        for number in range(THREADS):
            self.client.handler.spawn(run, number)
        ended.wait(THREADS)
        self.assertEqual(errors, [])

    def mix(self, client: Any) -> None:
        """Each sees its own values, in order: no answer goes astray."""

        def work(number: int) -> None:
            path = f"{self.root}/{number}"
            client.create(path)
            for turn in range(60):
                client.set(path, b"%d %d" % (number, turn))
                self.assertEqual(client.get(path)[0], b"%d %d" % (number, turn))
                if turn % 20 == 0:
                    client.create(f"{path}/{turn}")
            self.assertEqual(sorted(client.get_children(path)), ["0", "20", "40"])

        self.at_once(work)

    def test_threads_share_a_client(self) -> None:
        self.mix(self.client)

    @unittest.skipIf(handler_name() != "threading", "of threads")
    def test_kazoos_own_handler(self) -> None:
        self.mix(self.parkazoo(handler=SequentialThreadingHandler()))

    def test_large_values_among_small(self) -> None:
        """Sockets are full for a while; whatever is small waits, and nothing is mixed up."""
        values = [bytes([65 + number]) * LARGE for number in range(20)]
        for number in range(len(values)):
            self.client.create(f"{self.root}/{number}")
        sets = [self.client.set_async(f"{self.root}/{n}", value) for n, value in enumerate(values)]
        self.at_once(lambda number: self.assertIsNotNone(self.client.exists(f"{self.root}/{number}")))
        for result in sets:
            result.get(timeout=DEADLINE_S)
        gets = [self.client.get_async(f"{self.root}/{n}") for n in range(len(values))]
        for result, value in zip(gets, values, strict=True):
            self.assertEqual(result.get(timeout=DEADLINE_S)[0], value)
        self.assertEqual(self.states, [])

    def test_flood(self) -> None:
        """Nothing awaited, far more than may be in flight, beside threads that wait for each answer."""
        flood = [self.client.get_async(self.root) for _ in range(10_000)]
        self.at_once(lambda number: self.client.create(f"{self.root}/{number}") and None)
        for result in flood:
            result.get(timeout=DEADLINE_S)
        self.assertEqual(len(self.client.get_children(self.root)), THREADS)
        self.assertEqual(self.states, [])


class Disturbed:
    """A socket; something happens whenever it is about to be read."""

    def __init__(self, sock: Any, happen: Callable[[], None]) -> None:
        self._sock = sock
        self._happen = happen

    def recv(self, most: int) -> Any:
        self._happen()
        return self._sock.recv(most)

    def close(self) -> None:
        self._sock.close()


class TestLoop(unittest.TestCase):
    def test_one_that_has_ended_is_nowhere(self) -> None:
        """The number of its thread may be that of a thread which sets results, and may call back."""
        loop = loops.acquire(make_handler())
        loop.call(lambda: None)
        loops.release(loop)
        wait_until(lambda: loop.read_sock.fileno() < 0, "its end")
        self.assertIsNone(loop._thread)

    def test_a_call_while_it_takes_the_signal_of_another(self) -> None:
        handler = make_handler()
        loop = loops.acquire(handler)
        self.addCleanup(loops.release, loop)
        calls = Seen()
        meanwhile = [partial(loop.call, partial(calls, "meanwhile"))]
        loop.read_sock = Disturbed(loop.read_sock, lambda: meanwhile.pop()() if meanwhile else None)
        wait_until(lambda: loop._thread is None, "the loop sleeps")
        loop.call(partial(calls, "first"))
        calls.wait(2)
        for number in range(3):
            wait_until(lambda: loop._thread is None, "the loop sleeps")
            loop.call(partial(calls, number))
            calls.wait(3 + number)
        self.assertEqual(sorted(map(str, calls)), ["0", "1", "2", "first", "meanwhile"])
