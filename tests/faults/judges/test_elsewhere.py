"""The judge of elsewhere: an ensemble concerns those clients that hold something there."""

from __future__ import annotations

from typing import Any

from tests.faults.judges.journal import JudgeTest, Line, line
from tests.faults.load import Fault
from tests.faults.loads.elsewhere import HOLDERS

A, C = 0, 2  # workers that hold something on ensembles a and c
AWAY = Fault(19.0, 55.0, "ensemble away", "c", "kill", 20.0, 50.0)


def seen(at_s: float, worker: int, state: str, **fields: Any) -> Line:
    known = {"id": 7 if state == "CONNECTED" else None, "away": [], "expired": []}
    return line(at_s, worker, "seen", state=state, **known | fields)


def done(at_s: float, worker: int, began_s: float = 0.0, error: str = "") -> Line:
    return line(at_s, worker, "done", began=began_s or at_s - 0.1, error=error)


def held(worker: int, since_s: float, *writes_s: float, token: int = 1) -> list[Line]:
    lock = "/abc"[worker % 3 + 1]
    written = [
        line(at_s, worker, "guarded", hold=1, began=at_s - 0.1, version=10 * token + number)
        for number, at_s in enumerate(writes_s)
    ]
    return [
        line(since_s - 0.5, worker, "asking", lock=lock, hold=1),
        line(since_s, worker, "acquired", lock=lock, hold=1, token=token),
        *written,
        line(writes_s[-1] + 0.1, worker, "releasing", hold=1),
    ]


def began(worker: int) -> list[Line]:
    return [
        seen(1, worker, "CONNECTED"),
        line(2, worker, "settled"),
        line(3, worker, "made", path="/e", began=2.9),
    ]


def at_work(worker: int, *but: range) -> list[Line]:
    """Answers in each second, but in some."""
    return [done(at_s + 0.5, worker) for at_s in range(4, 60) if not any(at_s in each for each in but)]


OF_A = (*began(A), *at_work(A), *held(A, 10, 11, 45))
UNTIL_BACK = range(20, 51)
OF_C = (*began(C), *at_work(C, UNTIL_BACK))
SUSPENDED, BACK = seen(26, C, "SUSPENDED", away=["c"]), seen(51, C, "CONNECTED")
STARTS = tuple(
    line(at_s, HOLDERS, "visited", client=1, ensemble="b", began=at_s - 1, error="") for at_s in range(5, 60, 5)
)
ALL = (*OF_A, *OF_C, SUSPENDED, BACK, *STARTS)


class TestElsewhere(JudgeTest):
    """Ensemble c is away from 20 s to 50 s: three session timeouts."""

    load = "elsewhere"

    def judge(self, *lines: Line, **options: Any) -> Any:
        return super().judge(*lines, **{"faults": [AWAY]} | options)

    def test_who_holds_nothing_there_does_not_notice(self) -> None:
        figures = self.accept(*ALL).figures
        self.assertEqual(figures["times an ensemble was away"], 1)
        self.assertEqual(figures["clients that held nothing there"], 1)
        self.assertEqual(figures["answers to them"], 30)
        self.assertEqual(figures["starts meanwhile"], 6)

    def test_suspended_without_reason(self) -> None:
        self.refuse(
            "on a, was SUSPENDED at 26.000 s: away: ['c']",
            *ALL,
            seen(26, A, "SUSPENDED", away=["c"]),
            seen(51, A, "CONNECTED"),
        )

    def test_suspended_with_reason(self) -> None:
        for away in (["a"], ["a", "c"]):
            self.accept(*ALL, seen(26, A, "SUSPENDED", away=away), seen(27, A, "CONNECTED"))

    def test_lost_without_an_ephemeral_there(self) -> None:
        lost = (seen(51, A, "LOST", expired=["c"]), seen(52, A, "CONNECTED", id=8))
        self.refuse("was LOST at 51.000 s: expired: ['c']", *ALL, *lost)

    def test_lost_where_it_has_one(self) -> None:
        lost = seen(50.8, C, "LOST", expired=["c"])
        gone = line(52.7, C, "missed", path="/e")
        self.accept(*OF_A, *OF_C, SUSPENDED, lost, seen(51, C, "CONNECTED", id=8), gone, *STARTS)

    def test_never_lost(self) -> None:
        self.refuse("gone at 52.700 s and was not LOST", *ALL, line(52.7, C, "missed", path="/e"))

    def test_who_was_lost_holds_nothing(self) -> None:
        lost = (seen(12.5, C, "LOST", expired=["c"]), seen(13, C, "CONNECTED", id=8, away=["c"]))
        lines = (*began(C), *at_work(C, range(13, 51)), *lost, *OF_A, *STARTS, done(30, C, 26, "ConnectionLoss"))
        self.accept(*lines)
        made = line(14, C, "made", path="/f", began=13.9)
        (failed, untold) = self.judge(*lines, made).problems
        self.assertIn("was answered ConnectionLoss at 30.000 s and was CONNECTED", failed)
        self.assertIn("on c, was CONNECTED while ensemble c was away", untold)

    def test_lost_is_heard_of_after_the_answer(self) -> None:
        lost = (seen(52.8, C, "LOST", expired=["c"]), seen(53, C, "CONNECTED", id=8))
        self.accept(*ALL, line(52.7, C, "missed", path="/e"), *lost)

    def test_a_lock_believed_after_lost(self) -> None:
        lost = (seen(50.5, C, "LOST", expired=["c"]), seen(51, C, "CONNECTED", id=8))
        lines = (*OF_A, *OF_C, SUSPENDED, *lost, *STARTS)
        self.accept(*lines, *held(C, 15, 16))
        self.refuse("was LOST, and wrote at 53.000 s", *lines, *held(C, 15, 16, 53))

    def test_a_lock_kept_by_a_session_called_expired(self) -> None:
        """A server of another ensemble says so, or one that shuts down; the ensemble knows better."""
        lost = (seen(15.5, C, "LOST", expired=["c"]), seen(15.7, C, "CONNECTED", id=8))
        back = seen(51, C, "CONNECTED", id=8)
        lines = (*OF_A, *OF_C, *lost, *held(C, 14, 15, 16), SUSPENDED, back, *STARTS)
        moved = Fault(15.0, 19.0, "address moves", "c", "the only one", 15.1, 18.0)
        self.accept(*lines, faults=[AWAY, moved])
        self.accept(*lines, faults=[AWAY, moved._replace(kind="restart", target="c2")])
        for other in (
            moved._replace(kind="kill"),
            moved._replace(target="a"),
            moved._replace(began_s=15.6),
            moved._replace(ended_s=15.4),
        ):
            self.refuse("was LOST, and wrote at 16.000 s", *lines, faults=[AWAY, other])

    def test_a_lock_of_two(self) -> None:
        other = C + 3
        self.refuse(
            "was held by", *ALL, *held(C, 5, 6, 15), seen(1, other, "CONNECTED"), *held(other, 14, 16, token=2)
        )

    def test_not_suspended_where_it_holds_something(self) -> None:
        self.refuse("on c, was CONNECTED while ensemble c was away", *OF_A, *OF_C, *STARTS)
        self.accept(*OF_A, *OF_C, *STARTS, silent={C: (22, 40)})

    def test_answered_by_what_is_away(self) -> None:
        self.refuse("on c, was answered while ensemble c was away", *ALL, done(30, C))

    def test_failed_though_its_ensemble_is_there(self) -> None:
        self.refuse(
            "was answered ConnectionLoss at 30.000 s and was CONNECTED", *ALL, done(30, A, 29, "ConnectionLoss")
        )
        told = (seen(29.5, A, "SUSPENDED", away=["a"]), seen(29.7, A, "CONNECTED"))
        self.accept(*ALL, *told, done(30, A, 29, "ConnectionLoss"))

    def test_failed_as_kazoo_does_not(self) -> None:
        self.refuse("was answered KeyError", *ALL, done(30, A, 29, "KeyError"))
        wrong = line(30, HOLDERS, "visited", client=0, ensemble="a", began=29, error="KeyError")
        self.refuse("raised KeyError", *ALL, wrong)

    def test_held_up(self) -> None:
        idle = (*began(A), *at_work(A, range(20, 50)), *held(A, 10, 11, 45), *OF_C, SUSPENDED, BACK, *STARTS)
        self.refuse("on a, was not answered while ensemble c was away", *idle)
        self.refuse("had to wait from 21.000 to 49.000 s", *idle, done(49, A, 21))
        own = Fault(30.0, 40.0, "freeze", "a1", "leader", 30.0, 40.0)
        self.accept(*idle, faults=[AWAY, own])
        self.accept(*idle, silent={A: (25, 49)})

    def test_another_id(self) -> None:
        states = (seen(30, A, "SUSPENDED", away=["a"]), seen(31, A, "CONNECTED", id=8))
        self.refuse("had the id 7, and 8 at 31.000 s without LOST", *ALL, *states)

    def test_no_start(self) -> None:
        lines = (*OF_A, *OF_C, SUSPENDED, BACK)
        late = line(52, HOLDERS, "visited", client=0, ensemble="a", began=21, error="")
        there = line(40, HOLDERS, "visited", client=2, ensemble="c", began=21, error="")
        self.refuse("no client could start while ensemble c was away", *lines, late, there)
        self.accept(*lines, late, there, silent={HOLDERS: (22, 51)})

    def test_a_stop_that_does_not_end_the_sessions(self) -> None:
        unclosed = line(40, HOLDERS, "unclosed", client=0, ensemble="a", began=30)
        self.refuse("a stop from 30.000 to 40.000 s did not end the sessions", *ALL, unclosed)
        self.accept(*ALL, unclosed, silent={HOLDERS: (31, 39)})

    def test_a_short_outage_says_little(self) -> None:
        brief = AWAY._replace(kind="ensemble down", until_s=39.0)
        self.accept(*OF_A, *OF_C, *STARTS, faults=[brief])
