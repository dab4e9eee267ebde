"""A service: any number of these processes share an election, a queue of jobs, settings and metrics.

Promise    One process at a time gives out jobs, and each job has one result, though processes and servers die.
SUSPENDED  The leader gives out nothing while its ensemble is away; a worker's requests wait, or are tried again.
LOST       Another process leads. The job in hand is another's too: both work, and one result is kept.

A process that was frozen may still take itself for the leader, or for the holder of a job. So each write that must
happen once is guarded: `next` by its version, a result by its name. Settings are JSON in the znode `settings`;
each process has them as soon as they change. It ends at SIGTERM, after the job in hand:

    METRICS_PORT=9200 python recipes/service.py 127.0.0.1:24601/service
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from _clients import connected, hosts_given
from kazoo.exceptions import KazooException, NodeExistsError
from kazoo.protocol.states import KazooState, ZnodeStat
from prometheus_client import REGISTRY, Counter, Gauge, start_http_server

from parkazoo import ParKazooClient
from parkazoo.prometheus import ClientCollector

METRICS_HOST = os.environ.get("METRICS_HOST", "127.0.0.1")
METRICS_PORT = int(os.environ.get("METRICS_PORT", "9200"))
SESSION_TIMEOUT_S = float(os.environ.get("SESSION_TIMEOUT_S", "10"))
LOOK_AGAIN_S = 0.5  # whether to stop, whether the ensemble is back
ENDS = {signal.SIGTERM, signal.SIGINT}
FIRST_SETTINGS: dict[str, Any] = {"jobs_per_s": 2, "greeting": "hello"}

LEADS = Gauge("service_leads", "Whether this process gives out jobs.")
SETTINGS_VERSION = Gauge("service_settings_version", "The version of the settings that this process has.")
GIVEN_OUT = Counter("service_jobs_given_out", "Jobs that this process gave out.")
DONE = Counter("service_jobs_done", "Jobs whose result this process wrote.")


class Service:
    def __init__(self, zk: ParKazooClient) -> None:
        self.zk, self.stopping = zk, threading.Event()
        self.settings = FIRST_SETTINGS
        self.election = zk.Election("/leader", f"{os.uname().nodename} {os.getpid()}")
        self.jobs = zk.LockingQueue("/jobs")

    def prepare(self) -> None:
        """Make what all processes share, unless another one has."""
        for path, value in {"/settings": json.dumps(FIRST_SETTINGS), "/next": "0", "/results": ""}.items():
            with suppress(NodeExistsError):
                self.zk.once(self.zk.create, path, value.encode(), makepath=True)
        self.zk.DataWatch("/settings", self.take_settings)

    def take_settings(self, data: bytes | None, stat: ZnodeStat | None) -> None:
        if data is None or stat is None:
            return
        try:
            settings = FIRST_SETTINGS | json.loads(data)
            if not 0.001 <= settings["jobs_per_s"] <= 1000:
                raise ValueError("jobs_per_s must be 0.001 to 1000")
        except (TypeError, ValueError) as error:
            say(f"refused settings {stat.version}: {error}")
        else:
            self.settings = settings
            SETTINGS_VERSION.set(stat.version)
            say(f"took settings {stat.version}")

    def take_part(self) -> None:
        """Wait to be elected, and lead."""
        self.election.run(self.lead)

    def lead(self) -> None:
        say("leads")
        LEADS.set(1)
        try:
            while not self.stopping.wait(1 / self.settings["jobs_per_s"]):
                state = self.election.lock.state
                if state == KazooState.LOST:
                    return
                if state == KazooState.CONNECTED:
                    self.give_out()
        finally:
            LEADS.set(0)
            say("leads no more")

    def give_out(self) -> None:
        """Give out the next job. If a leader ends between the writes, the next one puts it again."""
        number, stat = self.zk.get("/next")
        self.jobs.put(number)
        # BadVersionError: another process leads
        self.zk.once(self.zk.set, "/next", b"%d" % (int(number) + 1), version=stat.version)
        GIVEN_OUT.inc()
        say(f"gave out {int(number)}")

    def work(self) -> None:
        """Do a job, if there is one now."""
        job = self.jobs.get(timeout=LOOK_AGAIN_S)
        if job is None:
            return
        result = f"{self.settings['greeting']} {int(job)}"  # the work
        try:
            self.zk.once(self.zk.create, f"/results/{int(job)}", result.encode())
        except NodeExistsError:
            say(f"found {int(job)} done")
        else:
            DONE.inc()
            say(f"did {int(job)}")
        if not self.jobs.consume():  # the lock was lost; its next holder finds the result
            self.jobs = self.zk.LockingQueue("/jobs")

    def repeat(self, act: Callable[[], None]) -> None:
        """Call the function until the service stops, whatever becomes of the ensembles."""
        while not self.stopping.is_set():
            with suppress(KazooException):
                act()
                continue
            self.stopping.wait(LOOK_AGAIN_S)

    def stop(self) -> None:
        self.stopping.set()
        self.election.cancel()


def say(text: str) -> None:
    print(f"{time.monotonic():.3f} {text}\n", end="", flush=True)  # in one piece: several threads say something


def main() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDS)  # for sigwait, before there are threads
    with connected(hosts_given(), timeout=SESSION_TIMEOUT_S, counters=True) as zk:
        service = Service(zk)
        REGISTRY.register(ClientCollector(zk))
        start_http_server(METRICS_PORT, METRICS_HOST)
        service.prepare()
        acts = (service.take_part, service.work)
        threads = [threading.Thread(target=service.repeat, args=[each]) for each in acts]
        for each in threads:
            each.start()
        signal.sigwait(ENDS)
        service.stop()
        for each in threads:
            each.join(SESSION_TIMEOUT_S)
    say("ended")


if __name__ == "__main__":
    main()
