"""What the live tests of the client share: one cluster for the process, clients that end with their test."""

from __future__ import annotations

import atexit
import itertools
import logging
import os
import socket
import time
import unittest
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from kazoo.client import KazooClient

from parkazoo import ParKazooClient
from parkazoo.admin import init_map
from parkazoo.local import LocalCluster
from parkazoo.protocol.placement import Place, Placement
from parkazoo.protocol.where.places import Places
from tests.handlers import make_handler
from tests.where_is import where_is

DEADLINE_S = 60.0
POLL_S = 0.01
ENSEMBLES = 3
T = TypeVar("T")

_clusters: dict[tuple[int, int, str], LocalCluster] = {}
_sleep = make_handler().sleep_func


def shared_cluster(ensembles: int = ENSEMBLES, servers: int = 1, form: str = "plain") -> LocalCluster:
    """The process's cluster of that shape; it is started when it is first asked for."""
    cluster = _clusters.get((ensembles, servers, form))
    if cluster is None:
        cluster = LocalCluster(ensembles=ensembles, servers=servers, make_map=False)
        cluster.start()
        atexit.register(cluster.stop)
        init_map(cluster.hosts, {each.name: each.hosts for each in cluster.ensembles}, form=form)
        _clusters[ensembles, servers, form] = cluster
    return cluster


def wait_until(condition: Callable[[], T], what: str, timeout_s: float = DEADLINE_S) -> T:
    """Wait until `condition` returns something true, and return that; what it raises counts as false.

    :param what: for the message of the failure.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        error: Exception | None = None
        value: T | None = None
        try:
            value = condition()
        except Exception as raised:
            error = raised
        if error is None and value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {timeout_s:g} s; last: {error or value!r}") from error
        _sleep(POLL_S)


class LiveTest(unittest.TestCase):
    """A test against the shared cluster, below a path of its own.

    Every client that a test makes ends with it. `seen` collects what watches and listeners are given.
    """

    servers = 1
    ensembles = ENSEMBLES
    form = "plain"  # of the cluster map
    root: str  # if the test makes one

    @classmethod
    def setUpClass(cls) -> None:
        cls.cluster = shared_cluster(cls.ensembles, cls.servers, cls.form)

    def setUp(self) -> None:
        self.placement = Placement(self.ensembles)

    def parkazoo(self, chroot: str = "", *, start: bool = True, **options: Any) -> ParKazooClient:
        """A new client with the handler under test."""
        options.setdefault("handler", make_handler())
        hosts = options.pop("hosts", self.cluster.hosts)
        return self._begin(options.pop("client_class", ParKazooClient)(hosts + chroot, **options), start)

    def joined(self, chroot: str = "", **options: Any) -> ParKazooClient:
        """A new client with a session on every ensemble."""
        client = self.parkazoo(chroot, **options)
        client.join(timeout=DEADLINE_S)
        return client

    def member(self, client: ParKazooClient, ensemble: int) -> Any:
        """The client's member of one ensemble, which it has joined."""
        return client.members[self.cluster.ensembles[ensemble].name]

    def kazoo(self, ensemble: int = 0, chroot: str = "", *, start: bool = True, **options: Any) -> KazooClient:
        """A plain kazoo client of one ensemble, which sees what is really there."""
        options.setdefault("handler", make_handler())
        return self._begin(KazooClient(self.cluster.ensembles[ensemble].hosts + chroot, **options), start)

    def _begin(self, client: Any, start: bool) -> Any:
        self.addCleanup(client.close)
        self.addCleanup(client.stop)
        if start:
            client.start(DEADLINE_S)
        return client

    def new_root(self, client: KazooClient) -> str:
        """A new znode for this test alone, removed with it as far as that goes."""
        root = f"/test-{uuid.uuid4().hex[:12]}"
        client.create(root)
        return root

    def on_each(self, client: Any, **options: Any) -> list[str]:
        """A new znode of `client` on each ensemble, below `root`, by the ensemble's index."""
        found: dict[int, str] = {}
        number = 0
        while len(found) < self.ensembles:
            parent = f"{self.root}/on{number}"
            number += 1
            if (ensemble := self.placement.of_children(parent)) not in found:
                client.ensure_path(parent)
                found[ensemble] = f"{parent}/z"
                client.create(found[ensemble], **options)
        return [found[index] for index in range(self.ensembles)]

    def directory(self, parent: str, is_native: bool, among: Placement | None = None) -> str:
        """A path below `parent` that is native, or is not."""
        placement = among or self.placement
        paths = (f"{parent.rstrip('/')}/d{number}" for number in itertools.count())
        return next(path for path in paths if placement.is_native(path) is is_native)

    def home(self, path: str) -> Place:
        """Where a znode is whose parent is as new as the cluster."""
        if self.form == "grown":
            return Places(self.placement, self.placement.of_children).known(path).home
        return where_is(self.placement, path).home

    def raises_as(self, call: Callable[[], Any]) -> type[BaseException] | None:
        """The type of what `call` raises; None if it returns."""
        try:
            call()
        except Exception as error:
            return type(error)
        return None


class Seen(list[Any]):
    """A watch or listener that remembers what it was called with."""

    def __bool__(self) -> bool:
        return True  # kazoo takes a false one for none

    def __eq__(self, other: object) -> bool:
        """A list's, but two watches are the same only if they are one."""
        return self is other if isinstance(other, Seen) else super().__eq__(other)

    def __hash__(self) -> int:  # type: ignore[override] - kazoo keeps watches in sets
        return id(self)

    def __call__(self, event: Any) -> None:
        self.append(event)

    def wait(self, count: int = 1) -> list[Any]:
        wait_until(lambda: len(self) >= count, f"{count} events, seen {list(self)}")
        return list(self)


@contextmanager
def connected(client: KazooClient) -> Iterator[KazooClient]:
    client.start()
    try:
        yield client
    finally:
        client.stop()
        client.close()


def drop_connections(client: Any) -> None:
    """Break the connection to each ensemble that the client has joined, or is joining now."""
    wait_until(lambda: all(each.connected for each in client.members.values()), "each ensemble")
    for member in client.members.values():
        with suppress(OSError):  # it has just been closed
            member._connection._socket.shutdown(socket.SHUT_RDWR)


def end_session(session: tuple[int, bytes], hosts: str, **options: Any) -> None:
    """End a client's session on one ensemble behind its back."""

    def has_ended() -> bool:  # the last to connect has the session: the client may have been faster
        silence = logging.Logger("thief", logging.CRITICAL)
        thief = KazooClient(hosts, client_id=session, logger=silence, **options)
        thief.start(DEADLINE_S)
        is_other = thief.client_id != session
        thief.stop()
        thief.close()
        return is_other

    wait_until(has_ended, "the end of the session")


def sockets() -> set[str]:
    """This process's sockets. A socket can be gone by the time that it is looked at."""
    found = set()
    for entry in Path("/proc/self/fd").iterdir():
        try:
            target = str(entry.readlink())
        except OSError:
            continue
        if target.startswith("socket:"):
            found.add(target)
    return found


def seed() -> int:
    """The seed for a random test: PARKAZOO_TEST_SEED, or a new one. The test must print it."""
    return int(os.environ.get("PARKAZOO_TEST_SEED") or int.from_bytes(os.urandom(4), "big"))
