"""The machine: what it is, and what else it does while something is measured."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil

from bench import ROOT

CPUINFO = Path("/proc/cpuinfo")


def describe_machine() -> dict[str, Any]:
    return {
        "processor": _processor(),
        "processors": os.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "system": platform.platform(),
    }


def _processor() -> str:
    with suppress(OSError):
        for line in CPUINFO.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def describe_versions() -> dict[str, str]:
    return {
        "python": sys.version.split()[0],
        "kazoo": version("kazoo"),
        "commit": commit_of(ROOT),
    }


def commit_of(checkout: Path) -> str:
    """Its commit, with "+changes" if there are any; empty where git knows none."""
    return _git(checkout, "rev-parse", "HEAD") + ("+changes" if _git(checkout, "status", "--porcelain") else "")


def _git(checkout: Path, *arguments: str) -> str:
    try:
        answer = subprocess.run(
            ["git", *arguments], cwd=checkout, capture_output=True, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return answer.stdout.strip()


@dataclass
class Processors:
    """Adds up how busy the processors are while turns are taken. Times are seconds of all processors together.

    :param servers: the process ids of the servers.
    :param own_s: what the servers have used, and what is added from outside for the sides.
    """

    servers: Sequence[int]
    total_s: float = 0.0
    busy_s: float = 0.0
    own_s: float = 0.0

    def __enter__(self) -> Processors:
        self._before = *total_and_busy(), self._servers_s()
        return self

    def __exit__(self, *_: object) -> None:
        total_s, busy_s = total_and_busy()
        self.total_s += total_s - self._before[0]
        self.busy_s += busy_s - self._before[1]
        self.own_s += self._servers_s() - self._before[2]

    def _servers_s(self) -> float:
        return sum(map(cpu_s, self.servers))

    @property
    def busy_share(self) -> float:
        """0 to 1."""
        return self.busy_s / self.total_s if self.total_s else 0.0

    @property
    def others_share(self) -> float:
        """What was used by neither sides nor servers, 0 to 1."""
        return max(0.0, self.busy_s - self.own_s) / self.total_s if self.total_s else 0.0


def cpu_s(pid: int) -> float:
    """Processor time of a process since its start, user and system."""
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def total_and_busy() -> tuple[float, float]:
    """Seconds of all processors together since the machine was started: all of them, and the busy ones."""
    times = psutil.cpu_times()
    idle = times.idle + getattr(times, "iowait", 0.0)
    total = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)  # user has guests in it
    return total, total - idle
