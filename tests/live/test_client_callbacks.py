"""Listeners, completion callbacks and watches that wait for what the client does: it works, or raises at once."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from kazoo.exceptions import ConnectionClosedError
from kazoo.protocol.states import KazooState

from parkazoo.kazoo_private import SESSION_EXPIRED
from tests.handlers import handler_name
from tests.live.world import DEADLINE_S, LiveTest, Seen, drop_connections, wait_until

CONNECTED, SUSPENDED, LOST = KazooState.CONNECTED, KazooState.SUSPENDED, KazooState.LOST


class CallbackTest(LiveTest):
    def setUp(self) -> None:
        super().setUp()
        self.client = self.parkazoo()
        self.root = self.new_root(self.client)
        self.client.create(f"{self.root}/e", ephemeral=True)  # it has something to lose
        self.outcomes = Seen()

    def drop(self) -> None:
        drop_connections(self.client)

    def expire(self) -> None:
        self.client._call(SESSION_EXPIRED, None)

    def blocking(self) -> dict[str, Callable[[], Any]]:
        """Calls of every kind that wait."""
        client, root = self.client, self.root
        return {
            "get": lambda: client.get(root),
            "exists": lambda: client.exists(root),
            "create": lambda: client.create(f"{root}/n-", sequence=True),
            "makepath": lambda: client.create(f"{root}/a/b/c/n-", sequence=True, makepath=True),
            "ensure_path": lambda: client.ensure_path(f"{root}/d/e/f"),
            "children": lambda: client.get_children(root),
            "retry": lambda: client.retry(client.set, root, b""),
            "sync": lambda: client.sync(root),
            "transaction": lambda: client.transaction().commit(),
            "lock": self.lock,
        }

    def lock(self) -> None:
        with self.client.Lock(f"{self.root}/lock"):
            pass

    def try_all(self, when: str) -> None:
        for name, call in self.blocking().items():
            self.outcomes((when, name, self.raises_as(call)))

    def check_client(self) -> None:
        wait_until(lambda: self.client.connected, "connected")
        self.assertEqual(self.client.create(f"{self.root}/after"), f"{self.root}/after")


class TestListeners(CallbackTest):
    def test_blocking_calls(self) -> None:
        """kazoo's issue 405: there a listener that waits for the client waits for itself."""
        self.client.add_listener(self.try_all)
        count = len(self.blocking())
        self.drop()
        self.outcomes.wait(2 * count)
        self.assertEqual([each[0] for each in self.outcomes], [SUSPENDED] * count + [CONNECTED] * count)
        self.assertEqual({each[2] for each in self.outcomes[count:]}, {None})
        self.expire()
        self.outcomes.wait(4 * count)
        wait_until(lambda: self.outcomes[-1][:2] == (CONNECTED, "lock"), "connected")
        self.assertEqual({each[2] for each in self.outcomes[-count:]}, {None})
        self.client.remove_listener(self.try_all)
        self.check_client()

    def test_at_the_stop(self) -> None:
        self.client.add_listener(self.try_all)
        self.client.stop()
        self.outcomes.wait(len(self.blocking()))
        self.assertEqual({each[2] for each in self.outcomes}, {ConnectionClosedError})
        self.client.remove_listener(self.try_all)
        self.client.start(DEADLINE_S)
        self.check_client()

    def test_one_that_exits(self) -> None:
        """At LOST, as many do: not a word on that at a stop; a line at any other time, when nothing ends by it."""

        def exits(state: str) -> None:
            if state == LOST:
                sys.exit()

        self.client.add_listener(exits)
        with self.assertLogs(self.client.logger, "ERROR") as logs:
            self.expire()
            wait_until(lambda: "Error in connection state listener" in logs.output[0], "a line in the log")
        with self.assertNoLogs(self.client.logger, "ERROR"):
            self.client.stop()
        self.client.remove_listener(exits)

    def test_two_threads_at_the_stop(self) -> None:
        """The loop and the thread in stop() both say LOST: listeners hear it once."""
        states, client, lock = Seen(), self.client, self.client.listeners.lock

        class Late:
            """Another thread is faster."""

            is_late = True

            def __enter__(self) -> None:
                if self.is_late:
                    self.is_late = False
                    client._make_state_change(LOST)
                lock.acquire()

            def __exit__(self, *error: object) -> None:
                lock.release()

        client.add_listener(states)
        client.listeners.lock = Late()
        client._make_state_change(LOST)
        client.stop()
        self.assertEqual([*states], [LOST])

    def test_at_the_start(self) -> None:
        self.client.stop()
        self.client.add_listener(self.try_all)
        self.client.start(DEADLINE_S)
        self.outcomes.wait(len(self.blocking()))
        self.assertEqual({each[2] for each in self.outcomes}, {None})
        self.check_client()

    def test_stop(self) -> None:
        def listener(state: str) -> None:
            self.outcomes(state)
            if state == SUSPENDED:
                self.client.stop()
                self.outcomes("stopped")

        self.client.add_listener(listener)
        self.drop()
        wait_until(lambda: LOST in self.outcomes, "the end")
        self.assertEqual(self.outcomes[:2], [SUSPENDED, "stopped"])
        self.assertIn(self.outcomes[2:], ([LOST], [CONNECTED, LOST]))  # it may have been back before it was told
        self.client.remove_listener(listener)
        self.client.start(DEADLINE_S)
        self.check_client()

    def test_restart(self) -> None:
        first = self.client.client_id

        def listener(state: str) -> None:
            self.outcomes(state)
            if self.outcomes == [SUSPENDED]:
                self.client.restart()
                self.outcomes("restarted")

        self.client.add_listener(listener)
        self.drop()
        wait_until(lambda: self.outcomes[-2:] == [LOST, CONNECTED], "it begins anew")
        self.assertEqual(self.outcomes[:2], [SUSPENDED, "restarted"])
        self.assertIn(self.outcomes[2:-2], ([], [CONNECTED]))  # it may have been back before it was told
        self.assertNotEqual(self.client.client_id, first)
        self.check_client()

    def test_an_earlier_request(self) -> None:
        """One that waits for what was asked before does not use the client: it is waited for only so long."""
        pending = Seen()
        is_suspended, may_go_on = (self.client.handler.event_object() for _ in range(2))

        def listener(state: str) -> None:
            if state == SUSPENDED:
                is_suspended.set()
                may_go_on.wait(DEADLINE_S)
            else:
                pending[0].wait(DEADLINE_S)
                self.outcomes(pending[0].ready())

        self.client.add_listener(listener)
        self.drop()
        self.assertTrue(is_suspended.wait(DEADLINE_S))
        pending(self.client.get_async(self.root))
        may_go_on.set()
        self.outcomes.wait()
        self.assertEqual(self.outcomes, [True])
        self.client.remove_listener(listener)
        self.check_client()

    def test_they_know_first(self) -> None:
        """As with kazoo: no answer of a new connection or session before listeners know of it."""
        told = Seen()

        def listener(state: str) -> None:
            self.client.handler.sleep_func(0.05)
            told(state)

        self.client.add_listener(listener)
        for number in range(5):
            old = self.client.client_id[0]
            self.expire()
            wait_until(lambda o=old: self.client.client_id[0] != o, "another session")
            wait_until(lambda: self.client.get(self.root), "an answer")
            self.assertGreater(told.count(LOST), number)

    def test_failing_and_leaving(self) -> None:
        """One that raises does not keep the others from knowing; one that returns True is not called again."""
        once = Seen()

        def fail(state: str) -> None:
            raise ValueError(state)

        def leave(state: str) -> bool:
            once(state)
            return True

        for listener in (fail, leave, self.outcomes):
            self.client.add_listener(listener)
        self.drop()
        self.outcomes.wait(2)
        self.assertEqual(self.outcomes, [SUSPENDED, CONNECTED])
        self.assertEqual(once, [SUSPENDED])

    def test_no_listener_is_waited_for_in_a_request(self) -> None:
        """However long one takes, the session lives, and requests are answered."""
        self.client.stop()
        client = self.parkazoo()
        client.create(f"{self.root}/held", ephemeral=True)
        number = client.client_id[0]
        may_end = client.handler.event_object()
        states = Seen()

        def listener(state: str) -> None:
            states(state)
            may_end.wait(DEADLINE_S)

        client.add_listener(listener)
        began = time.monotonic()
        drop_connections(client)
        self.assertEqual(states.wait(), [SUSPENDED])
        client.retry(client.get, self.root)
        wait_until(lambda: client.connected, "connected")
        self.assertLess(time.monotonic() - began, DEADLINE_S)
        self.assertEqual(client.client_id[0], number)
        may_end.set()


def outcome_of(call: Callable[[], Any]) -> str:
    """Also of what gevent raises, which is not an Exception."""
    try:
        call()
    except BaseException as error:
        return type(error).__name__
    return "done"


class TestCompletions(CallbackTest):
    def test_blocking_calls(self) -> None:
        """gevent refuses to wait in its loop, where it calls them, and says so."""

        def called_back(result: Any) -> None:
            for name, call in self.blocking().items():
                self.outcomes((name, outcome_of(call)))

        self.client.get_async(self.root).rawlink(called_back)
        names = [*self.blocking()]
        self.outcomes.wait(len(names))
        expected = "done" if handler_name() == "threading" else "BlockingSwitchOutError"
        self.assertEqual(self.outcomes, [(name, expected) for name in names])
        self.check_client()

    def test_after_a_create(self) -> None:
        """In the callback of a create one may wait for another create."""

        def called_back(result: Any) -> None:
            call = self.client.create if handler_name() == "threading" else self.client.create_async
            self.outcomes(call(f"{result.get()}/below"))

        self.client.create_async(f"{self.root}/x/y", makepath=True).rawlink(called_back)
        self.outcomes.wait()
        wait_until(lambda: self.client.exists(f"{self.root}/x/y/below"), "the second create")


class TestWatches(CallbackTest):
    def test_blocking_calls(self) -> None:
        self.client.get(self.root, watch=lambda event: self.try_all(event.type))
        self.client.set(self.root, b"")
        self.outcomes.wait(len(self.blocking()))
        self.assertEqual({each[2] for each in self.outcomes}, {None})
        self.check_client()

    def test_stop(self) -> None:
        """kazoo's issue 426: its handler waits for the watch that waits for it, or fails half way."""

        def watch(event: Any) -> None:
            self.client.stop()
            self.outcomes("stopped")
            self.outcomes(self.raises_as(self.client.start))

        self.client.get(self.root, watch=watch)
        self.client.set(self.root, b"")
        self.outcomes.wait(2)
        self.assertEqual(self.outcomes, ["stopped", RuntimeError])
        self.assertFalse(self.client.connected)
        wait_until(lambda: not self.client.handler.running, "the handler's end")
        self.client.start(DEADLINE_S)
        self.check_client()
