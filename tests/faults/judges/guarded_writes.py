"""What the journals of those who write under a lock must say: see tests/faults/guarded_writes.py."""

from __future__ import annotations

import itertools
from collections import defaultdict
from typing import NamedTuple

from tests.faults.judges.holding import Holding, Life, lives, overlaps
from tests.faults.load import Judgement, Record, Run


class Tenure(NamedTuple):
    """From "asking" to "releasing", of one holder."""

    who: str
    life: Life
    records: dict[str, Record]
    guarded: list[Record]


def judge(run: Run) -> Judgement:
    tenures = [tenure for tenure in _tenures(run) if "acquired" in tenure.records]
    problems = overlaps(holding for tenure in tenures for holding in _holding(tenure))
    problems += [problem for tenure in tenures for problem in _lost_in_peace(tenure, run.session_timeout_s)]
    problems += _disorder(tenures)
    for record in run.records:
        if record.what == "contenders" and record.fields["left"]:
            problems.append(f"{record.fields['lock']}: contenders are left behind: {record.fields['left']}")
    if not any(tenure.guarded for tenure in tenures):
        problems.append("no worker held anything")
    figures = {
        "held": sum(bool(tenure.guarded) for tenure in tenures),
        "writes under it": sum(len(tenure.guarded) for tenure in tenures),
        "lost while held": sum("refused" in tenure.records for tenure in tenures),
        "asked in vain": sum(record.what == "asking" for record in run.records) - len(tenures),
    }
    return Judgement(problems, figures)


def _tenures(run: Run) -> list[Tenure]:
    by_life = lives(run)
    found: dict[tuple[int, int, int], Tenure] = {}
    for record in run.records:
        if "hold" not in record.fields:
            continue
        life = by_life[record.worker, record.life]
        key = record.worker, record.life, record.fields["hold"]
        tenure = found.setdefault(key, Tenure(life.name, life, {}, []))
        if record.what == "guarded":
            tenure.guarded.append(record)
        else:
            tenure.records[record.what] = record
    return list(found.values())


def _holding(tenure: Tenure) -> list[Holding]:
    if not tenure.guarded:  # it may have been lost before acquire() returned
        return []
    acquired = tenure.records["acquired"]
    proved_s = max(record.fields["began"] for record in tenure.guarded)
    if "refused" in tenure.records:
        until_s = proved_s
    else:
        end = tenure.records.get("releasing")
        asked_s = tenure.records["asking"].at_s
        until_s = tenure.life.trusted_until(asked_s, acquired.at_s, end.at_s if end else tenure.life.last_s)
    return [Holding(acquired.fields["lock"], tenure.who, acquired.at_s, max(proved_s, until_s))]


def _lost_in_peace(tenure: Tenure, session_timeout_s: float) -> list[str]:
    refused = tenure.records.get("refused")
    if refused is None:
        return []
    if tenure.life.is_broken(tenure.records["asking"].at_s, refused.at_s + session_timeout_s):
        return []
    acquired = tenure.records["acquired"]
    return [
        f"{acquired.fields['lock']}: {tenure.who} acquired it at {acquired.at_s:.3f} s and did not hold it at "
        f"{refused.at_s:.3f} s, though its session lived"
    ]


def _disorder(tenures: list[Tenure]) -> list[str]:
    """Tokens that do not rise with the versions: two have written in turns."""
    writes: dict[str, list[tuple[int, int, str]]] = defaultdict(list)
    for tenure in tenures:
        acquired = tenure.records["acquired"].fields
        for record in tenure.guarded:
            writes[acquired["lock"]].append((record.fields["version"], acquired["token"], tenure.who))
    return [
        f"{lock}: {later[2]} wrote version {later[0]} with token {later[1]} after {earlier[2]} wrote version "
        f"{earlier[0]} with token {earlier[1]}"
        for lock, found in writes.items()
        for earlier, later in itertools.pairwise(sorted(found))
        if earlier[0] == later[0] or earlier[1] > later[1] or (earlier[1] == later[1] and earlier[2] != later[2])
    ]
