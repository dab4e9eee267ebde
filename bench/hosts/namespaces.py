"""Network namespaces by their names, as ``ip netns`` keeps them: one for each emulated host, and the switch."""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench.lab import LabError

NAMES = Path("/run/netns")
CLONE_NEWNET = 0x40000000  # linux/sched.h


def switch_of(emulation: str) -> str:
    return f"{emulation}-switch"


def network_of(emulation: str, host: str) -> str:
    return f"{emulation}-{host}"


def connect(name: str, address: str, port: int, timeout_s: float) -> socket.socket:
    """A connection that leaves from a namespace.

    A socket stays in the namespace in which it was made, and a namespace is a thread's matter: a thread goes there.

    :raises OSError: as socket.create_connection does, or there is no such namespace.
    """
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(_connect, name, address, port, timeout_s).result()


def _connect(name: str, address: str, port: int, timeout_s: float) -> socket.socket:
    namespace = os.open(NAMES / name, os.O_RDONLY | os.O_CLOEXEC)
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.setns(namespace, CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"this user may not enter the network {name}: use root")
    finally:
        os.close(namespace)
    return socket.create_connection((address, port), timeout_s)


def run(*command: str, stdin: str = "") -> str:
    """
    :raises LabError: the command fails.
    """
    ended = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise LabError(f"{' '.join(command)}: {ended.stderr.strip()}")
    return ended.stdout
