"""SetPartitioner: divides a set among its clients, and again when a client comes or goes.

Promise    In the state `acquired`, one client alone holds each item, guarded by a Lock. Every item has a holder
           once the number of clients has been stable for `time_boundary` seconds.
SUSPENDED  The state becomes `release`: stop work and call `release_set()`, as below.
LOST       The state becomes `failed`, for good: make a new SetPartitioner.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from _clients import TIMEOUT_S, clients, expect, together
from kazoo.recipe.partitioner import SetPartitioner

from parkazoo import ParKazooClient

QUEUES = {"oak", "elm", "ash", "fir", "yew", "bay"}
STABLE_S = 0.5
is_divided = threading.Barrier(2)


def wait_share(partitioner: SetPartitioner, is_enough: Callable[[set[str]], bool]) -> set[str]:
    """Follow the states until our share is as wanted. Real workers run this loop for ever, with work in it."""
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline and not partitioner.failed:
        if partitioner.release:
            partitioner.release_set()
        elif partitioner.allocating:
            partitioner.wait_for_acquire(timeout=1)
        elif is_enough(set(partitioner)):
            return set(partitioner)
        else:
            time.sleep(0.05)  # a round of work on our share
    return set()


def main() -> None:
    def take_part(name: str, client: ParKazooClient) -> set[str]:
        partitioner = client.SetPartitioner("/queues", QUEUES, identifier=name, time_boundary=STABLE_S)
        share = wait_share(partitioner, lambda share: 0 < len(share) < len(QUEUES))
        print(name, "has", *sorted(share))
        is_divided.wait(TIMEOUT_S)
        if name == "ben":
            partitioner.finish()
            return share
        rest = wait_share(partitioner, lambda share: share == QUEUES)
        print("ben has gone; anna has", *sorted(rest))
        expect(rest == QUEUES, "the client that stays gets the other one's items")
        return share

    with clients(2) as (anna, ben):
        annas, bens = together(take_part, anna=anna, ben=ben)
        expect(annas | bens == QUEUES and not annas & bens, "each item is held by one client")


if __name__ == "__main__":
    main()
