"""The judges of ephemerals and watches."""

from __future__ import annotations

from typing import Any

from tests.faults.judges.journal import JudgeTest, Line, line
from tests.faults.load import Fault


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

    def test_a_znode_that_has_changed_and_gone_while_its_watch_moved(self) -> None:
        armed, told = self.armed(2, 1, "data", 1), self.told(9.1, 1, "data", "DELETED")
        self.accept(*self.set_up(), armed, told, has_moves=True)
        self.refuse("which is not what came next", *self.set_up(), armed, told)
        early = self.told(8, 1, "data", "DELETED")
        self.refuse("which is not what came next", *self.set_up(), armed, early, has_moves=True)

    def test_a_read_that_shows_nothing_that_is_known(self) -> None:
        """Numbers that a move does not carry are others then."""
        read = line(2, 1, "read", path="/d", kind="exists", znode=[7, 0])
        armed, told = self.armed(2, 1, "data", 1), self.told(3.1, 1, "data", "CHANGED")
        self.refuse("which does not come after", *self.set_up(), read, armed, told)
        self.accept(*self.set_up(), read, armed, told, has_moves=True)
        back = [self.read(4, "data", 2), self.read(5, "data", 1)]
        self.refuse("which does not come after", *self.set_up(), armed, told, *back, has_moves=True)

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

    def test_gone_after_the_first_child(self) -> None:
        """All of it before the client could look again. With a child before, or too early, it is no excuse."""
        armed = self.armed(4, 1, "children", [])
        self.accept(*self.set_up(), armed, self.told(9.1, 1, "children", "DELETED"))
        self.refuse("not what came next", *self.set_up(), armed, self.told(8.9, 1, "children", "DELETED"))
        later = [*self.changed(7.5, "add", 6, "e"), *self.changed(8, "drop", 7, "e")]
        events = [*self.set_up()[:8], *later, *self.set_up()[8:]]
        for at_s, children in ((7.2, []), (6, ["c"])):
            told = [self.armed(at_s, 1, "children", children), self.told(9.1, 1, "children", "DELETED")]
            self.refuse("not what came next", *events, *told)

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
