"""The session of the slides, by two processes, once for each policy: what it shows, and how many requests it
costs."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any

from bench import ROOT
from parkazoo.structures.policies import Always, Count, Linearizable, Lock, Policy, Time, Watch
from tests.live.world import LiveTest, wait_until

MORE_S = 0.3  # to see that no more requests come


class User:
    """A process with a dictionary; see dictionary_user.py."""

    def __init__(self, hosts: str, path: str, policy: Policy) -> None:
        command = [sys.executable, "-m", "tests.live.dictionary_user", hosts, path, repr(policy)]
        self.process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        self.requests = 0
        self.shown: str | None = None

    def run(self, line: str) -> int:
        """The number of requests that it has sent since the last line."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(line + "\n")
        before = self.requests
        self.shown, self.requests = json.loads(self.process.stdout.readline())
        return self.requests - before

    def end(self) -> None:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


class SessionTest(LiveTest):
    ensembles = 1

    def setUp(self) -> None:
        super().setUp()
        self.client = self.parkazoo()
        self.root = self.new_root(self.client)

    def user(self, policy: Policy) -> User:
        """Its client has written before: it has its marker."""
        user = User(self.cluster.hosts, f"{self.root}/d", policy)
        self.addCleanup(user.end)
        user.run("client.once(client.set, path.rpartition('/')[0], b'')")
        return user

    def begin(self, policy: Policy, loaded: int) -> tuple[User, User]:
        """Two users; the directory is there.

        :param loaded: requests of a load of nothing.
        """
        self.client.ensure_path(f"{self.root}/d")
        d1, d2 = self.user(policy), self.user(policy)
        self.costs(d1, "d = client.DistributedDict(path, policy)", 1 + loaded)
        return d1, d2

    def costs(self, user: User, line: str, requests: int, shown: Any = None) -> None:
        self.assertEqual((user.run(line), user.shown), (requests, None if shown is None else repr(shown)), line)

    def dictionary(self, **items: str) -> Any:
        class Shown:
            def __repr__(shown) -> str:
                return f"DistributedDict({self.root + '/d'!r}, {items!r})"

        return Shown()


class TestSession(SessionTest):
    def check(self, policy: Policy, loaded: int, show: int) -> None:
        """
        :param loaded: requests of a load of nothing. :param show: what one costs that shows one entry.
        """
        d1, d2 = self.begin(policy, loaded)
        self.costs(d1, "d['hello'] = 'world'", 1)
        self.costs(d2, "d = client.DistributedDict(path, policy)", 1 + loaded + (1 if loaded else 0))
        self.costs(d2, "d", show, self.dictionary(hello="world"))
        self.costs(d2, "d['hello'] = 'mars'", 1)
        self.costs(d1, "d", show, self.dictionary(hello="mars"))
        self.single = d1

    def test_always(self) -> None:
        self.check(Always(), loaded=0, show=2)
        for line, requests, shown in (
            ("d['hello']", 1, "mars"),
            ("'hello' in d, 'venus' in d", 2, (True, False)),
            ("len(d)", 1, 1),
            ("[key for key in d]", 1, ["hello"]),
            ("list(d)", 2, ["hello"]),  # it asks for the length too
            ("dict(d.items())", 2, {"hello": "mars"}),
            ("d.snapshot()", 6, {"hello": "mars"}),
        ):
            self.costs(self.single, line, requests, shown)
        self.costs(self.single, "d = client.DistributedDict(path, policy)", 1)
        self.costs(self.single, "d['hello'] = 'venus'", 2)  # it did not know that it is there
        self.costs(self.single, "d['hello'] = 'venus'", 1)

    def test_linearizable(self) -> None:
        self.check(Linearizable(), loaded=0, show=3)
        self.costs(self.single, "d['hello']", 2, "mars")
        self.costs(self.single, "len(d)", 2, 1)

    def test_lock(self) -> None:
        self.check(Lock(), loaded=1, show=2)
        self.costs(self.single, "policy.lock = True", 0)
        for _ in range(3):
            self.costs(self.single, "d['hello']", 0, "mars")
        self.costs(self.single, "policy.lock = False", 0)
        self.costs(self.single, "d['hello']", 2, "mars")

    def test_time(self) -> None:
        self.check(Time(1000), loaded=1, show=2)
        for _ in range(3):
            self.costs(self.single, "d['hello']", 0, "mars")

    def test_count(self) -> None:
        """The slides have "after n reads"; here n is ten."""
        d1, d2 = self.begin(Count(10), loaded=1)
        self.costs(d1, "d['hello'] = 'world'", 1)
        self.costs(d2, "d = client.DistributedDict(path, policy)", 3)
        self.costs(d2, "d", 0, self.dictionary(hello="world"))
        self.costs(d2, "d['hello'] = 'mars'", 1)
        for _ in range(9):
            self.costs(d1, "d", 0, self.dictionary(hello="world"))
        self.costs(d1, "d", 2, self.dictionary(hello="mars"))

    def test_watch(self) -> None:
        """A read costs nothing; a change costs each process the reads that set the watches again."""
        d1, d2 = self.begin(Watch(), loaded=3)
        loaded_1 = d1.requests
        d1.run("d['hello'] = 'world'")
        d2.run("d = client.DistributedDict(path, policy)")
        loaded_2 = d2.requests
        self.waits(d2, self.dictionary(hello="world"))
        # A read that comes behind the set has no watch that tells it.
        wait_until(lambda: (d1.run("0"), d1.requests)[1] == loaded_1 + 3, "the create is read")
        d2.run("d['hello'] = 'mars'")
        self.waits(d1, self.dictionary(hello="mars"))
        self.waits(d2, self.dictionary(hello="mars"))
        # The create: a write, a listing, a get; the set: a get here, a write and a get there.
        self.have_asked(d1, loaded_1 + 4, d2, loaded_2 + 2)
        for _ in range(10):
            self.costs(d1, "d, d['hello'], len(d), 'x' in d, list(d) and None", 0, self.all_of(1))
        d1.run("del d['hello']")
        self.waits(d2, self.dictionary())
        # A write, a listing and a get here; a listing and a get there: each has been told by two watches.
        self.have_asked(d1, loaded_1 + 7, d2, loaded_2 + 4)

    def all_of(self, count: int) -> Any:
        return self.dictionary(hello="mars"), "mars", count, False, None

    def waits(self, user: User, shown: Any) -> None:
        wait_until(lambda: (user.run("d"), user.shown)[1] == repr(shown), f"{shown}")

    def have_asked(self, d1: User, in_all_1: int, d2: User, in_all_2: int) -> None:
        wait_until(
            lambda: (d1.run("0"), d2.run("0"), d1.requests, d2.requests)[2:] == (in_all_1, in_all_2),
            f"{in_all_1} and {in_all_2} requests",
        )
        time.sleep(MORE_S)
        d1.run("0")
        d2.run("0")
        self.assertEqual((d1.requests, d2.requests), (in_all_1, in_all_2))
