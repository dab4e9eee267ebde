"""A client that makes ephemerals and dies of it: python -m tests.faults.killed HOSTS TIMEOUT PATH ..."""

from __future__ import annotations

import os
import signal
import sys

from parkazoo import ParKazooClient

LIFE_S = 10


def main() -> None:
    hosts, timeout_s, *paths = sys.argv[1:]
    signal.alarm(LIFE_S)  # if the servers do not answer
    client = ParKazooClient(hosts, timeout=float(timeout_s))
    client.start()
    for path in paths:
        client.create(path, ephemeral=True)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
