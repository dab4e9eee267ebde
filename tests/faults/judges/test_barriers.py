"""The judges of barriers: all together."""

from __future__ import annotations

from tests.faults.judges.journal import JudgeTest, Line, line
from tests.faults.load import Fault


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
