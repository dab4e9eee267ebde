"""client.once, and the Counter and Queue that stand on it: a write is done once, whatever its connection does."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest import mock

from kazoo.exceptions import (
    BadVersionError,
    ConnectionClosedError,
    ConnectionLoss,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    SessionExpiredError,
)
from kazoo.recipe.counter import Counter as KazooCounter
from kazoo.recipe.queue import Queue as KazooQueue
from kazoo.retry import KazooRetry

from parkazoo import CrossEnsembleError, RequestTooLargeError
from parkazoo.fsck import check
from parkazoo.kazoo_private import CONNECTION_DROP, Create, Delete, SetData, Transaction
from parkazoo.protocol.once import may_be_done
from parkazoo.protocol.placement import MARKER, ROOT, split
from parkazoo.protocol.registration import format_session
from parkazoo.structures.policies import Always
from parkazoo.wire.member import Member
from tests.live.world import LiveTest, wait_until
from tests.where_is import where_is

WRITES = (Create.type, Delete.type, SetData.type)
WORKERS, COUNT = 4, 25
MOST_PAUSE_S = 0.03


class LostAnswer:
    """The reply to a request whose answer is lost."""

    def __init__(self, reply: Any, when_lost: Callable[[], None]) -> None:
        self._reply = reply
        self._when_lost = when_lost

    def set(self, value: Any = None) -> None:
        self._when_lost()
        self._reply.set_exception(ConnectionLoss())

    set_exception = set


def writes(request: Any, name: str) -> bool:
    """Whether it writes a znode whose name begins so, perhaps among others."""
    parts = request.operations if request.type == Transaction.type else [request]
    return any(each.type in WRITES and split(each.path)[1].startswith(name) for each in parts)


@contextmanager
def lost_answer(path: str, when_lost: Callable[[], None] = lambda: None) -> Iterator[None]:
    """The answer to the next write of a znode, or of one whose name has more, is lost."""
    lost: list[Any] = []
    submit = Member.submit

    def losing(member: Member, request: Any, reply: Any) -> None:
        if not lost and reply is not None and writes(request, split(path)[1]):
            lost.append(request)
            reply = LostAnswer(reply, when_lost)
        submit(member, request, reply)

    with mock.patch.object(Member, "submit", losing):
        yield
    if not lost:
        raise AssertionError("nothing was lost")


class HeldAnswers:
    """The answers to writes of some names are held until they are released."""

    def __init__(self, *names: str) -> None:
        self._names = names
        self._answers: list[Callable[[], None]] = []
        self._is_open = False

    def __len__(self) -> int:
        return len(self._answers)

    def __enter__(self) -> HeldAnswers:
        submit = Member.submit

        def holding(member: Member, request: Any, reply: Any) -> None:
            if not self._is_open and reply is not None and any(writes(request, name) for name in self._names):
                reply = HeldAnswer(self._answers, reply)
            submit(member, request, reply)

        self._patch = mock.patch.object(Member, "submit", holding)
        self._patch.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._patch.stop()
        self.release()

    def release(self) -> None:
        """Give all that are held, in their order; nothing is held from now on."""
        self._is_open = True
        while self._answers:
            self._answers.pop(0)()


class HeldAnswer:
    """The reply to a request whose answer is held."""

    def __init__(self, held: list[Callable[[], None]], reply: Any) -> None:
        self._held = held
        self._reply = reply

    def set(self, value: Any = None) -> None:
        self._held.append(partial(self._reply.set, value))

    def set_exception(self, exception: Exception) -> None:
        self._held.append(partial(self._reply.set_exception, exception))


class TimeIsUp(BaseException):
    """What ends a wait, as gevent.Timeout or a signal handler's exception."""


class Impatient:
    """An async result whose wait ends at once."""

    def __init__(self, result: Any) -> None:
        self.set, self.set_exception = result.set, result.set_exception

    def get(self) -> Any:
        raise TimeIsUp


class OnceTest(LiveTest):
    def setUp(self) -> None:
        super().setUp()
        self.client = self.parkazoo()
        self.root = self.new_root(self.client)
        self.places = self.on_each(self.client)

    def children(self, path: str) -> list[str]:
        return sorted(self.client.retry(self.client.get_children, path))


class TestOnce(OnceTest):
    def test_as_the_calls(self) -> None:
        zk, path = self.client, f"{self.root}/a/b"
        self.assertEqual(zk.once(zk.create, path, b"1", makepath=True), path)
        self.assertEqual(zk.once(zk.create, path=f"{path}/n-", sequence=True), f"{path}/n-0000000000")
        self.assertEqual(zk.once(zk.create, f"{path}/e", None, ephemeral=True), f"{path}/e")
        self.assertEqual(zk.once(zk.set, path, b"2", version=0), zk.exists(path))
        self.assertIs(zk.once(zk.delete, f"{path}/e", version=0), True)
        transaction = zk.transaction()
        transaction.create(f"{path}/n-", sequence=True)
        transaction.delete(f"{path}/n-0000000000")
        self.assertEqual(zk.once(transaction.commit), [f"{path}/n-0000000002", True])
        self.assertTrue(transaction.committed)
        self.assertRaises(ValueError, zk.once, transaction.commit)
        self.assertEqual(zk.get(path)[0], b"2")

    def test_errors_are_those_of_the_calls(self) -> None:
        zk = self.client
        for error, call, *args in (
            (BadVersionError, zk.set, self.root, b"", 7),
            (NodeExistsError, zk.create, self.root),
            (NoNodeError, zk.create, f"{self.root}/no/x"),
            (NoNodeError, zk.set, f"{self.root}/no", b""),
            (NoNodeError, zk.delete, f"{self.root}/no"),
            (NotEmptyError, zk.delete, self.root),
        ):
            with self.subTest(call), self.assertRaisesRegex(error, args[0]):  # type: ignore[arg-type]
                zk.once(call, *args)  # type: ignore[arg-type]
        apart = zk.transaction()
        for path in self.places:
            apart.set_data(path, b"")
        self.assertRaises(CrossEnsembleError, zk.once, apart.commit)

    def test_what_cannot_be_done_once(self) -> None:
        zk, other = self.client, self.parkazoo()
        for call, args, options, told in (
            (zk.get, (self.root,), {}, "once takes client.create"),
            (other.set, (self.root, b""), {}, "of the same client"),
            (other.transaction().commit, (), {}, "of the same client"),
            (zk.create_async, (self.root,), {}, "once takes"),
            (print, (), {}, "once takes"),
            (zk.create, (self.root,), {"include_data": True}, "exists"),
            (zk.delete, (self.root,), {"recursive": True}, "client.retry"),
            (zk.set, (self.root,), {}, "value"),
            (zk.set, (self.root, "text"), {}, "byte string"),
            (zk.create, (5,), {}, "string expected"),
        ):
            with self.subTest(call), self.assertRaisesRegex(TypeError, told):
                zk.once(call, *args, **options)  # type: ignore[arg-type]

    def test_below_a_chroot(self) -> None:
        zk = self.parkazoo(self.root)
        self.assertEqual(zk.once(zk.create, "/a/n-", makepath=True, sequence=True), "/a/n-0000000000")
        with lost_answer("/a/n"):
            self.assertEqual(zk.once(zk.create, "/a/n-", sequence=True), "/a/n-0000000001")
        with lost_answer("/a/x"):
            self.assertEqual(zk.once(zk.create, "/a/x"), "/a/x")

    def test_an_answer_is_lost(self) -> None:
        zk = self.client
        for place in self.places:
            with self.subTest(place):
                number = zk.exists(place.rpartition("/")[0]).cversion
                self.lose(place, lambda place=place: zk.once(zk.create, f"{place}-", sequence=True))
                self.assertEqual(zk.exists(place.rpartition("/")[0]).cversion, number + 1)
                self.lose(place, lambda place=place: zk.once(zk.set, place, b"new", 0))
                self.assertEqual(zk.get(place)[1].version, 1)
                self.lose(place, lambda place=place: zk.once(zk.delete, place, 1))
                self.assertIsNone(zk.exists(place))

    def lose(self, place: str, write: Callable[[], Any]) -> None:
        with lost_answer(place):
            write()

    def test_the_session_ends(self) -> None:
        """Nobody knows then. The client is not LOST, for it has no ephemeral of the user's."""
        zk, place, states = self.client, self.places[1], list[str]()
        zk.add_listener(states.append)
        member = self.member(zk, 1)
        session = member.client_id
        told = f"^{place}: .* may have been done"

        def pause(seconds: float) -> None:
            wait_until(lambda: zk.connected and member.client_id != session, "a new session")

        with (
            mock.patch.object(zk.handler, "sleep_func", pause),
            lost_answer(place, lambda: member.renew("a test wants it")),
            self.assertRaisesRegex(SessionExpiredError, told) as raised,
        ):
            zk.once(zk.set, place, b"new")
        self.assertTrue(may_be_done(raised.exception))
        self.assertNotIn("LOST", states)
        zk.once(zk.set, place, b"newer", 1)

    def test_more_than_servers_take(self) -> None:
        """They end the connection. It was not done, and a later write needs no other marker."""
        for number in range(3):
            with self.assertRaisesRegex(RequestTooLargeError, rf"^{self.root} .*: 1,.* bytes .*jute"):
                self.client.once(self.client.set, self.root, bytes(1 << 20))
            self.assertEqual(self.client.once(self.client.set, self.root, bytes(1_000_000)).version, number + 1)
        with self.assertRaisesRegex(RequestTooLargeError, ": 1,.* bytes"):  # 600,000 letters
            self.client.once(self.client.create, f"{self.root}/{chr(0x6F22) * 600_000}")
        ensemble = where_is(self.placement, self.root).home.ensemble
        markers = [name for name in self.kazoo(ensemble).get_children(ROOT) if self.session_of(ensemble) in name]
        self.assertEqual(len(markers), 1)

    def session_of(self, ensemble: int) -> str:
        return format_session(self.member(self.client, ensemble).client_id[0])

    def test_a_closed_client(self) -> None:
        zk = self.parkazoo()
        zk.stop()
        with self.assertRaises(ConnectionClosedError) as raised:
            zk.once(zk.set, self.root, b"")
        self.assertNotIn("may have been", str(raised.exception))

    def test_nothing_is_left_and_fsck_finds_nothing(self) -> None:
        zk = self.parkazoo()
        zk.once(zk.set, self.places[0], b"")
        names = self.kazoo(0).get_children(ROOT)
        found = check(self.cluster.hosts).tallies.values()  # other tests leave things there
        self.assertEqual([each for tally in found for each in tally.paths if MARKER in each.path], [])
        session = format_session(self.member(zk, 0).client_id[0])
        self.assertTrue(any(session in name for name in names))
        zk.stop()
        self.assertFalse(any(session in name for name in self.kazoo(0).get_children(ROOT)))


class TestInterrupted(OnceTest):
    """A caller is interrupted, and its write goes on without it."""

    def setUp(self) -> None:
        super().setUp()
        self.order = self.client._session.driver.order

    def once(self, *arguments: Any) -> Any:
        """On a thread or greenlet of its own; an async result."""
        result = self.client.handler.async_result()

        def write() -> None:
            try:
                result.set(self.client.once(*arguments))
            except BaseException as error:
                result.set(error)

        self.client.handler.spawn(write)
        return result

    def interrupt(self, *arguments: Any) -> None:
        """Issue a write, and be interrupted while it is waited for."""
        make = self.client.handler.async_result
        with (
            mock.patch.object(self.client.handler, "async_result", lambda: Impatient(make())),
            self.assertRaises(TimeIsUp),
        ):
            self.client.once(*arguments)

    def at_once(self, *writes: tuple[Any, ...]) -> None:
        """Writes that are under way together, so that each has a marker."""
        names = [split(path)[1] for _, path, *_ in writes]
        with HeldAnswers(*names) as held:
            results = [self.once(*each) for each in writes]
            wait_until(lambda: len(held) == len(writes), "all are under way")
        for result in results:
            self.assertNotIsInstance(result.get(), Exception)

    def markers(self) -> list[str]:
        session = format_session(self.member(self.client, 0).client_id[0])
        return [name for name in self.kazoo(0).get_children(ROOT) if MARKER in name and session in name]

    def test_its_marker_serves_no_other_write(self) -> None:
        """Two writes are under way, two wait behind them, and the caller of the first of these is interrupted."""
        zk, (p, q, r) = self.client, [f"{split(self.places[0])[0]}/{name}" for name in "pqr"]
        for path in (p, q, r):
            zk.create(path)
        self.at_once(*[(zk.set, path, b"") for path in (p, q, r)])
        with HeldAnswers("p", "q") as held:
            results = [self.once(zk.set, path, b"1") for path in (p, q)]
            wait_until(lambda: len(held) == 2, "two are under way")
            self.interrupt(zk.set, p, b"2")
            wait_until(lambda: self.order.blocked == 1, "it waits")
            results.append(self.once(zk.set, q, b"3"))
            wait_until(lambda: self.order.blocked == 2, "the other one waits")
        stats = [result.get() for result in results]
        self.assertEqual([stat.version for stat in stats], [2, 2, 3])
        self.assertEqual([zk.get(path)[0] for path in (p, q)], [b"2", b"3"])

    def test_a_dictionary_swaps_once(self) -> None:
        """The same by a DistributedDict's compare_and_set."""
        zk, path = self.client, f"{self.root}/values"
        values = zk.DistributedDict(path, Always())  # no watch reads meanwhile
        values.update(p=0, q=0, r=0)
        self.at_once(*[(zk.set, f"{path}/{key}", b"1") for key in "pqr"])
        swapped: list[bool] = []
        with HeldAnswers("p", "q") as held:
            for key in "pq":
                self.once(zk.set, f"{path}/{key}", b"2")
            wait_until(lambda: len(held) == 2, "two are under way")
            self.interrupt(zk.set, f"{path}/p", b"3")
            wait_until(lambda: self.order.blocked == 1, "it waits")
            zk.handler.spawn(lambda: swapped.append(values.compare_and_set("q", 2, 3)))
            wait_until(lambda: self.order.blocked == 2, "the other one waits")
        wait_until(lambda: swapped, "the answer")
        self.assertEqual(swapped, [True])
        self.assertEqual((zk.get(f"{path}/q")[0], zk.exists(f"{path}/q").version), (b"3", 3))

    def test_markers_come_back(self) -> None:
        """One for each write at a time, however many callers are interrupted."""
        zk, path = self.client, self.places[0]
        name = split(path)[1]
        self.at_once((zk.set, path, b""), (zk.set, self.root, b""))
        for number in range(5):
            with HeldAnswers(name) as held:
                self.interrupt(zk.set, path, b"%d" % number)
                wait_until(lambda held=held: len(held) == 1, "the answer")
                zk.once(zk.set, self.root, b"meanwhile")
            with lost_answer(path):
                self.interrupt(zk.set, path, b"lost")
                wait_until(lambda: not self.order, "the loss")
        value, stat = zk.get(path)
        self.assertEqual((value, stat.version), (b"lost", 11))
        self.assertEqual(len(self.markers()), 2)

    def test_an_error_that_would_be_retried(self) -> None:
        """If the caller's wait ends by a ConnectionLoss of a signal handler, that is no answer."""
        waits = mock.Mock(side_effect=[ConnectionLoss, TimeIsUp])
        with mock.patch.object(Impatient, "get", waits), self.assertRaises(ConnectionLoss):
            self.interrupt(self.client.set, self.root, b"")
        wait_until(lambda: not self.order, "the answer")
        self.assertEqual(self.client.exists(self.root).version, 1)

    def test_a_transaction(self) -> None:
        """It is being committed as long as it may be done."""
        zk, path = self.client, self.places[0]
        transaction = zk.transaction()
        transaction.set_data(path, b"1")
        with HeldAnswers(split(path)[1]) as held:
            self.interrupt(transaction.commit)
            self.assertRaisesRegex(ValueError, "being committed", transaction.commit_async)
            self.assertFalse(transaction.committed)
            wait_until(lambda: len(held) == 1, "the answer")
        self.assertTrue(transaction.committed)
        self.assertRaisesRegex(ValueError, "already committed", zk.once, transaction.commit)
        refused = zk.transaction()
        refused.set_data(path, b"2", version=7)
        with HeldAnswers(split(path)[1]) as held:
            self.interrupt(refused.commit)
            wait_until(lambda: len(held) == 1, "the answer")
        self.assertIsInstance(zk.once(refused.commit)[0], BadVersionError)  # it may be tried again
        self.assertEqual(zk.get(path)[0], b"1")


class TestConnections(OnceTest):
    """They are lost all the time."""

    def setUp(self) -> None:
        super().setUp()
        self.dice = random.Random(self.id())
        self.steps = 0

    def work(self, *work: Callable[[], None]) -> None:
        """Run it, each on a thread or greenlet of its own, while the connections of the client are lost.

        Between two losses something is done: a slow machine would never get further.
        """
        done: list[Any] = []
        errors: list[BaseException] = []

        def run(call: Callable[[], None]) -> None:
            try:
                call()
            except BaseException as error:
                errors.append(error)
            finally:
                done.append(call)

        for each in work:
            self.client.handler.spawn(run, each)
        while len(done) < len(work):
            before = self.steps
            self.client._call(CONNECTION_DROP, None)
            wait_until(lambda before=before: self.steps > before or errors or len(done) == len(work), "a write")
            self.assertEqual(errors, [])
            self.client.handler.sleep_func(self.dice.uniform(0.0, MOST_PAUSE_S))
        self.assertEqual(errors, [])

    def test_each_write_is_done_once(self) -> None:
        zk, made = self.client, list[str]()
        path, counted = f"{self.places[1]}-", self.places[2]

        def write() -> None:
            for _ in range(COUNT):
                made.append(zk.once(zk.create, path, sequence=True))
                zk.once(zk.set, counted, b"")
                self.steps += 1

        self.work(*[write] * WORKERS)
        parent = path.rpartition("/")[0]
        there = [f"{parent}/{name}" for name in self.children(parent) if f"{parent}/{name}".startswith(path)]
        self.assertEqual(sorted(made), sorted(there))
        self.assertEqual(len(made), WORKERS * COUNT)
        self.assertEqual(zk.retry(zk.exists, counted).version, WORKERS * COUNT)

    def test_a_counter_and_a_queue(self) -> None:
        zk = self.client
        counter, queues = f"{self.root}/counter", f"{self.root}/queue"
        taken: list[bytes | None] = []
        zk.retry = KazooRetry(max_tries=-1, delay=0.01, max_delay=0.1, sleep_func=zk.handler.sleep_func)

        def count() -> None:
            mine = zk.Counter(counter)
            for _ in range(COUNT):
                mine += 1
                self.steps += 1

        def put() -> None:
            queue = zk.Queue(queues)
            for number in range(2 * COUNT):
                queue.put(b"%d" % number)
                self.steps += 1

        def take() -> None:
            queue = zk.Queue(queues)
            mine = 0
            while mine < COUNT:
                value = queue.get()
                if value is not None:
                    taken.append(value)
                    mine += 1
                    self.steps += 1

        self.work(count, count, put, take, take)
        self.assertEqual(zk.retry(lambda: zk.Counter(counter).value), 2 * COUNT)
        self.assertEqual(sorted(taken), sorted(b"%d" % number for number in range(2 * COUNT)))
        self.assertEqual(self.children(queues), [])


class TestRecipes(OnceTest):
    """What kazoo's do if an answer is lost, and what ours do."""

    def test_a_counter(self) -> None:
        for make, value in ((partial(KazooCounter, self.client), 2), (self.client.Counter, 1)):
            path = f"{self.root}/counter{value}"
            counter = make(path)
            self.assertEqual(counter.value, 0)
            with lost_answer(path):
                counter += 1
            self.assertEqual(counter.value, value)

    def test_a_queue(self) -> None:
        for make, first, second in (
            (partial(KazooQueue, self.client), b"2", None),
            (self.client.Queue, b"1", b"2"),
        ):
            queue = make(f"{self.root}/{first.decode()}")
            for item in (b"1", b"2"):
                queue.put(item)
            with lost_answer("/entry"):
                self.assertEqual(queue.get(), first)
            self.assertEqual(queue.get(), second)
