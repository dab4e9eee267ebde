"""What a client refuses that stays with one ensemble."""

from __future__ import annotations

import socket
import threading
import unittest
from typing import Any

from kazoo.exceptions import AuthFailedError, ConnectionClosedError, ConnectionLoss, SessionExpiredError
from kazoo.protocol.states import KeeperState

from parkazoo.admin.steadfast_client import MOST_QUEUED, SteadfastClient
from tests.live.world import DEADLINE_S, wait_until

FIRST, SECOND = 5, 6
MANY = 1000  # more than kazoo's loop can be woken for while it is away


class TestSteadfastClient(unittest.TestCase):
    def setUp(self) -> None:
        self.client = SteadfastClient()
        self.compare(FIRST, b"a")

    def compare(self, session: int, shown: object) -> None:
        """Servers have answered the look of a session."""
        answer = self.client.handler.async_result()
        if isinstance(shown, Exception):
            answer.set_exception(shown)
        else:
            answer.set((shown, None))
        self.client._compare(session, answer)

    def test_kazoo_says_why_a_client_is_over(self) -> None:
        for state, error in (
            (KeeperState.AUTH_FAILED, AuthFailedError),
            (KeeperState.CLOSED, ConnectionClosedError),
            (KeeperState.EXPIRED_SESSION, SessionExpiredError),
        ):
            self.client._state = state
            self.assertIsInstance(self.client.get_async("/x").exception, error)

    def test_another_session(self) -> None:
        self.client._state, self.client._session_id = KeeperState.CONNECTED, SECOND
        self.assertIsInstance(self.client.get_async("/x").exception, SessionExpiredError)
        self.compare(SECOND, b"a")
        self.assertEqual((self.client._usable, self.client.is_elsewhere), (SECOND, False))

    def test_others(self) -> None:
        self.compare(SECOND, b"b")
        self.assertEqual((self.client._usable, self.client.is_elsewhere), (FIRST, True))

    def test_what_shows_nothing(self) -> None:
        for error in (ConnectionLoss(), SessionExpiredError(), AuthFailedError()):
            self.compare(SECOND, error)
            self.assertEqual((self.client._usable, self.client.is_elsewhere), (FIRST, False))

    def ask(self, times: int) -> list[Any]:
        return [self.client.get_async("/x") for _ in range(times)]

    def wakes(self) -> None:
        """The client has kazoo's sockets, and nobody reads."""
        woken, wakes = socket.socketpair()
        self.addCleanup(wakes.close)
        self.addCleanup(woken.close)
        self.client._connection._write_sock, self.client._connection._read_sock = wakes, woken

    def test_connections_that_are_lost_one_after_the_other(self) -> None:
        """What waits is bounded, what is too much fails, and what is lost leaves nothing that fills the socket."""
        self.wakes()
        self.client._state, self.client._session_id = KeeperState.CONNECTED, FIRST
        for _ in range(MANY // MOST_QUEUED):
            for state in (KeeperState.CONNECTING, KeeperState.CONNECTED):
                loop = threading.Thread(target=self.client._session_callback, args=(state,), daemon=True)
                loop.start()
                loop.join(DEADLINE_S)
                self.assertFalse(loop.is_alive())
                if state == KeeperState.CONNECTING:
                    results: list[Any] = []
                    asking = threading.Thread(
                        target=lambda into=results: into.extend(self.ask(2 * MOST_QUEUED)), daemon=True
                    )
                    asking.start()
                    asking.join(DEADLINE_S)
                    lost = [each for each in results if isinstance(each.exception, ConnectionLoss)]
                    self.assertEqual((len(results), len(lost)), (2 * MOST_QUEUED, MOST_QUEUED))

    def test_the_loop_never_waits_for_a_caller(self) -> None:
        """Else neither goes on: the caller waits until the loop reads what wakes it."""
        self.wakes()
        self.client._state, self.client._session_id = KeeperState.CONNECTED, FIRST
        asking = threading.Thread(target=self.ask, args=(MANY,), daemon=True)
        asking.start()
        wait_until(lambda: len(self.client._queue) >= MOST_QUEUED, "it asks")
        loop = threading.Thread(
            target=self.client._session_callback, args=(KeeperState.EXPIRED_SESSION,), daemon=True
        )
        loop.start()
        loop.join(DEADLINE_S)
        asking.join(DEADLINE_S)
        self.assertFalse(loop.is_alive() or asking.is_alive())
