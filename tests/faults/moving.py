"""Directories that the loads use move from ensemble to ensemble, by commands that something hinders."""

from __future__ import annotations

import math
import os
import random
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NamedTuple

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from bench import ROOT
from parkazoo import ClusterMapError, ParKazooClient
from parkazoo.admin import find_whereabouts, read_history, read_spread
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.epochs import Form
from parkazoo.protocol.moving import MOVES, Moving
from parkazoo.protocol.placement import join
from tests.faults.crew import Crew
from tests.faults.following import judge_followers
from tests.faults.freezing import freeze_one
from tests.faults.load import Judgement
from tests.faults.nemesis import Nemesis
from tests.faults.retries import until_answered
from tests.faults.schedule import AWAY, MANNERS, Plan

ABOUT = "Directories move meanwhile: no command needs more than to be repeated, and nothing is left over"
ABOUT_HOLDS = "No move holds an operation up for long"
NOT_OF_MOVES = ("elsewhere", "folders", "one_down")  # their judges take it that a path tells the ensemble
TOP = "/faults"
MANY_VERSIONS = join(TOP, "deferred")
GOAL_S = 5.0  # clients call a move off after 3 s
START_TIMEOUT_S = 60.0
USUAL_S = 3.0  # what a command takes, until one has shown it
HOLD_S = 0.3  # of which a command is killed at some time
SHARE_REPEATED = (
    0.5  # of the commands that were hindered: at once; of others, when another command or the end comes
)
POLL_S, REST_S = 0.01, 1.0
PROMISE_S = 120.0  # for all commands to end, when there are no faults any more
PROMISE_EACH_S = 60.0  # more, for each move that has not come to its end by then
REFUSED = 1  # of exit statuses
AWAY_KIND = "ensemble away"
TOLD = re.compile(r"(?:have waited for|called off after) (\d+) ms")
GONE = re.compile(
    r"there is no znode|has no child|has never had a child|there is nothing to abort|"
    r"are a LockingQueue in kazoo's layout"  # half of it stays for good
)
BEGUN, HAPPENED = "begun", "the children are there"  # in the history


class Ended(NamedTuple):
    """:param status: None: it was killed."""

    status: int | None
    out: str
    error: str


class Command:
    """``parkazoo map move``, in a process of its own."""

    def __init__(self, hosts: str, path: str, *options: str) -> None:
        self.path = path
        self.about = " ".join(("map move", path, *options))
        self.began_s = time.monotonic()
        self._is_killed = False
        argv = [sys.executable, "-m", "parkazoo", "map", "move", path, *options]
        self._process = subprocess.Popen(
            [*argv, "--hosts", hosts, "--strangers-gone"],
            cwd=ROOT,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        self._is_killed = self.is_running
        self._process.kill()

    def end(self) -> Ended:
        """Wait for it."""
        out, error = self._process.communicate()
        return Ended(None if self._is_killed else self._process.returncode, out, error)


class Moves:
    """Moves one directory after the other, on a thread of its own.

    :ivar runs: from when to when a command ran, for each of its runs.
    """

    def __init__(
        self,
        hosts: str,
        crew: Crew,
        nemesis: Nemesis,
        session_timeout_s: float,
        dice: random.Random,
        tell: Callable[[str], None],
    ) -> None:
        self._hosts = hosts
        self._crew = crew
        self._nemesis = nemesis
        self._session_timeout_s = session_timeout_s
        self._dice = dice
        self._dice_of_freezes = random.Random(dice.random())  # another thread's
        self._tell = tell
        self._client = ParKazooClient(hosts)
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._end_s = 0.0
        self._patience_end_s = math.inf  # faults may go on for longer than planned
        self._usual_s = USUAL_S
        self._left: set[str] = set()  # directories of which a command has not come to its end
        self._history: dict[int, str] = {}  # what changed, by map
        self._longest_ms = 0
        self._counts = dict.fromkeys(("commands", "killed", "refused"), 0)
        self._problems: list[str] = []
        self.runs: list[tuple[float, float]] = []

    def begin(self, minutes: float) -> None:
        self._client.start(START_TIMEOUT_S)
        self._client.join(timeout=START_TIMEOUT_S)  # so that it is told of each map
        self._end_s = time.monotonic() + 60 * minutes
        self._thread.start()

    def end(self) -> None:
        """There are no faults any more: what was begun comes to its end, and one more directory moves."""
        self._end_s = time.monotonic()
        promise_s = PROMISE_S + PROMISE_EACH_S * len(self._left)
        self._patience_end_s = self._end_s + promise_s
        self._thread.join(promise_s)
        if self._thread.is_alive():
            self._problems.append(f"the commands have not ended {promise_s:g} s after the last fault")
        self._client.stop()
        self._client.close()

    def judgement(self) -> Judgement:
        """When all clients have had time to follow."""
        found = read_spread(self._hosts)
        followed = judge_followers(found)
        problems = [*self._problems, *followed.problems, *_left_over(found.cluster_map)]
        begun, happened = self._count(BEGUN), self._count(HAPPENED)
        figures = {"moves begun": begun, "have happened": happened, "called off": begun - happened}
        figures |= self._counts | {"longest hold that a command told, ms": self._longest_ms}
        return Judgement(problems, {**followed.figures, **figures})

    def _count(self, end: str) -> int:
        return sum(what.startswith("move of") and what.endswith(end) for what in self._history.values())

    # ---- one move after the other ----------------------------------------------------------------

    def _work(self) -> None:
        for hinder in self._hindrances():
            if time.monotonic() >= self._end_s:
                break
            if self._map.form is Form.GROWN and len(self._map.placement) > 1:
                self._move(hinder)
            time.sleep(REST_S)
        for path in sorted(self._left, key=lambda each: not (self._map.move and self._map.move.directory == each)):
            self._end_what_was_begun(path)
        self._move_one_more()

    def _hindrances(self) -> Iterator[Callable[[Command], None]]:
        """Each comes once before any comes again."""
        all_of_them = (
            lambda command: None,
            self._kill,
            self._kill_in_hold,
            self._call_off,
            self._run_another,
            self._freeze,
            self._freeze_and_kill,
            self._take_ensemble_away,
        )
        while True:
            yield from self._dice.sample(all_of_them, len(all_of_them))

    def _move(self, hinder: Callable[[Command], None]) -> None:
        move = self._map.move
        path = self._pick() if move is None else move.directory
        to = self._other_name(path) if move is None else move.target
        self._left.add(path)
        command = Command(self._hosts, path, "--to", to)
        hinder(command)
        ended = self._account(command)
        if ended.status != 0 and self._dice.random() < SHARE_REPEATED:
            ended = self._account(Command(self._hosts, path))
        if ended.status == 0 and hinder != self._run_another:  # which may have left something
            self._left.discard(path)

    def _pick(self) -> str:
        """A directory of the loads, rather one that is far below; not the one that has all of them in it."""
        while True:
            path, way = TOP, list[str]()
            while names := self._children(path):
                way.append(path)
                path = join(path, self._dice.choice(names))
            if way and self._is_native(TOP):
                way.remove(TOP)
            if way:
                return self._dice.choices(way, range(1, len(way) + 1))[0]

    def _is_native(self, path: str) -> bool:
        """So all below it goes along when it moves. True if an ensemble that has to be asked is away."""
        with suppress(ClusterMapError):
            return find_whereabouts(self._map, path).d.is_native
        return True

    def _children(self, path: str) -> list[str]:
        """Without those whose znodes have thousands of versions: a copy has to write each."""
        with suppress(NoNodeError):
            found: list[str] = until_answered(lambda: self._client.get_children(path))
            return [name for name in found if join(path, name) != MANY_VERSIONS]
        return []

    def _one_name(self) -> str:
        return self._dice.choice([*self._map.placement])

    def _other_name(self, path: str) -> str:
        """An ensemble without its children; any, if one that has to be asked is away."""
        names = {*self._map.placement}
        with suppress(ClusterMapError):
            names.discard(self._map.names[find_whereabouts(self._map, path).d.mirror.ensemble])
        return self._dice.choice(sorted(names))

    @property
    def _map(self) -> ClusterMap:
        found = self._client.cluster_map
        assert found is not None
        return found

    def _account(self, command: Command) -> Ended:
        """Wait for it, and count."""
        while command.is_running and time.monotonic() < self._patience_end_s:
            time.sleep(POLL_S)
        if command.is_running:
            self._problems.append(f"{command.about} does not end")
            command.kill()
        ended = command.end()
        now_s = time.monotonic()
        self.runs.append((command.began_s, now_s))
        if ended.status == 0:
            self._usual_s = now_s - command.began_s
        elif ended.status not in (None, REFUSED) or "Traceback" in ended.error:
            self._problems.append(f"{command.about} ends with {ended.status}: {ended.error.strip()}")
        self._counts["commands"] += 1
        self._counts["killed"] += ended.status is None
        self._counts["refused"] += ended.status == REFUSED
        self._longest_ms = max(self._longest_ms, *map(int, TOLD.findall(ended.out)), 0)
        self._tell(f"parkazoo {command.about}: {_in_short(ended)}")
        with suppress(ClusterMapError):
            self._history |= {each.map: each.what for each in read_history(self._hosts)}
        return ended

    # ---- the end ---------------------------------------------------------------------------------

    def _end_what_was_begun(self, path: str) -> None:
        """Repeat the command; if its directory is gone, take back what it has left."""
        options: tuple[str, ...] = ()
        while time.monotonic() < self._patience_end_s:
            ended = self._account(Command(self._hosts, path, *options))
            if ended.status == 0 or (GONE.search(ended.error) and options):
                return
            if GONE.search(ended.error):
                options = ("--abort",)
            time.sleep(REST_S)
        self._problems.append(f"the move of {path} has not come to its end")

    def _move_one_more(self) -> None:
        """Its load may be deleting the directory, so any may be the one."""
        before = self._count(HAPPENED)
        while self._count(HAPPENED) == before:
            if time.monotonic() > self._patience_end_s:
                self._problems.append("no directory moves when there are no faults any more")
                break
            path = self._pick()
            self._account(Command(self._hosts, path, "--to", self._other_name(path)))

    # ---- what hinders ----------------------------------------------------------------------------

    def _kill(self, command: Command) -> None:
        self._wait_a_while(command)
        command.kill()

    def _kill_in_hold(self, command: Command) -> None:
        if self._hold(command):
            time.sleep(self._dice.uniform(0.0, HOLD_S))
        command.kill()

    def _call_off(self, command: Command) -> None:
        self._wait_a_while(command)
        self._account(Command(self._hosts, command.path, "--abort"))

    def _run_another(self, command: Command) -> None:
        self._wait_a_while(command)
        self._account(Command(self._hosts, command.path, "--to", self._one_name()))

    def _freeze(self, command: Command) -> None:
        self._nemesis.note(freeze_one(self._crew, self._session_timeout_s, self._dice_of_freezes))

    def _freeze_and_kill(self, command: Command) -> None:
        thread = threading.Thread(target=self._freeze, args=(command,), daemon=True)
        thread.start()
        self._kill_in_hold(command)
        thread.join()

    def _take_ensemble_away(self, command: Command) -> None:
        """In the hold, mostly the one that has the children, or gets them."""
        move = self._hold(command)
        name = (
            self._one_name() if move is None else self._dice.choice((move.source, move.target, self._one_name()))
        )
        manner = self._dice.choice(MANNERS[AWAY_KIND])
        lasts_s = self._session_timeout_s * self._dice.uniform(0.0, AWAY)
        self._nemesis.hit(Plan(AWAY_KIND, manner, sorted(self._map.ensembles).index(name), 0.0, lasts_s))

    def _wait_a_while(self, command: Command) -> None:
        """For a part of the time that a command takes."""
        until_s = command.began_s + self._dice.uniform(0.0, self._usual_s)
        while command.is_running and time.monotonic() < until_s:
            time.sleep(POLL_S)

    def _hold(self, command: Command) -> Moving | None:
        """Wait until clients hold what they do; None: they have not."""
        while command.is_running:
            move = self._map.move
            if move is not None and not move.has_switched:
                return move
            time.sleep(POLL_S)
        return None


def _in_short(ended: Ended) -> str:
    last = (ended.error.strip() or ended.out.strip() or "silent").splitlines()[-1]
    return f"{'killed' if ended.status is None else ended.status}, {' '.join(last.split())}"


def _left_over(cluster_map: ClusterMap) -> Iterator[str]:
    """What fsck does not look at."""
    if cluster_map.move is not None:
        yield f"{cluster_map.move.directory} is still on its way"
    for name, hosts in cluster_map.ensembles.items():
        client = KazooClient(hosts)
        client.start(START_TIMEOUT_S)
        with suppress(NoNodeError):
            yield from (f"{MOVES}/{each} is left on {name}" for each in client.get_children(MOVES))
        client.stop()
        client.close()
