"""A znode beside a lock's contenders that is written only while one's own contender is there.

Each write is a transaction of a check of the contender and a set. So the ensemble itself proves that the lock was
held then, whatever clocks and states say. The versions of the znode put all holders in one order.
"""

from __future__ import annotations

import itertools
import time
from collections import defaultdict
from typing import Any, NamedTuple

from kazoo.exceptions import KazooException

from tests.faults.holding import LOST, Holding, Life, lives, overlaps
from tests.faults.load import Judgement, Record, Run, Worker

GUARDED = "guarded"
SEQUENCE_DIGITS = 10
CONTENDER = "__lock__"
WAIT_FOR_DEAD_S = 30.0
POLL_S = 0.2


def prepare(client: Any, path: str) -> None:
    client.create(f"{path}/{GUARDED}", b"", makepath=True)


def hold(
    worker: Worker,
    client: Any,
    lock: Any,
    hold: int,
    has_to_end: Any,
    pause_s: tuple[float, float] = (0.01, 0.1),
) -> None:
    """Write under an acquired lock until `has_to_end()`, or it is refused. "asking" has been recorded.

    :param hold: a number for this holding, unique in this life.
    :param pause_s: between writes, from and to.
    """
    node = lock.node
    token = int(node[-SEQUENCE_DIGITS:])
    worker.record("acquired", lock=lock.path, hold=hold, token=token)
    while not has_to_end():
        began_s = time.monotonic()
        transaction = client.transaction()
        transaction.check(f"{lock.path}/{node}", -1)
        transaction.set_data(f"{lock.path}/{GUARDED}", b"%d" % token)
        try:
            outcome = transaction.commit()
        except LOST:
            outcome = []
        errors = [type(result).__name__ for result in outcome if isinstance(result, KazooException)]
        if errors:
            worker.record("refused", hold=hold, began=began_s, errors=errors)
            break
        if outcome:
            worker.record("guarded", hold=hold, began=began_s, version=outcome[1].version)
        worker.pause(worker.dice.uniform(*pause_s))
    worker.record("releasing", hold=hold)


def record_contenders(client: Any, path: str, record: Any) -> None:
    """Those that are left when all workers have ended, and the dead had time to expire."""
    deadline_s = time.monotonic() + WAIT_FOR_DEAD_S
    while True:
        client.sync(path)
        left = [name for name in client.get_children(path) if CONTENDER in name]
        if not left or time.monotonic() > deadline_s:
            break
        time.sleep(POLL_S)
    record("contenders", lock=path, left=left)


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
