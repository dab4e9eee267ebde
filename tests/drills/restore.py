"""An ensemble is restored from an older copy of its data, by the commands of the page.

Clients are at work meanwhile. From the restore on they only read, until each lost directory is there again.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from kazoo.exceptions import KazooException, NodeExistsError
from kazoo.protocol.states import KazooState

from bench import ROOT
from parkazoo import ParKazooClient
from parkazoo.local import LocalCluster, LocalClusterError
from parkazoo.protocol.placement import ENSEMBLE, PIN, Directory, Place, Placement, join
from tests.drills.page import commands_in_text
from tests.drills.restore_users import CHILD, User
from tests.drills.stage import SESSION_TIMEOUT_S, Stage
from tests.faults.stress_state import connect
from tests.live.world import wait_until
from tests.where_is import where_is

PAGE = Path("docs/operations/backup.md")
FOLDER = "/backups/monday"  # on the page
HOSTS = ["--hosts", "a1"]
ENSEMBLES, SERVERS, USERS = 2, 3, 4
BACK = 1  # the ensemble that goes back
RISES = 2  # of the version that shows a restore to the clients
ROUNDS = 5  # of each client at the end
PATIENCE_S = 180.0
ALLOWED = frozenset({"ConnectionLoss", "SessionExpiredError", "WentBackError"})
LINE = re.compile(r"^(home and children|home|children|pin) +lost by (\S+)  (.+)$", re.MULTILINE)


class Lost(NamedTuple):
    """A directory, as `parkazoo backup --compare` names it."""

    what: str
    ensemble: str
    path: str


def lost_in(shown: str) -> list[Lost]:
    """Returns the directories in what the command prints."""
    return [Lost(*each) for each in LINE.findall(shown)]


def is_broken(directory: Directory, is_there: Callable[[Place], bool]) -> bool:
    """Whether a directory over two ensembles has lost a part of it on one of them."""
    home, mirror = directory.home, directory.mirror
    if home == mirror:
        return False
    pin = Place(home.ensemble, join(home.path, PIN))
    return (is_there(home) and is_there(pin)) != is_there(mirror)


def judge_list(named: Collection[str], broken: Collection[str]) -> list[str]:
    """Returns where the list of lost directories is wrong, in words."""
    missed = [f"{path} is lost, and is not named" for path in sorted({*broken} - {*named})]
    return [*missed, *(f"{path} is named, and is not lost" for path in sorted({*named} - {*broken}))]


def cannot_be_lost(made: Collection[str], copied: Collection[str], where: Callable[[str], Directory]) -> set[str]:
    """Returns the directories that are in the copy, or not on the ensemble that goes back.

    :param copied: that were made before the copy. :param where: a path and its children are.
    """
    elsewhere = {path for path in made if BACK not in (where(path).home.ensemble, where(path).mirror.ensemble)}
    return elsewhere | {*copied}


def judge_user(states: Sequence[str], errors: Mapping[str, int], wrong: Sequence[str]) -> list[str]:
    """Returns what a client should not have seen, in words."""
    lost = states.count(KazooState.LOST)
    found = [f"it did not read its own write in {path}" for path in wrong]
    found += [f"{count} calls: {name}" for name, count in sorted(errors.items()) if name not in ALLOWED]
    return found if lost == 1 else [*found, f"it was LOST {lost} times, not once"]


def run(folder: Path, tell: Callable[[str], None]) -> int:
    """Prints what was lost and what clients have seen. Returns the exit status.

    :raises LocalClusterError: servers cannot be started.
    """
    lost: list[Lost] = []
    users: list[User] = []
    problems: list[str] = []
    with ExitStack() as stack:
        cluster = stack.enter_context(LocalCluster(ENSEMBLES, SERVERS, folder / "servers", progress=tell))
        stage = Stage(cluster, tell)
        try:
            _restore(stage, folder, stack, users, lost, problems)
        except (LocalClusterError, KazooException, AssertionError) as error:
            problems.append(str(error) or repr(error))
    for number, each in enumerate(users):
        problems += [f"client {number}: {found}" for found in judge_user(each.states, each.errors, each.wrong)]
    _print(users, lost, problems)
    return int(bool(problems))


def _restore(
    stage: Stage, folder: Path, stack: ExitStack, users: list[User], lost: list[Lost], problems: list[str]
) -> None:
    """
    :raises LocalClusterError: a command fails, or a server. :raises AssertionError: something does not happen.
    """
    ensembles, hosts = stage.cluster.ensembles, stage.cluster.hosts
    placement = Placement(ENSEMBLES)
    where = partial(where_is, placement)
    backup, compare, accept = (
        [str(folder / "backup") if word == FOLDER else word for word in each] for each in stage.commands(PAGE, {})
    )
    (repair,) = (each for each in commands_in_text((ROOT / PAGE).read_text()) if each[:2] == ["fsck", "--repair"])
    watcher = connect(ensembles[BACK].hosts, stack)
    locks = next(path for path in map("/locks{}".format, itertools.count()) if placement.of_children(path) == BACK)
    users += [stack.enter_context(User(hosts, number, locks, SESSION_TIMEOUT_S)) for number in range(USERS)]

    def wait_for_rounds(what: str) -> None:
        goals = [each.rounds + ROUNDS for each in users]
        wait_until(
            lambda: all(each.rounds >= goal for each, goal in zip(users, goals, strict=True)), what, PATIENCE_S
        )

    def version() -> int:
        return int(watcher.retry(watcher.get, ENSEMBLE)[1].version)

    wait_for_rounds("the clients' first rounds")
    stage.run(backup)
    copied = {path for each in users for path in each.made}
    stage.copy_data(ensembles[BACK].followers()[0], folder / "copy")
    goal = version() + RISES
    wait_until(lambda: version() >= goal, "a change that shows a restore", PATIENCE_S)
    for each in users:
        each.hold()
    stage.restore_data(ensembles[BACK], folder / "copy")
    wait_until(lambda: any(KazooState.LOST in each.states for each in users), "a client that is LOST", PATIENCE_S)

    lost += lost_in(stage.run(compare, statuses=(0, 1)))
    plain = [connect(each.hosts, stack) for each in ensembles]

    def is_there(place: Place) -> bool:
        return plain[place.ensemble].exists(place.path) is not None

    broken = [path for each in users for path in each.tried if is_broken(where(path), is_there)]
    problems += judge_list([each.path for each in lost], broken)
    operator = stack.enter_context(ParKazooClient(hosts))
    for each in lost:
        _bring_back(operator, each)
    stage.run([*repair, *HOSTS])
    if "accepted on" not in stage.run(accept):
        problems.append("no client has noted the restore")

    for each in users:
        each.go_on()
    wait_for_rounds("the clients' rounds at the end")
    wait_until(lambda: all(KazooState.LOST in each.states for each in users), "all clients LOST", PATIENCE_S)
    made = {path for each in users for path in each.made}
    needed = cannot_be_lost(made, copied, where)
    problems += [f"{path} is lost" for path in sorted(needed) if operator.exists(f"{path}/{CHILD}") is None]
    stage.run(["map", "check", *HOSTS])
    stage.run(["fsck", *HOSTS])


def _bring_back(operator: ParKazooClient, lost: Lost) -> None:
    """As the page says; what is left of it `fsck --repair` does."""
    if lost.what == "home":
        with suppress(NodeExistsError):
            operator.create(lost.path)
    elif lost.what != "pin":
        operator.ensure_path(f"{lost.path}/{CHILD}")


def _print(users: Sequence[User], lost: Sequence[Lost], problems: Sequence[str]) -> None:
    made = sum(len(each.made) for each in users)
    about = f"{len(lost):,} were lost, and are there again"
    print(f"\nrestore: {len(users)} clients made {made:,} directories; {about}")
    for each in lost:
        print(f"lost: {each.what} of {each.path}, by {each.ensemble}")
    for what, seen in (("states", [each.states for each in users]), ("errors", [each.errors for each in users])):
        counts = sum(map(Counter, seen), Counter())
        print(f"{what}: {', '.join(f'{name} {count}' for name, count in sorted(counts.items())) or 'none'}")
    for problem in problems:
        print(f"PROBLEM {problem}")
    print(f"{len(problems)} problems" if problems else "clean")
