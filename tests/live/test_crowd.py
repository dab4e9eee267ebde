"""Many clients in one process. Each hears at once when its connection breaks, and keeps its session.

Times are judged with a wide margin, and excused by how late a thread of the same process was that only wakes up.
"""

from __future__ import annotations

import itertools
import json
import logging
import os
import socket
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError, SessionExpiredError
from kazoo.retry import KazooRetry

from bench import ROOT
from parkazoo import ParKazooClient
from parkazoo.admin import init_map
from parkazoo.local import LocalCluster, LocalServer
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.registration import registration_path
from tests.live.crowd import CONNECTED, LONG_S, LOST, SESSION_S, SUSPENDED, Crowd
from tests.live.interrupted import Lines
from tests.live.world import DEADLINE_S, LiveTest, Seen, wait_until
from tests.relay import Relay

ATTEMPTS = 4
FEW_SESSIONS = 10


class CrowdTest(LiveTest):
    """With ensembles of its own, not the shared ones."""

    def setUp(self) -> None:
        super().setUp()
        self.root = self.new_root(self.parkazoo())

    @classmethod
    def setUpClass(cls) -> None:
        """Nothing is shared."""


def make_map(*ensembles: str) -> ClusterMap:
    """A map of ensembles at these hosts; the first is the bootstrap ensemble."""
    return init_map(bootstrap=ensembles[0], ensembles=dict(zip("abc", ensembles, strict=False)))


class TestFrozenAndKilled(LiveTest):
    """A server is frozen, then another is killed: every client has to find the third, past the frozen one."""

    cluster: LocalCluster
    others: LocalCluster

    @classmethod
    def setUpClass(cls) -> None:
        cls.cluster = LocalCluster(ensembles=1, servers=5, make_map=False)  # two may be away
        cls.others = LocalCluster(ensembles=2, servers=1, make_map=False)
        cls.addClassCleanup(cls.cluster.stop)
        cls.addClassCleanup(cls.others.stop)
        cls.cluster.start()
        cls.others.start()
        servers = cls.cluster.ensembles[0].servers
        cls.named = [*(each for each in servers if each is not cls.cluster.ensembles[0].leader())][:3]
        cls.hosts = ",".join(each.address for each in cls.named)
        make_map(cls.hosts, *(each.hosts for each in cls.others.ensembles))

    def test_frozen_and_killed(self) -> None:
        """48 clients, each holds a lock on that ensemble; another process waits for all of them."""
        root = self.new_root(self.parkazoo(hosts=self.hosts))
        crowd = Crowd(self, self.hosts, 48)
        there = (
            path for path in (f"{root}/{n}" for n in itertools.count()) if not self.placement.of_children(path)
        )
        locks = [client.Lock(path) for client, path in zip(crowd.clients, there, strict=False)]
        for lock in locks:
            self.assertTrue(lock.acquire(timeout=DEADLINE_S))
        taken: list[str] = []
        self.begin_rival(taken, locks)
        victim, frozen, _ = self.named
        cut = crowd.on(victim)  # but for a few that found it slow, and went to the next
        self.assertTrue(cut)
        frozen.freeze()
        self.addCleanup(self.heal, victim, frozen)
        broke_s = time.monotonic()
        victim.kill()
        crowd.wait_back(broke_s)
        held = [lock.path for lock in locks if lock.is_acquired and lock.client.connected]
        self.assertEqual([path for path in held if path in taken], [], "locks of two holders")
        crowd.judge(self, broke_s, cut)
        self.assertEqual(taken, [])

    def begin_rival(self, taken: list[str], locks: Sequence[Any]) -> None:
        """Have another process ask for the locks. It notes in `taken` the paths of those that it gets."""
        paths = [lock.path for lock in locks]
        argv = [sys.executable, "-m", "tests.live.rival", self.hosts, str(SESSION_S), *paths]
        rival = subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert rival.stdout is not None
        self.addCleanup(rival.communicate)
        self.addCleanup(rival.kill)
        self.assertEqual(rival.stdout.readline(), "asking\n")

        def read() -> None:
            with suppress(ValueError):  # closed: the test has ended
                taken.extend(map(str.strip, rival.stdout or ()))

        threading.Thread(target=read, daemon=True).start()
        for lock in locks:
            wait_until(lambda lock=lock: len(lock.contenders()) == 2, "the other contender")

    def heal(self, victim: LocalServer, frozen: LocalServer) -> None:
        frozen.thaw()
        victim.start()
        victim.wait_serving()


class TestAllCut(LiveTest):
    def test_slow_listeners(self) -> None:
        """All connections of 100 clients break at once, and each client has a listener that takes 1.5 s."""
        is_over, heard = threading.Event(), Seen()
        self.addCleanup(is_over.set)

        def listen(state: str) -> None:
            is_over.wait(1.5)
            heard(state)

        crowd = Crowd(self, self.cluster.hosts, 100, listen)
        heard.wait(100)
        root = self.new_root(crowd.clients[0])
        for number, client in enumerate(crowd.clients):
            client.create(f"{root}/{number}", ephemeral=True)
            client.join(timeout=DEADLINE_S)
        ports = {server.port for each in self.cluster.ensembles for server in each.servers}
        broke_s = time.monotonic()
        self.assertEqual(cut_all(ports), 100 * len(self.cluster.ensembles))
        crowd.wait_back(broke_s)
        crowd.judge(self, broke_s)


def cut_all(ports: set[int]) -> int:
    """Break all of this process's connections to these ports; how many there were."""
    cut = 0
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            if str(entry.readlink()).startswith("socket:"):
                with socket.socket(fileno=os.dup(int(entry.name))) as copy:
                    if copy.family == socket.AF_INET and copy.getpeername()[1] in ports:
                        copy.shutdown(socket.SHUT_RDWR)
                        cut += 1
    return cut


class RelayedTest(LiveTest):
    """Two ensembles, each behind a relay."""

    cluster: LocalCluster

    def setUp(self) -> None:
        super().setUp()
        self.cluster = LocalCluster(ensembles=2, servers=1, make_map=False)
        self.addCleanup(self.cluster.stop)
        self.cluster.start()
        self.real = [each.hosts for each in self.cluster.ensembles]
        self.relays = [Relay(each) for each in self.real]
        for relay in self.relays:
            self.addCleanup(relay.stop)
        self.hosts = self.relays[0].address
        self.placement = make_map(*(each.address for each in self.relays)).make_placement()

    @classmethod
    def setUpClass(cls) -> None:
        """Each test has a cluster of its own: they are left disordered."""

    def path_on(self, client: Any, ensemble: int, root: str) -> str:
        """A directory whose children live on that ensemble. It has one."""
        paths = (f"{root}/d{number}" for number in range(1000))
        path = next(path for path in paths if self.placement.of_children(path) == ensemble)
        client.create(f"{path}/first", makepath=True)
        return path


class TestAddressThatMoves(RelayedTest):
    def test_of_the_second(self) -> None:
        self.move(1)

    def test_of_the_bootstrap_ensemble(self) -> None:
        self.move(0)

    def move(self, moved: int) -> None:
        """An address leads to the other ensemble for a while: nothing of the first's is written there."""
        self.set_sessions_apart(moved)
        client = self.parkazoo(hosts=self.hosts, connection_retry=KazooRetry(max_tries=-1, max_delay=0.5))
        client.join(timeout=DEADLINE_S)
        directory = self.path_on(client, moved, self.new_root(client))
        client.create(f"{directory}/e", ephemeral=True)
        seen = Seen()
        client.add_listener(seen)
        there = self.kazoo(1 - moved)
        there.create("/ahead")
        while there.last_zxid <= max(each.last_zxid for each in client.members.values()):
            there.set("/ahead", b"")  # a server that is behind what the client has seen would not speak to it

        def others() -> list[str]:
            """What is there, without the registration of the client's own session there."""
            own = registration_path(client.members["ab"[1 - moved]].session_id)
            return [path for path in tree_of(there) if path != own]

        before = others()
        relay = self.relays[moved]
        relay.lead_to(self.real[1 - moved])
        wait_until(lambda: LOST in seen, "LOST")  # the session is unknown there
        # Until then a request is one of the old session's, as with kazoo.
        wait_until(lambda: client.connected, "a new session begins")
        sent = client.create_async(f"{directory}/x", b"for the other")
        wait_until(lambda: relay.accepted >= ATTEMPTS, "some attempts")
        self.assertEqual(seen.wait(3), [SUSPENDED, LOST, CONNECTED])
        self.assertEqual(client.state_of(f"{directory}/x"), SUSPENDED)
        wait_until(lambda: others() == before, "nothing else is written there")
        relay.lead_to(self.real[moved])
        wait_until(lambda: client.state_of(f"{directory}/x") == CONNECTED, "connected again", LONG_S)
        self.assertEqual(sent.get(timeout=DEADLINE_S), f"{directory}/x")
        client.create(f"{directory}/y")
        wait_until(lambda: sorted(client.get_children(directory)) == ["first", "x", "y"], "e is gone")
        wait_until(lambda: others() == before, "nothing else is written there")

    def set_sessions_apart(self, moved: int) -> None:
        """A server's session ids count from its start on: those of two that start in one millisecond are equal."""
        there = self.kazoo(1 - moved).client_id[0]
        while 0 <= there - self.kazoo(moved).client_id[0] + FEW_SESSIONS < 1 << 16:
            pass


def tree_of(client: KazooClient, path: str = "/") -> list[str]:
    """Every znode but ZooKeeper's own."""
    found = [path]
    for name in sorted(client.get_children(path)):
        if (path, name) != ("/", "zookeeper"):
            with suppress(NoNodeError):
                found += tree_of(client, f"{path.rstrip('/')}/{name}")
    return found


class TestAway(RelayedTest):
    AWAY_S = 27.0
    KEPT_S = 40.0

    def test_back_in_time(self) -> None:
        """An ensemble is away for 27 s and comes back with its sessions, which live 40 s: all are kept."""
        crowd = Crowd(self, self.hosts, 20, timeout=self.KEPT_S)
        root = self.new_root(crowd.clients[0])
        directory = self.path_on(crowd.clients[0], 1, root)
        ephemerals = [c.create(f"{directory}/{n}", ephemeral=True) for n, c in enumerate(crowd.clients)]
        broke_s = time.monotonic()
        self.relays[1].refuse()
        wait_until(lambda: time.monotonic() > broke_s + self.AWAY_S, "the end of it", 2 * self.AWAY_S)
        back_s = time.monotonic()
        self.relays[1].admit()
        crowd.wait_back(broke_s)
        slowest_s = max(crowd.told_s(number, CONNECTED, back_s) for number in range(len(crowd.clients)))
        crowd.judge(self, broke_s)
        for path in ephemerals:
            self.assertIsNotNone(crowd.clients[0].exists(path))
        self.assertLess(slowest_s, 6.0 + 2 * crowd.late_s(back_s))  # 3 s are owed


class TestPending(LiveTest):
    """What waits for a frozen ensemble when the session ends on another."""

    cluster: LocalCluster

    @classmethod
    def setUpClass(cls) -> None:
        cls.cluster = LocalCluster(ensembles=cls.ensembles, servers=1)
        cls.addClassCleanup(cls.cluster.stop)
        cls.cluster.start()

    def test_answered_after_all(self) -> None:
        """The ensemble answers when the client has heard of LOST."""
        client, creates, directory = self.lose()
        self.frozen.thaw()
        self.see_that_they_failed(client, creates, directory)

    def test_never_answered(self) -> None:
        """The ensemble dies instead: the next connection does not wait for what this one was asked."""
        lines = Lines()
        logging.getLogger().addHandler(lines)
        self.addCleanup(logging.getLogger().removeHandler, lines)
        client, creates, directory = self.lose()
        self.frozen.kill()
        self.frozen.start()
        self.see_that_they_failed(client, creates, directory)
        self.assertEqual([text for text in lines.texts if "xids" in text], [])

    def lose(self) -> tuple[ParKazooClient, list[Any], str]:
        """A client that is LOST while a frozen ensemble has not answered to its creates yet."""
        client = self.parkazoo()
        self.root = self.new_root(client)
        directory = self.on_each(client, ephemeral=True)[2].rpartition("/")[0]
        seen = Seen()
        client.add_listener(seen)
        session = client.members["a"].client_id
        self.frozen = self.cluster.ensembles[2].servers[0]
        self.frozen.freeze()
        self.addCleanup(self.frozen.thaw)
        creates = [client.create_async(f"{directory}/e", ephemeral=True)]
        creates += [client.create_async(f"{directory}/{number}") for number in range(10)]
        wait_until(lambda: client.members["c"]._pending, "sent")
        expire(self, session)
        wait_until(lambda: LOST in seen, "LOST")
        return client, creates, directory

    def see_that_they_failed(self, client: ParKazooClient, creates: list[Any], directory: str) -> None:
        for create in creates:
            with self.assertRaises(SessionExpiredError):
                create.get(timeout=DEADLINE_S)
        wait_until(lambda: client.connected, "connected", LONG_S)
        wait_until(lambda: "e" not in client.get_children(directory), "the end of the ephemeral")
        self.assertEqual(client.create(f"{directory}/e", ephemeral=True), f"{directory}/e")


def expire(test: LiveTest, session: Any) -> None:
    """End a session on the bootstrap ensemble behind its client's back."""

    def has_ended() -> bool:  # the last to connect has the session: the client may have been faster
        thief = test.kazoo(0, client_id=session)
        is_other = thief.client_id != session
        thief.stop()
        thief.close()
        return bool(is_other)

    wait_until(has_ended, "the end of the session")


class TestInterrupted(LiveTest):
    def test_handlers_that_raise(self) -> None:
        """A signal handler raises at any point of a create: nothing is done twice, and the client goes on."""
        observer = self.parkazoo()
        for root in self.roots_on_each(observer):
            argv = [sys.executable, "-m", "tests.live.interrupted", self.cluster.hosts, root, "5"]
            done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            told = json.loads(done.stdout.splitlines()[-1])
            made: dict[str, int] = defaultdict(int)
            for name in observer.get_children(root):
                made[name.partition("-")[0]] += 1
            twice = [name for name, count in made.items() if count > 1]
            words = ("xids do not match", "no answer to xid")
            xids = [line for line in told.pop("lines") if any(each in line for each in words)]
            print(f"{told}; {len(twice)} done twice, {len(xids)} lines of xids")
            self.assertEqual((twice, xids), ([], []))
            self.assertLessEqual({*told["errors"]}, {"ConnectionLoss"})  # it may end the connection
            self.assertGreater(told["interrupted"], 100)
            self.assertEqual(sum(name.startswith("after") for name in made), 100)

    def roots_on_each(self, client: Any) -> list[str]:
        """Directories whose children are where they are, and on another ensemble."""
        root = self.new_root(client)
        roots = [self.directory(root, is_native) for is_native in (True, False)]
        for each in roots:
            client.create(each)
        return roots
