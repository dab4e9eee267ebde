"""A crowd: forty clients of one process, which do to each other what clients of one process can.

Half of them have a slow listener; all have slow watches and completion callbacks. Now and then no thread can be
started. A signal handler raises in the main thread while that creates znodes. Meanwhile each client acquires locks
that all clients of these processes want. At the end each must work on each ensemble.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from contextlib import suppress
from functools import partial
from typing import Any

from tests.faults import guarded_writes
from tests.faults.load import Worker
from tests.faults.noted_client import NotedClient
from tests.faults.retries import LOST, beating, until_answered
from tests.faults.scarce_threads import EVERY_S, NoThreadError, scarce_threads

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


class TooLateError(Exception):
    """A time limit of the main thread."""


class CrowdLoad:
    name = "crowd"
    about = "Forty clients of a process: a Lock is never held by two, no create is done twice, no client is stuck"
    processes = 2

    def prepare(self, client: Any, root: str) -> None:
        for name in LOCKS:
            guarded_writes.prepare(client, f"{root}/{name}")
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
                interrupted = _Interrupted(worker, clients)
                while any(thread.is_alive() for thread in threads):
                    interrupted()
        stoppers = [threading.Thread(target=client.stop) for client in clients]
        for thread in stoppers:
            thread.start()
        for thread in stoppers:
            thread.join()

    def finish(self, client: Any, root: str, record: Any) -> None:
        for name in LOCKS:
            guarded_writes.record_contenders(client, f"{root}/{name}", record)
        for name in MADE:
            client.sync(f"{root}/{name}")
            record("listed", directory=f"{root}/{name}", names=client.get_children(f"{root}/{name}"))


def _live(worker: Worker, clients: list[Any]) -> None:
    """One client's."""
    client = worker.connect(partial(NotedClient, note=lambda _, state: worker.record("seen", state=state)))
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
            if guarded_writes.is_acquired(worker, lock, PATIENCE_S):
                writes = iter(range(worker.dice.randrange(1, 6)))
                guarded_writes.hold(
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

    client.get_async(f"{path}/{guarded_writes.GUARDED}", watch=dawdle).rawlink(dawdle)


class _Interrupted:
    """For the main thread: one create each time, with a limit of time that most of them exceed."""

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


LOAD = CrowdLoad()
