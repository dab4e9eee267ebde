"""The judges of the loads accept what may happen, and refuse each thing that may not."""

from __future__ import annotations

import unittest
from collections.abc import Sequence
from typing import Any

from tests.faults.load import Fault, Judgement, Record, Run
from tests.faults.run import all_loads
from tests.faults.worker import load_named

TIMEOUT_S = 10.0
Line = tuple[float, int, str, dict[str, Any]]  # when, which worker, what


def line(at_s: float, worker: int, what: str, **fields: Any) -> Line:
    return at_s, worker, what, fields


class JudgeTest(unittest.TestCase):
    """A history is lines. Every worker beats once a second from 0 to `until_s`, but for those in `silent`."""

    load: str

    def judge(
        self,
        *lines: Line,
        faults: Sequence[Fault] = (),
        until_s: float = 60.0,
        silent: dict[int, tuple[float, float]] | None = None,
        is_timed: bool = True,
    ) -> Judgement:
        lost = {worker: (began_s, ended_s) for worker, (began_s, ended_s) in (silent or {}).items()}
        records = [Record(at_s, worker, 0, what, fields) for at_s, worker, what, fields in lines]
        for worker in {each.worker for each in records if each.worker >= 0}:
            for at_s in range(int(until_s) + 1):
                began_s, ended_s = lost.get(worker, (-1.0, -1.0))
                if not began_s < at_s < ended_s:
                    records.append(Record(at_s, worker, 0, "beat", {}))
        records.sort(key=lambda each: each.at_s)
        return load_named(self.load).judge(Run(records, faults, TIMEOUT_S, is_timed))

    def accept(self, *lines: Line, **options: Any) -> Judgement:
        judgement = self.judge(*lines, **options)
        self.assertEqual(judgement.problems, [])
        return judgement

    def refuse(self, words: str, *lines: Line, **options: Any) -> None:
        problems = self.judge(*lines, **options).problems
        self.assertEqual(len(problems), 1, problems)
        self.assertIn(words, problems[0])


LOADS = {*all_loads()} - {"one_down", "registers"}  # which have tests of their own


class TestNothing(unittest.TestCase):
    def test_a_run_in_which_nothing_happened_is_refused(self) -> None:
        for name in sorted(LOADS):
            with self.subTest(name):
                self.assertTrue(load_named(name).judge(Run([], [], TIMEOUT_S)).problems)


def held(worker: int, hold: int, since_s: float, until_s: float, token: int, *versions: int) -> list[Line]:
    """Writes are at the beginning, all at once."""
    return [
        line(since_s - 1, worker, "asking", lock="/l", hold=hold),
        line(since_s, worker, "acquired", lock="/l", hold=hold, token=token),
        *(
            line(since_s + 0.2, worker, "guarded", hold=hold, began=since_s + 0.1, version=each)
            for each in versions
        ),
        line(until_s, worker, "releasing", hold=hold),
    ]


class TestLock(JudgeTest):
    load = "lock"

    def test_one_after_the_other(self) -> None:
        judgement = self.accept(*held(0, 1, 2, 5, 7, 1, 2), *held(1, 1, 5.1, 9, 8, 3), *held(0, 2, 9.1, 12, 9, 4))
        self.assertEqual(judgement.figures["held"], 3)
        self.assertEqual(judgement.figures["writes under it"], 4)

    def test_two_at_once(self) -> None:
        self.refuse("was held by", *held(0, 1, 2, 5, 7, 1, 2), *held(1, 1, 4.9, 9, 8, 3))

    def test_of_two_locks(self) -> None:
        other = [
            (at_s, worker, what, fields | ({"lock": "/m"} if "lock" in fields else {}))
            for at_s, worker, what, fields in held(1, 1, 3, 9, 8, 3)
        ]
        self.accept(*held(0, 1, 2, 5, 7, 1, 2), *other)

    def test_a_holder_that_was_told_to_have_lost_it(self) -> None:
        for state in ("SUSPENDED", "LOST"):
            told = line(4, 0, "state", state=state)
            self.accept(*held(0, 1, 2, 30, 7, 1), told, *held(1, 1, 4.1, 9, 8, 2))
            self.refuse("was held by", *held(0, 1, 2, 30, 7, 1), told, *held(1, 1, 3.9, 9, 8, 2))

    def test_a_frozen_holder(self) -> None:
        both = [*held(0, 1, 2, 30, 7, 1), *held(1, 1, 14, 20, 8, 2)]
        self.accept(*both, silent={0: (3, 29)})
        self.refuse("was held by", *both, silent={0: (15, 29)})

    def test_one_frozen_while_it_asked(self) -> None:
        self.accept(*held(0, 1, 20, 30, 7, 1), *held(1, 1, 20.3, 25, 8, 2), silent={0: (19.5, 23)})

    def test_a_killed_holder(self) -> None:
        killed = held(0, 1, 2, 30, 7, 1)[:-1]
        self.accept(*killed, *held(1, 1, 14, 20, 8, 2), silent={0: (3, 99)})
        self.refuse("was held by", *killed, *held(1, 1, 2.5, 20, 8, 2), silent={0: (3, 99)})

    def test_an_expired_holder(self) -> None:
        both = [*held(0, 1, 2, 30, 7, 1), *held(1, 1, 14, 20, 8, 2)]
        self.accept(*both, faults=[Fault(13.9, 14.1, "expire", "lock/0 on a")])
        self.refuse("was held by", *both, faults=[Fault(13.9, 14.1, "expire", "lock/1 on a")])

    def test_what_the_ensemble_has_confirmed_needs_no_connection(self) -> None:
        late = line(9, 0, "guarded", hold=1, began=8.0, version=2)
        told = line(3, 0, "state", state="SUSPENDED")
        self.accept(*held(0, 1, 2, 30, 7, 1), told, late, *held(1, 1, 8.1, 20, 8, 3))
        self.refuse("was held by", *held(0, 1, 2, 30, 7, 1), told, late, *held(1, 1, 7, 20, 8, 3))

    def test_writes_in_turns(self) -> None:
        self.refuse("with token 7 after", *held(0, 1, 2, 5, 7, 1, 4), *held(1, 1, 5.1, 9, 8, 3))

    def test_one_version_twice(self) -> None:
        self.refuse("wrote version 2", *held(0, 1, 2, 5, 7, 1, 2), *held(1, 1, 5.1, 9, 8, 2))

    def test_a_sequence_number_twice(self) -> None:
        self.refuse("with token 7", *held(0, 1, 2, 5, 7, 1, 2), *held(1, 1, 5.1, 9, 7, 3))

    def test_a_lock_lost_in_peace(self) -> None:
        lost = [*held(0, 1, 2, 5, 7, 1), line(4, 0, "refused", hold=1, began=3.9, errors=["NoNodeError"])]
        self.refuse("though its session lived", *lost)
        self.accept(*lost, line(6, 0, "state", state="LOST"))

    def test_a_lock_that_was_not_there_when_acquire_returned(self) -> None:
        refused = line(2.2, 0, "refused", hold=1, began=2.1, errors=["NoNodeError"])
        self.refuse("though its session lived", *held(0, 1, 2, 5, 7), refused, *held(1, 1, 2.5, 9, 8, 3))

    def test_contenders_left_behind(self) -> None:
        self.refuse("left behind", *held(0, 1, 2, 5, 7, 1), line(9, -1, "contenders", lock="/l", left=["x"]))


class TestCrowd(JudgeTest):
    load = "crowd"

    def judge(self, *lines: Line, **options: Any) -> Judgement:
        """Workers are clients of worker 0, of which each has been seen once."""
        own = [
            (at_s, min(worker, 0), what, fields if worker < 0 else fields | {"client": worker})
            for at_s, worker, what, fields in [line(0, 0, "seen", state="CONNECTED"), *lines]
        ]
        return super().judge(*own, **options)

    def test_one_after_the_other(self) -> None:
        judgement = self.accept(*held(0, 1, 2, 5, 7, 1, 2), *held(1, 1, 5.1, 9, 8, 3))
        self.assertEqual(judgement.figures["held"], 2)

    def test_two_clients_of_one_process(self) -> None:
        self.refuse("was held by", *held(0, 1, 2, 5, 7, 1, 2), *held(1, 1, 4.9, 9, 8, 3))

    def test_a_client_that_was_suspended_when_it_ought_to_be(self) -> None:
        both = [*held(0, 1, 2, 30, 7, 1), *held(1, 1, 14, 20, 8, 2)]
        self.accept(*both, line(5, 0, "seen", state="SUSPENDED"))
        self.refuse("was held by", *both, line(19, 0, "seen", state="SUSPENDED"))
        self.refuse("was held by", *both, line(5, 1, "seen", state="SUSPENDED"))

    def test_a_frozen_process(self) -> None:
        self.accept(*held(0, 1, 2, 30, 7, 1), *held(1, 1, 29, 40, 8, 2), silent={0: (3, 29)})

    def test_an_expired_client(self) -> None:
        both = [*held(0, 1, 2, 30, 7, 1), *held(1, 1, 14, 20, 8, 2)]
        self.accept(*both, faults=[Fault(13.9, 14.1, "expire", "crowd/0 on a")])
        self.refuse("was held by", *both, faults=[Fault(13.9, 14.1, "expire", "crowd/1 on a")])

    def test_creates(self) -> None:
        lock, made = held(0, 1, 2, 5, 7, 1), line(3, 0, "made", path="/d/0.0.1-0000000003")

        def listed(*names: str) -> Line:
            return line(50, -1, "listed", directory="/d", names=names)

        self.accept(*lock, made, listed("0.0.1-0000000003", "0.0.2-0000000004"))
        self.refuse("0.0.1 was done 2 times", *lock, made, listed("0.0.1-0000000003", "0.0.1-0000000004"))
        self.refuse("is not there", *lock, made, listed("0.0.2-0000000004"))


class TestElection(TestLock):
    load = "election"


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

    def test_cut_short_by_a_kill(self) -> None:
        for value in (2, 3):
            cut = [*added(2, 0, 0, 1), line(3, 0, "adding"), *added(9, 0, value - 2, value - 1)]
            self.accept(*cut[:3], self.end(value - 1))
        self.accept(*added(2, 0, 0, 1), line(3, 0, "adding"), *added(9, 0, 1, 2), self.end(3))
        self.accept(*added(2, 0, 0, 1), line(3, 0, "adding"), *added(9, 0, 2, 3), self.end(3))
        self.refuse(
            "4 adds of worker 0, not 3", *added(2, 0, 0, 1), line(3, 0, "adding"), *added(9, 0, 2, 3), self.end(4)
        )


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


class TestBarrier(JudgeTest):
    load = "barrier"

    def removed(self, gate: int, began_s: float) -> list[Line]:
        return [line(began_s, 0, "removing", gate=gate), line(began_s + 1, 0, "removed", gate=gate)]

    def waited(self, worker: int, gate: int, since_s: float, until_s: float, end: str = "passed") -> list[Line]:
        return [line(since_s, worker, "waiting", gate=gate), line(until_s, worker, end, gate=gate)]

    def standing(self, *gates: int) -> Line:
        return line(50, -1, "standing", gates=gates)

    def test_released(self) -> None:
        both = [*self.waited(1, 3, 2, 5.5), *self.waited(2, 3, 2, 6.5)]
        self.accept(*self.removed(3, 5), *both, self.standing(4))

    def test_passed_before(self) -> None:
        self.refuse("before its removal", *self.removed(3, 5), *self.waited(1, 3, 2, 4.9), self.standing(4))

    def test_passed_without_removal(self) -> None:
        self.refuse("before its removal", *self.waited(1, 3, 2, 4.9), self.standing(3))

    def test_held_up(self) -> None:
        late = [*self.removed(3, 5), *self.waited(2, 3, 5, 6), *self.waited(1, 3, 2, 16.1, "not passed")]
        for is_timed in (False, True):
            self.refuse("after its removal", *late, self.standing(4), is_timed=is_timed)
        passed = [*self.removed(3, 5), *self.waited(2, 3, 5, 6), *self.waited(1, 3, 2, 16.1)]
        self.refuse("after its removal", *passed, self.standing(4))
        self.accept(*passed, self.standing(4), is_timed=False)
        self.accept(*late, line(8, 1, "state", state="SUSPENDED"), self.standing(4))
        away = [line(1.5, 1, "state", state="SUSPENDED"), line(16, 1, "state", state="CONNECTED")]
        self.accept(*late, *away, self.standing(4))  # lost before it began to wait
        self.accept(*late, self.standing(4), silent={1: (6, 12)})

    def test_still_there(self) -> None:
        self.refuse("still stands", *self.removed(3, 5), *self.waited(1, 3, 2, 6), self.standing(3, 4))


class TestDoubleBarrier(JudgeTest):
    load = "double_barrier"

    def part(self, worker: int, *times_s: float) -> list[Line]:
        words = ("entering", "entered", "leaving", "left")
        return [line(at_s, worker, word, round=1) for at_s, word in zip(times_s, words, strict=False)]

    def test_together(self) -> None:
        self.accept(*self.part(0, 1, 3, 5, 8), *self.part(1, 2, 3.1, 4, 8.1), *self.part(2, 2.5, 3.2, 7, 7.9))

    def test_entered_alone(self) -> None:
        self.refuse(
            "worker 0, life 0 entered at 2.4",
            *self.part(0, 1, 2.4, 5, 8),
            *self.part(1, 2, 3.1, 4, 8.1),
            *self.part(2, 2.5, 3.2, 7, 7.9),
        )

    def test_left_alone(self) -> None:
        two = [*self.part(1, 2, 3.1, 4, 8.1), *self.part(2, 2.5, 3.2, 7.5, 7.9)]
        self.refuse("worker 0, life 0 left at 7.0", *self.part(0, 1, 3, 5, 7), *two)
        self.accept(*self.part(0, 1, 3, 5, 7), *two, line(6.9, 2, "state", state="LOST"))
        self.accept(*self.part(0, 1, 3, 5, 7), *two, faults=[Fault(6, 6.1, "expire", "double_barrier/2 on a")])

    def test_left_by_one_who_gave_up(self) -> None:
        two = [*self.part(1, 2, 3.1, 4, 8.1), *self.part(2, 2.5, 3.2), line(6, 2, "given up", round=1)]
        self.accept(*self.part(0, 1, 3, 5, 7), *two)


class TestSetPartitioner(JudgeTest):
    load = "set_partitioner"

    def used(self, worker: int, since_s: float, until_s: float, *items: str, end: str = "releasing") -> list[Line]:
        member = f"{worker}.0.1"
        return [
            line(since_s, worker, "acquired", member=member, items=items, began=since_s),
            line(since_s + 0.1, worker, "acquired", member=member, items=items, began=since_s + 0.1),
            line(until_s, worker, end, member=member),
        ]

    def test_divided(self) -> None:
        self.accept(*self.used(0, 2, 9, "x", "y"), *self.used(1, 3, 8, "z"), *self.used(2, 9.1, 12, "x"))

    def test_twice(self) -> None:
        self.refuse("x was held by member 0.0.1", *self.used(0, 2, 9, "x", "y"), *self.used(1, 3, 8, "x"))
        self.refuse("y was held", *self.used(0, 2, 9, "x", "y"), *self.used(1, 8.9, 12, "y"))

    def test_a_session_that_ended(self) -> None:
        both = [*self.used(0, 2, 9, "x", "y", end="failed"), *self.used(1, 8, 12, "y")]
        self.refuse("y was held", *both)
        self.accept(*both, line(7.9, 0, "state", state="LOST"))
        self.accept(*both, silent={0: (3, 9)})

    def test_a_killed_member(self) -> None:
        self.refuse("y was held", *self.used(0, 2, 9, "y")[:-1], *self.used(1, 20, 22, "y"))
        self.accept(*self.used(0, 2, 9, "y")[:-1], *self.used(1, 20, 22, "y"), silent={0: (3, 99)})


class TestEphemerals(JudgeTest):
    load = "ephemerals"

    def made(self, worker: int, name: str, at_s: float, owner: int = 7) -> list[Line]:
        return [
            line(at_s - 0.5, worker, "creating", directory="/d", name=name),
            line(at_s, worker, "created", directory="/d", name=name, owner=owner),
        ]

    def listed(self, at_s: float, *names: str) -> Line:
        return line(at_s, 0, "listed", directory="/d", ensemble="a", began=at_s - 0.1, names=names)

    def end(self, at_s: float = 59.0, *names: str) -> Line:
        return line(at_s, -1, "listed", directory="/d", ensemble="a", began=at_s - 0.1, names=names)

    def test_there_and_gone(self) -> None:
        lines = [*self.made(1, "x", 2), self.listed(3, "x"), line(4, 1, "closed"), self.listed(5), self.end()]
        self.assertEqual(self.accept(*lines).figures["of ended sessions"], 1)

    def test_gone_late(self) -> None:
        for end in (line(4, 1, "closed"), line(4, 1, "state", state="LOST")):
            lines = [*self.made(1, "x", 2), self.listed(3, "x"), end]
            self.accept(*lines, self.listed(24, "x"), self.listed(25), self.end())
            late = [*lines, self.listed(24.2, "x"), self.listed(25), self.end()]
            self.refuse("its session ended at 4", *late)
            self.accept(*late, is_timed=False)

    def test_gone_late_after_a_kill(self) -> None:
        lines = [*self.made(1, "x", 2), self.listed(3, "x"), line(30, 1, "began")]
        killed = [Fault(3.8, 30, "kill client", "ephemerals/1", since_s=4)]
        self.accept(*lines, self.listed(24, "x"), self.end(), faults=killed)
        self.refuse("its session ended at 4", *lines, self.listed(24.2, "x"), self.end(), faults=killed)

    def test_of_a_process_that_was_let_die(self) -> None:
        words = {"name": "y", "directories": ["/d"]}
        lines = [*self.made(1, "x", 2), line(3, 1, "bearing", **words), line(4, 1, "died", **words)]
        self.accept(*lines, self.listed(24, "x", "y"), self.end(59, "x"))
        self.refuse("/d/y is there at 24.1", *lines, self.listed(24.2, "x", "y"), self.end(59, "x"))

    def test_a_leader_that_failed(self) -> None:
        lines = [*self.made(1, "x", 2), self.listed(3, "x"), line(4, 1, "closed")]
        failed = [Fault(10, 15, "freeze", "a2", "leader")]
        self.accept(*lines, self.listed(35, "x"), self.end(), faults=failed)
        self.refuse("its session ended at 4", *lines, self.listed(35.2, "x"), self.end(), faults=failed)
        for other in (Fault(10, 15, "freeze", "b2", "leader"), Fault(10, 15, "freeze", "a2", "follower")):
            self.refuse("its session ended at 4", *lines, self.listed(35, "x"), self.end(), faults=[other])

    def test_a_follower_that_came_back(self) -> None:
        lines = [*self.made(1, "x", 2), self.listed(3, "x"), line(4, 1, "closed")]
        for kind in ("kill", "cut off"):
            away = [Fault(1, 10, kind, "a2", "follower")]
            self.accept(*lines, self.listed(30, "x"), self.end(), faults=away)
            self.refuse("its session ended at 4", *lines, self.listed(30.2, "x"), self.end(), faults=away)
        for other in (Fault(1, 10, "kill", "b2", "follower"), Fault(1.6, 10, "kill", "a2", "follower")):
            self.refuse("its session ended at 4", *lines, self.listed(30, "x"), self.end(), faults=[other])

    def test_never_gone(self) -> None:
        lines = [*self.made(1, "x", 2), self.listed(3, "x"), line(4, 1, "closed")]
        for is_timed in (False, True):
            self.refuse("its session ended at 4", *lines, self.end(59, "x"), is_timed=is_timed)

    def test_gone_before(self) -> None:
        lines = [*self.made(1, "x", 2), self.listed(5), *self.made(1, "y", 6), self.end()]
        self.refuse("/d/x is missing at 5", *lines)
        self.accept(*lines, line(5.2, 1, "state", state="LOST"))
        self.accept(*lines, line(4, 1, "deleting", directory="/d", name="x"))
        other = [*self.made(1, "x", 2), self.listed(5), *self.made(1, "y", 6, owner=8), self.end()]
        self.accept(*other)  # another session, though no record has said so yet


class TestWatches(JudgeTest):
    load = "watches"

    def changed(self, at_s: float, kind: str, number: int, child: str = "") -> list[Line]:
        znode = {"create": [1, 0], "set": [1, number]}.get(kind)
        return [
            line(at_s, 0, "changing", path="/d", kind=kind, number=number, child=child),
            line(at_s + 0.1, 0, "changed", path="/d", number=number, znode=znode, value=number),
        ]

    def set_up(self) -> list[Line]:
        """/d is created, set, given a child; the child is taken away, and /d."""
        return [
            *self.changed(1, "create", 1),
            *self.changed(3, "set", 2),
            *self.changed(5, "add", 3, "c"),
            *self.changed(7, "drop", 4, "c"),
            *self.changed(9, "delete", 5),
        ]

    def armed(self, at_s: float, watch: int, kind: str, value: Any) -> Line:
        return line(at_s, 1, "armed", watch=watch, path="/d", kind=kind, value=value)

    def told(self, at_s: float, watch: int, kind: str, event: str, of: str = "/d") -> Line:
        return line(at_s, 1, "event", watch=watch, path="/d", kind=kind, type=event, of=of)

    def read(self, at_s: float, kind: str, value: Any) -> Line:
        return line(at_s, 1, "read", path="/d", kind=kind, value=value)

    def test_all_told(self) -> None:
        exists = line(2, 1, "armed", watch=2, path="/d", kind="exists", znode=[1, 0])
        absent = line(0.5, 1, "armed", watch=3, path="/d", kind="exists", znode=None)
        judgement = self.accept(
            *self.set_up(),
            *(absent, self.told(1.1, 3, "exists", "CREATED")),
            *(self.armed(2, 1, "data", 1), exists),
            *(self.told(3.1, 1, "data", "CHANGED"), self.told(3.1, 2, "exists", "CHANGED")),
            *(self.armed(4, 4, "children", []), self.armed(4, 5, "data", 2)),
            *(self.told(5.1, 4, "children", "CHILD"), self.armed(5.2, 6, "children", ["c"])),
            *(self.told(7.1, 6, "children", "CHILD"), self.armed(7.2, 7, "children", [])),
            *(self.told(9.1, 7, "children", "DELETED"), self.told(9.1, 5, "data", "DELETED")),
        )
        self.assertEqual(judgement.figures["events"], 7)

    def test_told_twice(self) -> None:
        events = [self.told(at_s, 1, "data", "CHANGED") for at_s in (3.1, 3.2)]
        self.refuse("got 2 events", *self.set_up(), self.armed(2, 1, "data", 1), *events)

    def test_told_of_what_was_not(self) -> None:
        for event in (
            self.told(3.1, 1, "data", "DELETED"),
            self.told(3.1, 1, "data", "CREATED"),
            self.told(2.9, 1, "data", "CHANGED"),
            self.told(3.1, 1, "data", "CHANGED", "/e"),
        ):
            self.refuse("not what came next", *self.set_up(), self.armed(2, 1, "data", 1), event)

    def test_told_though_refused(self) -> None:
        refused = line(0.5, 1, "refused", watch=1, path="/d", kind="data")
        told = [self.armed(2, 2, "data", 1), self.told(3.1, 2, "data", "CHANGED")]
        self.refuse("had been refused", *self.set_up(), refused, self.told(1.1, 1, "data", "CREATED"), *told)
        self.accept(*self.set_up(), self.told(1.1, 1, "data", "CREATED"), *told)  # its connection was lost

    def test_told_nothing(self) -> None:
        told = [self.armed(2, 2, "exists", 1), self.told(3.1, 2, "exists", "CHANGED")]
        silent = [self.armed(2, 1, "data", 1), self.read(4, "data", 2)]
        for is_timed in (False, True):
            self.refuse("got no event", *self.set_up(), *told, *silent, is_timed=is_timed)
        self.accept(*self.set_up(), *told, *silent, self.told(13, 1, "data", "NONE"))
        late = self.told(14.1, 1, "data", "CHANGED")
        self.refuse("got no event", *self.set_up(), *told, *silent, late)
        self.accept(*self.set_up(), *told, *silent, late, is_timed=False)
        self.accept(*self.set_up(), *told, *silent, until_s=13)

    def test_read_in_disorder(self) -> None:
        told = [self.armed(2, 2, "data", 1), self.told(3.1, 2, "data", "CHANGED")]
        self.refuse(
            "does not come after 2", *self.set_up(), *told, self.read(4, "data", 2), self.read(4.1, "data", 1)
        )
        self.refuse("does not come after", *self.set_up(), *told, self.read(2.5, "data", 2))
        self.refuse("does not come after", *self.set_up(), *told, self.read(6, "children", ["x"]))

    def test_an_unknown_end(self) -> None:
        told = [self.armed(2, 2, "data", 1), self.told(3.1, 2, "data", "CHANGED")]
        begun = [*self.set_up()[:-2], line(9, 0, "changing", path="/d", kind="delete", number=5, child="")]
        gone = line(11, 0, "found", path="/d", value=None, children=[], znode=None)
        self.accept(*begun, gone, *told, self.read(12, "data", None))
        still = line(11, 0, "found", path="/d", value=2, children=[], znode=[1, 2])
        self.accept(*begun, still, *told)
        self.refuse("does not come after", *begun, still, *told, self.read(12, "data", None))

    def test_the_writer_finds_something_else(self) -> None:
        told = [self.armed(2, 2, "data", 1), self.told(3.1, 2, "data", "CHANGED")]
        found = line(8, 0, "found", path="/d", value=1, children=[], znode=[1, 0])
        self.refuse("not what it had written", *self.set_up(), found, *told)

    def test_a_change_that_was_contradicted(self) -> None:
        told = [self.armed(2, 2, "data", 1), self.told(3.1, 2, "data", "CHANGED")]
        begun = [*self.set_up()[:-2], line(9, 0, "changing", path="/d", kind="delete", number=5, child="")]
        answer = line(9.1, 0, "contradicted", path="/d", number=5, error="NoNodeError()", is_first=False)
        self.refuse("delete was answered NoNodeError", *begun, answer, *told)
