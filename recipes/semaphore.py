"""Semaphore: at most `max_leases` clients at a time.

Promise    Among clients whose session lives, at most `max_leases` hold a lease. If a holder's session ends,
           its lease is free again. All must name the same `max_leases`; otherwise ValueError is raised.
SUSPENDED  The lease may still be ours, or go to another client as soon as the servers end the session: stop
           what needs it until CONNECTED or LOST comes.
LOST       The lease is gone, whatever `is_acquired` says. Acquire again.
"""

from __future__ import annotations

import threading

from _clients import TIMEOUT_S, clients, expect, together

from parkazoo import ParKazooClient

LEASES = 2
inside: set[str] = set()
counts: list[int] = []  # how many were inside, each time that a client entered
count = threading.Lock()
meet = threading.Barrier(LEASES)  # so that every lease is in use at some time


def work(name: str, client: ParKazooClient) -> None:
    semaphore = client.Semaphore("/printers", name, max_leases=LEASES)
    semaphore.acquire(timeout=TIMEOUT_S)  # or `with semaphore:`, which waits for ever
    try:
        with count:
            inside.add(name)
            counts.append(len(inside))
        meet.wait(TIMEOUT_S)
        print("holders now:", *semaphore.lease_holders(), sep="  ")
    finally:
        with count:
            inside.discard(name)
        semaphore.release()


def main() -> None:
    with clients(2 * LEASES) as (anna, ben, carl, dora):
        together(work, anna=anna, ben=ben, carl=carl, dora=dora)
        print(f"{len(counts)} clients have worked, never more than {max(counts)} at a time")
        expect(max(counts) == LEASES, f"{LEASES} clients hold a lease at the same time, and no more")


if __name__ == "__main__":
    main()
