"""How long requests of `registers` wait where no fault explains it: while the map changes, and otherwise."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from tests.faults.judges.spans import Spans
from tests.faults.load import Fault, Judgement, Record

ABOUT = "No growth holds an operation up"
GOAL_S = 1.0
AFTERMATH_S = 5.0  # a client pauses for up to 2 s between two attempts to connect
BUSY_SHARE = 0.85  # on a busier machine, processes wait for a processor
LOAD = "registers"
CLIENT = re.compile(r"(\w+/\d+)( on .*)?")  # in what a fault was of


class Wait(NamedTuple):
    """A request that was answered, be it by an error."""

    began_s: float
    ended_s: float
    worker: str
    call: str

    @property
    def seconds(self) -> float:
        return self.ended_s - self.began_s


def judge(
    records: Sequence[Record],
    faults: Sequence[Fault],
    commands: Iterable[tuple[float, float]],
    busy_share: float,
    goal_s: float = GOAL_S,
) -> Judgement:
    """A fault explains what touches it or the seconds behind it, if it is of servers or of the client itself.

    :param records: of `registers`. :param commands: from when to when each has run, each run of it.
    """
    unexplained = [*_unexplained(records, faults)]
    growth = Spans(commands)
    meanwhile = [each for each in unexplained if growth.touch(each.began_s, each.ended_s)]
    otherwise = [each for each in unexplained if not growth.touch(each.began_s, each.ended_s)]
    figures: dict[str, int | float | str] = {
        "requests that no fault touches": len(unexplained),
        "of them while a command runs": len(meanwhile),
        "longest while a command runs, s": _longest(meanwhile),
        "longest otherwise, s": _longest(otherwise),
        "above the goal while a command runs": sum(each.seconds > goal_s for each in meanwhile),
        "above the goal otherwise": sum(each.seconds > goal_s for each in otherwise),
    }
    if busy_share > BUSY_SHARE:
        return Judgement([], figures | {"times": "not judged"})
    late = [each for each in meanwhile if each.seconds > goal_s]
    return Judgement([f"{each.call} of {each.worker} took {each.seconds:.1f} s" for each in late], figures)


def _unexplained(records: Sequence[Record], faults: Sequence[Fault]) -> Iterator[Wait]:
    of_servers: list[tuple[float, float]] = []
    of_client: dict[str, list[tuple[float, float]]] = {}
    for fault in faults:
        span = (fault.began_s, fault.ended_s + AFTERMATH_S)
        client = CLIENT.fullmatch(fault.target)
        (of_client.setdefault(client[1], []) if client else of_servers).append(span)
    waits = [*_waits(records)]
    explained = {each: Spans([*of_servers, *of_client.get(each, ())]) for each in {wait.worker for wait in waits}}
    for wait in waits:
        if not explained[wait.worker].touch(wait.began_s, wait.ended_s):
            yield wait


def _waits(records: Sequence[Record]) -> Iterator[Wait]:
    called: dict[tuple[int, int, int], Record] = {}
    for record in records:
        if record.what not in ("call", "answer") or record.worker < 0:
            continue
        which = record.worker, record.life, record.fields["number"]
        if record.what == "call":
            called[which] = record
        elif call := called.pop(which, None):
            about = " ".join(str(each) for each in call.fields["call"])
            yield Wait(call.at_s, record.at_s, f"{LOAD}/{record.worker}", about)


def _longest(waits: Iterable[Wait]) -> str:
    return f"{max((each.seconds for each in waits), default=0.0):.3f}"
