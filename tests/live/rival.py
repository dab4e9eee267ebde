"""Acquires locks, and prints the path of each when it has it: python -m tests.live.rival HOSTS TIMEOUT PATH ..."""

from __future__ import annotations

import signal
import sys
import threading
from typing import Any

from parkazoo import ParKazooClient


def main() -> None:
    hosts, timeout_s, *paths = sys.argv[1:]
    client = ParKazooClient(hosts, timeout=float(timeout_s), randomize_hosts=False)
    client.start()

    def acquire(lock: Any) -> None:
        lock.acquire()
        print(lock.path, flush=True)

    for path in paths:
        threading.Thread(target=acquire, args=(client.Lock(path),), daemon=True).start()
    print("asking", flush=True)
    signal.pause()  # until it is killed


if __name__ == "__main__":
    main()
