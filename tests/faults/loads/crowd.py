"""A crowd: forty clients of one process, which do to each other what clients of one process can.

Half of them have a slow listener; all have slow watches and completion callbacks. Now and then no thread can be
started. A signal handler raises in the main thread while that creates znodes. Meanwhile each client acquires locks
that all clients of these processes want. At the end each must work on each ensemble.

The judge checks: the locks as in lock.py, each client for itself; no create was done twice; acknowledged znodes
are there.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from kazoo.exceptions import LockTimeout

from parkazoo import ParKazooClient
from tests.faults import guard
from tests.faults.holding import LOST, beating, until_answered
from tests.faults.load import Fault, Judgement, Record, Run, Worker
from tests.faults.scarce import EVERY_S, NoThreadError, scarce_threads

CLIENTS = 40
LOCKS = tuple(f"lock{number}" for number in range(12))
MADE = tuple(f"made{number}" for number in range(6))
PATIENCE_S = 3.0
BEAT_S = 0.2
SLOW_S = (0.3, 2.0)
HELD_PAUSE_S = (0.1, 1.5)
PAUSE_S = (1.0, 5.0)
TOO_SHORT_S = (0.0003, 0.02)  # for a create
MAIN_PAUSE_S = 0.1
MANY = 1000  # more than the clients of a process


class TooLateError(Exception):
    """A time limit of the main thread."""


class NotedClient(ParKazooClient):
    """Tells its states when they change: its listeners are slow."""

    note: Callable[[str], None] | None = None

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "state" and self.note is not None:
            self.note(value)


class CrowdLoad:
    name = "crowd"
    about = "Forty clients of a process: a Lock is never held by two, no create is done twice, no client is stuck"
    processes = 2

    def prepare(self, client: Any, root: str) -> None:
        for name in LOCKS:
            guard.prepare(client, f"{root}/{name}")
        for name in MADE:
            client.create(f"{root}/{name}")

    def work(self, worker: Worker) -> None:
        clients: list[Any] = []
        parts = [worker.part(number) for number in range(CLIENTS)]
        threads = [threading.Thread(target=_live, args=(part, clients)) for part in parts]
        with beating(worker, BEAT_S):
            for thread in threads:
                thread.start()
            while len(clients) < CLIENTS and not worker.is_over():
                worker.pause(BEAT_S)
            with scarce_threads(worker.dice.uniform(0, EVERY_S), worker.is_over):
                worker.in_main = _Main(worker, clients)
                for thread in threads:
                    thread.join()
        stoppers = [threading.Thread(target=client.stop) for client in clients]
        for thread in stoppers:
            thread.start()
        for thread in stoppers:
            thread.join()

    def finish(self, client: Any, root: str, record: Any) -> None:
        for name in LOCKS:
            guard.record_contenders(client, f"{root}/{name}", record)
        for name in MADE:
            client.sync(f"{root}/{name}")
            record("listed", directory=f"{root}/{name}", names=client.get_children(f"{root}/{name}"))

    def judge(self, run: Run) -> Judgement:
        judged = guard.judge(Run([*_apart(run)], [*_faults_apart(run)], run.session_timeout_s, run.is_timed))
        problems = [*judged.problems, *_done_twice(run)]
        made = sum(each.what == "made" for each in run.records)
        listed = sum(len(each.fields["names"]) for each in run.records if each.what == "listed")
        if not any(each.what == "seen" for each in run.records):
            problems.append("no state was seen")
        creates = {"creates acknowledged": made, "creates done": listed}
        no_thread = sum(each.what == "no thread" for each in run.records)
        return Judgement(problems, {**judged.figures, **creates, "no thread for a caller": no_thread})


def _live(worker: Worker, clients: list[Any]) -> None:
    """One client's."""
    client = worker.connect(NotedClient)
    client.note = lambda state: worker.record("seen", state=state)
    if worker.dice.random() < 0.5:
        client.add_listener(lambda _: worker.pause(worker.dice.uniform(*SLOW_S)))
    clients.append(client)
    locks = [client.Lock(f"{worker.root}/{name}") for name in LOCKS]
    hold = 0
    while not worker.is_over():
        hold += 1
        lock = worker.dice.choice(locks)
        with suppress(NoThreadError):
            _dawdle(worker, client, lock.path)
        worker.record("asking", lock=lock.path, hold=hold)
        try:
            if _is_acquired(worker, lock):
                writes = iter(range(worker.dice.randrange(1, 6)))
                guard.hold(
                    worker, client, lock, hold, lambda writes=writes: next(writes, None) is None, HELD_PAUSE_S
                )
                lock.release()
        except NoThreadError:
            worker.record("no thread")
        worker.pause(worker.dice.uniform(*PAUSE_S))
    for name in LOCKS:  # on each ensemble
        until_answered(lambda name=name: client.get_children(f"{worker.root}/{name}") and None)


def _dawdle(worker: Worker, client: Any, path: str) -> None:
    """A watch and a completion callback which hold up those that come after them."""

    def dawdle(_: Any) -> None:
        worker.pause(worker.dice.uniform(*SLOW_S))

    client.get_async(f"{path}/{guard.GUARDED}", watch=dawdle).rawlink(dawdle)


def _is_acquired(worker: Worker, lock: Any) -> bool:
    try:
        return bool(lock.acquire(**worker.dice.choice(({"blocking": False}, {"timeout": PATIENCE_S}))))
    except LockTimeout:
        return False


class _Main:
    """The main thread's: one create each time, with a limit of time that most of them exceed."""

    def __init__(self, worker: Worker, clients: list[Any]) -> None:
        self._worker = worker
        self._clients = clients
        self._number = 0

    def __call__(self) -> None:
        worker = self._worker
        if self._clients and not worker.is_over():
            signal.signal(signal.SIGALRM, _raise_too_late)
            self._number += 1
            directory = f"{worker.root}/{worker.dice.choice(MADE)}"
            name = f"{worker.number}.{worker.life}.{self._number}-"
            client = worker.dice.choice(self._clients)
            try:
                try:
                    signal.setitimer(signal.ITIMER_REAL, worker.dice.uniform(*TOO_SHORT_S))
                    path = client.create(f"{directory}/{name}", sequence=True)
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
                worker.record("made", path=path)
            except (TooLateError, NoThreadError, *LOST):
                pass
            except Exception:
                logging.exception("a create of the main thread")  # a crash
        time.sleep(MAIN_PAUSE_S)


def _raise_too_late(*_: Any) -> None:
    raise TooLateError


def _apart(run: Run) -> Iterator[Record]:
    """The records with a worker for each client: client 7 of worker 1 is worker 1007.

    What a process records of itself is each client's.
    """
    clients: dict[tuple[int, int], set[int]] = {}
    for record in run.records:
        if "client" in record.fields:
            clients.setdefault((record.worker, record.life), set()).add(record.fields["client"])
    for record in run.records:
        own = [record.fields["client"]] if "client" in record.fields else clients.get(record[1:3], ())
        what = "state" if record.what == "seen" else record.what
        if record.worker < 0:
            yield record
        for client in own:
            yield record._replace(worker=MANY * record.worker + client, what=what)


def _faults_apart(run: Run) -> Iterator[Fault]:
    """A session that is expired is one client's, but no record says whose."""
    for fault in run.faults:
        yield fault
        process, _, ensemble = fault.target.partition(" on ")
        name, _, number = process.partition("/")
        if fault.kind == "expire" and name == LOAD.name:
            for client in range(CLIENTS):
                yield fault._replace(target=f"{name}/{MANY * int(number) + client} on {ensemble}")


def _done_twice(run: Run) -> Iterator[str]:
    """Creates of which there are two, and acknowledged ones of which there is none."""
    listed = [each.fields for each in run.records if each.what == "listed"]
    paths = {f"{fields['directory']}/{name}" for fields in listed for name in fields["names"]}
    for path, count in Counter(path.rpartition("-")[0] for path in paths).items():
        if count > 1:
            yield f"the create of {path} was done {count} times"
    for record in run.records:
        if record.what == "made" and record.fields["path"] not in paths:
            yield f"{record.fields['path']} was made at {record.at_s:.3f} s, and is not there"


LOAD = CrowdLoad()
