"""A process of the drill `sick`: a program that asks as others do, or a sick one, until its input ends."""

from __future__ import annotations

import itertools
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException

from parkazoo import ParKazooClient

DIRECTORIES, CHILDREN = 8, 4
PERIOD_S = 0.05
HOT, HOT_CHILDREN = "/jobs/today", 40
OUTSTANDING = 60
EPHEMERALS, SESSIONS, WATCHES = 2000, 52, 50_000
OF_A_MISSING = 2  # watches at servers, on a grown map
AT_ONCE = 500
START_TIMEOUT_S, SESSION_TIMEOUT_S = 60.0, 60.0  # one that is frozen is to be seen for a while


def calm(connect: Callable[[], Any]) -> None:
    """Some reads and writes, in a few directories."""
    zk = connect()
    paths = [f"/app{os.getpid()}/d{number % DIRECTORIES}/{number}" for number in range(DIRECTORIES * CHILDREN)]
    _make(zk, paths)
    for path in itertools.cycle(paths):
        with suppress(KazooException):  # a fault of the servers' is none of this program's
            zk.set(path, b"x")
            zk.get(path)
        time.sleep(PERIOD_S)


def hot(connect: Callable[[], Any]) -> None:
    zk = connect()
    paths = [f"{HOT}/{number}" for number in range(HOT_CHILDREN)]
    _make(zk, paths)
    while True:
        for done in [zk.set_async(path, b"x") for path in paths]:
            done.get()
        time.sleep(2 * PERIOD_S)


def full(connect: Callable[[], Any]) -> None:
    """More requests are on their way than the server takes at once; each znode's go one by one."""
    zk = connect()
    paths = [f"{HOT}/{number}" for number in range(OUTSTANDING)]
    for done in [zk.create_async(path, makepath=True) for path in paths]:
        done.get()
    room = threading.Semaphore(OUTSTANDING)
    for path in itertools.cycle(paths):
        room.acquire()
        zk.set_async(path, b"x").rawlink(lambda _: room.release())


def ephemerals(connect: Callable[[], Any]) -> None:
    zk = connect()
    zk.ensure_path("/members")
    for _ in range(0, EPHEMERALS, AT_ONCE):
        for done in [zk.create_async("/members/m", ephemeral=True, sequence=True) for _ in range(AT_ONCE)]:
            done.get()


def sessions(connect: Callable[[], Any]) -> None:
    """A program that makes a client for each task, and forgets it."""
    for _ in range(SESSIONS):
        connect().join()


def watches(connect: Callable[[], Any]) -> None:
    zk = connect()
    zk.ensure_path("/seen")
    for first in range(0, WATCHES // OF_A_MISSING, AT_ONCE):
        for done in [zk.exists_async(f"/seen/{first + each}", watch=print) for each in range(AT_ONCE)]:
            done.get()


def _make(zk: Any, paths: list[str]) -> None:
    for path in paths:
        zk.ensure_path(path)


ROLES: Mapping[str, Callable[[Callable[[], Any]], None]] = {
    each.__name__: each for each in (calm, hot, full, ephemerals, sessions, watches)
}
PLAIN = "plain"  # as calm, by kazoo


def main() -> None:
    hosts, role = sys.argv[1:]
    kept = []  # a client that nobody has any more would end

    def connect() -> Any:
        zk = KazooClient(hosts) if role == PLAIN else ParKazooClient(hosts, timeout=SESSION_TIMEOUT_S)
        zk.start(timeout=START_TIMEOUT_S)
        kept.append(zk)
        return zk

    work = calm if role == PLAIN else ROLES[role]
    threading.Thread(target=work, args=[connect], daemon=True).start()
    sys.stdin.read()
    os._exit(0)  # its sessions are left to expire, as a killed program leaves them


if __name__ == "__main__":
    main()
