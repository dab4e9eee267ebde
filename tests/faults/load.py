"""What a load is: work that client processes do while faults happen, and what they record.

Every process writes a journal, one JSON line for each record, which survives its KILL. Times are seconds of the
machine's monotonic clock, which all processes share.
"""

from __future__ import annotations

import copy
import json
import os
import random
import signal
import threading
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import kazoo
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.retry import KazooRetry

from parkazoo import ClusterMapError, ParKazooClient
from parkazoo.protocol.cluster_map import format_hosts
from tests.faults.call_count import CallCount

CONNECT_TIMEOUT_S = 5.0
CONNECT_PAUSE_S = 0.2
SHARE_LIMITED, LIMIT_S = 0.15, (0.0003, 0.03)  # of the calls


class Record(NamedTuple):
    """A line of a journal.

    :param life: 0 for a worker's first process; each KILL is followed by another, one higher.
    """

    at_s: float
    worker: int
    life: int
    what: str
    fields: Mapping[str, Any]


class Fault(NamedTuple):
    """What was done to whom: from when to when anything of it could be felt, its coming and going included.

    :param kind: of a server: ``kill``, ``freeze``, ``restart``, ``replace``, ``cut off``; of an ensemble:
        ``one-way cut``, ``partial cut``, ``flapping``, ``lossy``, ``ensemble down``, ``ensemble away``,
        ``freeze and kill``, ``address moves``; of a client process: ``kill client``, ``freeze client``,
        ``client cut off``; of one session on one ensemble: ``expire``.
    :param target: ``a2``; ``a``; ``lock/3``, a load and the number of its worker; ``lock/3 on a``.
    :param manner: ``leader`` or ``follower``; who does not hear whom; how the ensemble went down; what the leader
        was; ``brief`` or ``long`` (as seen from the session timeout).
    :param since_s: the fault was complete from then
    :param until_s: until then, when it began to be undone; a server that was killed serves again by `ended_s`.
    """

    began_s: float
    ended_s: float
    kind: str
    target: str
    manner: str = ""
    since_s: float = 0.0
    until_s: float = 0.0


class Run(NamedTuple):
    """What a load is judged by. Records are those of this load alone, in the order of their times.

    :param is_timed: whether durations are judged too: not in a test, which only shows them.
    :param has_moves: whether directories move.
    """

    records: Sequence[Record]
    faults: Sequence[Fault]
    session_timeout_s: float
    is_timed: bool = False
    has_moves: bool = False


class Judgement(NamedTuple):
    """What became of a promise: nothing is wrong if `problems` is empty.

    :param figures: what was counted, for the table: ``{"acquired": 812, "processes killed": 7}``.
    """

    problems: Sequence[str]
    figures: Mapping[str, int | float | str]


class InterruptedCallError(BaseException):
    """What the signal handler of a time limit raises."""


def _interrupt(*_: Any) -> None:
    raise InterruptedCallError


def is_hidden_interruption(error: RuntimeError) -> bool:
    """Whether kazoo waited, the interruption hit Python's Condition before it had its lock again, and the release
    of that lock has put this error in its place."""
    if not isinstance(error.__context__, InterruptedCallError):
        return False
    files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    while files[-1:] == [threading.__file__]:
        files.pop()
    return bool(files) and Path(kazoo.__file__).parent in Path(files[-1]).parents


class Worker:
    """One process of a load, as the load sees it.

    :param root: a znode for this load alone.
    :param is_counted: whether its journal counts its calls; then none of them is interrupted.
    :ivar folder: of all journals.
    """

    def __init__(
        self,
        number: int,
        life: int,
        root: str,
        hosts: str,
        session_timeout_s: float,
        journal: Path,
        dice: random.Random,
        *,
        is_counted: bool = False,
    ) -> None:
        self.number = number
        self.life = life
        self.root = root
        self.dice = dice
        self.hosts = hosts
        self.session_timeout_s = session_timeout_s
        self.folder = journal.parent
        self._journal = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._over = threading.Event()
        self._mark: dict[str, Any] = {}
        self._clients: dict[int, tuple[Worker, Any]] = {}  # the last of each part
        self._known: dict[tuple[int, str], Any] = {}  # as recorded
        self._is_counted = is_counted
        self._counts: list[CallCount] = []

    @contextmanager
    def limited(self) -> Iterator[None]:
        """On the main thread, what is done meanwhile has a time limit now and then, mostly too short.

        :raises InterruptedCallError: by a signal handler, at any point of it. Nobody knows what was done.
        """
        is_main = threading.current_thread() is threading.main_thread()
        if self._is_counted or not is_main or self.dice.random() >= SHARE_LIMITED:
            yield
            return
        signal.signal(signal.SIGALRM, _interrupt)
        try:
            try:
                signal.setitimer(signal.ITIMER_REAL, self.dice.uniform(*LIMIT_S))
                yield
            finally:
                self.lift_limit()
        except InterruptedCallError:
            self.record("interrupted")
            raise
        except RuntimeError as error:
            if not is_hidden_interruption(error):
                raise
            self.record("interrupted")
            raise InterruptedCallError from error

    def lift_limit(self) -> None:
        """What is left of the call takes as long as it takes."""
        signal.setitimer(signal.ITIMER_REAL, 0)

    def part(self, client: int) -> Worker:
        """The same process, as one of its clients sees it: its records have a field `client`."""
        part = copy.copy(self)
        part._mark = {"client": client}
        part.dice = random.Random(self.dice.random())
        return part

    def is_over(self) -> bool:
        """Whether to finish what was begun, and return."""
        return self._over.is_set()

    def pause(self, seconds: float) -> None:
        """Wait, at most until all is over."""
        self._over.wait(seconds)

    def end(self) -> None:
        self._over.set()

    def record(self, what: str, **fields: Any) -> None:
        """Write a line to the journal, at once: record what you begin before you begin it."""
        line = json.dumps([time.monotonic(), self.number, self.life, what, self._mark | fields])
        os.write(self._journal, line.encode() + b"\n")

    def connect(self, make: Any = ParKazooClient, **options: Any) -> Any:
        """A started client. Its states and sessions are recorded.

        It keeps trying, also when all is over: a busy machine breaks no promise, and a worker that does not end is
        found by its crew.

        :param make: the client's class, or what makes one of the same arguments.
        """
        retry = KazooRetry(max_tries=-1, max_delay=1.0)
        options = {"timeout": self.session_timeout_s, "connection_retry": retry} | options
        if self._is_counted:
            self._counts.append(CallCount(self.record))
            options["listeners"] = self._counts[-1:]
        while True:
            client = make(self.hosts, **options)
            client.add_listener(lambda state: self.record("state", state=state))
            try:
                client.start(CONNECT_TIMEOUT_S)
            except (KazooTimeoutError, ClusterMapError):  # an address may lead to another ensemble
                time.sleep(CONNECT_PAUSE_S)
            else:
                self.follow(client)
                return client

    def follow(self, client: Any) -> None:
        """From now on the sessions and known servers of this client are recorded.

        :param client: has the `members` and the `cluster_map` of a ParKazooClient.
        """
        self._clients[self._mark.get("client", 0)] = self, client

    def record_clients(self) -> None:
        """Their calls; their sessions and known servers, if they have changed. A thread calls this."""
        for count in list(self._counts):
            count.write()
        for number, (part, client) in list(self._clients.items()):
            members = dict(client.members)
            ids = {name: member.client_id for name, member in members.items()}
            sessions = {name: [id_[0], id_[1].hex()] for name, id_ in ids.items() if id_}  # of those connected
            cluster_map = client.cluster_map
            hosts = [] if cluster_map is None else [*cluster_map.ensembles.values()]
            hosts += [format_hosts(member.servers) for member in members.values()]
            servers = sorted({each for some in hosts for each in some.split(",")})
            for what, known in (("sessions", sessions), ("servers", servers)):
                if known != self._known.get((number, what)):
                    self._known[number, what] = known
                    part.record(what, **{what: known})


class Load(Protocol):
    """One of tests/faults/loads/: its module ends with an instance named LOAD; tests/faults/judges/ has its judge.

    :param about: the promise, as the table shows it.
    :param processes: how many workers it has.
    """

    name: str
    about: str
    processes: int

    def prepare(self, client: ParKazooClient, root: str) -> None:
        """Before any fault; `root` exists."""

    def work(self, worker: Worker) -> None:
        """On the main thread of each process, again in each life, until ``worker.is_over()``. A lost connection is
        its own business; whatever it raises is a problem."""

    def finish(self, client: ParKazooClient, root: str, record: Any) -> None:
        """After all faults have ended and all workers too: record what is there, as worker -1."""
