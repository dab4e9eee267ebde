"""A drill on a local cluster: `make drill`.

Either an operator's steps on two or three ensembles of three servers, with a load that checks itself; or a small
cluster that is sick, whose fault is told at the end.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from bench import ROOT
from bench.lab import NotPossible
from parkazoo.cli import INTERRUPTED
from parkazoo.local import LocalCluster, LocalClusterError
from tests.drills import ensemble_away, one_server_replaced, restore, rolling_restart, sick
from tests.drills.calls import Calls, Goal, count_calls
from tests.drills.stage import SESSION_TIMEOUT_S, Stage
from tests.faults.crew import Crew
from tests.faults.load import Judgement
from tests.faults.processors import Busy
from tests.faults.remains import ABOUT as ABOUT_TREE
from tests.faults.remains import judge_tree
from tests.faults.run import ENSEMBLES, SERVERS, finish, judge, prepare, records_of
from tests.faults.schedule import FULL
from tests.faults.worker import load_named
from tests.reconfigured import ZOO_CFG


class Drill(NamedTuple):
    """:param work: does the steps."""

    about: str
    goal: Goal
    work: Callable[[Stage], None]


DRILLS = {
    "rolling-restart": Drill(rolling_restart.ABOUT, rolling_restart.GOAL, rolling_restart.work),
    "ensemble-away": Drill(ensemble_away.ABOUT, ensemble_away.GOAL, ensemble_away.work),
    "one-server-replaced": Drill(one_server_replaced.ABOUT, one_server_replaced.GOAL, one_server_replaced.work),
}
LOADS = ("lock", "counter", "queue", "ephemerals", "dictionary")
RESTORE, SICK = "restore", "sick"
QUIET_S = 10.0  # before and after
SEED = 1


class Report(NamedTuple):
    """:param seconds: from the first step to the last.
    :param judged: by load: the promise, and what became of it.
    :param problems: of the drill itself.
    :param busy_share: of the machine's processors' time, 0 to 1.
    """

    steps: int
    seconds: float
    calls: Calls
    judged: Mapping[str, tuple[str, Judgement]]
    problems: list[str]
    busy_share: float

    def all_problems(self) -> list[str]:
        return [
            *self.problems,
            *(f"{name}: {each}" for name, (_, judged) in self.judged.items() for each in judged.problems),
        ]

    def to_json(self) -> dict[str, Any]:
        return {
            **self._asdict(),
            "calls": self.calls._asdict(),
            "judged": {
                name: {"problems": [*judged.problems], "figures": {**judged.figures}}
                for name, (_, judged) in self.judged.items()
            },
        }


def run(name: str, folder: Path, tell: Callable[[str], None]) -> Report:
    """
    :raises LocalClusterError: servers cannot be started.
    """
    drill = DRILLS[name]
    chosen = [load_named(each) for each in LOADS]
    problems: list[str] = []
    with ExitStack() as stack:
        cluster = stack.enter_context(
            LocalCluster(ENSEMBLES, SERVERS, folder / "servers", zoo_cfg=FULL.zoo_cfg | ZOO_CFG, progress=tell)
        )
        prepare(cluster.hosts, chosen)
        crew = stack.enter_context(Crew(chosen, folder, cluster.hosts, SESSION_TIMEOUT_S, SEED, is_counted=True))
        tell(f"{len(crew.members)} client processes")
        crew.wait_progress("of the beginning")
        busy, began_s = Busy(), time.monotonic()
        time.sleep(QUIET_S)
        stage = Stage(cluster, tell)
        first_s = time.monotonic()
        try:
            drill.work(stage)
        except LocalClusterError as error:
            problems.append(str(error))
        last_s = time.monotonic()
        crew.wait_progress("after the last step")
        time.sleep(QUIET_S)
        busy_share, ended_s = busy.share(), time.monotonic()
        crew.end()
        tell("reading what is there")
        finish(cluster.hosts, crew, chosen, folder)
        of_tree = judge_tree(cluster.hosts)
    tell("judging")
    calls = count_calls((each for load in LOADS for each in records_of(crew, load)), began_s, ended_s)
    judged = {
        load.name: (load.about, judge(load, crew, stage.faults, SESSION_TIMEOUT_S, is_timed=True))
        for load in chosen
    }
    judged["fsck"] = (ABOUT_TREE, of_tree)
    problems += calls.problems(drill.goal)
    return Report(len(stage.faults), last_s - first_s, calls, judged, problems, busy_share)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.drills", description=__doc__)
    parser.add_argument("name", choices=[*DRILLS, RESTORE, SICK], help="of the drill")
    parser.add_argument("--fault", choices=sick.SICKNESSES, help="of sick; otherwise by the seed")
    parser.add_argument("--seed", type=int, help="which fault; otherwise a random one")
    options = parser.parse_args()
    name = options.name
    if name != SICK and (options.fault or options.seed is not None):
        parser.error(f"give --fault and --seed with {SICK} alone")
    folder = ROOT / "build" / "drills" / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    folder.mkdir(parents=True)

    def tell(text: str) -> None:
        print(f"  {time.strftime('%H:%M:%S')} {text}", flush=True)

    try:
        if name == SICK:
            return sick.run(options.fault or random.Random(options.seed).choice([*sick.SICKNESSES]), folder, tell)
        if name == RESTORE:
            return restore.run(folder, tell)
        report = run(name, folder, tell)
    except (LocalClusterError, NotPossible) as error:
        print(f"no drill: {error}")
        return 2
    except KeyboardInterrupt:
        print("interrupted")
        return INTERRUPTED
    (folder / "summary.json").write_text(json.dumps(report.to_json(), indent=2) + "\n")
    _print(name, report)
    print(f"journals and summary.json in {folder.relative_to(ROOT)}")
    print(f"{len(report.all_problems())} problems" if report.all_problems() else "clean")
    return int(bool(report.all_problems()))


def _print(name: str, report: Report) -> None:
    calls = report.calls
    print(f"\n{name}: {DRILLS[name].about}; {report.steps} steps in {report.seconds:.0f} s")
    told = ", ".join(f"{count} {each}" for each, count in calls.errors.items()) or "none"
    print(f"calls {calls.total:,}; errors: {told} ({calls.error_share:.3%})")
    print(f"the longest call: {calls.longest}, {calls.longest_s:.2f} s")
    print(f"the processors were busy {report.busy_share:.0%} of the time")
    for load, (about, judged) in report.judged.items():
        print(f"{load}: {about}: {'kept' if not judged.problems else 'NOT KEPT'}")
        print(f"    {', '.join(f'{what}: {value}' for what, value in judged.figures.items())}")
    for problem in report.all_problems():
        print(f"PROBLEM {problem}")


if __name__ == "__main__":
    sys.exit(main())
