"""The judge of the DistributedDict: nothing lost, nothing twice, nothing back, everything told."""

from __future__ import annotations

from typing import Any

from tests.faults.judges.journal import JudgeTest, Line, line


class TestDictionary(JudgeTest):
    load = "dictionary"

    def write(self, at_s: float, value: int, outcome: str = "done", key: str = "own-1") -> list[Line]:
        values = {key: value}
        return [
            line(at_s, 1, "writing", values=values),
            line(at_s + 0.5, 1, "written", values=values, outcome={key: outcome}),
        ]

    def one(
        self, at_s: float, worker: int, begun: str, ended: str, outcome: str = "done", **what: Any
    ) -> list[Line]:
        return [line(at_s, worker, begun, **what), line(at_s + 0.5, worker, ended, outcome=outcome, **what)]

    def history(self, *lines: Line, own: tuple[int, int] = (2, 1), shared: int = 1, **given: Any) -> list[Line]:
        """Two writes of an own key, an add, an item that is popped, and what comes besides."""
        return [
            *self.write(1, 1),
            *self.write(2, 2),
            *self.one(3, 2, "adding", "added", key="shared-1"),
            *self.one(4, 1, "putting", "put", item="item-1"),
            *self.one(5, 2, "popping", "popped", item="item-1"),
            line(6, 2, "seen", key="own-1", value=1, version=0),
            *lines,
            line(40, 2, "told", keys=2, missing=given.get("missing", {})),
            line(50, -1, "found", key="own-1", value=own[0], version=own[1]),
            line(50, -1, "found", key="shared-1", value=shared, version=given.get("version", shared)),
            *(line(50, -1, "found", key=item, value=0, version=0) for item in given.get("left", ())),
        ]

    def test_all_is_well(self) -> None:
        self.accept(*self.history())
        self.accept(*self.history(line(7, 2, "seen", key="own-1", value=2, version=1)))

    def test_a_lost_update(self) -> None:
        self.refuse("own-1 holds 1, not one of [2]", *self.history(own=(1, 1)))
        self.refuse(
            "shared-1 holds 1, not 2 to 2", *self.history(*self.one(8, 1, "adding", "added", key="shared-1"))
        )

    def test_a_second_application(self) -> None:
        self.refuse("own-1 was written 3 times, not 2 to 2", *self.history(own=(2, 2)))
        self.refuse("shared-1 holds 2, not 1 to 1", *self.history(shared=2))
        self.refuse("shared-1 holds 1, but was written 2 times", *self.history(version=2))

    def test_in_doubt(self) -> None:
        for last in (self.write(8, 3, "unknown"), self.write(8, 3)[:1]):
            self.accept(*self.history(*last))
            self.accept(*self.history(*last, own=(3, 2)))
            self.refuse("holds 4", *self.history(*last, own=(4, 2)))
        later = [*self.write(8, 3, "unknown"), *self.write(9, 4)]
        self.accept(*self.history(*later, own=(4, 2)))
        self.accept(*self.history(*later, own=(4, 3)))
        self.refuse("holds 3, not one of [4]", *self.history(*later, own=(3, 3)))

    def test_it_was_not_done(self) -> None:
        self.accept(*self.history(*self.write(8, 3, "not done")))
        self.refuse("own-1 holds 3", *self.history(*self.write(8, 3, "not done"), own=(3, 1)))

    def test_an_acknowledged_write_is_gone(self) -> None:
        problems = self.judge(*self.history(*self.write(8, 1, key="own-2"))).problems
        self.assertEqual(problems, ["own-2 holds 0, not one of [1]", "own-2 was written 0 times, not 1 to 1"])

    def test_acknowledged_before_or_after_an_interrupted_one(self) -> None:
        cut = self.write(8, 3, "unknown")
        self.refuse("own-1 holds 1, not one of [2, 3]", *self.history(*cut, own=(1, 1)))
        self.refuse("own-1 holds 3, not one of [4]", *self.history(*cut, *self.write(9, 4), own=(3, 2)))
        add = self.one(8, 1, "adding", "added", "unknown", key="shared-1")
        for value in (2, 3):
            self.accept(*self.history(*add, *self.one(9, 1, "adding", "added", key="shared-1"), shared=value))
        self.refuse(
            "shared-1 holds 1, not 2 to 3",
            *self.history(*add, *self.one(9, 1, "adding", "added", key="shared-1"), shared=1),
        )

    def test_a_key_that_all_write(self) -> None:
        writes = [
            *self.one(8, 1, "adding", "added", key="common-1"),
            *self.one(9, 1, "adding", "added", "unknown", key="common-1"),
            *self.one(10, 2, "adding", "added", key="common-1"),
        ]
        for version in (2, 3):
            self.accept(*self.history(*writes, line(50, -1, "found", key="common-1", value=9, version=version)))
        for version in (1, 4):
            found = line(50, -1, "found", key="common-1", value=9, version=version)
            self.refuse(f"common-1 was written {version} times, not 2 to 3", *self.history(*writes, found))

    def test_items(self) -> None:
        popped = self.one(8, 1, "popping", "popped", item="item-1")
        self.refuse("item-1 was popped 2 times", *self.history(*popped))
        self.refuse("item-1 was popped and is still there", *self.history(left=["item-1"]))
        self.refuse("nobody has put item-2", *self.history(left=["item-2"]))
        put = self.one(8, 1, "putting", "put", item="item-2")
        self.accept(*self.history(*put, left=["item-2"]))
        self.refuse("item-2 is lost", *self.history(*put))
        self.accept(*self.history(*put, *self.one(9, 1, "popping", "popped", "unknown", item="item-2")))
        self.accept(*self.history(*put, line(9, 1, "popping", item="item-2")))

    def test_an_entry_goes_back(self) -> None:
        back = [
            line(7, 2, "seen", key="own-1", value=2, version=1),
            line(8, 2, "seen", key="own-1", value=1, version=0),
        ]
        self.refuse("own-1 went from (1, 2) to (0, 1)", *self.history(*back))
        self.refuse(
            "heard that own-1 is gone", *self.history(line(7, 2, "seen", key="own-1", value=None, version=None))
        )

    def test_a_change_that_is_never_told(self) -> None:
        self.refuse("worker 2 was never told of version 1 of own-1", *self.history(missing={"own-1": 1}))

    def test_nothing_is_said(self) -> None:
        lines = [each for each in self.history() if each[2] != "told"]
        self.refuse("no worker says what it was told", *lines)
