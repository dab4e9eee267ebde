"""recipes/service.py: three processes go on while processes and servers are killed, frozen and away."""

from __future__ import annotations

import importlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import unittest
import urllib.request
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import groupby
from operator import itemgetter
from unittest import mock

from kazoo.exceptions import BadVersionError

from parkazoo import ParKazooClient
from parkazoo.local import LocalCluster
from tests.entered import entered
from tests.live.map_case import free_port
from tests.live.world import LiveTest, wait_until
from tests.recipes.program import ROOT

PROCESSES, ENSEMBLES, SERVERS = 3, 3, 1
SESSION_TIMEOUT_S = 6.0
SERVING_TIMEOUT_S = 120.0
MORE_JOBS = 10
FAST = {"jobs_per_s": 20, "greeting": "hello"}
WRONG = (b"", b"[]", b'{"jobs_per_s": 0}', b'{"jobs_per_s": "2"}', b'{"jobs_per_s": NaN}')
SLOW = {"jobs_per_s": 0.001, "greeting": "bye"}


class Process:
    """One that runs the service. What it says is read as it comes.

    :ivar may_be_silent: whether it was killed, or frozen for as long as a session, and so may have done a thing
        that it does not say.
    """

    def __init__(self, hosts: str) -> None:
        self.port = free_port()
        self.may_be_silent = False
        self._said: list[str] = []
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error", "recipes/service.py", hosts],
            cwd=ROOT,
            env={
                **os.environ,
                "METRICS_PORT": str(self.port),
                "SESSION_TIMEOUT_S": f"{SESSION_TIMEOUT_S:g}",
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._said.append(line.rstrip())

    def said(self) -> list[str]:
        """Without the times."""
        return [line.partition(" ")[2] for line in tuple(self._said)]

    def metric(self, name: str) -> float:
        """As a scrape has it now."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=SESSION_TIMEOUT_S) as answer:
            found = re.search(rf"^{name} (\S+)$", answer.read().decode(), re.MULTILINE)
        assert found is not None, name
        return float(found[1])

    @property
    def leads(self) -> bool:
        return next((each for each in reversed(self.said()) if each.startswith("leads")), "") == "leads"

    def kill(self) -> None:
        self.may_be_silent = True
        self.process.kill()
        self._end()

    def stop(self) -> int:
        """End it as an init system does; returns its status."""
        self.process.terminate()
        self._end()
        return self.process.returncode

    def _end(self) -> None:
        self.process.wait(60)
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()


class TestService(unittest.TestCase):
    def setUp(self) -> None:
        self.cluster = entered(self, LocalCluster(ENSEMBLES, SERVERS))
        self.hosts = f"{self.cluster.hosts}/service"
        self.all: list[Process] = []
        self.addCleanup(lambda: [each.kill() for each in self.all if each.process.poll() is None])
        self.zk = ParKazooClient(self.hosts)
        self.zk.start(60)
        self.addCleanup(self.zk.close)
        self.addCleanup(self.zk.stop)
        self.zk.create("/settings", json.dumps(FAST).encode(), makepath=True)
        self.running = [self.begin() for _ in range(PROCESSES)]

    def begin(self) -> Process:
        self.all.append(Process(self.hosts))
        return self.all[-1]

    def again(self, *what: object, **how: object) -> bytes:
        """The value of a znode, by a client whose connections come and go."""
        return bytes(self.zk.retry(self.zk.get, *what, **how)[0])

    def leader(self) -> Process:
        """The one that says that it leads; another one has stopped."""
        return wait_until(lambda: next(iter(each for each in self.running if each.leads), None), "a leader")

    def more_jobs(self, why: str) -> None:
        """Wait until more of them have results."""
        wanted = len(self.zk.retry(self.zk.get_children, "/results")) + MORE_JOBS
        wait_until(lambda: len(self.zk.retry(self.zk.get_children, "/results")) >= wanted, f"jobs {why}")

    def test_drill(self) -> None:
        wait_until(lambda: self.zk.exists("/results"), "the service has begun")
        steps: list[tuple[str, Callable[[], None]]] = [
            ("at first", lambda: None),
            ("without the leader", self.kill_leader),
            ("while the leader is frozen", self.freeze_leader),
            ("after an ensemble was away", self.take_ensemble_away),
            ("after each was restarted", self.restart_all),
            ("after wrong settings", self.set_wrong_settings),
        ]
        for why, do in steps:
            do()
            self.more_jobs(why)
        self.settle()
        self.judge()

    def kill_leader(self) -> None:
        leader = self.leader()
        leader.kill()
        self.running.remove(leader)
        self.running.append(self.begin())
        self.leader()

    def freeze_leader(self) -> None:
        """It takes itself for the leader when it goes on, and finds that it is not."""
        leader = self.leader()
        leader.may_be_silent = True
        leader.process.send_signal(signal.SIGSTOP)
        try:
            wait_until(lambda: any(each.leads for each in self.running if each is not leader), "another one leads")
            self.more_jobs("of the next leader")
        finally:
            leader.process.send_signal(signal.SIGCONT)
        wait_until(lambda: not leader.leads, "the first one has noticed")

    def take_ensemble_away(self) -> None:
        """Longer than a session, so that requests fail."""
        (server,) = self.cluster.ensembles[2].servers
        server.kill()
        threading.Event().wait(1.5 * SESSION_TIMEOUT_S)  # nothing tells that a request has failed
        server.start()
        server.wait_serving(SERVING_TIMEOUT_S)

    def restart_all(self) -> None:
        for each in tuple(self.running):
            self.running.append(self.begin())
            self.running.remove(each)
            self.stop(each)

    def set_wrong_settings(self) -> None:
        """They are refused, one after the other, and change nothing."""
        for wrong in WRONG:
            self.zk.retry(self.zk.set, "/settings", wrong)
            refused = f"refused settings {self.zk.retry(self.zk.exists, '/settings').version}:"
            for each in self.running:
                self.wait_until_said(each, refused)

    def wait_until_said(self, process: Process, begin: str) -> None:
        wait_until(lambda: any(each.startswith(begin) for each in process.said()), begin)

    def settle(self) -> None:
        """The last settings give out no more jobs, and all are done."""
        self.zk.retry(self.zk.set, "/settings", json.dumps(SLOW).encode())
        version = self.zk.retry(self.zk.exists, "/settings").version
        for each in self.running:
            wait_until(lambda each=each: each.metric("service_settings_version") == version, "the last settings")
        wait_until(lambda: sum(each.metric("service_leads") for each in self.running) == 1, "one leads")
        wait_until(self.all_are_done, "each job has a result")
        self.assertTrue(any(each.metric("service_jobs_done_total") > 0 for each in self.running))
        for each in self.running:
            wait_until(lambda each=each: each.metric('parkazoo_connected{ensemble="a"}') > 0, "it is connected")
            self.stop(each)

    def stop(self, process: Process) -> None:
        self.assertEqual((process.stop(), process.said()[-1]), (0, "ended"))

    def all_are_done(self) -> bool:
        given_out = {str(number) for number in range(int(self.again("/next")))}
        return {*self.zk.retry(self.zk.get_children, "/results")} == given_out and not len(
            self.zk.LockingQueue("/jobs")
        )

    def judge(self) -> None:
        count = int(self.again("/next"))
        silent = sum(each.may_be_silent for each in self.all)
        self.assertEqual(problems([each.said() for each in self.all], count, silent), [])
        values = {self.again(f"/results/{number}").split()[0] for number in range(count)}
        self.assertLessEqual(values, {b"hello", b"bye"})


class TestFence(LiveTest):
    def test_a_leader_that_was_frozen_before_its_write(self) -> None:
        """Another process has given out the job meanwhile."""
        with mock.patch.object(sys, "path", [str(ROOT / "recipes"), *sys.path]):
            service_of = importlib.import_module("service").Service
        zk = self.parkazoo(self.new_root(self.parkazoo()))
        frozen, next_one = service_of(zk), service_of(zk)
        frozen.prepare()
        put = frozen.jobs.put

        def put_late(job: bytes) -> None:
            put(job)
            next_one.give_out()

        with mock.patch.object(frozen.jobs, "put", put_late):
            self.assertRaises(BadVersionError, frozen.give_out)
        self.assertEqual(zk.get("/next")[0], b"1")


class TestProblems(unittest.TestCase):
    CLEAN = (["leads", "gave out 0", "did 1"], ["leads", "did 0", "gave out 1"])

    def test_none(self) -> None:
        self.assertEqual(problems(self.CLEAN, 2, 0), [])
        self.assertEqual(problems(self.CLEAN, 3, 1), [])  # one was killed before it said so

    def test_they_are_found(self) -> None:
        for more, count, found in (
            ("did 0", 2, ["did twice: [0]"]),
            ("gave out 1", 2, ["gave out twice: [1]"]),
            ("gave out 2", 3, ["did: 1 unsaid", "2 terms in 3 turns"]),
            ("did 2", 3, ["gave out: 1 unsaid"]),
        ):
            first, second = self.CLEAN
            self.assertEqual(problems([[*first, more], second], count, 0), found)


def problems(said: Sequence[Sequence[str]], count: int, silent: int) -> list[str]:
    """Returns why what the processes said is not what the service promises.

    :param count: of the jobs. :param silent: processes, each of which may have done a thing that it did not say.
    """
    found = []
    for what in ("did", "gave out"):
        times = Counter(number_of(each) for lines in said for each in lines if each.startswith(f"{what} "))
        if twice := sorted(number for number, each in times.items() if each > 1):
            found.append(f"{what} twice: {twice}")
        if (unsaid := count - len(times)) > silent:
            found.append(f"{what}: {unsaid} unsaid")
    given_out = sorted((number, term) for term, numbers in enumerate(terms(said)) for number in numbers)
    turns = [term for term, _ in groupby(given_out, itemgetter(1))]
    if len(turns) > len({*turns}):  # a term goes on after the next one has begun
        found.append(f"{len({*turns})} terms in {len(turns)} turns")
    return found


def terms(said: Sequence[Sequence[str]]) -> list[list[int]]:
    """Returns the numbers that each leader gave out, from its election on."""
    found: list[list[int]] = []
    for line in (each for lines in said for each in lines):
        if line == "leads":
            found.append([])
        elif line.startswith("gave out "):
            found[-1].append(number_of(line))
    return found


def number_of(line: str) -> int:
    return int(line.rsplit(maxsplit=1)[-1])
