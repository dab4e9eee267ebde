"""What the journals of loads/deferred.py must say.

The judge checks of each znode: its version is its value, so that what has landed is a prefix and each write landed
once; the value is what the tickets called committed, or what a barrier has promised; no write landed that a ticket
calls dropped. If a process was killed, anything from nothing to all may have landed. A put that was interrupted
has no ticket, and may have landed if all before it have.
"""

from __future__ import annotations

from collections import Counter

from tests.faults.load import Judgement, Run

COMMITTED, DROPPED = "committed", "dropped"


def judge(run: Run) -> Judgement:
    issued: dict[str, int] = {}
    told: dict[str, list[tuple[str, int]]] = {}
    promised: dict[str, int] = {}
    untold: set[str] = set()
    found: dict[str, tuple[int, int]] = {}
    what = Counter(record.what for record in run.records)
    for record in run.records:
        fields = record.fields
        if record.what == "issuing":
            issued |= dict.fromkeys(fields["names"], fields["each"])
        elif record.what == "barrier":
            promised |= dict.fromkeys(fields["names"], fields["each"])
        elif record.what == "told":
            told[fields["name"]] = [(state, count) for state, count in fields["states"]]
        elif record.what == "without a ticket":
            untold.add(fields["name"])
        elif record.what == "found":
            found[fields["name"]] = fields["value"], fields["version"]
    problems: list[str] = []
    for name, most in issued.items():
        problems += [
            f"{name} {each}"
            for each in _compare(most, promised.get(name, 0), told.get(name), found.get(name), name in untold)
        ]
    if not what["barrier"]:
        problems.append("no barrier was passed")
    if not what["found"]:
        problems.append("no record has the znodes at the end")
    figures = {
        "written": sum(value for value, _ in found.values()),
        "barriers": what["barrier"],
        "refused, or interrupted": what["refused"],
        "cut short by KILL": what["issuing"] - what["barrier"] - what["refused"],
    }
    return Judgement(problems, figures)


def _compare(
    most: int,
    promised: int,
    told: list[tuple[str, int]] | None,
    found: tuple[int, int] | None,
    is_one_untold: bool,
) -> list[str]:
    """What is wrong with one znode.

    :param is_one_untold: the last write was interrupted, so it has no ticket.
    """
    if found is None:
        return ["is not there"]
    value, version = found
    if value != version:
        return [f"holds {value}, but was written {version} times"]
    if not promised <= value <= most:
        return [f"holds {value}, not {promised} to {most}"]
    if told is None:
        return []
    states = [state for state, _ in told]
    if states not in ([], [COMMITTED], [DROPPED], [COMMITTED, DROPPED]):
        return [f"has tickets that are {states}"]
    committed = sum(count for state, count in told if state == COMMITTED)
    all_of_them = is_one_untold and states in ([], [COMMITTED])
    return (
        []
        if value - committed in (0, int(all_of_them))
        else [f"holds {value}, but {committed} tickets are committed"]
    )
