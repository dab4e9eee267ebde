"""Deferred writes on real servers."""

from __future__ import annotations

import logging
from typing import Any
from unittest import mock

from kazoo.exceptions import ConfigurationError, NodeExistsError, NoNodeError, SessionExpiredError
from kazoo.protocol.states import KazooState

from parkazoo import CrossEnsembleError, DeferredError, ParKazooClient
from parkazoo.protocol.placement import DEFERRED
from parkazoo.structures.deferred import Deferred
from tests.handlers import make_handler
from tests.live.world import DEADLINE_S, LiveTest, wait_until
from tests.relay import Relay

MANY = 2000


class DeferredCase(LiveTest):
    def setUp(self) -> None:
        super().setUp()
        self.client = self.parkazoo()
        self.root = self.new_root(self.client)

    def version(self, path: str) -> int:
        """As another client sees it."""
        return int(self.other.get(path)[1].version)

    @property
    def other(self) -> ParKazooClient:
        if not hasattr(self, "_other"):
            self._other = self.joined()
            self._other.sync(self.root)
        return self._other

    def markers(self) -> list[str]:
        """What is left of lanes, on any ensemble."""
        found: list[str] = []
        for ensemble in range(self.ensembles):
            plain = self.kazoo(ensemble)
            if plain.exists(DEFERRED):
                found += plain.get_children(DEFERRED)
        return found


class TestDeferred(DeferredCase):
    def test_after_the_barrier_all_is_there(self) -> None:
        paths = self.on_each(self.client)
        with self.client.deferred() as later:
            tickets = [later.put(path, b"%d" % number) for number in range(MANY) for path in paths]
        self.assertEqual({ticket.state for ticket in tickets}, {"committed"})
        for path in paths:
            self.assertEqual(self.other.get(path)[0], b"%d" % (MANY - 1))
            self.assertEqual(self.version(path), MANY)  # each once
        self.assertEqual(later.pending, 0)
        wait_until(lambda: not self.markers(), "the markers are gone")

    def test_one_that_is_made_while_the_client_stops(self) -> None:
        """It is of a session that ends: the next session goes on without it."""
        path = self.client.create(f"{self.root}/x", b"old")
        made = []

        def end_deferred() -> None:
            made.append(self.client.deferred())  # by another thread, behind the end of the others

        with mock.patch.object(self.client, "_end_deferred", end_deferred):
            self.client.stop()
        self.client.start(DEADLINE_S)
        self.assertEqual(self.client.get(path)[0], b"old")
        with self.client.deferred() as later:
            later.put(path, b"new")
            self.assertEqual(self.client.get(path)[0], b"new")

    def test_another_one_is_closed_while_it_is_made(self) -> None:
        """The client's own operations see what the new one has pending."""
        path = self.client.create(f"{self.root}/x", b"old")
        first, find = self.client.deferred(), Deferred._find

        def close_first(deferred: Deferred, directory: str) -> int:
            if not deferred.pending:
                first.close()
            return find(deferred, directory)

        with mock.patch.object(Deferred, "_find", close_first):
            second = self.client.deferred(linger_s=60, guard=path)
        ticket = second.put(path, b"new")
        self.assertEqual(self.client.get(path)[0], b"new")
        second.close()
        self.assertEqual(ticket.state, "committed")

    def test_own_operations_see_them(self) -> None:
        path = self.client.create(f"{self.root}/x")
        with self.client.deferred(linger_s=DEADLINE_S) as later:
            for number in range(MANY):
                later.put(path, b"%d" % number)
                if number % 100 == 0:
                    self.assertEqual(self.client.get(path)[0], b"%d" % number)
            later.add(f"{self.root}/y", b"new")
            self.assertEqual(sorted(self.client.get_children(self.root)), ["x", "y"])
            later.drop(f"{self.root}/y")
            self.assertIsNone(self.client.exists(f"{self.root}/y"))

    def test_they_go_by_themselves(self) -> None:
        path = self.client.create(f"{self.root}/x")
        with self.client.deferred() as later:
            ticket = later.put(path, b"new")
            wait_until(lambda: ticket.state == "committed", "it is sent without a barrier")
            self.assertTrue(ticket.wait(0))

    def test_directories_that_are_made_and_deleted(self) -> None:
        for is_native in (True, False):
            parent = self.directory(self.root, is_native)
            with self.subTest(is_native=is_native), self.client.deferred() as later:
                later.add(parent)
                later.barrier(DEADLINE_S)  # its children may be on another ensemble: there is no order between two
                for number in range(100):
                    later.add(f"{parent}/{number}", b"7")
                later.barrier(DEADLINE_S)
                self.assertEqual(len(self.other.get_children(parent)), 100)
                for number in range(100):
                    later.drop(f"{parent}/{number}")
                later.barrier(DEADLINE_S)
                later.drop(parent)
                later.barrier(DEADLINE_S)
                self.assertIsNone(self.other.exists(parent))

    def test_paths_of_many_bytes(self) -> None:
        """A batch has no more than servers take: each letter is three bytes, and ACLs count too."""
        root = self.client.create(self.directory(self.root, True))
        paths = [f"{root}/{number}{'€' * 12_000}" for number in range(20)]
        with self.client.deferred() as later:
            for path in paths:
                later.add(path)
            later.barrier(DEADLINE_S)
            for path in paths:
                later.put(path, b"new")
        self.assertEqual({self.version(path) for path in paths}, {1})
        with self.client.deferred() as later:
            path = f"{root}/{'€' * 20_000}"
            self.assertRaises(ValueError, later.put, path, bytes(1_000_000))
            before = later.put(paths[0], b"newer")
            self.assertRaises(UnicodeEncodeError, later.put, f"{root}/\udc80", b"")
        self.assertEqual(before.state, "committed")

    def closed_behind_the_lane(self, later: Deferred) -> Any:
        """They are closed when a write has found its lane."""
        find_lane = later._lane_of

        def found_late(*about: str) -> Any:
            lane = find_lane(*about)
            later.close(DEADLINE_S)
            return lane

        return mock.patch.object(later, "_lane_of", found_late)

    def test_a_write_comes_as_they_are_closed(self) -> None:
        """By another thread, which has found its lane already: it is told."""
        path = self.client.create(f"{self.root}/x")
        later = self.client.deferred()
        later.put(path, b"first")
        with self.closed_behind_the_lane(later):
            self.assertRaisesRegex(DeferredError, "are closed", later.put, path, b"second")
        self.assertEqual(self.version(path), 1)

    def test_closed_as_the_first_marker_is_made(self) -> None:
        """It takes two requests where there was none before; nothing of it stays."""
        path = self.client.create(f"{self.root}/x")
        plain = self.kazoo(self.home(path).ensemble)
        wait_until(lambda: not self.markers(), "no marker of another test is left")
        if plain.exists(DEFERRED):
            plain.delete(DEFERRED)
        later = self.client.deferred()
        with self.closed_behind_the_lane(later):
            self.assertRaisesRegex(DeferredError, "are closed", later.put, path, b"")
        wait_until(lambda: plain.exists(DEFERRED).cversion >= 2, "a marker has come and gone")
        self.assertEqual(self.markers(), [])

    def test_a_refusal_after_a_time_out(self) -> None:
        """Whenever it comes, the next close tells it."""
        later, timed_out = self.client.deferred(), self.client.handler.timeout_exception
        wrong = later.put(f"{self.root}/missing", b"")

        def time_out(timeout: float | None) -> None:
            wrong.wait(DEADLINE_S)
            raise timed_out("a test wants it")

        with mock.patch.object(later, "barrier", time_out), self.assertRaises(timed_out):
            later.close(0)
        self.assertRaises(DeferredError, later.close, DEADLINE_S)

    def test_stop_and_skip(self) -> None:
        for on_error, rest in (("stop", "dropped"), ("skip", "committed")):
            path = self.client.create(f"{self.root}/{on_error}")
            with self.subTest(on_error):
                later = self.client.deferred(on_error=on_error)  # type: ignore[arg-type]
                before = [later.put(path, b"before") for _ in range(10)]
                wrong = later.put(f"{self.root}/missing", b"")
                behind = [later.put(path, b"behind") for _ in range(10)]
                with self.assertRaises(DeferredError) as caught:
                    later.close(DEADLINE_S)
                self.assertEqual({each.state for each in before}, {"committed"})
                self.assertEqual((wrong.state, type(wrong.error)), ("failed", NoNodeError))
                self.assertEqual({each.state for each in behind}, {rest})
                self.assertEqual(self.version(path), 10 if on_error == "stop" else 20)
                self.assertEqual([each for each, _ in caught.exception.failed], [f"{self.root}/missing"])
                self.assertEqual(len(caught.exception.dropped), 10 if on_error == "stop" else 0)
                self.assertIn(f"{self.root}/missing", str(caught.exception))

    def test_no_more_are_taken(self) -> None:
        path = self.client.create(f"{self.root}/x")
        later = self.client.deferred()
        later.add(path)
        with self.assertRaises(DeferredError) as caught:
            later.barrier(DEADLINE_S)
        self.assertIsInstance(caught.exception.failed[0][1], NodeExistsError)
        with self.assertRaises(DeferredError):
            later.put(path, b"")
        later.close(DEADLINE_S)
        with self.assertRaisesRegex(DeferredError, "closed"):
            later.put(path, b"")

    def test_guard(self) -> None:
        path = self.client.create(f"{self.root}/x")
        guard = self.client.create(f"{self.root}/guard")
        elsewhere = next(each for each in self.on_each(self.client) if self.home(each)[0] != self.home(path)[0])
        later = self.client.deferred(guard=guard)
        with self.assertRaisesRegex(CrossEnsembleError, "must be on the guard's ensemble"):
            later.put(elsewhere, b"")
        later.put(path, b"1")
        later.barrier(DEADLINE_S)
        self.other.delete(guard)
        ticket = later.put(path, b"2")
        self.assertTrue(ticket.wait(DEADLINE_S))
        self.assertEqual((ticket.state, type(ticket.error)), ("dropped", NoNodeError))
        with self.assertRaises(DeferredError):
            later.close(DEADLINE_S)
        self.assertEqual(self.version(path), 1)

    def test_limits(self) -> None:
        path = self.client.create(f"{self.root}/x")
        with self.client.deferred(max_pending=10) as later:
            for number in range(MANY):
                later.put(path, b"%d" % number)
                self.assertLessEqual(later.pending, 10)
        self.assertEqual(self.version(path), MANY)
        with self.client.deferred() as later:
            with self.assertRaises(ValueError):
                later.put(path, bytes(1 << 20))
            for _ in range(5):
                later.put(path, bytes(900_000))
            with self.assertRaises(TypeError):
                later.put(path, "text")  # type: ignore[arg-type]
        self.assertEqual(self.version(path), MANY + 5)
        wrong: list[Any] = [
            (ValueError, "max_pending", 0),
            (TypeError, "max_pending", "5"),
            (ValueError, "linger_s", -1),
            (TypeError, "linger_s", "5"),
            (ValueError, "on_error", "go on"),
            (TypeError, "guard", 5),
        ]
        for kind, name, value in wrong:
            with self.assertRaisesRegex(kind, name):
                self.client.deferred(**{name: value})
        self.assertRaises(ConfigurationError, self.parkazoo(consistency="total").deferred)

    def test_an_error_that_was_not_fetched_is_logged(self) -> None:
        later = self.client.deferred()
        later.put(f"{self.root}/missing", b"")
        with self.assertLogs(self.client.logger, "ERROR") as logged:
            self.client.stop()
        self.assertIn(f"{self.root}/missing", "".join(logged.output))

    def test_stop_is_a_barrier(self) -> None:
        path = self.client.create(f"{self.root}/x")
        later = self.client.deferred(linger_s=DEADLINE_S)
        tickets = [later.put(path, b"") for _ in range(MANY)]
        self.client.stop()
        self.assertEqual({ticket.state for ticket in tickets}, {"committed"})
        self.assertEqual(self.version(path), MANY)
        self.client.start(DEADLINE_S)
        with self.client.deferred() as later:
            later.put(path, b"")
        self.assertEqual(self.version(path), MANY + 1)


class TestLosses(DeferredCase):
    """One ensemble is reached by a relay, which cuts the connection."""

    ensembles = 1

    def setUp(self) -> None:
        super().setUp()
        self.relay = Relay(self.cluster.hosts)
        self.addCleanup(self.relay.stop)
        self.path = self.client.create(f"{self.root}/x")

    def test_connections_that_are_cut(self) -> None:
        client = self.parkazoo(hosts=self.relay.address)
        tickets: list[Any] = []
        with client.deferred() as later:
            for _ in range(20):
                tickets += [later.put(self.path, b"%d" % len(tickets)) for _ in range(MANY // 10)]
                self.relay.cut()
                tickets += [later.put(self.path, b"%d" % len(tickets)) for _ in range(MANY // 10)]
                value, _ = client.retry(client.get, self.path)
                self.assertEqual(value, tickets[-1].request.data)  # its own read
        self.assertEqual({ticket.state for ticket in tickets}, {"committed"})
        self.assertEqual(self.version(self.path), len(tickets))  # each once
        self.assertEqual(self.other.get(self.path)[0], tickets[-1].request.data)

    def test_a_get_before_the_lanes_hear_of_a_loss(self) -> None:
        """The next connection takes what was queued: the get must not be in front of what was lost."""
        client = self.parkazoo(hosts=self.relay.address)
        got: list[Any] = []
        note = logging.Handler(logging.WARNING)
        note.emit = lambda record: got.append(client.get_async(self.path)) if not got else None  # type: ignore[method-assign]
        with client.deferred() as later:
            later.put(self.path, b"first").wait(DEADLINE_S)
            self.relay.freeze()
            later.put(self.path, b"second")
            (member,) = client.members.values()
            wait_until(lambda: member.has_unanswered, "the batch is under way")
            member.logger.addHandler(note)
            self.addCleanup(member.logger.removeHandler, note)
            self.relay.cut()
            self.relay.thaw()
            wait_until(lambda: got, "the loss is logged")
            self.assertEqual(got[0].get(timeout=DEADLINE_S)[0], b"second")

    def test_expiry(self) -> None:
        client = self.parkazoo(hosts=self.relay.address, timeout=4.0)
        client.create(f"{self.root}/ephemeral", ephemeral=True)
        states: list[str] = []
        client.add_listener(states.append)
        later = client.deferred()
        later.put(self.path, b"first")
        later.barrier(DEADLINE_S)
        self.relay.freeze()
        tickets = [later.put(self.path, b"%d" % number) for number in range(1000)]
        self.relay.refuse()
        self.relay.thaw()
        wait_until(lambda: not self.other.exists(f"{self.root}/ephemeral"), "the session has expired")
        self.relay.admit()
        wait_until(lambda: KazooState.LOST in states, "the client hears of it")
        for ticket in tickets:
            self.assertTrue(ticket.wait(DEADLINE_S))
        done = [ticket.state for ticket in tickets].count("committed")
        self.assertEqual([ticket.state for ticket in tickets], ["committed"] * done + ["dropped"] * (1000 - done))
        self.assertEqual(self.version(self.path), 1 + done)
        self.assertEqual({type(ticket.error) for ticket in tickets[done:]}, {SessionExpiredError})
        with self.assertRaises(DeferredError):
            later.put(self.path, b"")
        with self.assertRaises(DeferredError):
            later.close(DEADLINE_S)
        with client.deferred(guard=None) as again:
            again.put(self.path, b"again")
        self.assertEqual(self.version(self.path), 2 + done)

    def test_waits_that_time_out_leave_nothing(self) -> None:
        client = self.parkazoo(hosts=self.relay.address)
        with client.deferred() as later:
            later.put(self.path, b"first").wait(DEADLINE_S)
            self.relay.freeze()
            ticket = later.put(self.path, b"second")
            are_known = [ticket.wait(0.01) for _ in range(3)]
            left = list(later._waiters)
            self.relay.thaw()
        self.assertEqual((are_known, left), ([False] * 3, []))
        self.assertEqual(ticket.state, "committed")

    def test_a_block_that_is_interrupted(self) -> None:
        """It waits for the session timeout at most, and says what nobody knows."""
        client = self.parkazoo(hosts=self.relay.address, timeout=4.0)
        logged = self.assertLogs("parkazoo", "ERROR")
        with logged as logs, self.assertRaises(KeyboardInterrupt), client.deferred() as later:
            later.put(self.path, b"first").wait(DEADLINE_S)
            self.relay.freeze()
            ticket = later.put(self.path, b"second")
            raise KeyboardInterrupt
        self.assertEqual(ticket.state, "unknown")
        self.assertIn("1 unknown: ", "".join(logs.output))
        self.relay.thaw()
        wait_until(lambda: not self.markers(), "the marker is gone")

    def test_a_connection_that_is_cut_at_the_end(self) -> None:
        """The marker's delete is lost, and sent again."""
        client = self.parkazoo(hosts=self.relay.address)
        with client.deferred() as later:
            later.put(self.path, b"")
            later.barrier(DEADLINE_S)
            self.relay.freeze()
        self.assertEqual(len(self.markers()), 1)
        self.relay.cut()
        self.relay.thaw()
        wait_until(lambda: not self.markers(), "the marker is gone")

    def test_a_server_that_is_away_when_the_client_stops(self) -> None:
        client = self.parkazoo(hosts=self.relay.address, timeout=4.0)
        later = client.deferred()
        later.put(self.path, b"first")
        later.barrier(DEADLINE_S)
        self.relay.refuse()
        ticket = later.put(self.path, b"second")
        with self.assertRaises(client.handler.timeout_exception):
            later.barrier(0.1)
        client.stop()
        self.assertNotIn(ticket.state, ("pending", "failed"))
        self.assertEqual(self.version(self.path), 1 + (ticket.state == "committed"))

    def test_a_handler_of_the_run(self) -> None:
        client = self.parkazoo(handler=make_handler())
        later = client.deferred()
        workers = [client.handler.spawn(later.put, self.path, b"") for _ in range(10)]
        wait_until(lambda: later.pending == 0 and self.version(self.path) == 10, "all threads have written")
        later.close(DEADLINE_S)
        self.assertEqual(len(workers), 10)
