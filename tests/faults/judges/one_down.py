"""What the journals of loads/one_down.py must say."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import NamedTuple

from kazoo.exceptions import ConnectionClosedError, ConnectionLoss, SessionExpiredError

from tests.faults.judges.spans import Spans
from tests.faults.load import Judgement, Run
from tests.faults.loads.one_down import NAMES
from tests.faults.schedule import ENSEMBLE_KINDS

USUAL = {"", *(error.__name__ for error in (ConnectionLoss, SessionExpiredError, ConnectionClosedError))}
SAMPLES, BUSY_SHARE, SLICE_MS, TIMES = 500, 0.85, 4.0, 2
AFTERMATH_S = 10.0
PATIENCE = 2.0  # session timeouts; a client has it for one


def judge(run: Run) -> Judgement:
    done = [Done(**each.fields) for each in run.records if each.what == "done"]
    downs = _downs(run)
    on_servers = [each for each in run.faults if "/" not in each.target]
    any_fault = Spans(each[:2] for each in run.faults if each in on_servers or each.target.startswith("one_down"))
    fault_of = {name: Spans(each[:2] for each in on_servers if each.target[0] == name) for name in NAMES}
    usual = [each.ms for each in done if not any_fault.touch(each.began_s, each.ended_s)]
    dead, others = [], []
    for down in downs:
        for each in done:
            if down.holds(each.began_s):
                if each.ensemble == down.ensemble:
                    dead.append((each, down))
                elif not fault_of[each.ensemble].touch(each.began_s, each.ended_s):
                    others.append((each, down))
    problems = [f"{each} is not what kazoo would raise" for each in done if each.error not in USUAL]
    problems += [f"{each} was answered" for each, down in dead if not each.error and down.holds(each.ended_s)]
    longest_s = PATIENCE * run.session_timeout_s
    problems += [
        f"{each} has waited for longer than {longest_s:g} s"
        for each, down in dead
        if min(each.ended_s, down.until_s) - each.began_s > longest_s
    ]
    failed = [each for each, down in others if each.error and down.holds(each.ended_s)]
    busy = _busy_share(run, downs)
    is_judged = run.is_timed and busy <= BUSY_SHARE
    if is_judged:  # else connections may be lost because a process waits for a processor
        problems += [f"{each} has failed" for each in failed]
    figures: dict[str, int | float | str] = {
        "operations": len(done),
        "failed": sum(bool(each.error) for each in done),
        "times an ensemble was down": len(downs),
        "operations on the others": len(others),
        "of them failed": len(failed),
        "busy meanwhile": f"{busy:.0%}",
    }
    if usual and others:
        usual_ms, other_ms = statistics.median(usual), statistics.median(each.ms for each, _ in others)
        figures["median"] = f"{usual_ms:.1f} ms, {other_ms:.1f} ms with one down"
        is_judged = is_judged and min(len(usual), len(others)) >= SAMPLES
        if is_judged and other_ms > TIMES * usual_ms + SLICE_MS:
            problems.append(f"{figures['median']}, which is more than {TIMES} times as long")
    return Judgement(problems, figures if is_judged else figures | {"times": "not judged"})


class Done(NamedTuple):
    """An operation. `error` is the name of what it raised; empty if it was answered."""

    began_s: float
    ended_s: float
    ensemble: str
    error: str

    @property
    def ms(self) -> float:
        return 1000 * (self.ended_s - self.began_s)


class Down(NamedTuple):
    """A time in which an ensemble is down, and nothing else is wrong with this client."""

    ensemble: str
    since_s: float
    until_s: float

    def holds(self, at_s: float) -> bool:
        return self.since_s <= at_s <= self.until_s


def _downs(run: Run) -> list[Down]:
    """Not those in which the client has something else to get over."""
    troubles = [
        (each.at_s, each.at_s) for each in run.records if each.what == "state" and each.fields["state"] == "LOST"
    ]
    troubles += [(each.began_s, each.ended_s) for each in run.faults if each.target.startswith("one_down")]
    return [
        Down(each.target, each.since_s, each.until_s)
        for each in run.faults
        if each.kind in ENSEMBLE_KINDS
        and not any(began < each.until_s and each.since_s < ended + AFTERMATH_S for began, ended in troubles)
    ]


def _busy_share(run: Run, downs: Sequence[Down]) -> float:
    """Of the processors' time, while an ensemble was down: the median of the seconds."""
    busy = (each for each in run.records if each.what == "busy")
    shares = [each.fields["share"] for each in busy if any(down.holds(each.at_s) for down in downs)]
    return statistics.median(shares) if shares else 0.0
