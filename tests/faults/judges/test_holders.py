"""The judges of what one client at a time may hold: locks, elections, items of a partitioner."""

from __future__ import annotations

from typing import Any

from tests.faults.judges.journal import JudgeTest, Line, line
from tests.faults.load import Fault, Judgement


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

    def test_a_holder_that_was_suspended_by_another_ensemble(self) -> None:
        both = [line(1.5, 0, "state", state="SUSPENDED"), *held(0, 1, 2, 30, 7, 1), *held(1, 1, 14, 20, 8, 2)]
        self.accept(*both, line(29, 0, "state", state="LOST"))
        self.refuse("was held by", *both, line(1.8, 0, "state", state="CONNECTED"))

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


class TestAsyncioLock(JudgeTest):
    """Of a process with several clients."""

    load = "asyncio_lock"
    state = "state"

    def judge(self, *lines: Line, **options: Any) -> Judgement:
        """Workers are clients of worker 0, of which each has been seen once."""
        own = [
            (at_s, min(worker, 0), what, fields if worker < 0 else fields | {"client": worker})
            for at_s, worker, what, fields in [line(0, 0, self.state, state="CONNECTED"), *lines]
        ]
        return super().judge(*own, **options)

    def test_one_after_the_other(self) -> None:
        judgement = self.accept(*held(0, 1, 2, 5, 7, 1, 2), *held(1, 1, 5.1, 9, 8, 3))
        self.assertEqual(judgement.figures["held"], 2)

    def test_two_clients_of_one_process(self) -> None:
        self.refuse("was held by", *held(0, 1, 2, 5, 7, 1, 2), *held(1, 1, 4.9, 9, 8, 3))

    def test_a_client_that_was_suspended_when_it_ought_to_be(self) -> None:
        both = [*held(0, 1, 2, 30, 7, 1), *held(1, 1, 14, 20, 8, 2)]
        self.accept(*both, line(5, 0, self.state, state="SUSPENDED"))
        self.refuse("was held by", *both, line(19, 0, self.state, state="SUSPENDED"))
        self.refuse("was held by", *both, line(5, 1, self.state, state="SUSPENDED"))

    def test_a_frozen_process(self) -> None:
        self.accept(*held(0, 1, 2, 30, 7, 1), *held(1, 1, 29, 40, 8, 2), silent={0: (3, 29)})

    def test_an_expired_client(self) -> None:
        both = [*held(0, 1, 2, 30, 7, 1), *held(1, 1, 14, 20, 8, 2)]
        self.accept(*both, faults=[Fault(13.9, 14.1, "expire", f"{self.load}/0 on a")])
        self.refuse("was held by", *both, faults=[Fault(13.9, 14.1, "expire", f"{self.load}/1 on a")])


class TestCrowd(TestAsyncioLock):
    load = "crowd"
    state = "seen"

    def test_creates(self) -> None:
        lock, made = held(0, 1, 2, 5, 7, 1), line(3, 0, "made", path="/d/0.0.1-0000000003")

        def listed(*names: str) -> Line:
            return line(50, -1, "listed", directory="/d", names=names)

        self.accept(*lock, made, listed("0.0.1-0000000003", "0.0.2-0000000004"))
        self.refuse("0.0.1 was done 2 times", *lock, made, listed("0.0.1-0000000003", "0.0.1-0000000004"))
        self.refuse("is not there", *lock, made, listed("0.0.2-0000000004"))


class TestElection(TestLock):
    load = "election"


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
