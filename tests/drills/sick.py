"""A small cluster with one fault, which the commands' own screens have to name."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from bench import ROOT
from bench.disk_wait import compile_library, environment
from parkazoo.admin import change_hosts, init_map
from parkazoo.local import LocalCluster, LocalServer
from parkazoo.local.servers import Machine
from parkazoo.protocol.epochs import Form
from tests.drills.sick_user import EPHEMERALS, HOT, PLAIN, WATCHES
from tests.live.lagging_follower import LaggingFollower

CALM_USERS = 2
PATIENCE_S = 60.0  # within which the words have to be there
COMMAND_TIMEOUT_S = 60.0
DOWN_S, UP_S = 1.0, 3.0  # of a link that flaps
SLOW_S, BUSY_S = 0.08, 0.03  # an fsync's
LETTERS = 200  # of the words, at most, in the last lines
LIMIT = 20  # of requests outstanding
SCREENS: Mapping[str, Sequence[str]] = {
    "check": ["check"],
    "status": ["status"],
    "top": ["top", "--once"],
    "top --follow": ["top", "--once", "--follow", "--interval", "4"],
    "advise": ["advise", "--seconds", "5"],
    "clients": ["clients"],
    "clients --sort ephemerals": ["clients", "--sort", "ephemerals"],
    "clients --sort watches": ["clients", "--sort", "watches"],
}


class Patient:
    """A cluster, its users, and who is to be named. :ivar culprit: a process, or a server's address."""

    def __init__(self, cluster: LocalCluster, stack: ExitStack) -> None:
        self.cluster = cluster
        self.culprit = ""
        self._stack = stack

    def begin_user(self, role: str) -> subprocess.Popen[bytes]:
        """Starts a process that ends with the drill."""
        user = subprocess.Popen(
            [sys.executable, "-m", "tests.drills.sick_user", self.cluster.hosts, role],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._stack.callback(user.communicate)
        self._stack.callback(user.kill)
        return user

    def screen(self, name: str) -> str:
        """Returns what a command shows on 120 columns, whatever its exit status; empty if it hangs."""
        try:
            done = subprocess.run(
                [sys.executable, "-m", "parkazoo", *SCREENS[name], "--hosts", self.cluster.hosts],
                cwd=ROOT,
                env={**os.environ, "COLUMNS": "120"},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=COMMAND_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return ""
        return done.stdout


class Sickness(NamedTuple):
    """:param begin: makes the cluster sick, until the context ends.
    :param words: by screen: a pattern that it has to show; ``{culprit}`` is what `Patient.culprit` holds.
    :param cluster: arguments of LocalCluster; made from a folder.
    """

    about: str
    begin: Callable[[Patient], AbstractContextManager[None]]
    words: Mapping[str, str]
    cluster: Callable[[Path], Mapping[str, Any]] = lambda _: {"ensembles": 2, "servers": 1}


def _used(role: str) -> Callable[[Patient], AbstractContextManager[None]]:
    """The fault is a program."""

    @contextmanager
    def begin(patient: Patient) -> Iterator[None]:
        patient.culprit = str(patient.begin_user(role).pid)
        yield

    return begin


@contextmanager
def _unused(patient: Patient) -> Iterator[None]:
    """The servers were started with the fault."""
    patient.culprit = patient.cluster.ensembles[-1].servers[-1].address
    yield


@contextmanager
def _behind(patient: Patient) -> Iterator[None]:
    """A client is frozen, and then the map changes."""
    user = patient.begin_user("calm")
    patient.culprit = str(user.pid)
    wait_for_words(patient, "clients", r" {culprit} ")
    user.send_signal(signal.SIGSTOP)
    other = patient.cluster.ensembles[-1]
    change_hosts(patient.cluster.hosts, {other.name: other.hosts.replace("127.0.0.1", "localhost")})
    yield


@contextmanager
def _differing(patient: Patient) -> Iterator[None]:
    server = _follower(patient)
    server.stop()
    server._argv.insert(1, "-Djute.maxbuffer=4000000")
    server.start()
    yield


@contextmanager
def _lost(patient: Patient) -> Iterator[None]:
    _follower(patient).kill()
    yield


def _follower(patient: Patient) -> LocalServer:
    follower = patient.cluster.ensembles[0].followers()[0]
    patient.culprit = follower.address
    return follower


@contextmanager
def _flapping(patient: Patient) -> Iterator[None]:
    """A follower loses its leader again and again."""
    follower = LaggingFollower(patient.cluster.ensembles[0])
    patient.culprit = follower.server.address
    is_over = threading.Event()

    def run() -> None:
        while not is_over.wait(UP_S):
            follower.cut(DOWN_S)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
        follower.stop()


def _on_disks(wait_s: Callable[[str], float], **zoo_cfg: str) -> Callable[[Path], Mapping[str, Any]]:
    """:param wait_s: of a server's fsync, by its name."""

    def cluster(folder: Path) -> Mapping[str, Any]:
        library = str(compile_library(folder))

        def machine_of(server: str) -> Machine:
            variables = environment(library, wait_s(server))
            return Machine(argv=("env", *(f"{name}={value}" for name, value in variables.items())))

        return {"ensembles": 2, "servers": 1, "machine_of": machine_of, "zoo_cfg": zoo_cfg}

    return cluster


def _quorum(folder: Path) -> Mapping[str, Any]:
    return {"ensembles": 1, "servers": 3}


def _few_connections(folder: Path) -> Mapping[str, Any]:
    return {"ensembles": 2, "servers": 1, "zoo_cfg": {"maxClientCnxns": "60"}}


SICKNESSES: Mapping[str, Sickness] = {
    "hot-directory": Sickness(
        f"most writes go to {HOT}",
        _used("hot"),
        {
            "top --follow": rf"(?m)^{HOT} +[ab] +[\d,.]+ +\d+% ",
            "advise": rf"{HOT} alone has \d+% of all writes: no ensemble can take a part of it",
        },
    ),
    "leaked-ephemerals": Sickness(
        f"a program makes {EPHEMERALS:,} ephemerals and deletes none",
        _used("ephemerals"),
        {"clients --sort ephemerals": r"(?m) {culprit} .* \d,\d\d\d +\d+ *$"},
    ),
    "leaked-sessions": Sickness(
        "a program makes client after client and stops none",
        _used("sessions"),
        {
            "check": r"127\.0\.0\.1 has \d+ of 60 connections \(maxClientCnxns\)",
            "clients": r"(?s)( {culprit} .*){{20}}",
        },
        _few_connections,
    ),
    "slow-disk": Sickness(
        "an fsync of b1 takes 80 ms",
        _unused,
        {
            "check": r"(?s)warning disk: {culprit}\n.* waited \d+ ms for each fsync.*its disk is slow",
            "advise": r"Ensemble b was slow: of its writes 1% took",
        },
        _on_disks(lambda server: SLOW_S if server == "b1" else 0.0),
    ),
    "full-queue": Sickness(  # the server's queue of requests, not a directory of the recipe
        f"a server has as many requests outstanding as globalOutstandingLimit ({LIMIT}) lets it take",
        _used("full"),
        {
            "top": r"(?m)^[ab] +1/1 .* [1-9]\d\d? +\d+ +[\d,]+ +[\d,]+ +█",
            "advise": rf"is hot: [\d,]+ requests and more waited whenever they were counted\. Of its .* {HOT[:5]}",
        },
        _on_disks(lambda _: BUSY_S, globalOutstandingLimit=str(LIMIT)),
    ),
    "old-map": Sickness(
        "a client is frozen, and has not followed the map",
        _behind,
        dict.fromkeys(("check", "status"), r"1 client works by an older map than 2:.*\n.* pid {culprit}\b"),
    ),
    "max-buffer": Sickness(
        "jute.maxbuffer of one server is larger",
        _differing,
        {"check": r"jute\.maxbuffer: .*more than 1048575 on {culprit}"},
        _quorum,
    ),
    "lost-follower": Sickness(
        "a follower was killed",
        _lost,
        {
            "check": r"(?s)warning quorum: {culprit}\n.*2 of 3 voting members serve",
            "status": r"server {culprit}: ",
            "top": r"2 of 3 servers .*(?s:.*)\n{culprit} +a +away ",
        },
        _quorum,
    ),
    "flapping-link": Sickness(
        "the link between a follower and its leader comes and goes",
        _flapping,
        {"check": r"(?s)warning quorum: {culprit}\n.*it has left its quorum \d+ times"},
        _quorum,
    ),
    "watches": Sickness(
        f"a program has {WATCHES:,} watches",
        _used("watches"),
        {
            "clients --sort watches": r"(?m) {culprit} .* 50,\d\d\d *$",
            "top": r"(?m)^[ab] +1/1 .* [2-5]\d,\d\d\d +[\d,]+ +█",
        },
    ),
    "plain-kazoo": Sickness(
        "a forgotten program uses plain kazoo, and writes past the map",
        _used(PLAIN),
        {
            "check": r"1 session is not registered(?s:.*)a plain kazoo program that writes loses znodes",
            "top --follow": r"not registered 127\.0\.0\.1:\d+ 0x",
            "clients": r"1 session is not registered: plain kazoo",
        },
    ),
}


def sicken(name: str, folder: Path, stack: ExitStack) -> Patient:
    """Starts a cluster with a load, and its fault.

    :raises LocalClusterError: servers cannot be started. :raises NotPossible: there is no C compiler.
    """
    sickness = SICKNESSES[name]
    cluster = stack.enter_context(LocalCluster(make_map=False, **sickness.cluster(folder)))
    form = Form.GROWN if len(cluster.ensembles) > 1 else Form.PLAIN  # one ensemble has no other form
    init_map(cluster.hosts, {each.name: each.hosts for each in cluster.ensembles}, form=form.word)
    patient = Patient(cluster, stack)
    for _ in range(CALM_USERS):
        patient.begin_user("calm")
    stack.enter_context(sickness.begin(patient))
    return patient


def wait_for_words(patient: Patient, screen: str, pattern: str) -> tuple[str, float, str]:
    """Returns the words, empty if they did not come, after how many seconds they came, and the whole screen."""
    began_s = time.monotonic()
    wanted = re.compile(pattern.format(culprit=re.escape(patient.culprit)))
    while True:
        shown = patient.screen(screen)
        passed_s = time.monotonic() - began_s
        if (found := wanted.search(shown)) or passed_s > PATIENCE_S:
            return " ".join(found[0].split()) if found else "", passed_s, shown


def run(name: str, folder: Path, tell: Callable[[str], None]) -> int:
    """Returns the exit status."""
    sickness = SICKNESSES[name]
    with ExitStack() as stack:
        tell("starting a cluster that will be sick")
        patient = sicken(name, folder, stack)
        tell("look with")
        for screen in SCREENS.values():
            tell(f"    parkazoo {' '.join(screen)} --hosts {patient.cluster.hosts}")
        with suppress(EOFError):  # nobody is there
            input("Enter: what is it? ")
        found = {screen: wait_for_words(patient, screen, pattern) for screen, pattern in sickness.words.items()}
        for number, (screen, (_, _, shown)) in enumerate(found.items()):
            (folder / f"{number}.txt").write_text(f"parkazoo {' '.join(SCREENS[screen])}\n\n{shown}")
    for screen, (words, seconds, _) in found.items():
        tell(f"{screen}, {seconds:.0f} s: {words[:LETTERS] or 'NOT NAMED'}")
    print(f"{name}: {sickness.about}; the screens are in {folder.relative_to(ROOT)}")
    return int(not all(words for words, _, _ in found.values()))
