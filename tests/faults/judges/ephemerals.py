"""What the journals of loads/ephemerals.py must say.

The judge checks that an ephemeral is in every listing from its creation until its delete was begun, or until a
later create of the same session in the same directory was begun (which proves that the session lived on that
ensemble). It must be in no listing that was begun later than twice the session timeout after its session ended.
A session ends when its client hears of LOST, or when its process was killed or had closed its client. Meanwhile
the ensemble must have a leader: if the leader fails, the time begins again when there is one, as for every
session in ZooKeeper. The time also begins again for a session that began while a follower was away: when the
follower reads of the session, it reports to the leader that the session lives, as tests/faults/prolonged.py
shows with plain kazoo. (If the run is not timed, only the last listing is judged.)
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from tests.faults.load import Fault, Judgement, Record, Run


def judge(run: Run) -> Judgement:
    made = _made(run)
    listings: dict[str, list[Record]] = defaultdict(list)
    for record in run.records:
        if record.what == "listed":
            listings[record.fields["directory"]].append(record)
    deadlines_s = {key: each.deadline_s(run) for key, each in made.items()}
    problems = [problem for each in made.values() for problem in each.absences(listings[each.directory])]
    late: dict[tuple[str, str], float] = {}  # when it was seen
    slowest_s = 0.0
    for directory, found in listings.items():
        for record in found:
            began_s = record.fields["began"]
            for key in made.keys() & {(directory, name) for name in record.fields["names"]}:
                if began_s > deadlines_s[key] and (run.is_timed or record is found[-1]):
                    late.setdefault(key, began_s)
                elif deadlines_s[key] == made[key].ended_s + 2 * run.session_timeout_s:
                    slowest_s = max(slowest_s, began_s - made[key].ended_s)
    problems += [
        f"{made[key]} is there at {began_s:.3f} s, but its session ended at {made[key].ended_s:.3f} s"
        for key, began_s in late.items()
    ]
    if not made:
        problems.append("nothing was made")
    if not any(record.what == "listed" and record.worker < 0 for record in run.records):
        problems.append("no record says what is left at the end")
    figures = {
        "made": len(made),
        "of ended sessions": sum(each.ended_s < each.deleting_s for each in made.values()),
        "listings": sum(len(found) for found in listings.values()),
        "slowest to go / s": round(slowest_s, 1),
    }
    return Judgement(problems, figures)


@dataclass
class Made:
    """An ephemeral. Times at which things were begun or done; infinite if they were not.

    :param begun_s: its session may have begun as late as that.
    :param ensemble: where it is; empty if its directory may have moved, and then its session may be a later one's.
    :param proved_s: its session still lived then.
    :param ended_s: and had ended by then.
    """

    directory: str
    name: str
    begun_s: float
    session: tuple[int, ...] = ()
    created_s: float = float("inf")
    proved_s: float = 0.0
    deleting_s: float = float("inf")
    ended_s: float = float("inf")
    ensemble: str = ""

    def __str__(self) -> str:
        return f"{self.directory}/{self.name}"

    def absences(self, listings: Sequence[Record]) -> list[str]:
        """The first listing of its directory in which it is missing."""
        first = bisect_right(listings, self.created_s, key=lambda each: each.at_s)
        for record in listings[first:]:
            if record.at_s >= min(self.proved_s, self.deleting_s):
                break
            if record.fields["began"] > self.created_s and self.name not in record.fields["names"]:
                return [
                    f"{self} is missing at {record.at_s:.3f} s, but its session lived at {self.proved_s:.3f} s"
                ]
        return []

    def deadline_s(self, run: Run) -> float:
        """From when on it must not be seen."""
        deadline_s = self.ended_s + 2 * run.session_timeout_s
        for fault in sorted(run.faults, key=lambda each: each.began_s):
            if self._is_hurt_by(fault) and fault.began_s < deadline_s and fault.ended_s > self.ended_s:
                deadline_s = max(deadline_s, fault.ended_s + 2 * run.session_timeout_s)
        return deadline_s

    def _is_hurt_by(self, fault: Fault) -> bool:
        """Whether it takes away the leader, or a follower that reads of the session when it comes back."""
        is_of_servers = fault.kind not in ("kill client", "freeze client", "expire")
        is_of_leader = fault.manner != "follower"
        is_here = is_of_servers and fault.target.startswith(self.ensemble)
        return is_here and (is_of_leader or not self.ensemble or fault.began_s <= self.begun_s)


def _made(run: Run) -> dict[tuple[str, str], Made]:
    """What the journals say of each ephemeral, by directory and name."""
    made: dict[tuple[str, str], Made] = {}
    creating: dict[int, tuple[float, Made]] = {}  # by worker: what it is about to make
    living: dict[int, list[Made]] = defaultdict(list)  # by worker: what its session has made, or may have
    epochs: dict[int, int] = defaultdict(int)
    for record in run.records:
        worker, fields = record.worker, record.fields
        if record.what == "creating":
            each = Made(fields["directory"], fields["name"], record.at_s)
            made[each.directory, each.name] = each
            creating[worker] = record.at_s, each
        elif record.what == "created":
            began_s, each = creating.pop(worker)
            each.created_s = record.at_s
            each.session = (record.life, epochs[worker], fields["owner"])
            for other in living[worker]:
                if other.session == each.session and other.directory == each.directory:
                    other.proved_s = began_s
            living[worker].append(each)
        elif record.what == "lost" and worker in creating:
            living[worker].append(creating.pop(worker)[1])
        elif record.what == "deleting":
            made[fields["directory"], fields["name"]].deleting_s = record.at_s
        elif record.what == "bearing":
            for directory in fields["directories"]:
                made[directory, fields["name"]] = Made(directory, fields["name"], record.at_s)
        elif record.what == "died":
            for directory in fields["directories"]:
                made[directory, fields["name"]].ended_s = record.at_s
        elif record.what == "listed":
            for key in made.keys() & {(fields["directory"], name) for name in fields["names"]}:
                made[key].ensemble = fields["ensemble"]
        elif record.what in ("began", "closed") or fields.get("state") == "LOST":
            if record.what == "began" and worker in creating:
                living[worker].append(creating.pop(worker)[1])
            epochs[worker] += 1
            for each in living.pop(worker, []):
                each.ended_s = _death_s(record, run.faults) if record.what == "began" else record.at_s
    return made


def _death_s(began: Record, faults: Sequence[Fault]) -> float:
    """When the process before the one that began was killed."""
    killed = [fault.since_s for fault in faults if fault.kind == "kill client" and fault.target == _name(began)]
    return max((at_s for at_s in killed if at_s < began.at_s), default=began.at_s)


def _name(record: Record) -> str:
    return f"ephemerals/{record.worker}"
