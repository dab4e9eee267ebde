"""Network namespaces by their names, as ``ip netns`` keeps them: one for each emulated host, and the switch."""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

from bench.lab import LabError

NAMES = Path("/run/netns")
CLONE_NEWNET = 0x40000000  # linux/sched.h
DISABLED, FORWARDING = "0", "3"  # the state of a bridge's port, linux/if_bridge.h

T = TypeVar("T")


def switch_of(emulation: str) -> str:
    return f"{emulation}-switch"


def network_of(emulation: str, host: str) -> str:
    return f"{emulation}-{host}"


def inside(name: str, work: Callable[[], T]) -> T:
    """Work in a namespace, in which the sockets that are made there stay.

    :raises OSError: there is no such namespace, or this user may not enter it; or as `work` does.
    """

    def enter() -> T:
        namespace = os.open(NAMES / name, os.O_RDONLY | os.O_CLOEXEC)
        try:
            libc = ctypes.CDLL(None, use_errno=True)
            if libc.setns(namespace, CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        finally:
            os.close(namespace)
        return work()

    with ThreadPoolExecutor(1) as pool:  # a namespace is a thread's matter, and this thread has its own
        return pool.submit(enter).result()


def connect(name: str, address: str, port: int, timeout_s: float) -> socket.socket:
    """A connection that leaves from a namespace.

    :raises OSError: as `inside`, or as socket.create_connection does.
    """
    return inside(name, partial(socket.create_connection, (address, port), timeout_s))


def run(*command: str, stdin: str = "") -> str:
    """
    :raises LabError: the command fails.
    """
    ended = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise LabError(f"{' '.join(command)}: {ended.stderr.strip()}")
    return ended.stdout
