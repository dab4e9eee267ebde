"""The judge of deferred writes: a prefix, each once, and as the tickets say."""

from __future__ import annotations

from typing import Any

from tests.faults.judges.journal import JudgeTest, Line, line


class TestDeferredWrites(JudgeTest):
    load = "deferred"

    def history(self, value: int, version: int, *states: tuple[str, int], **options: Any) -> list[Line]:
        """Ten are issued, and another znode gets all of its own."""
        told = [line(4, 1, "told", name="x", states=states)] if states else []
        return [
            line(1, 0, "issuing", names=["y"], each=1),
            line(2, 0, "barrier", names=["y"], each=1),
            line(2, 1, "issuing", names=["x"], each=10),
            *([line(3, 1, "barrier", names=["x"], each=10)] if options.get("barrier") else []),
            *told,
            line(50, -1, "found", name="y", value=1, version=1),
            line(50, -1, "found", name="x", value=value, version=version),
        ]

    def test_all(self) -> None:
        self.accept(*self.history(10, 10, ("committed", 10), barrier=True))

    def test_a_prefix(self) -> None:
        self.accept(*self.history(4, 4, ("committed", 4), ("dropped", 6)))
        self.accept(*self.history(0, 0, ("dropped", 10)))

    def test_a_process_that_was_killed(self) -> None:
        for count in (0, 7, 10):
            self.accept(*self.history(count, count))

    def test_twice(self) -> None:
        self.refuse("holds 10, but was written 11 times", *self.history(10, 11, ("committed", 10)))

    def test_a_hole(self) -> None:
        self.refuse("holds 10, but was written 9 times", *self.history(10, 9, ("committed", 10)))
        self.refuse("has tickets", *self.history(4, 4, ("committed", 2), ("dropped", 1), ("committed", 2)))

    def test_a_committed_write_is_gone(self) -> None:
        self.refuse("holds 4, but 5 tickets are committed", *self.history(4, 4, ("committed", 5), ("dropped", 5)))

    def test_a_dropped_write_has_landed(self) -> None:
        self.refuse("holds 5, but 4 tickets are committed", *self.history(5, 5, ("committed", 4), ("dropped", 6)))

    def test_a_put_that_was_interrupted(self) -> None:
        """It has no ticket, and may have landed behind all that have one."""
        cut = line(3, 1, "without a ticket", name="x")
        for value in (4, 5):
            self.accept(cut, *self.history(value, value, ("committed", 4)))
        self.accept(cut, *self.history(3, 3, ("committed", 3), ("dropped", 1)))
        self.refuse("holds 6, but 4 tickets", cut, *self.history(6, 6, ("committed", 4)))
        self.refuse("holds 3, but 4 tickets", cut, *self.history(3, 3, ("committed", 4)))
        self.refuse("holds 4, but 3", cut, *self.history(4, 4, ("committed", 3), ("dropped", 1)))

    def test_a_barrier_that_lied(self) -> None:
        self.refuse("holds 9, not 10 to 10", *self.history(9, 9, barrier=True))

    def test_more_than_was_issued(self) -> None:
        self.refuse("holds 11, not 0 to 10", *self.history(11, 11))
