"""The driver, with members that answer in any order, on any thread, or at once with an error."""

from __future__ import annotations

import queue
import random
import threading
import unittest
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest import mock

from kazoo.exceptions import (
    ConnectionLoss,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    SessionExpiredError,
    UnimplementedError,
)
from kazoo.protocol.states import ZnodeStat
from kazoo.security import ACL, OPEN_ACL_UNSAFE, Permissions

from parkazoo.engine import driver
from parkazoo.engine.driver import Driver
from parkazoo.engine.ports import OnAnswer, give
from parkazoo.engine.serial import Serial
from parkazoo.kazoo_private import (
    Create,
    Delete,
    Exists,
    GetChildren,
    GetChildren2,
    GetData,
    Reconfig,
    SetACL,
    SetData,
    Sync,
    Transaction,
)
from parkazoo.protocol.context import Context
from parkazoo.protocol.ops.brief import first_of
from parkazoo.protocol.ops.unplaced import ask_bootstrap
from parkazoo.protocol.placement import Placement
from parkazoo.protocol.presence import Presence
from parkazoo.protocol.subject import Subject
from parkazoo.protocol.where.places import by_first
from tests.explore.alone import find_directory, make_context, make_grown, prepared
from tests.explore.client import Client
from tests.explore.model import Model
from tests.explore.scenario import Knows
from tests.explore.znodes import SEQUENCE, Who
from tests.fakes.asked import PLACEMENT, AskedTest
from tests.fakes.result import Result

D = find_directory(PLACEMENT, False)
SEED = 5
DEADLINE_S = 60


def create(path: str, data: bytes = b"", flags: int = 0) -> Create:
    return Create(path, data, OPEN_ACL_UNSAFE, flags)


class TestOwnRequests(unittest.TestCase):
    """Of a type that ParKazoo does not know."""

    def test_of_a_client_of_one_ensemble(self) -> None:
        request = mock.Mock(type=500)
        asking = ask_bootstrap(make_context(Placement(1)), request)
        self.assertEqual(next(asking), ((0, request),))

    def test_of_a_client_of_several(self) -> None:
        with self.assertRaisesRegex(UnimplementedError, "Mock: .*client.members"):
            next(ask_bootstrap(make_context(PLACEMENT), mock.Mock(type=500)))
        reconfig = Reconfig(None, None, None, -1)
        self.assertEqual(next(ask_bootstrap(make_context(PLACEMENT), reconfig)), ((0, reconfig),))


class TestPipelines(unittest.TestCase):
    """Nothing is awaited: all is issued at once, and answered in random order."""

    def answers(self, dice: random.Random, before: list[Any], *requests: Any) -> list[Any]:
        client = Client(PLACEMENT, prepared(PLACEMENT))
        for request in before:
            client.get(request)
        results = [client.call(request) for request in requests]
        client.run(dice)
        self.assertFalse(client.driver.order, "something is still claimed")
        return [result.value for result in results]

    def repeat(self, times: int = 60) -> Any:
        print(f"{self.id()}: seed {SEED}")
        return (random.Random(SEED * 1000 + number) for number in range(times))

    def test_chain(self) -> None:
        """create /a, /a/b, /a/b/c, then get: wherever they live."""
        for number, dice in enumerate(self.repeat(300)):
            paths = [f"/a{number}", f"/a{number}/b", f"/a{number}/b/c"]
            answers = self.answers(dice, [], *(create(p, p.encode()) for p in paths), GetData(paths[-1], None))
            self.assertEqual(answers[3][0], paths[-1].encode())

    def test_data_before_children(self) -> None:
        """Requests for a znode's data and then its children are answered in that order."""
        for dice in self.repeat():
            client = Client(PLACEMENT, prepared(PLACEMENT))
            client.get(create(D))
            client.get(create(D + "/x"))
            answered: list[str] = []
            for request, name in ((GetData(D, None), "data"), (GetChildren(D, None), "children")):
                note = partial(lambda told, name, _: told.append(name), answered, name)
                client.driver.call(request, OnAnswer(note))
            client.run(dice)
            self.assertEqual(answered, ["data", "children"])

    def test_an_answer_that_is_not_waited_for(self) -> None:
        client = Client(PLACEMENT, prepared(PLACEMENT))
        for request in (create(D), create(D + "/x")):
            client.get(request)
        presence = client.call(Presence(D, None))
        mirrors = client.members[PLACEMENT.of_children(D)]
        while mirrors.outbox or mirrors.inbox:
            (mirrors.serve if mirrors.outbox else mirrors.deliver)()
        self.assertEqual(presence.told, [True])
        client.run()
        self.assertEqual(presence.told, [True])
        self.assertFalse(client.driver.order)

    def test_there_and_back(self) -> None:
        x = D + "/x"
        for dice in self.repeat():
            answers = self.answers(
                dice,
                [],
                create(D),
                create(x),
                GetChildren(D, None),
                Delete(D, -1),
                Delete(x, -1),
                Delete(D, -1),
                Exists(D, None),
                create(x),
                create(D),
                GetChildren(D, None),
                create(x),
                GetChildren2(D, None),
            )
            self.assertEqual(answers[2], ["x"])
            self.assertIsInstance(answers[3], NotEmptyError)
            self.assertEqual(answers[4:7], [True, True, None])
            self.assertIsInstance(answers[7], NoNodeError)
            self.assertEqual(answers[9], [])
            self.assertEqual((answers[11][0], answers[11][1].numChildren), (["x"], 1))

    def test_a_delete_comes_after_the_create_of_its_parent(self) -> None:
        """Which waits for another; without the parent there would be no right that is missing."""
        inner = next(path for path in (f"{D}/d{n}" for n in range(100)) if not PLACEMENT.is_native(path))
        closed = [ACL(Permissions.ALL & ~Permissions.DELETE, OPEN_ACL_UNSAFE[0].id)]
        for dice in self.repeat():
            client = Client(PLACEMENT, prepared(PLACEMENT), Who(has_all=False))
            client.get(create(D))
            client.call(create(f"{D}/first"))
            client.call(Create(inner, b"", closed, 0))
            refused = client.call(Delete(f"{inner}/x", -1))
            client.run(dice)
            self.assertIsInstance(refused.value, NoAuthError)

    def test_a_listing_in_flight_does_not_remember_what_a_delete_forgets(self) -> None:
        """The directory is promoted; a listing is answered after a delete was issued; then it is made again."""
        x = D + "/x"
        for dice in self.repeat(200):
            client = Client(PLACEMENT, prepared(PLACEMENT))
            for request in (create(D), create(x), Delete(x, -1)):
                client.get(request)
            listing, removal = client.call(GetChildren(D, None)), client.call(Delete(D, -1))
            client.run(dice)
            self.assertEqual((listing.value, removal.value), ([], True))
            results = [client.call(request) for request in (create(D), create(x, b"1"), GetData(x, None))]
            client.run(dice)
            self.assertEqual(results[2].value[0], b"1")

    def test_only_a_change_of_what_is_remembered_waits(self) -> None:
        client = Client(PLACEMENT, prepared(PLACEMENT))
        for request in (create(D), create(D + "/x"), GetChildren(D, None)):
            client.get(request)
        before = len(client.sent)
        pipeline = [GetChildren(D, None), create(D + "/y"), GetChildren(D, None), SetData(D, b"", -1)]
        results = [client.call(request) for request in (*pipeline, create(D))]
        on_their_way = [request for member in client.members for request, _ in member.outbox]
        self.assertEqual(len([each for each in on_their_way if type(each) in map(type, pipeline)]), len(pipeline))
        self.assertEqual(len(client.sent), before)
        client.run()
        self.assertEqual([results[0].value, results[2].value], [["x"], ["x", "y"]])
        self.assertIsInstance(results[4].value, NodeExistsError)
        self.assertFalse(client.driver.order)

    def test_sequence_numbers_in_the_order_of_the_creates(self) -> None:
        for dice in self.repeat():
            answers = self.answers(dice, [create(D)], *(create(D + "/s", flags=SEQUENCE) for _ in range(12)))
            self.assertEqual([int(answer[-10:]) for answer in answers], list(range(12)))

    def test_a_set_and_what_comes_after_it(self) -> None:
        for dice in self.repeat():
            answers = self.answers(
                dice,
                [create(D), create(D + "/x")],
                GetData(D, None),
                SetData(D, b"1", 0),
                GetData(D, None),
                SetData(D, b"2", 1),
                SetACL(D, OPEN_ACL_UNSAFE, 0),
                Exists(D, None),
                Sync(D),
            )
            self.assertEqual([answers[0][0], answers[2][0]], [b"", b"1"])
            self.assertEqual((answers[5].version, answers[5].aversion), (2, 1))
            self.assertEqual(answers[6], D)

    def test_a_transaction_and_what_comes_after_it(self) -> None:
        for dice in self.repeat():
            transaction = Transaction([create(D + "/x"), create(D + "/y")])
            answers = self.answers(
                dice,
                [],
                create(D),
                transaction,
                GetChildren(D, None),
                Delete(D + "/x", -1),
                Transaction([Delete(D + "/y", -1), create(D + "/z", b"1")]),
                GetData(D + "/z", None),
                GetChildren(D, None),
            )
            self.assertEqual(answers[2], ["x", "y"])
            self.assertEqual((answers[5][0], answers[6]), (b"1", ["z"]))

    def test_every_reply_comes_once(self) -> None:
        for dice in self.repeat(20):
            client = Client(PLACEMENT, prepared(PLACEMENT))
            results = [client.call(r) for r in (create(D), create(D + "/x"), Delete(D, -1), Exists(D, None))]
            client.driver.call(create(D + "/y"), None)
            client.run(dice)
            self.assertEqual([len(result.told) for result in results], [1] * 4)


class TestFailures(AskedTest):
    def test_ten_thousand_that_wait_for_each_other(self) -> None:
        results = self.issue(*(create(D + "/s", flags=SEQUENCE) for _ in range(10_000)))
        self.assertEqual(self.sent, 1)
        self.fail_members()
        self.assertEqual({type(result.value) for result in results}, {ConnectionLoss})
        self.assertFalse(self.driver.order)

    def test_ten_thousand_down_a_path(self) -> None:
        """Each waits for the one before it, through its parent."""
        path = ""
        paths = []
        for number in range(300):
            path += f"/{number}"
            paths.append(path)
        results = self.issue(*(create(path) for path in paths for _ in range(34)))
        self.fail_members()
        self.assertEqual({type(result.value) for result in results}, {ConnectionLoss})
        self.assertFalse(self.driver.order)

    def test_all_at_once(self) -> None:
        self.fail_members()
        kinds = [create(D), GetChildren2(D, None), Delete(D, -1), SetACL(D, OPEN_ACL_UNSAFE, -1), Sync(D)]
        results = self.issue(*kinds * 2000)
        self.assertEqual({type(result.value) for result in results}, {ConnectionLoss})
        self.assertFalse(self.driver.order)

    def test_an_error_of_a_step_is_about_the_path_of_the_user(self) -> None:
        def unchroot(path: str) -> str:
            return path.removeprefix("/app")

        for request, own, told in (
            (create(f"/app{D}/x"), Subject("/parkazoo/fences/17", "b"), f"{D}/x (ensemble b)"),
            (GetData(f"/app{D}", None), Subject(D, "b"), f"{D} (ensemble b)"),
            (create(f"/app{D}/x"), Subject("/", "b"), f"{D}/x (ensemble b)"),
            (Transaction([create(f"/app{D}/x")]), Subject("transaction", "b"), f"{D}/x (ensemble b)"),
            (Transaction([create(f"/app{D}/x")]), Subject("", "b"), "ensemble b"),
            (create(f"/app{D}/x"), None, ""),
        ):
            with self.subTest(own):
                self.setUp()
                self.driver = Driver(make_context(PLACEMENT), self.members, threading.Lock, unchroot)
                (result,) = self.issue(request)
                self.fail_members(own)
                self.assertIsInstance(result.value, ConnectionLoss)
                self.assertEqual(str(result.value), told)

    def test_when_idle(self) -> None:
        called: list[str] = []
        self.driver.when_idle(lambda: called.append("at once"))
        self.issue(create(D + "/x"), create(D + "/y"))
        self.driver.when_idle(lambda: called.append("later"))
        self.assertEqual(called, ["at once"])
        self.fail_members()
        self.assertEqual(called, ["at once", "later"])

    def test_what_has_no_claim(self) -> None:
        """stop() does not wait for it, a change of form does."""

        def ask() -> Any:
            yield ((0, GetData(D, None)),)

        called, result = [], Result()
        self.driver.run(ask(), result)
        self.driver.when_idle(lambda: called.append("at once"))
        self.assertEqual((called, self.driver.order.under_way), (["at once"], 1))
        self.fail_members()
        self.assertEqual((len(result.told), self.driver.order.under_way), (1, 0))


class LateLock:
    """A lock before which another thread makes a call, once `is_late` is set."""

    def __init__(self, call: Callable[[], None]) -> None:
        self.is_late = False
        self._call = call
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        if self.is_late:
            self.is_late = False
            self._call()
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()


class TestFailAll(AskedTest):
    """The session has ended: what waits, or needs another request, fails at once; what comes later does not."""

    def test_what_waits_for_others(self) -> None:
        first, *waiting = self.issue(*(create(D + "/s", flags=SEQUENCE) for _ in range(5)))
        self.assertEqual(self.sent, 1)
        self.driver.fail_all(SessionExpiredError)
        self.assertEqual([type(result.value) for result in waiting], [SessionExpiredError] * 4)
        self.assertEqual(first.told, [])  # the member's to fail
        self.take().set_exception(SessionExpiredError())
        self.assertIsInstance(first.value, SessionExpiredError)
        self.assertEqual([len(result.told) for result in waiting], [1] * 4)
        self.assertEqual(self.sent, 1)

    def test_what_needs_another_request(self) -> None:
        """The server has answered a part of it, too late: the rest is not asked for."""
        (begun,) = self.issue(create(D + "/x"))
        self.driver.fail_all(SessionExpiredError)
        before = self.sent
        self.take().set_exception(NoNodeError())  # it would look for the directory now
        self.assertIsInstance(begun.value, SessionExpiredError)
        self.assertEqual(self.sent, before)

    def test_what_comes_later(self) -> None:
        """It goes on by itself, and nothing of the old order changes the new one."""
        old = self.issue(create(D + "/x"), create(D + "/s", flags=SEQUENCE), create(D + "/s", flags=SEQUENCE))
        answers = [self.take() for member in self.members for _ in list(member.waiting)]
        self.assertGreater(len(answers), 0)
        self.driver.fail_all(SessionExpiredError)
        new = self.issue(*(create(D + "/s", flags=SEQUENCE) for _ in range(3)))
        self.assertTrue(self.driver.order)
        self.assertEqual(sum(len(member.waiting) for member in self.members), 1)
        for reply in answers:
            reply.set_exception(SessionExpiredError())
        self.assertEqual({type(result.value) for result in old}, {SessionExpiredError})
        self.assertEqual(sum(len(member.waiting) for member in self.members), 1)  # the others wait for it still
        for number, result in enumerate(new):
            self.assertEqual(result.told, [])
            self.take().set(f"{D}/s{number:010}")
            self.assertEqual(result.value, f"{D}/s{number:010}")
        self.assertFalse(self.driver.order)

    def test_only_what_began_by_an_older_form(self) -> None:
        """It ends at its next request; what waits, when its turn comes; what came later goes on."""
        old = self.issue(create(D + "/x"), create(D + "/s", flags=SEQUENCE))
        self.driver.begin_form(make_grown(self.driver.context, PLACEMENT, Knows(by_first(PLACEMENT))))
        (new,) = self.issue(create(D + "/s", flags=SEQUENCE))
        self.assertTrue(self.driver.has_older)
        self.driver.fail_older(ConnectionLoss)
        self.assertEqual((self.sent, self.driver.has_older), (1, False))
        self.take().set_exception(NoNodeError())
        self.assertEqual([type(result.value) for result in old], [ConnectionLoss] * 2)
        self.assertEqual((new.told, self.driver.has_older), ([], False))
        self.take().set(D + "/s0000000000")
        self.assertEqual(new.value, D + "/s0000000000")
        self.assertFalse(self.driver.order)

    def test_a_thread_that_is_held_while_the_form_changes(self) -> None:
        """Its get works by the newer form, where an answer of the home alone is no proof."""
        grown = make_grown(self.driver.context, PLACEMENT, Knows(by_first(PLACEMENT)))

        def held(context: Context, request: Any) -> Any:
            first = first_of(context, request)
            self.driver.begin_form(grown)
            return first

        result = Result()
        with mock.patch.object(driver, "first_of", held):
            self.driver.call(GetData(D + "/x", None), result)
        self.take().set_exception(NoNodeError())
        self.assertEqual(result.told, [])

    def test_a_watch_of_an_older_form(self) -> None:
        """It is told before the operation fails, if that was to leave a watch."""
        for watch, told in ((None, []), (print, [0])):
            self.setUp()
            result = Result()
            self.driver.call(GetData(D, watch), result)
            self.driver.begin_form(make_grown(self.driver.context, PLACEMENT, Knows(by_first(PLACEMENT))))
            heard: list[int] = []
            self.driver.on_miss = lambda heard=heard, result=result: heard.append(len(result.told))  # type: ignore[misc]
            self.driver.fail_older(ConnectionLoss)
            self.take().set((b"", ZnodeStat(*[1] * len(ZnodeStat._fields))._replace(ephemeralOwner=0)))
            self.assertEqual((type(result.value), heard), (ConnectionLoss, told))

    def test_what_starts_late_by_an_older_form(self) -> None:
        """It has one request, and nothing waits for its answer but the change of form."""
        first, second = self.issue(create(D + "/x"), create(D))
        self.driver.begin_form(make_grown(self.driver.context, PLACEMENT, Knows(by_first(PLACEMENT))))
        while not first.told:
            self.take().set_exception(ConnectionLoss())
        self.assertEqual((second.told, self.driver.has_older), ([], True))
        self.take().set(D)
        self.assertEqual((second.value, self.driver.has_older), (D, False))

    def test_those_who_count_children(self) -> None:
        """A number that an old request took is not given back to the new order."""
        self.issue(GetData(D, None))
        answers = [self.take() for member in self.members for _ in list(member.waiting)]
        self.driver.fail_all(ConnectionLoss)
        self.issue(GetData(D, None))
        for reply in answers:
            reply.set_exception(ConnectionLoss())
        self.assertTrue(self.driver.order)
        while any(member.waiting for member in self.members):
            self.take().set_exception(ConnectionLoss())
        self.assertFalse(self.driver.order)

    def test_when_idle(self) -> None:
        """A function that waits for the end of all operations is called once."""
        called: list[str] = []
        (begun,) = self.issue(create(D + "/x"))
        self.driver.when_idle(lambda: called.append("idle"))
        self.driver.fail_all(ConnectionLoss)
        self.assertEqual(called, ["idle"])
        self.take().set_exception(ConnectionLoss())
        self.assertEqual((called, len(begun.told)), (["idle"], 1))

    def test_an_interrupted_claim(self) -> None:
        """The exception of a signal handler reaches the caller, because what is claimed has to be dropped."""
        context = self.driver.context
        context.places.remember(context.known(D), 0)
        trust = self.driver.order.claim_trust

        def interrupted(*arguments: Any) -> bool:
            trust(*arguments)
            raise TimeoutError

        with mock.patch.object(self.driver.order, "claim_trust", interrupted), self.assertRaises(TimeoutError):
            self.issue(create(D + "/x"))

    def test_an_answer_that_comes_just_then(self) -> None:
        """Its claims are gone, and what has waited for it is not answered twice."""
        for first in (create(D + "/s", flags=SEQUENCE), GetData(D, None)):
            with self.subTest(first=first):
                self.setUp()
                begun, waiting = self.issue(first, GetChildren2(D, None))
                lock = self.driver._lock = LateLock(partial(self.driver.fail_all, ConnectionLoss))
                lock.is_late = True
                self.take().set_exception(ConnectionLoss())
                self.assertFalse(lock.is_late)
                self.assertEqual([type(result.value) for result in (begun, waiting)], [ConnectionLoss] * 2)
                self.assertFalse(self.driver.order)

    def test_many_that_wait(self) -> None:
        """Without recursion."""
        results = self.issue(*(create(D + "/s", flags=SEQUENCE) for _ in range(10_000)))
        self.driver.fail_all(ConnectionLoss)
        self.assertEqual(sum(len(result.told) for result in results), 9_999)


class TestSerial(unittest.TestCase):
    def test_calls_made_in_a_call_come_after_it(self) -> None:
        serial, seen = Serial(threading.Lock()), []

        def first() -> None:
            serial(lambda: seen.append("second"))
            seen.append("first")

        serial(first, lambda: seen.append("third"))
        self.assertEqual(seen, ["first", "third", "second"])

    def test_one_that_fails_does_not_stop_the_others(self) -> None:
        serial, seen = Serial(threading.Lock()), []

        def fail() -> None:
            raise ValueError("a listener's fault")

        with self.assertLogs("parkazoo.engine.serial", "ERROR"):
            serial(fail, lambda: seen.append("next"))
        self.assertEqual(seen, ["next"])

    def test_no_recursion(self) -> None:
        serial, left = Serial(threading.Lock()), [20_000]

        def again() -> None:
            left[0] -= 1
            if left[0]:
                serial(again)

        serial(again)
        self.assertEqual(left, [0])


class ThreadMember:
    """A member with a thread of its own, as kazoo's connection has."""

    lock = threading.Lock()  # the model is one

    def __init__(self, model: Model, ensemble: int) -> None:
        self.model = model
        self.ensemble = ensemble
        self.requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def submit(self, request: Any, reply: Any) -> None:
        self.requests.put((request, reply))

    def _serve(self) -> None:
        while (taken := self.requests.get()) is not None:
            request, reply = taken
            with self.lock:
                answer = self.model.execute(self.ensemble, request)
            give(reply, answer)

    def stop(self) -> None:
        self.requests.put(None)
        self.thread.join(DEADLINE_S)


class Awaited(Result):
    def __init__(self) -> None:
        super().__init__()
        self.event = threading.Event()

    def set(self, value: Any = None) -> None:
        super().set(value)
        self.event.set()

    def set_exception(self, exception: Exception) -> None:
        super().set_exception(exception)
        self.event.set()

    def wait(self) -> Any:
        if not self.event.wait(DEADLINE_S):
            raise AssertionError("no answer")
        return self.value


class TestThreads(unittest.TestCase):
    def test_several_users_and_members(self) -> None:
        """Each thread's chains come out right while the others' go on, below the same parents too."""
        members = [
            ThreadMember(prepared_model, ensemble)
            for prepared_model in [prepared(PLACEMENT)]
            for ensemble in range(3)
        ]
        driver = Driver(make_context(PLACEMENT), members, threading.Lock)
        wrong: list[Any] = []

        def call(request: Any) -> Awaited:
            result = Awaited()
            driver.call(request, result)
            return result

        call(create("/shared")).wait()

        def use(user: int) -> None:
            for number in range(60):
                top = f"/shared/{user}-{number}"
                requests = [
                    create(top),
                    create(top + "/b"),
                    create(top + "/b/c", b"1"),
                    GetData(top + "/b/c", None),
                ]
                requests += [
                    GetChildren(top, None),
                    Delete(top + "/b/c", -1),
                    Delete(top + "/b", -1),
                    Delete(top, -1),
                ]
                results = [call(request) for request in requests]
                answers = [result.wait() for result in results]
                if answers[3][0] != b"1" or answers[4:] != [["b"], True, True, True]:
                    wrong.append(answers)

        users = [threading.Thread(target=use, args=(user,)) for user in range(4)]
        for thread in users:
            thread.start()
        for thread in users:
            thread.join(DEADLINE_S)
        self.assertFalse(any(thread.is_alive() for thread in users))
        self.assertEqual(wrong, [])
        self.assertEqual(call(GetChildren("/shared", None)).wait(), [])
        self.assertFalse(driver.order)
        for member in members:
            member.stop()
