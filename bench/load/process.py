"""One process of a load: its clients, and what they did."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import resource
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from kazoo.client import KazooClient
from kazoo.retry import KazooRetry, RetryFailedError

from bench.load.bare_process import BareClients
from bench.load.deferred_loop import run_deferred
from bench.load.loops import run_closed, run_open, run_window
from bench.load.meeting import Meeting, MeetingError
from bench.load.plan import BARE, LATE_S, Plan
from bench.load.record import Account, Record
from bench.load.requests import Requests, make_znodes, name_directories
from bench.load.session_loop import run_sessions

CLOSE_TIMEOUT_S = 5.0  # for the sessions of a process; what is left expires
# A client that looks for another server tries twice a second at least, so that what is measured is the servers.
CONNECTION_RETRY = {"max_tries": -1, "delay": 0.05, "max_delay": 0.5}


class Clients:
    """The clients of this process, and the work of each in a thread (or greenlet) of its own."""

    def __init__(self, plan: Plan, number: int) -> None:
        self._plan = plan
        self._number = number
        self._is_first = plan.node == number == 0
        self._paths = name_directories(plan)
        self._clients = [make_client(plan) for _ in range(plan.threads)]
        self._idle = [make_client(plan) for _ in range(plan.idle)]
        self._meeting = Meeting(self._clients[0], plan, plan.node * plan.processes + number)
        self._finish = self._clients[0].handler.event_object()
        self._records = [Record() for _ in self._clients]
        self._errors: list[BaseException] = []

    def work(self) -> Account:
        """
        :raises MeetingError: the processes do not come together.
        :raises KazooException: preparations fail.
        """
        self._each(self._connect)
        if self._is_first:
            make_znodes(self._clients[0], self._plan, self._paths)
        for client in self._idle:
            self._begin(client, self._paths)
        self._meeting.come()
        if self._is_first:
            self._meeting.begin()
        self._meeting.wait_begin()
        begun_s, cpu_s = time.time(), time.process_time()
        self._clients[0].handler.spawn(self._keep_time)
        self._each(self._ask)
        cpu_s, ended_s = time.process_time() - cpu_s, time.time()
        return Account(begun_s, ended_s, cpu_s / (ended_s - begun_s), self._rows(), self._all_errors())

    def _connect(self, index: int) -> None:
        """To each ensemble: a client of ours has started when it is connected to one of them."""
        self._begin(self._clients[index], self._paths[: self._plan.ensembles])

    def _begin(self, client: Any, directories: Sequence[str]) -> None:
        """Connect to where they are.

        In a crowd a connection is lost before all are there; the client comes back.

        :raises MeetingError: it is not connected in time.
        """
        within_s = self._plan.connect_timeout_s
        client.start(within_s)
        ask = KazooRetry(**CONNECTION_RETRY, deadline=within_s, sleep_func=client.handler.sleep_func)
        try:
            for path in directories:
                ask(client.exists, f"{path}/connected")
        except RetryFailedError:
            raise MeetingError(f"a client is not connected to all ensembles within {within_s:.0f} s") from None

    def _ask(self, index: int) -> None:
        plan = self._plan
        client, record, finish = self._clients[index], self._records[index], self._finish
        number = (plan.node * plan.processes + self._number) * plan.threads + index  # among all clients
        name = f"{plan.name}-{number}"
        chance = random.Random(f"{plan.seed} {number}")
        if plan.is_deferred:
            run_deferred(client, Requests(plan, self._paths, name, chance), record, finish, plan, chance)
        elif plan.write == "sessions":
            requests = Requests(plan, self._paths, name, chance)
            run_sessions(plan.hosts, plan.session_timeout_s, requests, record, finish, chance)
        elif plan.rate_s:
            requests = Requests(plan, self._paths, name, chance)
            rate_s, pool = plan.rate_s / plan.clients, plan.pool // plan.clients
            run_open(client, requests, record, finish, rate_s, chance, plan.total_s() + LATE_S, pool, plan.chain)
        elif plan.in_flight == 1 and not plan.is_pinned:
            run_closed(client, Requests(plan, self._paths, name, chance), record, finish)
        else:
            first = number * plan.in_flight
            sequences = [
                Requests(
                    plan,
                    self._paths,
                    f"{name}-{each}",
                    chance,
                    self._directory(first + each),
                )
                for each in range(plan.in_flight)
            ]
            run_window(client, sequences, record, finish)

    def _directory(self, number: int) -> int | None:
        return number % self._plan.directories if self._plan.is_pinned else None

    def _keep_time(self) -> None:
        """Ends the load of this process. The first one says when it has begun."""
        if self._is_first:
            print(json.dumps({"begun_s": time.time()}), flush=True)
        self._finish.wait(self._plan.total_s() + LATE_S)
        self._finish.set()

    def _each(self, work: Callable[[int], None]) -> None:
        """Do that for every client, all at once.

        :raises Exception: the first failure.
        """
        spawn = self._clients[0].handler.spawn
        for thread in [spawn(self._attempt, work, index) for index in range(len(self._clients))]:
            thread.join()
        if self._errors:
            raise self._errors[0]

    def _attempt(self, work: Callable[[int], None], index: int) -> None:
        try:
            work(index)
        except Exception as error:
            self._errors.append(error)
            self._finish.set()

    def _rows(self) -> bytes:
        return b"".join(record.rows for record in self._records)

    def _all_errors(self) -> Counter[str]:
        return sum((record.errors for record in self._records), Counter())

    def close(self) -> None:
        self._each(lambda index: stop(self._clients[index]))
        for client in self._idle:
            stop(client)


def make_client(plan: Plan) -> Any:
    client_class: Any = KazooClient
    if plan.system == "parkazoo":
        from parkazoo import ParKazooClient  # noqa: PLC0415 - kazoo's own process has nothing of ours

        client_class = ParKazooClient
    handler = None
    retry: dict[str, Any] = dict(CONNECTION_RETRY)
    if plan.handler == "gevent":
        from kazoo.handlers.gevent import SequentialGeventHandler  # noqa: PLC0415 - an extra

        handler = SequentialGeventHandler()
        retry["sleep_func"] = handler.sleep_func
    return client_class(plan.hosts, timeout=plan.session_timeout_s, handler=handler, connection_retry=retry)


def stop(client: Any) -> None:
    client.stop()
    client.close()


def run_processes(plan: Plan) -> list[Account]:
    """The accounts of this host's processes.

    :raises ProcessError: one has failed or died.
    """
    context = multiprocessing.get_context("spawn")
    pipes, processes = [], []
    try:
        for number in range(plan.processes):
            pipe, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs, plan, number), daemon=True)
            process.start()
            theirs.close()
            pipes.append(pipe)
            processes.append(process)
        accounts = [_hear(pipe) for pipe in pipes]
        for process in processes:
            process.join(CLOSE_TIMEOUT_S)
        return accounts
    finally:
        for process in processes:
            process.terminate()
            process.join()


class ProcessError(Exception):
    """A process of the load has failed. The message is its own."""


def _hear(pipe: Connection) -> Account:
    try:
        answer = pipe.recv()
    except EOFError:
        raise ProcessError("a process has died") from None
    if isinstance(answer, Account):
        return answer
    raise ProcessError(answer)


def allow_all_files() -> None:
    """Let this process have as many files and sockets open as it may."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _serve(pipe: Connection, plan: Plan, number: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent gets it too, and ends this one
    allow_all_files()  # a thousand clients have three thousand sockets
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        clients = BareClients(plan) if plan.system in BARE else Clients(plan, number)
        pipe.send(clients.work())
        with suppress(Exception):  # the account is given; sessions that cannot be closed expire
            clients.close()
    except Exception as error:
        with suppress(OSError):
            pipe.send(f"{type(error).__name__}: {error}")
    os._exit(0)  # no thread of a client that hangs keeps it


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
