"""The judges of counters and queues: each add and each item counts once."""

from __future__ import annotations

from tests.faults.judges.journal import JudgeTest, Line, line

UNIT = 10**12  # what worker 1 adds to the counter


def added(at_s: float, worker: int, before: int, after: int) -> list[Line]:
    return [line(at_s - 1, worker, "adding"), line(at_s, worker, "added", before=before, after=after)]


class TestCounter(JudgeTest):
    load = "counter"

    def test_two(self) -> None:
        self.accept(
            *added(2, 0, 0, 1), *added(3, 1, 1, UNIT + 1), *added(4, 0, UNIT + 1, UNIT + 2), self.end(UNIT + 2)
        )

    def end(self, value: int) -> Line:
        return line(50, -1, "sum", after=value)

    def test_a_lost_update(self) -> None:
        problems = self.judge(*added(2, 0, 0, 1), *added(3, 1, 0, UNIT), self.end(UNIT)).problems
        self.assertEqual(len(problems), 2)
        self.assertIn("both added to 0", problems[0])
        self.assertIn("0 adds of worker 0, not 1", problems[1])

    def test_added_twice(self) -> None:
        self.refuse("2 adds of worker 0, not 1", *added(2, 0, 0, 1), self.end(2))

    def test_an_acknowledged_add_is_gone(self) -> None:
        self.refuse("1 adds of worker 0, not 2", *added(2, 0, 0, 1), *added(4, 0, 1, 2), self.end(1))

    def test_a_wrong_sum(self) -> None:
        problems = self.judge(*added(2, 0, 0, 2), self.end(2)).problems
        self.assertIn("worker 0, life 0 added to 0 and made it 2", problems)

    def test_a_lost_connection(self) -> None:
        for value in (1, 2):
            lost = [line(3, 0, "adding"), line(4, 0, "lost"), line(5, 0, "read", after=value)]
            self.accept(*added(2, 0, 0, 1), *lost, self.end(value))
            self.refuse(f"not {value}", *added(2, 0, 0, 1), *lost, self.end(value + 1))
        lost[-1] = line(5, 0, "read", after=3)
        self.refuse("3 adds of worker 0, not 1 to 2", *added(2, 0, 0, 1), *lost, self.end(3))

    def test_the_error_says_that_it_was_not_done(self) -> None:
        refused = [line(3, 0, "adding"), line(4, 0, "not added")]
        self.accept(*added(2, 0, 0, 1), *refused, line(5, 0, "read", after=1), self.end(1))
        wrong = line(5, 0, "read", after=2)
        self.refuse("2 adds of worker 0, not 1", *added(2, 0, 0, 1), *refused, wrong, self.end(2))

    def test_cut_short_by_a_kill(self) -> None:
        for value in (2, 3):
            cut = [*added(2, 0, 0, 1), line(3, 0, "adding"), *added(9, 0, value - 2, value - 1)]
            self.accept(*cut[:3], self.end(value - 1))
        self.accept(*added(2, 0, 0, 1), line(3, 0, "adding"), *added(9, 0, 1, 2), self.end(3))
        self.accept(*added(2, 0, 0, 1), line(3, 0, "adding"), *added(9, 0, 2, 3), self.end(3))
        self.refuse(
            "4 adds of worker 0, not 3", *added(2, 0, 0, 1), line(3, 0, "adding"), *added(9, 0, 2, 3), self.end(4)
        )

    def test_interrupted(self) -> None:
        """It counts or not, now or later. What was acknowledged counts."""
        begun = [*added(2, 0, 0, 1), line(3, 0, "adding"), line(3.1, 0, "interrupted")]
        for value in (1, 2):
            self.accept(*begun, self.end(value))
            self.accept(*begun, *added(9, 0, value, value + 1), self.end(value + 1))
        self.accept(*begun, *added(9, 0, 1, 2), self.end(3))
        self.refuse("3 adds of worker 0, not 1 to 2", *begun, self.end(3))
        self.refuse("0 adds of worker 0, not 1 to 2", *begun, self.end(0))
        self.refuse("1 adds of worker 0, not 2 to 3", *begun, *added(9, 0, 1, 2), self.end(1))


class TestQueue(JudgeTest):
    load = "queue"

    def test_given_once(self) -> None:
        self.accept(*self.put("x", "y", "z"), *self.got("x", None, "z"), self.left("y"))

    def put(self, *items: str) -> list[Line]:
        begun = [line(number, 0, "putting", item=item) for number, item in enumerate(items)]
        return begun + [line(number + 0.5, 0, "put", item=item) for number, item in enumerate(items)]

    def got(self, *items: str | None) -> list[Line]:
        begun = [line(20 + number, 1, "getting") for number, _ in enumerate(items)]
        return begun + [line(20.5 + number, 1, "got", item=item) for number, item in enumerate(items)]

    def left(self, *items: str) -> Line:
        return line(50, -1, "left", items=items)

    def test_given_twice(self) -> None:
        self.refuse("x was given 2 times", *self.put("x"), *self.got("x", "x"), self.left())

    def test_an_item_is_gone_though_the_get_was_not_done(self) -> None:
        begun = line(20.8, 1, "getting")
        self.accept(*self.put("x", "y"), *self.got("y"), begun, line(21, 1, "lost"), self.left())
        refused = line(21, 1, "not done")
        self.refuse("only 0 gets", *self.put("x", "y"), *self.got("y"), begun, refused, self.left())

    def test_given_and_there(self) -> None:
        self.refuse("x was given and is still there", *self.put("x"), *self.got("x"), self.left("x"))

    def test_there_twice(self) -> None:
        self.refuse("y is there 2 times", *self.put("x", "y"), *self.got("x"), self.left("y", "y"))

    def test_from_nowhere(self) -> None:
        self.refuse("no worker has put item y", *self.put("x"), *self.got("x", "y"), self.left())

    def test_missing(self) -> None:
        self.refuse("1 items are missing", *self.put("x", "y"), *self.got("x"), self.left())
        self.accept(*self.put("x", "y"), *self.got("x"), line(30, 2, "getting"), self.left())
        self.refuse("2 items", *self.put("x", "y", "z"), *self.got("x"), line(30, 2, "getting"), self.left())

    def test_a_put_that_was_lost(self) -> None:
        begun = line(3, 2, "putting", item="y")
        self.accept(*self.put("x"), begun, *self.got("x"), self.left())
        self.accept(*self.put("x"), begun, *self.got("x", "y"), self.left())

    def test_interrupted(self) -> None:
        """A get may have taken one item, a put may have put its own. What was acknowledged is there."""
        cut = [line(30, 2, "getting"), line(30.1, 2, "interrupted"), line(31, 2, "putting", item="w")]
        cut.append(line(31.1, 2, "interrupted"))
        for left in ((), ("w",), ("y",)):
            self.accept(*self.put("x", "y"), *self.got("x"), *cut, self.left(*left))
        self.refuse("2 items are missing", *self.put("x", "y", "z"), *self.got("x"), *cut, self.left("w"))
        self.refuse("y was given 2 times", *self.put("x", "y"), *self.got("y", "y"), *cut, self.left("x"))


class TestLockingQueue(JudgeTest):
    load = "locking_queue"

    def put(self, *items: str) -> list[Line]:
        return [line(0, 0, what, item=item) for item in items for what in ("putting", "put")]

    def used(
        self, worker: int, item: str, since_s: float, until_s: float, *, ok: bool = True, losses: int = 0
    ) -> list[Line]:
        return [
            line(since_s - 0.5, worker, "getting"),
            line(since_s, worker, "got", item=item),
            line(until_s, worker, "consuming", item=item),
            line(until_s + 0.5, worker, "consumed", item=item, ok=ok, losses=losses),
        ]

    def left(self, *items: str) -> Line:
        return line(50, -1, "left", items=items)

    def test_consumed_or_there(self) -> None:
        self.accept(*self.put("x", "y"), *self.used(1, "x", 2, 5), self.left("y"))

    def test_lost(self) -> None:
        self.refuse("item y is lost", *self.put("x", "y"), *self.used(1, "x", 2, 5), self.left())

    def test_lost_though_not_consumed(self) -> None:
        other = self.used(2, "y", 6, 8, ok=False)
        self.refuse("item y is lost", *self.put("x", "y"), *self.used(1, "x", 2, 5), *other, self.left())

    def test_in_doubt(self) -> None:
        for other in (self.used(2, "y", 6, 8, ok=False, losses=1), self.used(2, "y", 6, 8)[:3]):
            for left in ((), ("y",)):
                self.accept(*self.put("x", "y"), *self.used(1, "x", 2, 5), *other, self.left(*left))

    def test_interrupted(self) -> None:
        """The same worker goes on, and consumes another one."""
        cut = [*self.used(1, "x", 2, 5)[:3], line(5.1, 1, "interrupted"), *self.used(1, "y", 6, 8)]
        for left in ((), ("x",)):
            self.accept(*self.put("x", "y"), *cut, self.left(*left))
        self.refuse("item z is lost", *self.put("x", "y", "z"), *cut, self.left())
        self.refuse("y was consumed and is still there", *self.put("x", "y"), *cut, self.left("y"))

    def test_consumed_twice(self) -> None:
        twice = [*self.used(1, "x", 2, 5), *self.used(2, "x", 6, 8)]
        self.refuse("x was consumed 2 times", *self.put("x"), *twice, self.left())

    def test_consumed_and_there(self) -> None:
        self.refuse("x was consumed and is still there", *self.put("x"), *self.used(1, "x", 2, 5), self.left("x"))

    def test_given_to_two(self) -> None:
        other = [line(2.5, 2, "getting"), line(3, 2, "got", item="x")]
        self.refuse("while worker 1", *self.put("x"), *self.used(1, "x", 2, 5), *other, self.left())
        self.accept(*self.put("x"), *self.used(1, "x", 4, 5), *other, self.left())
        frozen = [line(0.5, 2, "getting"), line(30, 2, "got", item="x")]
        self.accept(*self.put("x"), *self.used(1, "x", 29, 31), *frozen, self.left(), silent={2: (1, 30)})
