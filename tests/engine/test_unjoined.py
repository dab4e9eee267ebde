"""Requests for an ensemble that is not joined yet."""

from __future__ import annotations

import threading
import unittest
from typing import Any

from kazoo.exceptions import ConnectionClosedError, SessionExpiredError

from parkazoo.engine.unjoined import Unjoined
from parkazoo.kazoo_private import Auth, GetData
from tests.fakes.result import Result

COUNT = 200  # requests of each thread
DEADLINE_S = 60.0


class Member:
    """Remembers what it is asked."""

    session_id = 7

    def __init__(self) -> None:
        self.seen: list[Any] = []
        self.on_first: Any = None

    def submit(self, request: Any, reply: Any) -> None:
        self.seen.append(request)
        if len(self.seen) == 1 and self.on_first is not None:
            self.on_first()
        if reply is not None:
            reply.set(request.path)

    def forget_watch(self, path: str, watch: Any) -> None:
        """There is none."""


class UnjoinedTest(unittest.TestCase):
    def setUp(self) -> None:
        self.refusal: Exception | None = None
        self.joins = 0
        self.unjoined = Unjoined(threading.Lock(), lambda: self.refusal, self.join)
        self.member = Member()

    def join(self) -> None:
        self.joins += 1

    def submit(self, path: str) -> Result:
        result = Result()
        self.unjoined.submit(GetData(path, None), result)
        return result


class TestUnjoined(UnjoinedTest):
    def test_expired(self) -> None:
        """What was kept before the client was LOST is not sent after."""
        before = self.submit("/before")
        self.unjoined.drop(SessionExpiredError)
        after = self.submit("/after")
        self.unjoined.pass_on(self.member)
        self.assertIsInstance(before.value, SessionExpiredError)
        self.assertEqual((after.value, [each.path for each in self.member.seen]), ("/after", ["/after"]))

    def test_kept_and_passed_on(self) -> None:
        results = [self.submit(f"/{number}") for number in range(3)]
        self.assertEqual(([each.told for each in results], self.joins), ([[]] * 3, 3))
        self.unjoined.pass_on(self.member)
        results.append(self.submit("/3"))
        paths = [f"/{number}" for number in range(4)]
        self.assertEqual([each.path for each in self.member.seen], paths)
        self.assertEqual([each.value for each in results], paths)

    def test_no_session(self) -> None:
        self.unjoined.forget_watch("/a", print)
        self.assertEqual(self.unjoined.session_id, 0)

    def test_while_it_is_passed_on(self) -> None:
        """What a reply asks for comes behind what was asked before."""
        self.submit("/0"), self.submit("/1")
        self.member.on_first = lambda: self.submit("/2")
        self.unjoined.pass_on(self.member)
        self.assertEqual([each.path for each in self.member.seen], ["/0", "/1", "/2"])

    def test_credentials(self) -> None:
        """Nothing is asked for their sake: each connection begins with all of them."""
        result = Result()
        self.unjoined.submit(Auth(0, "digest", "a:b"), result)
        self.unjoined.submit(Auth(0, "digest", "a:b"), None)
        self.assertEqual((result.value, self.joins), (True, 0))
        self.unjoined.pass_on(self.member)
        self.assertEqual(self.member.seen, [])
        auth = Auth(0, "digest", "c:d")
        self.unjoined.submit(auth, None)
        self.assertEqual(self.member.seen, [auth])

    def test_refused(self) -> None:
        """When the client stops, what waits fails; and what comes then."""
        early = self.submit("/0")
        self.unjoined.submit(GetData("/1", None), None)
        self.refusal = ConnectionClosedError("closed")
        self.unjoined.fail()
        late = self.submit("/2")
        self.assertEqual([each.value for each in (early, late)], [self.refusal] * 2)


class TestThreads(UnjoinedTest):
    def test_each_thread_s_order(self) -> None:
        """While threads submit, the member comes: each request is passed on once, in its thread's order."""
        for threads in (1, 4):
            with self.subTest(threads):
                self.setUp()
                begun = threading.Barrier(threads + 1)
                results: list[list[Result]] = [[] for _ in range(threads)]

                def submit(number: int, begun: Any = begun, results: Any = results) -> None:
                    begun.wait(DEADLINE_S)
                    results[number] += [self.submit(f"/{number}/{each}") for each in range(COUNT)]

                running = [threading.Thread(target=submit, args=(number,)) for number in range(threads)]
                for thread in running:
                    thread.start()
                begun.wait(DEADLINE_S)
                self.unjoined.pass_on(self.member)
                for thread in running:
                    thread.join(DEADLINE_S)
                for number in range(threads):
                    expected = [f"/{number}/{each}" for each in range(COUNT)]
                    seen = [each.path for each in self.member.seen if each.path.startswith(f"/{number}/")]
                    self.assertEqual(seen, expected)
                    self.assertEqual([each.value for each in results[number]], expected)

    def test_stopped_meanwhile(self) -> None:
        """Each request gets one answer."""
        begun, results = threading.Barrier(2), list[Result]()

        def submit() -> None:
            begun.wait(DEADLINE_S)
            results.extend(self.submit(f"/{each}") for each in range(COUNT))

        thread = threading.Thread(target=submit)
        thread.start()
        begun.wait(DEADLINE_S)
        self.refusal = ConnectionClosedError("closed")
        self.unjoined.fail()
        thread.join(DEADLINE_S)
        self.assertEqual([each.value for each in results], [self.refusal] * COUNT)
