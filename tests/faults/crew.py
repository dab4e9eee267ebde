"""The client processes: started, killed, frozen, watched and ended."""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from bench import ROOT
from parkazoo.local import LocalClusterError
from parkazoo.local.supervisor import Supervisor
from tests.faults.call_count import CALLS
from tests.faults.load import Load, Record

POLL_S = 0.1
TAKE_TIMEOUT_S = 30.0
PROGRESS_TIMEOUT_S = 120.0
END_TIMEOUT_S = 120.0
PROGRESS = 3  # records, so that one that is written before an operation hangs is none
STACK_TIMEOUT_S = 2.0
TAIL_BYTES = 1 << 20
BY_THEMSELVES = ("state", "sessions", "servers", "seen", "beat", CALLS)  # records that show no progress


class Member:
    """One worker, through all its lives.

    :ivar checkout: whose code its next life runs.
    """

    def __init__(self, load: Load, number: int, folder: Path) -> None:
        self.load = load
        self.number = number
        self.life = -1
        self.pid = 0
        self.checkout = ROOT
        self.name = f"{load.name}/{number}"
        self.journal = folder / f"{load.name}-{number}.jsonl"
        self.log = folder / f"{load.name}-{number}.log"
        self.journal.touch()

    def records(self, last_bytes: int = 0) -> list[Record]:
        """What its journal says, all of it or the end of it."""
        return read_journal(self.journal, last_bytes)

    def sessions(self) -> dict[str, tuple[int, bytes]]:
        """The sessions of one of its clients, by ensemble, where that is connected: id and password."""
        records = self._told("sessions", TAIL_BYTES) or self._told("sessions")
        found = records[-1].fields["sessions"] if records else {}
        return {ensemble: (number, bytes.fromhex(word)) for ensemble, (number, word) in found.items()}

    def servers(self) -> dict[str, set[str]]:
        """What each of its clients knows: ``"host:port"`` of all ensembles, by a name for the client."""
        last = {each.fields.get("client", 0): {*each.fields["servers"]} for each in self._told("servers")}
        return {f"{self.name}, client {number}": servers for number, servers in last.items()}

    def _told(self, what: str, last_bytes: int = 0) -> list[Record]:
        return [each for each in self.records(last_bytes) if each.what == what and each.life == self.life]


class Crew:
    """Every worker of every load. They end with this process, frozen ones too.

    What is wrong with a worker is in `problems`, with the name of its load.

    :param inside: by a worker's name: what comes before its command, if it has a machine of its own.
    :param is_counted: whether the journals count calls, of which none is interrupted.
    """

    def __init__(
        self,
        loads: Sequence[Load],
        folder: Path,
        hosts: str,
        session_timeout_s: float,
        seed: int,
        inside: Mapping[str, tuple[str, ...]] | None = None,
        *,
        is_counted: bool = False,
    ) -> None:
        self._inside = inside or {}
        self._supervisor = Supervisor(folder / "supervisor.log")
        self._arguments = ["--hosts", hosts, "--timeout", str(session_timeout_s)]
        self._arguments += ["--counted"] if is_counted else []
        self._seed = seed
        self._turn = threading.Lock()
        self._taken: set[Member] = set()
        self.members = [Member(load, number, folder) for load in loads for number in range(load.processes)]
        self.endings: dict[str, list[Record]] = {}
        self.problems: list[tuple[str, str]] = []

    def __enter__(self) -> Crew:
        for member in self.members:
            self.start(member)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._supervisor.end()

    def start(self, member: Member) -> None:
        """Begin its next life."""
        member.life += 1
        argv = [*self._inside.get(member.name, ()), sys.executable, "-m", "tests.faults.worker"]
        argv += [member.load.name, *self._arguments]
        argv += ["--number", str(member.number), "--life", str(member.life), "--journal", str(member.journal)]
        argv += ["--root", root_of(member.load), "--seed", f"{self._seed}/{member.name}/{member.life}"]
        member.pid = self._supervisor.ask("spawn", argv, str(member.checkout), str(member.log))

    def kill(self, member: Member) -> None:
        self._signal(member, signal.SIGKILL)
        while self._is_running(member):
            time.sleep(POLL_S)

    def replace(self, members: Sequence[Member], checkout: Path) -> None:
        """Ask workers to end, wait, and begin their next lives with this code."""
        self._ask_to_end(members)
        for member in members:
            member.checkout = checkout
            self.start(member)

    def freeze(self, member: Member) -> None:
        self._signal(member, signal.SIGSTOP)

    def thaw(self, member: Member) -> None:
        self._signal(member, signal.SIGCONT)

    @contextlib.contextmanager
    def one(self, pick: float) -> Iterator[Member]:
        """A worker that runs, for one user at a time.

        :param pick: 0 to 1, which.
        :raises LocalClusterError: if there is none.
        """
        deadline = time.monotonic() + TAKE_TIMEOUT_S
        while (member := self._take(pick)) is None:
            if time.monotonic() > deadline:
                raise LocalClusterError("no worker is running")
            time.sleep(POLL_S)
        try:
            yield member
        finally:
            with self._turn:
                self._taken.discard(member)

    def _take(self, pick: float) -> Member | None:
        with self._turn:
            free = [each for each in self.members if each not in self._taken and self._is_running(each)]
            if not free:
                return None
            member = free[int(pick * len(free))]
            self._taken.add(member)
            return member

    def servers(self) -> dict[str, set[str]]:
        """Of all clients: see :meth:`Member.servers`."""
        return {client: known for member in self.members for client, known in member.servers().items()}

    def wait_progress(self, since: str) -> None:
        """Wait until all have written to their journals, from now on.

        :param since: what now is, for the message.
        """
        since_s = time.monotonic()
        behind = {each for each in self.members if self._is_running(each)}
        while behind and time.monotonic() < since_s + PROGRESS_TIMEOUT_S:
            behind = {each for each in behind if not _has_progress(each, since_s)}
            time.sleep(POLL_S)
        for member in behind:
            self._problem(member, f"does nothing in the {PROGRESS_TIMEOUT_S:g} s {since}")

    def end(self) -> None:
        """Ask all to end, and wait."""
        self._ask_to_end(self.members)
        for member in self.members:
            crashes = (each.fields["trace"] for each in member.records() if each.what == "crashed")
            for trace in {*crashes}:
                self._problem(member, f"crashed: {trace.strip().splitlines()[-1]}")

    def _ask_to_end(self, members: Sequence[Member]) -> None:
        for member in members:
            if self._is_running(member):
                self._signal(member, signal.SIGTERM)
            else:
                self._problem(member, "had ended by itself")
        deadline = time.monotonic() + END_TIMEOUT_S
        while (left := [each for each in members if self._is_running(each)]) and time.monotonic() < deadline:
            time.sleep(POLL_S)
        for member in left:
            self._problem(member, f"does not end within {END_TIMEOUT_S:g} s")
            self.kill(member)

    def _problem(self, member: Member, what: str) -> None:
        if self._is_running(member):
            size = member.log.stat().st_size
            self._signal(member, signal.SIGUSR1)
            deadline = time.monotonic() + STACK_TIMEOUT_S
            while member.log.stat().st_size == size and time.monotonic() < deadline:
                time.sleep(POLL_S)
        self.problems.append((member.load.name, f"worker {member.number} {what} (see {member.log.name})"))

    def _is_running(self, member: Member) -> bool:
        return member.pid != 0 and self._supervisor.ask("poll", member.pid) is None

    def _signal(self, member: Member, number: signal.Signals) -> None:
        self._supervisor.ask("send", member.pid, int(number))


def _has_progress(member: Member, since_s: float) -> bool:
    found = (each for each in member.records(TAIL_BYTES) if each.at_s > since_s)
    recent = [each for each in found if each.what not in BY_THEMSELVES]
    return len(recent) >= PROGRESS


def read_journal(path: Path, last_bytes: int = 0) -> list[Record]:
    """A journal, or the records that lie in the end of it; it may be written to meanwhile."""
    with path.open("rb") as journal:
        if last_bytes and journal.seek(0, 2) > last_bytes:
            journal.seek(-last_bytes, 2)
            journal.readline()
        else:
            journal.seek(0)
        return [Record(*json.loads(line)) for line in journal.read().split(b"\n")[:-1]]


def root_of(load: Load) -> str:
    return f"/faults/{load.name}"
