"""One ensemble becomes five while the loads go on, by commands that are killed behind each of their steps."""

from __future__ import annotations

import json
import math
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from bench import ROOT
from parkazoo.admin import read_spread
from parkazoo.protocol.epochs import Form
from tests.faults.apart import Apart
from tests.faults.crew import Crew
from tests.faults.following import judge_followers
from tests.faults.freezing import freeze_one
from tests.faults.load import Fault, Judgement

ABOUT = "One ensemble becomes five: every client follows, and no command needs more than to be repeated"
# Their judges take it that a path tells the ensemble.
NOT_OF_GROWTH = ("elsewhere", "ephemerals", "folders", "one_down")
CUT = (1.3, 2.0)  # of it too: so the client loses its session there
STEP = b" s  "  # in a line that tells of a step
REST_S = 1.0  # before a command that was refused runs again
PROMISE_S = 120.0  # for the last command, and for all clients to follow, when there are no faults any more


class Command(NamedTuple):
    """:param ensembles: how many carry znodes afterwards. :param arguments: of ``parkazoo map``."""

    ensembles: int
    arguments: tuple[str, ...]


def commands(hosts: Mapping[str, str]) -> list[Command]:
    """What the operator does, from one ensemble on."""

    def grow(name: str) -> tuple[str, ...]:
        return ("grow", "--ensemble", f"{name}={hosts[name]}", "--strangers-gone")

    return [
        Command(2, grow("b")),
        Command(3, grow("c")),
        Command(3, ("rule", "add", "/faults/registers")),
        Command(3, ("drain", "a")),
        Command(4, grow("d")),
        Command(4, ("rule", "add", "/faults/lock", "--on", "d")),
        Command(4, ("weight", "a=2", "d=3")),
        Command(5, grow("e")),
        Command(5, ("rule", "remove", "/faults/registers")),
        Command(5, ("drain", "b")),
    ]


class Growing:
    """Runs the commands, spread over the time of the faults, on a thread of its own.

    :param hosts: of each ensemble, the first one's too.
    :param apart: the client that is cut off, if one can be.
    :ivar reach: how many ensembles clients use.
    :ivar runs: from when to when a command ran, for each of its runs.
    """

    def __init__(
        self,
        hosts: Mapping[str, str],
        crew: Crew,
        session_timeout_s: float,
        dice: random.Random,
        tell: Callable[[str], None],
        journal: Path,
        apart: Apart | None,
    ) -> None:
        self._apart = apart
        self._first = next(iter(hosts.values()))
        self._commands = commands(hosts)
        self._crew = crew
        self._session_timeout_s = session_timeout_s
        self._dice = dice
        self._dice_of_cuts = random.Random(dice.random())  # another thread's
        self._tell = tell
        self._journal = journal
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._end_s = 0.0
        self._patience_end_s = math.inf  # faults may go on for longer than planned
        self._figures: dict[str, int | float | str] = {"commands killed": 0, "commands refused": 0}
        self._problems: list[str] = []
        self.reach = 1
        self.runs: list[tuple[float, float]] = []
        self.faults: list[Fault] = []

    def begin(self, minutes: float) -> None:
        self._end_s = time.monotonic() + 60 * minutes
        self._thread.start()

    def end(self) -> None:
        """There are no faults any more: the commands that are left come to their ends."""
        self._end_s = time.monotonic()
        self._patience_end_s = self._end_s + PROMISE_S
        self._thread.join(PROMISE_S)
        if self._thread.is_alive():
            self._problems.append(f"the commands have not ended {PROMISE_S:g} s after the last fault")

    def judgement(self) -> Judgement:
        """When all clients have had time to follow."""
        problems = [*self._problems]
        found = read_spread(self._first)
        if (
            found.cluster_map.form is not Form.GROWN
            or len(found.cluster_map.placement) != self._commands[-1].ensembles
        ):
            problems.append(
                f"the map has form {found.cluster_map.form.word}, on {len(found.cluster_map.placement)}"
            )
        followed = judge_followers(found)
        figures = {**followed.figures, "epochs": found.cluster_map.epochs[-1].number, **self._figures}
        return Judgement([*problems, *followed.problems], figures)

    def _work(self) -> None:
        first_s = time.monotonic()
        apart_s = max(0.0, self._end_s - first_s) / (len(self._commands) + 1)
        for number, command in enumerate(self._commands, 1):
            self._wait(first_s + number * apart_s)
            harms = [threading.Thread(target=each, daemon=True) for each in (self._freeze, self._cut)]
            for harm in harms:
                harm.start()
            began_s = time.monotonic()
            self._run(command.arguments)
            self.reach = command.ensembles
            for harm in harms:
                harm.join()
            if command.arguments[0] == "grow":
                name = command.arguments[2].partition("=")[0]
                self._figures[f"{name} has come, s"] = f"{time.monotonic() - began_s:.1f}"

    def _wait(self, until_s: float) -> None:
        while time.monotonic() < min(until_s, self._end_s):
            time.sleep(min(REST_S, max(0.0, until_s - time.monotonic())))

    def _freeze(self) -> None:
        self._note(freeze_one(self._crew, self._session_timeout_s, self._dice))

    def _cut(self) -> None:
        """One client from the bootstrap ensemble alone, beginning when the command does."""
        if self._apart is not None:
            self._note(self._apart.cut(self._session_timeout_s * self._dice_of_cuts.uniform(*CUT)))

    def _note(self, fault: Fault) -> None:
        self.faults.append(fault)
        with self._journal.open("a") as journal:
            print(json.dumps(fault._asdict()), file=journal)

    def _run(self, arguments: tuple[str, ...]) -> None:
        """Again and again: it is killed behind its first step, behind its second, ..., until it has ended."""
        self._tell(f"parkazoo map {' '.join(arguments)}")
        steps = 0
        while True:
            steps += 1
            began_s = time.monotonic()
            status, said = self._run_once(arguments, steps)
            self.runs.append((began_s, time.monotonic()))
            if status == 0:
                return
            if status is None:
                self._figures["commands killed"] = int(self._figures["commands killed"]) + 1
                continue
            self._figures["commands refused"] = int(self._figures["commands refused"]) + 1
            steps -= 1
            self._tell(f"refused: {said.strip().splitlines()[0] if said.strip() else status}")
            if time.monotonic() > self._patience_end_s:
                self._problems.append(f"{' '.join(arguments)}: {said.strip()}")
                return
            time.sleep(REST_S)

    def _run_once(self, arguments: tuple[str, ...], steps: int) -> tuple[int | None, str]:
        """Its exit status and its error; None if it was killed, behind so many steps."""
        command = [sys.executable, "-m", "parkazoo", "map", *arguments, "--hosts", self._first]
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        with subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            for line in process.stdout:
                steps -= STEP in line
                if not steps:
                    process.kill()
                    return None, ""
            said = process.stderr.read().decode(errors="replace")
            return process.wait(), said
