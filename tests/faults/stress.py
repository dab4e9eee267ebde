"""Operations that end between two of their requests, on directories that several clients make and delete at once.

    python -m tests.faults.stress --crashes 2000 --seed 7

The servers are three ensembles of three; followers are frozen in turns, and lag when they go on. A crash is what
the end of a client's process would be there: the request is sent or it is not, and no client waits for the answer.
Others are held up on the way, as if their process had been stopped. It checks all the time, and again at the end:

- a child whose create was acknowledged is there, and its directory too, until its delete is begun; and it is gone
  once that is acknowledged;
- no sequence number is given twice in the life of a directory (the czxid of its home);
- no mirror is without its directory when nothing is under way, fsck finds nothing once it has mended what crashes
  may leave, and nothing at all is left of what was deleted.

Directories are of three kinds. Some are set and deleted, others are deleted with a version and not set. Those of
the third kind are set *and* deleted with a version, of which docs/design/protocol.md says under "Known gaps" that
sequence numbers may start again: for these they are counted, no more. Transactions that delete a directory are
left out for the same reason.
"""

from __future__ import annotations

import argparse
import itertools
import logging
import random
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, NamedTuple

from kazoo.client import KazooClient
from kazoo.exceptions import (
    BadVersionError,
    ConnectionLoss,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    SessionExpiredError,
)
from rich.console import Console
from rich.table import Table

from parkazoo import ParKazooClient
from parkazoo.local import LocalCluster, LocalServer
from parkazoo.protocol.placement import MIRRORS, Placement, escape, unescape
from tests.faults.load import Judgement
from tests.faults.remains import judge_tree

ROOT = "/stress"
SET, VERSIONED, GAP = "set", "versioned", "gap"
DIRECTORIES_OF_A_KIND = 1
CLIENTS = 6
SEASON_S = 1.0
STEPS = (*range(2, 10), 0)  # at which a crash comes, if there are so many; before the second nothing is half done
SESSION_TIMEOUT_S = 20.0  # far more than any server is frozen for
START_TIMEOUT_S = 60.0
HELD_S = 0.3
FROZEN_S = (0.1, 0.6)
THAWED_S = 0.1
STALL_S = 120.0  # without a single crash
PROBLEMS_MAX = 20
REFUSALS = (NoNodeError, NodeExistsError, BadVersionError, NotEmptyError)
LOST = (ConnectionLoss, SessionExpiredError)
SEQUENCE_DIGITS = 10
FENCE = "/parkazoo/fences/0"  # that its version changes makes a promotion begin again, no more


def _started(client: Any, stack: ExitStack) -> Any:
    stack.callback(client.close)
    stack.callback(client.stop)
    client.start(START_TIMEOUT_S)
    return client


def _connect(hosts: str, stack: ExitStack) -> KazooClient:
    """A client that sees what is really there."""
    return _started(KazooClient(hosts, timeout=SESSION_TIMEOUT_S), stack)


# ---- crashes ---------------------------------------------------------------------------------


class CrashError(Exception):
    """Raised instead of an answer: the client that waited for it is gone."""


class NoReply:
    """Drops the answer to a request of a client that is gone."""

    def set(self, value: Any = None) -> None: ...
    def set_exception(self, exception: Exception) -> None: ...


class Crashes:
    """Stands between a client's operations and its members; the client does one operation at a time."""

    def __init__(self, client: ParKazooClient) -> None:
        session: Any = client._session
        session.driver.members = tuple(CrashingMember(member, self) for member in session.driver.members)
        self._armed = Armed()
        self._steps = 0
        self.at_step = 0
        self.is_held = False

    @contextmanager
    def armed(self, armed: Armed) -> Iterator[None]:
        """Do that to the next operation."""
        self._steps, self.at_step, self.is_held, self._armed = 0, 0, False, armed
        try:
            yield
        finally:
            self._armed = Armed()

    def submit(self, member: Any, request: Any, reply: Any) -> None:
        armed = self._armed
        self._steps += 1
        if armed.crash and self._steps >= armed.crash:
            self.at_step = armed.crash
            if self._steps == armed.crash and armed.is_sent:
                member.submit(request, NoReply())
            reply.set_exception(CrashError())
        elif self._steps == armed.hold:
            self.is_held = True
            threading.Timer(armed.hold_s, member.submit, (request, reply)).start()
        else:
            member.submit(request, reply)


class Armed(NamedTuple):
    """What becomes of an operation at which steps, counted from 1; 0 is never.

    :param is_sent: whether the request of that step is sent before the crash.
    :param hold: where it is held up, as if its process had been stopped.
    """

    crash: int = 0
    is_sent: bool = False
    hold: int = 0
    hold_s: float = 0.0


class CrashingMember(NamedTuple):
    member: Any
    crashes: Crashes

    def submit(self, request: Any, reply: Any) -> None:
        self.crashes.submit(self.member, request, reply)


# ---- what must hold --------------------------------------------------------------------------


class Numbers:
    """The sequence numbers that were seen, by the life of their directory."""

    def __init__(self) -> None:
        self._names: dict[tuple[str, int], dict[str, str]] = defaultdict(dict)
        self._lock = threading.Lock()

    def add(self, path: str, czxid: int, name: str) -> str | None:
        """Returns another child that was seen with this number in this life."""
        number = name[-SEQUENCE_DIGITS:]
        with self._lock:
            other = self._names[path, czxid].setdefault(number, name)
        return other if other != name else None

    @property
    def lives(self) -> int:
        return len(self._names)

    @property
    def seen(self) -> int:
        return sum(map(len, self._names.values()))


class Stress:
    """What all clients of a run share: the directories, what was counted, and what went wrong."""

    def __init__(self, crashes: int, tell: Callable[[str], None]) -> None:
        self.wanted = crashes
        self.problems: list[str] = []
        self.count: Counter[str] = Counter()
        self.numbers = Numbers()
        self.over = threading.Event()
        self._tell = tell
        self._lock = threading.Lock()
        placement = Placement(3)
        paths = (f"{ROOT}/d{number}" for number in itertools.count())
        mirrored = (path for path in paths if not placement.is_native(path))
        self.kinds = {
            path: kind
            for kind in (SET, VERSIONED, GAP)
            for path in itertools.islice(mirrored, DIRECTORIES_OF_A_KIND)
        }

    def add(self, what: str) -> None:
        with self._lock:
            self.count[what] += 1

    def crashed(self, operation: str, step: int) -> None:
        with self._lock:
            self.count["crashes"] += 1
            self.count[f"crashes of {operation}"] += 1
            self.count[f"crashes at step {step}"] += 1
            if self.count["crashes"] % 250 == 0:
                self._tell(f"{self.count['crashes']} crashes")
            if self.count["crashes"] >= self.wanted:
                self.over.set()

    def problem(self, text: str) -> None:
        with self._lock:
            if text not in self.problems:
                self.problems.append(text)
            if len(self.problems) >= PROBLEMS_MAX:
                self.over.set()

    def number(self, path: str, czxid: int, name: str) -> None:
        other = self.numbers.add(path, czxid, name)
        if other is None:
            return
        if self.kinds[path] == GAP:
            self.add("numbers repeated in a known gap")
        else:
            self.problem(f"{path} of czxid {czxid} gave one number to both {other} and {name}")


class User:
    """One client, what it does, and what it knows about its own children."""

    def __init__(self, stress: Stress, number: int, hosts: str, seed: int, stack: ExitStack) -> None:
        self._stress = stress
        self._number = number
        self._dice = random.Random(f"{seed}/{number}")
        self._names = (f"{number}-{count}-" for count in itertools.count())
        self.there: set[str] = set()  # acknowledged children of ours, as paths
        self.gone: set[str] = set()
        self.client = _started(ParKazooClient(hosts, timeout=SESSION_TIMEOUT_S), stack)
        self._crashes = Crashes(self.client)
        self._growing = (
            *(self._make,) * 3,
            *(self._create_sequential,) * 4,
            *(self._create,) * 2,
            *(self._delete_child, self._remove, self._list, self._set, self._look),
        )
        self._shrinking = (
            *(self._remove,) * 8,
            *(self._make, self._create_sequential, self._list, self._set, self._look),
        )

    def __str__(self) -> str:
        return f"client {self._number}"

    def work(self) -> None:
        try:
            while not self._stress.over.is_set():
                index = self._dice.randrange(len(self._stress.kinds))
                is_growing = int(time.monotonic() / SEASON_S + index) % 2  # else it would hardly ever be empty
                path = list(self._stress.kinds)[index]
                self._dice.choice(self._growing if is_growing else self._shrinking)(path)
                self._stress.add("operations")
        except Exception as error:
            self._stress.problem(f"{self} has ended: {error!r}")
            raise

    def _do(self, name: str, call: Callable[[], Any]) -> Any:
        """Perhaps with a crash.

        :returns: what the call returns or raises.
        """
        dice = self._dice
        armed = Armed(dice.choice(STEPS), dice.random() < 0.5, dice.choice(STEPS), dice.uniform(0, HELD_S))
        try:
            with self._crashes.armed(armed):
                result = call()
            if self._crashes.is_held:
                self._stress.add("operations held up")
            return result
        except CrashError as crash:
            self._stress.crashed(name, self._crashes.at_step)
            return crash
        except LOST as error:
            self._stress.add("connections lost")
            return error
        except REFUSALS as refusal:
            return refusal

    # ---- what it does

    def _make(self, path: str) -> None:
        self._do("create of the directory", lambda: self.client.create(path, b""))

    def _remove(self, path: str) -> None:
        for child in self._own(path):
            self._delete(child)
        version = -1 if self._stress.kinds[path] == SET else self._dice.choice((0, 0, 0, 1))
        removed = self._do("delete of the directory", lambda: self.client.delete(path, version))
        if removed is True:
            self._stress.add("directories deleted")

    def _set(self, path: str) -> None:
        if self._stress.kinds[path] != VERSIONED:
            self._do("set", lambda: self.client.set(path, b""))

    def _create(self, path: str) -> None:
        child = f"{path}/{next(self._names)}"
        self._created(child, self._do("create of a child", lambda: self.client.create(child, b"")))

    def _create_sequential(self, path: str) -> None:
        prefix = f"{path}/{next(self._names)}"
        before = self._czxid(path)
        created = self._do("create of a child", lambda: self.client.create(prefix, b"", sequence=True))
        if isinstance(created, CrashError):
            self.there |= {
                f"{path}/{name}" for name in self._names_in(path) if f"{path}/{name}".startswith(prefix)
            }
        if isinstance(created, str):
            self._created(created, created)
            if before is not None and before == self._czxid(path):
                self._stress.number(path, before, created)

    def _created(self, child: str, result: Any) -> None:
        if not isinstance(result, Exception):
            self.there.add(child)
            self._stress.add("children created")
        elif isinstance(result, CrashError) and self._exists(child):
            self.there.add(child)

    def _delete_child(self, path: str) -> None:
        for child in self._own(path)[:2]:
            self._delete(child)

    def _delete(self, child: str) -> None:
        self.there.discard(child)
        deleted = self._do("delete of a child", lambda: self.client.delete(child))
        if deleted is True:
            self.gone.add(child)
        elif isinstance(deleted, CrashError):
            (self.there if self._exists(child) else self.gone).add(child)
        elif not isinstance(deleted, LOST):
            self._stress.problem(f"the delete of {child} raises {deleted!r}, but its create was acknowledged")

    # ---- what it checks

    def _list(self, path: str) -> None:
        before = self._czxid(path)
        names = self._do("listing", lambda: self.client.get_children(path))
        if not isinstance(names, list) or before is None or before != self._czxid(path):
            return
        for name in names:
            if name[-SEQUENCE_DIGITS:].isdecimal():
                self._stress.number(path, before, f"{path}/{name}")

    def _look(self, path: str) -> None:
        """At what is ours."""
        for child in self._own(path):
            if not self._exists(child):
                self._stress.problem(f"{child} is not there, but its create was acknowledged")
            if self._czxid(path) is None:
                self._stress.problem(f"{path} does not exist, but has the child {child}")
        for child in self._dice.sample(sorted(self.gone), min(1, len(self.gone))):
            if self._exists(child):
                self._stress.problem(f"{child} is there, but its delete was acknowledged")

    def _own(self, path: str) -> list[str]:
        return sorted(child for child in self.there if child.startswith(path + "/"))

    def _exists(self, path: str) -> Any:
        self.client.retry(self.client.sync, path)
        return self.client.retry(self.client.exists, path)

    def _names_in(self, path: str) -> list[str]:
        self.client.retry(self.client.sync, path)
        try:
            return list(self.client.retry(self.client.get_children, path))
        except NoNodeError:
            return []

    def _czxid(self, path: str) -> int | None:
        stat = self._exists(path)
        return None if stat is None else stat.czxid


# ---- followers that lag ----------------------------------------------------------------------


class Lag:
    """Freezes one follower after the other, and sees that it answers with what is old when it goes on."""

    def __init__(self, stress: Stress, cluster: LocalCluster, seed: int, stack: ExitStack) -> None:
        self._stress = stress
        self._dice = random.Random(f"{seed}/lag")
        self._leaders = [_connect(ensemble.leader().address, stack) for ensemble in cluster.ensembles]
        self._followers = [
            (index, server, _connect(server.address, stack))
            for index, ensemble in enumerate(cluster.ensembles)
            for server in ensemble.followers()
        ]
        for leader in self._leaders:
            leader.ensure_path(FENCE)

    def __str__(self) -> str:
        return "the freezer of followers"

    def work(self) -> None:
        try:
            while not self._stress.over.is_set():
                self._dice.shuffle(self._followers)
                for index, server, reader in self._followers:
                    self._freeze(self._leaders[index], server, reader)
        except Exception as error:
            self._stress.problem(f"no more followers are frozen: {error!r}")
            raise

    def _freeze(self, leader: KazooClient, server: LocalServer, reader: KazooClient) -> None:
        server.freeze()
        try:
            self._stress.over.wait(self._dice.uniform(*FROZEN_S))
            version = leader.set(FENCE, b"").version
            answer = reader.get_async(FENCE)
        finally:
            server.thaw()
        self._stress.add("followers frozen")
        self._stress.add(
            "followers seen to lag" if answer.get()[1].version < version else "followers not seen to lag"
        )
        self._stress.over.wait(THAWED_S)


# ---- a run -----------------------------------------------------------------------------------


def run(cluster: LocalCluster, crashes: int, seed: int, tell: Callable[[str], None] = lambda _: None) -> Judgement:
    """That many crashes, on three ensembles of three servers of its own; then it deletes everything."""
    stress = Stress(crashes, tell)
    with ExitStack() as stack:
        users = [User(stress, number, cluster.hosts, seed, stack) for number in range(CLIENTS)]
        lag = Lag(stress, cluster, seed, stack)
        users[0].client.ensure_path(ROOT)
        began = time.monotonic()
        at_work: tuple[User | Lag, ...] = (*users, lag)
        threads = [threading.Thread(target=each.work, name=f"{each}", daemon=True) for each in at_work]
        for thread in threads:
            thread.start()
        _wait(stress)
        for thread in threads:
            thread.join(STALL_S)
            if thread.is_alive():
                stress.problem(f"{thread.name} hangs")
        stress.count["seconds"] = int(time.monotonic() - began)
    _check_end(stress, cluster, users)
    stress.count |= Counter(
        {"lives of directories": stress.numbers.lives, "sequence numbers": stress.numbers.seen}
    )
    return Judgement(stress.problems, dict(sorted(stress.count.items())))


def _wait(stress: Stress) -> None:
    """Until there were enough crashes, or none for a long time."""
    seen = -1
    while not stress.over.wait(STALL_S):
        if stress.count["crashes"] == seen:
            stress.problem(f"nothing has happened for {STALL_S:g} s")
            stress.over.set()
        seen = stress.count["crashes"]


def _check_end(stress: Stress, cluster: LocalCluster, users: Sequence[User]) -> None:
    with ExitStack() as stack:
        client = _started(ParKazooClient(cluster.hosts), stack)
        ensembles = {each.name: _connect(each.hosts, stack) for each in cluster.ensembles}
        listed: set[str] = set()
        for path in stress.kinds:
            client.sync(path)
            with suppress(NoNodeError):
                listed |= {f"{path}/{name}" for name in client.get_children(path)}
        for user in users:
            for child in sorted(user.there - listed):
                stress.problem(f"in the end {child} is not there, but its create was acknowledged")
            for child in sorted(user.gone & listed):
                stress.problem(f"in the end {child} is there, but its delete was acknowledged")
        for name, path in _mirrors(ensembles):
            client.sync(path)
            if client.exists(path) is None:
                stress.problem(f"in the end ensemble {name} has a mirror of {path}, which does not exist")
        stress.problems += [f"fsck: {problem}" for problem in judge_tree(cluster.hosts).problems]
        client.delete(ROOT, recursive=True)
        for name, path in _mirrors(ensembles):
            stress.problem(f"ensemble {name} has a mirror of {path}, which was deleted")


def _mirrors(ensembles: Mapping[str, KazooClient]) -> Iterator[tuple[str, str]]:
    """Ensemble and directory of each mirror of this stress."""
    for name, client in ensembles.items():
        client.sync(MIRRORS)
        yield from (
            (name, unescape(each)) for each in client.get_children(MIRRORS) if each.startswith(escape(ROOT))
        )


def print_judgement(judgement: Judgement) -> None:
    console = Console()
    table = Table(title="crash stress", title_justify="left", show_header=False)
    for name, figure in judgement.figures.items():
        table.add_row(name, str(figure))
    console.print(table)
    for problem in judgement.problems:
        console.print(f"PROBLEM {problem}", markup=False, highlight=False, soft_wrap=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.stress", description=__doc__.partition("\n")[0])
    parser.add_argument("--crashes", type=int, default=2000, help="%(default)s by default")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(32))
    options = parser.parse_args()
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)  # it has much to say about servers that begin
    console = Console()
    console.print(f"seed {options.seed}", highlight=False)
    with LocalCluster(ensembles=3, servers=3, progress=console.print) as cluster:
        judgement = run(cluster, options.crashes, options.seed, console.print)
    print_judgement(judgement)
    return int(bool(judgement.problems))


if __name__ == "__main__":
    sys.exit(main())
