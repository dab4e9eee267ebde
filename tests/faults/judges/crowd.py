"""What the journals of loads/crowd.py must say.

The judge checks: the locks as in lock.py, each client for itself; no create was done twice; acknowledged znodes
are there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tests.faults.judges import guarded_writes
from tests.faults.load import Fault, Judgement, Record, Run
from tests.faults.loads.crowd import CLIENTS

MANY = 1000  # more than the clients of a process


def judge(run: Run) -> Judgement:
    judged = guarded_writes.judge(Run([*_apart(run)], [*_faults_apart(run)], run.session_timeout_s, run.is_timed))
    problems = [*judged.problems, *_done_twice(run)]
    made = sum(each.what == "made" for each in run.records)
    listed = sum(len(each.fields["names"]) for each in run.records if each.what == "listed")
    if not any(each.what == "seen" for each in run.records):
        problems.append("no state was seen")
    creates = {"creates acknowledged": made, "creates done": listed}
    no_thread = sum(each.what == "no thread" for each in run.records)
    return Judgement(problems, {**judged.figures, **creates, "no thread for a caller": no_thread})


def _apart(run: Run) -> Iterator[Record]:
    """The records with a worker for each client: client 7 of worker 1 is worker 1007.

    What a process records of itself is each client's.
    """
    clients: dict[tuple[int, int], set[int]] = {}
    for record in run.records:
        if "client" in record.fields:
            clients.setdefault((record.worker, record.life), set()).add(record.fields["client"])
    for record in run.records:
        own = [record.fields["client"]] if "client" in record.fields else clients.get(record[1:3], ())
        what = "state" if record.what == "seen" else record.what
        if record.worker < 0:
            yield record
        for client in own:
            yield record._replace(worker=MANY * record.worker + client, what=what)


def _faults_apart(run: Run) -> Iterator[Fault]:
    """A session that is expired is one client's, but no record says whose."""
    for fault in run.faults:
        yield fault
        process, _, ensemble = fault.target.partition(" on ")
        name, _, number = process.partition("/")
        if fault.kind == "expire" and name == "crowd":
            for client in range(CLIENTS):
                yield fault._replace(target=f"{name}/{MANY * int(number) + client} on {ensemble}")


def _done_twice(run: Run) -> Iterator[str]:
    """Creates of which there are two, and acknowledged ones of which there is none."""
    listed = [each.fields for each in run.records if each.what == "listed"]
    paths = {f"{fields['directory']}/{name}" for fields in listed for name in fields["names"]}
    for path, count in Counter(path.rpartition("-")[0] for path in paths).items():
        if count > 1:
            yield f"the create of {path} was done {count} times"
    for record in run.records:
        if record.what == "made" and record.fields["path"] not in paths:
            yield f"{record.fields['path']} was made at {record.at_s:.3f} s, and is not there"
