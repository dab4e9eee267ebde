"""What the journals of loads/folders.py must say.

While all servers of a folder's home are away, for more than two session time-outs and with nothing else wrong, the
client of the folder, and those that start, find it, lock there and delete what is not there. Nothing fails, and
nothing takes longer than two session time-outs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.faults.judges.elsewhere import LONG, Outage, outages_of
from tests.faults.judges.holding import Life, lives
from tests.faults.load import Judgement, Record, Run
from tests.faults.loads.folders import PAIRS


def judge(run: Run) -> Judgement:
    longest_s = LONG * run.session_timeout_s
    outages = outages_of(run)
    problems: list[str] = []
    untouched, answers = 0, 0
    for client in _clients(run):
        for outage in outages:
            if client.is_judged(outage, longest_s):
                untouched += 1
                answers += len(client.answers(outage))
                problems += client.failures(outage)
                problems += client.delays(outage, longest_s) if run.is_timed else ()
    done = [each for each in run.records if each.what == "done"]
    if not done:
        problems.append("nothing was done")
    figures = {
        "operations": len(done),
        "failed": sum(bool(each.fields["error"]) for each in done),
        "times an ensemble was away": len(outages),
        "folders with their home there": untouched,
        "answers meanwhile": answers,
    }
    return Judgement(problems, figures)


def _clients(run: Run) -> Iterator[_Client]:
    for number in range(len(PAIRS)):
        records = [each for each in run.records if each.fields.get("client", number) == number]
        for key, life in lives(run._replace(records=records)).items():
            yield _Client(number, life, [each for each in records if (each.worker, each.life) == key])


class _Client:
    """One life of a folder's client.

    :param records: its own, and those of its process.
    """

    def __init__(self, number: int, life: Life, records: Sequence[Record]) -> None:
        self._home, self._children = PAIRS[number]
        self._life = life
        self._records = records
        self._done = [each for each in records if each.what == "done"]

    def __str__(self) -> str:
        return f"{self._life.name}, which locks on {self._children} in a folder with its home on {self._home},"

    def is_judged(self, outage: Outage, longest_s: float) -> bool:
        """Whether the outage is the home's alone. What a life before has left there has gone by then."""
        is_homes = outage.ensemble == self._home and self._children in outage.well
        is_old = self._life.first_s + longest_s < outage.since_s
        return is_homes and is_old and not self._life.is_broken(outage.since_s, outage.until_s)

    def answers(self, outage: Outage) -> list[Record]:
        return [each for each in self._done if outage.holds(each) and not each.fields["error"]]

    def failures(self, outage: Outage) -> Iterator[str]:
        for each in self._done:
            error, does = each.fields["error"], each.fields["does"]
            if outage.holds(each) and error:
                yield f"{self} was answered {error} to {does} at {each.at_s:.3f} s {outage}"

    def delays(self, outage: Outage, longest_s: float) -> Iterator[str]:
        for does in ("ensure_path", "lock", "delete", "start"):
            if not any(each.fields["does"] == does for each in self.answers(outage)):
                yield f"{self} was not answered to {does} {outage}"
        for each in self._done:
            began_s, does = each.fields["began"], each.fields["does"]
            if outage.since_s <= began_s and min(each.at_s, outage.until_s) - began_s > longest_s:
                yield f"{self} had to wait for {does} from {began_s:.3f} to {each.at_s:.3f} s {outage}"
