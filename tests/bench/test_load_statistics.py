"""bench.statistics, by known answers."""

from __future__ import annotations

import random
import threading
import time
import unittest
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

from kazoo.handlers.threading import SequentialThreadingHandler

from bench.load.loops import arrivals, run_open
from bench.load.outstanding import Outstanding
from bench.load.plan import Plan, PlanError
from bench.load.record import ANSWERED, FAILED, ROW, UNANSWERED, Record
from bench.load.requests import (
    CREATE,
    DELETE,
    GET,
    SET,
    Request,
    Requests,
    choose_directories,
    name_directories,
    zipf_weights,
)
from bench.load.result import read_rows
from bench.statistics import (
    count_by_time,
    cumulate,
    decode,
    encode,
    first_after,
    join_histograms,
    make_histogram,
    mean_s,
    percentile_by_time,
    percentile_s,
    quantiles,
    range_of,
    ratio,
    scaled,
    spread,
)
from parkazoo.protocol.placement import Placement

MS = 1_000_000  # in ns


def plan(**entries: object) -> Plan:
    return Plan.from_json({"system": "parkazoo", "hosts": "h:1", "root": "/r", "name": "n", **entries})


class TestHistograms(unittest.TestCase):
    def test_percentiles(self) -> None:
        """1 to 100 ms, each once: the p-th percentile is p ms, to three digits."""
        histogram = make_histogram([each * MS for each in range(1, 101)])
        for percentile in (1, 5, 50, 95, 99, 100):
            self.assertAlmostEqual(percentile_s(histogram, percentile), percentile / 1000, delta=percentile * 1e-6)

    def test_one_slow_request_is_the_last_percentile(self) -> None:
        histogram = make_histogram([MS] * 99 + [5000 * MS])
        self.assertAlmostEqual(percentile_s(histogram, 99), 0.001, delta=1e-6)
        self.assertAlmostEqual(percentile_s(histogram, 100), 5, delta=0.005)

    def test_as_the_librarys_own_loops(self) -> None:
        """Of new histograms, and of those that were text, whose counts end with the last one."""
        dice = random.Random(1)
        for mean_ns in (1e3, 1e6, 1e9):
            made = make_histogram([int(dice.expovariate(1 / mean_ns)) for _ in range(300)])
            for histogram in (made, decode(encode(made))):
                self.assertEqual(mean_s(histogram), histogram.get_mean_value() / 1e6)
                for percentile in (0.1, 5, 50, 95, 99, 100):
                    known = histogram.get_value_at_percentile(percentile) / 1e6
                    self.assertEqual(percentile_s(histogram, percentile), known)
                values = [each.value_iterated_to / 1e6 for each in histogram.get_recorded_iterator()]
                self.assertEqual([value for value, _ in cumulate(histogram)], values)

    def test_text_and_back(self) -> None:
        histogram = make_histogram([MS, 2 * MS, 3 * MS])
        again = decode(encode(histogram))
        self.assertEqual(again.get_total_count(), 3)
        self.assertEqual(percentile_s(again, 50), percentile_s(histogram, 50))

    def test_sums(self) -> None:
        histogram = make_histogram([MS])
        histogram.add(make_histogram([3 * MS, 5 * MS]))
        self.assertEqual(histogram.get_total_count(), 3)
        self.assertAlmostEqual(percentile_s(histogram, 50), 0.003, delta=3e-6)

    def test_cumulative_distribution(self) -> None:
        points = cumulate(make_histogram([MS, MS, MS, 4 * MS]))
        self.assertEqual([share for _, share in points], [0.75, 1.0])
        self.assertAlmostEqual(points[1][0], 0.004, delta=4e-6)
        self.assertEqual(cumulate(make_histogram()), [])

    def test_nothing_and_too_much(self) -> None:
        self.assertRaises(ValueError, percentile_s, make_histogram(), 50)
        self.assertRaisesRegex(ValueError, "7200 s", make_histogram, [7200 * 1000 * MS])


class TestSpreads(unittest.TestCase):
    def test_median_and_range(self) -> None:
        found = spread([5, 1, 3])
        self.assertEqual((found, range_of(found)), (3, (1, 5)))
        self.assertEqual((spread([2, 1]), spread([7])), (1.5, 7))
        self.assertEqual((type(spread([7])), type(spread([7, 7]))), (int, int))  # there is no range to be shown
        self.assertEqual(range_of(7), (7, 7))
        self.assertRaisesRegex(ValueError, "no median", spread, [])

    def test_scaled(self) -> None:
        found = scaled(spread([1, 2, 4]), 10)
        self.assertEqual((found, range_of(found)), (20, (10, 40)))
        self.assertEqual(scaled(2, 10), 20)

    def test_ratio(self) -> None:
        """Its range is as wide as the ranges of both allow."""
        found = ratio(spread([8, 12, 10]), spread([4, 6, 5]))
        self.assertEqual((found, range_of(found)), (2, (8 / 6, 3)))
        self.assertEqual(range_of(ratio(spread([8, 12, 10]), 2)), (4, 6))
        self.assertEqual((ratio(6, 3), range_of(ratio(6, 3))), (2, (2, 2)))

    def test_mean(self) -> None:
        self.assertAlmostEqual(mean_s(make_histogram([1_000_000, 3_000_000])), 0.002, delta=0.00001)
        self.assertRaisesRegex(ValueError, "no mean", mean_s, make_histogram())

    def test_joined(self) -> None:
        whole = decode(
            join_histograms([encode(make_histogram([1_000_000] * 3)), encode(make_histogram([9_000_000]))])
        )
        self.assertEqual(whole.get_total_count(), 4)
        self.assertAlmostEqual(percentile_s(whole, 100), 0.009, delta=0.0001)


class TestTimes(unittest.TestCase):
    def test_counts(self) -> None:
        times = [9.9, 10.0, 10.5, 11.0, 12.99, 13.0, 13.4]
        self.assertEqual(count_by_time(times, 10, 13, 1), [2, 1, 1])
        self.assertEqual(count_by_time(times, 10, 13.9, 1), [2, 1, 1])
        self.assertEqual(count_by_time(times, 10, 11, 0.25), [1, 0, 1, 0])
        self.assertEqual(count_by_time([], 0, 0.3, 0.1), [0, 0, 0])

    def test_percentiles(self) -> None:
        found = percentile_by_time([0.1, 0.2, 0.3, 2.5], [1, 2, 6, 7], 0, 3, 1, 50)
        self.assertEqual(found, [2, None, 7])

    def test_quantiles(self) -> None:
        self.assertEqual(quantiles([3, 1, 2, 5, 4], (0, 0.25, 0.5, 1)), [1, 2, 3, 5])
        self.assertEqual(quantiles([1, 2], (0.5,)), [1.5])
        self.assertRaises(ValueError, quantiles, [])

    def test_first_after(self) -> None:
        self.assertEqual(first_after([1, 5, 3, 2], 2), 3)
        self.assertIsNone(first_after([1, 2], 2))


class TestLoads(unittest.TestCase):
    def test_poisson_arrivals(self) -> None:
        """At 200/s the gaps have a mean of 5 ms and, as an exponential law has it, a deviation of the same."""
        times = arrivals(200, random.Random(1))
        found = [next(times) for _ in range(20_000)]
        gaps = [later - earlier for earlier, later in pairwise(found)]
        mean = sum(gaps) / len(gaps)
        deviation = (sum((gap - mean) ** 2 for gap in gaps) / len(gaps)) ** 0.5
        self.assertAlmostEqual(mean, 0.005, delta=0.0002)
        self.assertAlmostEqual(deviation, 0.005, delta=0.0002)

    def test_zipf(self) -> None:
        self.assertEqual(zipf_weights(4, 1), [1, 1 / 2, 1 / 3, 1 / 4])
        drawn = choose_directories(plan(zipf=1.0, directories=4), random.Random(1))
        found = [next(drawn) for _ in range(25_000)]
        self.assertAlmostEqual(found.count(0) / len(found), 12 / 25, delta=0.01)
        self.assertAlmostEqual(found.count(3) / len(found), 3 / 25, delta=0.01)

    def test_each_round_has_every_directory(self) -> None:
        drawn = choose_directories(plan(directories=5), random.Random(1))
        for _ in range(10):
            self.assertEqual(sorted(next(drawn) for _ in range(5)), [0, 1, 2, 3, 4])

    def test_directories_are_spread(self) -> None:
        of_children = Placement(3).of_children
        spread = name_directories(plan(ensembles=3, directories=7))
        self.assertEqual([of_children(each) for each in spread], [0, 1, 2, 0, 1, 2, 0])
        hashed = name_directories(plan(ensembles=3, directories=7, is_hashed=True))
        self.assertEqual(hashed, [f"/r/d{number}" for number in range(7)])

    def test_a_delete_follows_an_answered_create(self) -> None:
        requests = Requests(plan(directories=3), ["/a", "/b", "/c"], "x", random.Random(1), directory=1)
        first, second = requests.draw(), requests.draw()
        self.assertEqual([first.path, second.path], ["/b/x-0", "/b/x-1"])
        requests.done(first)
        self.assertEqual(requests.draw().path, first.path)
        self.assertEqual(requests.draw().path, "/b/x-2")

    def test_batches(self) -> None:
        """Recent reads come after the set of their znode, the others after all sets; each set is read once."""
        for share, kinds in (
            (0.0, [SET] * 4 + [GET] * 4),
            (0.5, [SET, GET, SET, GET, SET, SET, GET, GET]),
            (1.0, [SET, GET] * 4),
        ):
            requests = Requests(
                plan(write="set", batch=4, recent_share=share, directories=2), ["/a", "/b"], "x", random.Random(1)
            )
            for _ in range(3):
                drawn = [requests.draw() for _ in range(8)]
                self.assertEqual([each.kind for each in drawn], kinds)
                of_kind = [[each.path for each in drawn if each.kind == kind] for kind in (SET, GET)]
                self.assertEqual(of_kind[0], of_kind[1])
                recent = [before.path == each.path for before, each in pairwise(drawn) if each.kind == GET]
                self.assertTrue(all(recent[: round(4 * share)]))

    def test_a_mistaken_plan_names_the_entry(self) -> None:
        for entries, said in (
            ({"threds": 1}, "there is no entry threds; there are barrier_each, batch, begin_timeout_s, "),
            ({"system": "zookeper"}, "system is 'zookeper'; it must be one of kazoo, parkazoo"),
            ({"threads": 0}, "threads is 0; it must be at least 1"),
            ({"read_share": 90}, "read_share is 90; it must be 0 to 1"),
            ({"write": "set", "batch": 5, "read_share": 0.5}, "batch is for sets, and says how many reads"),
            ({"max_pending": 1, "threads": 2}, "max_pending is 1; 2 clients need at least one each"),
            ({"is_deferred": True}, "is_deferred is true; system must be 'parkazoo' and write 'set' then"),
        ):
            with self.subTest(said), self.assertRaisesRegex(PlanError, said):
                plan(**entries)
        with self.assertRaisesRegex(PlanError, "missing 3 required"):
            Plan.from_json({"system": "kazoo"})


class TestRecord(unittest.TestCase):
    def test_rows(self) -> None:
        record = Record()
        before_ns = time.time_ns()
        now_ns = time.perf_counter_ns()
        record.add(Request(CREATE, 7, "/a"), now_ns, now_ns + 5)
        record.add_failed(Request(DELETE, 8, "/a"), now_ns, now_ns + 6, ValueError(), late_ns=2)
        rows = read_rows(record.rows)
        self.assertEqual(rows["took_ns"].tolist(), [5, 6])
        self.assertEqual(rows["late_ns"].tolist(), [0, 2])
        self.assertEqual(rows["call_ns"].tolist(), [0, 0])
        self.assertEqual(rows["kind"].tolist(), [CREATE, DELETE])
        self.assertEqual(rows["directory"].tolist(), [7, 8])
        self.assertEqual(rows["outcome"].tolist(), [ANSWERED, FAILED])
        self.assertEqual(record.errors, {"ValueError": 1})
        self.assertAlmostEqual(rows["begun_ns"][0] / 1e9, before_ns / 1e9, delta=5)


class Answered:
    """An asynchronous result that is there at once."""

    exception = None

    def rawlink(self, callback: Callable[[Any], None]) -> None:
        callback(self)


class Stalling:
    """A client that stands still for some time at its first request, and then answers at once."""

    handler = SequentialThreadingHandler()

    def __init__(self, stall_s: float, requests: int, finish: Any) -> None:
        self._stall_s = stall_s
        self._left = requests
        self._finish = finish

    def set_async(self, path: str, value: bytes) -> Answered:
        time.sleep(self._stall_s)
        self._stall_s = 0
        self._left -= 1
        if not self._left:
            self._finish.set()
        return Answered()


class TestOpenLoop(unittest.TestCase):
    def test_who_stands_still_makes_all_wait(self) -> None:
        """The classic mistake is to count from the sending: then one request of a hundred would be slow."""
        finish = threading.Event()
        record, chance = Record(), random.Random(1)
        requests = Requests(plan(write="set", directories=1), ["/a"], "x", chance)
        run_open(Stalling(0.3, 100, finish), requests, record, finish, 1000, chance, most_s=60.0)
        rows = read_rows(record.rows)
        self.assertEqual(len(rows), 100)
        self.assertTrue((rows["took_ns"] >= rows["late_ns"]).all())
        self.assertGreater((rows["took_ns"] > 0.1e9).sum(), 90)

    def test_a_finish_that_does_not_come(self) -> None:
        """It may be behind more requests than can be answered: the loop ends by its own clock."""
        finish, record, chance = threading.Event(), Record(), random.Random(1)
        requests = Requests(plan(write="set", directories=1), ["/a"], "x", chance)
        run_open(Stalling(0, 1_000_000, finish), requests, record, finish, 1000, chance, most_s=0.1)
        rows = read_rows(record.rows)
        self.assertGreater(len(rows), 50)
        self.assertLessEqual((rows["begun_ns"].max() - rows["begun_ns"].min()) / 1e9, 0.1)

    def test_a_pool(self) -> None:
        """A thousand requests are meant for the first moments: never are there more than three outstanding."""
        finish, most, waiting = threading.Event(), 0, []

        class Later:
            exception = None

            def rawlink(self, callback: Callable[[Any], None]) -> None:
                nonlocal most
                waiting.append(partial(callback, self))
                most = max(most, len(waiting))

        client = Stalling(0, 1, finish)
        client.set_async = lambda path, value: Later()  # type: ignore[method-assign,assignment,return-value]
        record, chance = Record(), random.Random(1)
        requests = Requests(plan(write="set", directories=1), ["/a"], "x", chance)
        thread = threading.Thread(
            target=run_open, args=(client, requests, record, finish, 1_000_000.0, chance, 60.0), kwargs={"pool": 3}
        )
        thread.start()
        while len(record.rows) < 10 * ROW.size:
            while len(waiting) < 3:
                time.sleep(0.001)
            time.sleep(0.01)
            waiting.pop(0)()
        finish.set()
        while waiting:
            waiting.pop(0)()
        thread.join()
        rows = read_rows(record.rows)
        self.assertEqual(most, 3)
        self.assertGreater(rows["took_ns"][9], 0.09e9)  # it was meant for the beginning
        self.assertLess(rows["late_ns"].max(), rows["took_ns"].max())

    def test_chains(self) -> None:
        """One record of each; one that fails ends there."""
        asked = 0

        class Client:
            handler = SequentialThreadingHandler()

            def set_async(self, path: str, value: bytes) -> Answered:
                nonlocal asked
                asked += 1
                answer = Answered()
                answer.exception = ValueError() if asked == 13 else None  # type: ignore[assignment]
                return answer

        record = Record()
        outstanding = Outstanding(Client(), record)
        requests = Requests(plan(write="set", directories=1), ["/a"], "x", random.Random(1))
        for _ in range(3):
            outstanding.send(requests, time.perf_counter_ns(), chain=5)
        self.assertEqual((asked, len(outstanding)), (13, 0))
        self.assertEqual(read_rows(record.rows)["outcome"].tolist(), [ANSWERED, ANSWERED, FAILED])

    def test_what_is_never_answered_counts_with_the_time_until_the_end(self) -> None:
        class Never(Answered):
            def rawlink(self, callback: Callable[[Any], None]) -> None:
                pass

        client = Stalling(0, 1, threading.Event())
        client.set_async = lambda path, value: Never()  # type: ignore[method-assign]
        record = Record()
        outstanding = Outstanding(client, record)
        requests = Requests(plan(write="set", directories=1), ["/a"], "x", random.Random(1))
        outstanding.send(requests, time.perf_counter_ns() - 5_000_000_000)
        outstanding.wait_answered(0.05)
        (row,) = read_rows(record.rows)
        self.assertEqual(row["outcome"], UNANSWERED)
        self.assertGreater(row["took_ns"], 5e9)
