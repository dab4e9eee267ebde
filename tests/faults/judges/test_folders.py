"""The judge of folders: a home that is away keeps nobody from the lock."""

from __future__ import annotations

from typing import Any

from tests.faults.judges.journal import JudgeTest, Line, line
from tests.faults.load import Fault
from tests.faults.loads.folders import PAIRS

CLIENT, BESIDE = PAIRS.index(("c", "a")), PAIRS.index(("c", "b"))
AWAY = Fault(29.0, 65.0, "ensemble away", "c", "freeze", 30.0, 60.0)
DOES = ("ensure_path", "lock", "delete", "start")


def done(at_s: float, does: str = "lock", began_s: float = 0.0, error: str = "", client: int = CLIENT) -> Line:
    return line(at_s, 0, "done", client=client, does=does, began=began_s or at_s - 0.1, error=error)


def state(at_s: float, name: str, client: int = CLIENT) -> Line:
    return line(at_s, 0, "state", client=client, state=name)


def answered(*but: str) -> list[Line]:
    """All of it in turn, once a second; while the home is away, not some of it."""
    each = [(at_s + 0.5, DOES[at_s % len(DOES)]) for at_s in range(1, 70)]
    return [done(at_s, does) for at_s, does in each if not (30 < at_s < 60 and does in but)]


class TestFolders(JudgeTest):
    """Ensemble c is away from 30 s to 60 s: three session timeouts. Another client is SUSPENDED all the time."""

    load = "folders"

    def judge(self, *lines: Line, **options: Any) -> Any:
        states = [state(0.5, "CONNECTED"), state(0.5, "SUSPENDED", BESIDE)]
        return super().judge(*states, *lines, **{"faults": [AWAY], "until_s": 80.0} | options)

    def test_the_home_is_away(self) -> None:
        figures = self.accept(*answered()).figures
        self.assertEqual((figures["folders with their home there"], figures["answers meanwhile"]), (1, 30))

    def test_a_failure(self) -> None:
        failure = done(41.6, "delete", error="ConnectionLoss")
        self.refuse("answered ConnectionLoss to delete at 41.600 s", *answered(), failure)

    def test_a_failure_where_the_contenders_are_away(self) -> None:
        other = PAIRS.index(("a", "c"))
        self.accept(*answered(), done(41.6, error="ConnectionLoss", client=other))

    def test_no_answer(self) -> None:
        for does in DOES:
            self.refuse(f"was not answered to {does}", *answered(does))

    def test_too_late(self) -> None:
        for at_s in (58.0, 75.0):
            self.refuse("had to wait for start from 35.000", *answered(), done(at_s, "start", 35.0))

    def test_no_time_is_judged_in_a_test(self) -> None:
        self.accept(*answered("lock"), done(75.0, "start", 35.0), is_timed=False)
        self.refuse("answered ConnectionLoss", done(41.6, error="ConnectionLoss"), is_timed=False)

    def test_other_troubles(self) -> None:
        """The client was SUSPENDED, its process was silent, or the contenders' ensemble had a fault, too."""
        failure = done(41.6, error="ConnectionLoss")
        self.accept(*answered(), failure, state(35, "SUSPENDED"), state(36, "CONNECTED"))
        self.accept(*answered(), failure, faults=[AWAY, Fault(40.0, 42.0, "kill", "a1", "leader", 40.5, 41.0)])
        self.accept(failure, silent={0: (30.0, 41.0)})
