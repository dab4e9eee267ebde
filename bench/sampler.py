"""``python -m bench.sampler HOSTS``: print what hosts do, a line of JSON each second, until stdin ends.

HOSTS is JSON:

    {"below": PID, "card": NAME}        one host: the processes that PID has started, and a network card
    {"networks": {HOST: INODE, ...}}    emulated hosts, as seen from their switch: by the inodes of their network
                                        namespaces

A line has `time_s`, since the epoch; `cost_s`, the processor time that the sampler has taken so far; and of each
host the values of COLUMNS. CPU, disk and network count from whenever they began.
"""

from __future__ import annotations

import json
import os
import select
import sys
import time
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress

import psutil

from bench.machine import total_and_busy

PERIOD_S = 1.0
# Of a host's processes: seconds of processors, and resident bytes. Of its network card: bytes. Of its disk: bytes
# that were read and written; for an emulated host, whose disk is memory, the bytes that its files take.
COLUMNS = ("cpu_s", "memory_bytes", "received_bytes", "sent_bytes", "disk_bytes")
Rows = dict[str, list[float]]
ENDED = psutil.Error, OSError  # a process that ends while it is looked at


class Processes(ABC):
    """The processes of some hosts. What those have used that have ended counts on."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[str, psutil.Process] | None] = {}  # None: of no host
        self._used_s: dict[int, float] = {}
        self._ended_s: defaultdict[str, float] = defaultdict(float)

    @abstractmethod
    def find_host(self, pid: int) -> str | None:
        """
        :raises Exception: of ENDED.
        """

    def look(self) -> dict[str, list[float]]:
        """Of each host the seconds of processors that its processes have used, and their memory."""
        there = {*psutil.pids()}
        for pid in self._known.keys() - there:
            if known := self._known.pop(pid):
                self._ended_s[known[0]] += self._used_s.pop(pid, 0.0)
        for pid in sorted(there - self._known.keys()):  # parents before their children
            self._known[pid] = None
            with suppress(*ENDED):
                if host := self.find_host(pid):
                    self._known[pid] = host, psutil.Process(pid)
        found = {host: [used_s, 0.0] for host, used_s in self._ended_s.items()}
        for host, process in self.running():
            row = found.setdefault(host, [0.0, 0.0])
            with suppress(*ENDED):
                cpu = process.cpu_times()
                self._used_s[process.pid] = cpu.user + cpu.system
                row[1] += process.memory_info().rss
            row[0] += self._used_s.get(process.pid, 0.0)
        return found

    def running(self) -> Iterator[tuple[str, psutil.Process]]:
        """Each process with its host."""
        yield from (known for known in self._known.values() if known)


class Below(Processes):
    """What a process has started, as one host, with a network card that it shares with all others.

    :param root: that process, which itself does not count, nor does this one.
    """

    HOST = "this machine"

    def __init__(self, root: int, card: str) -> None:
        super().__init__()
        self._root = root
        self._card = card
        self._disk: dict[int, int] = {}

    def find_host(self, pid: int) -> str | None:
        if pid in (self._root, os.getpid()):
            return None
        parent = psutil.Process(pid).ppid()
        return self.HOST if parent == self._root or self._known.get(parent) else None

    def rows(self) -> Rows:
        used = self.look().get(self.HOST, [0.0, 0.0])
        for _, process in self.running():
            with suppress(*ENDED):
                done = process.io_counters()
                self._disk[process.pid] = done.read_bytes + done.write_bytes
        card = psutil.net_io_counters(pernic=True)[self._card]
        return {self.HOST: [*used, card.bytes_recv, card.bytes_sent, sum(self._disk.values())]}


class Emulated(Processes):
    """Emulated hosts. Their network cards end at the switch, by their names.

    :param networks: of each host, the inode of its network namespace.
    """

    def __init__(self, networks: Mapping[str, int]) -> None:
        super().__init__()
        self._hosts = {inode: host for host, inode in networks.items()}
        self._inside: dict[str, int] = {}  # of each host a process that sees its files
        self._outside = os.stat("/").st_dev  # noqa: PTH116

    def find_host(self, pid: int) -> str | None:
        host = self._hosts.get(os.stat(f"/proc/{pid}/ns/net").st_ino)  # noqa: PTH116 - many, each second
        if host and os.stat(f"/proc/{pid}/root/").st_dev != self._outside:  # noqa: PTH116
            self._inside.setdefault(host, pid)
        return host

    def rows(self) -> Rows:
        rows: Rows = {}
        cards = psutil.net_io_counters(pernic=True)
        for host, used in self.look().items():
            files = 0.0
            if pid := self._inside.get(host):
                with suppress(*ENDED):
                    files = psutil.disk_usage(f"/proc/{pid}/root").used
            rows[host] = [*used, cards[host].bytes_sent, cards[host].bytes_recv, files]
        return rows


def whole_machine(host: str, card: str) -> Rows:
    """This machine, as a host of its own."""
    done, carried = psutil.disk_io_counters(), psutil.net_io_counters(pernic=True)[card]
    disk = done.read_bytes + done.write_bytes if done else 0
    used = psutil.virtual_memory().used
    return {host: [total_and_busy()[1], used, carried.bytes_recv, carried.bytes_sent, disk]}


def sample(look: Callable[[], Rows]) -> None:
    """Print a line each whole second, so that those of several hosts are of the same time, until stdin ends."""
    while not select.select([sys.stdin], [], [], PERIOD_S - time.time() % PERIOD_S)[0]:
        line = {"time_s": round(time.time(), 3), "cost_s": round(time.process_time(), 4), "hosts": look()}
        print(json.dumps(line), flush=True)


def main(text: str) -> None:
    asked = json.loads(text)
    hosts = Emulated(asked["networks"]) if "networks" in asked else Below(asked["below"], asked["card"])
    sample(hosts.rows)


if __name__ == "__main__":
    main(sys.argv[1])
