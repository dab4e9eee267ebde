"""Queue: gives each item once, lowest priority number first, then in the order in which they were put.

Promise    No two clients get the same item. An item is removed before the work on it: it is lost with a client
           that crashes meanwhile. Where that matters, use LockingQueue.
SUSPENDED  `get` and `put` are retried until the connection is back. If an answer was lost, the client finds out
           whether it was done (with kazoo's client such an item is lost, or put twice).
LOST       What is under way raises SessionExpiredError, which says so if an item may have been taken or put. The
           items are plain znodes and stay.

`get` returns None at once if the queue is empty.
"""

from __future__ import annotations

from _clients import clients, expect, together

from parkazoo import ParKazooClient

ITEMS = 100


def take_all(name: str, client: ParKazooClient) -> list[int]:
    queue = client.Queue("/jobs")
    items = []
    while (item := queue.get()) is not None:
        items.append(int(item))
    print(name, "got", len(items), "items")
    return items


def main() -> None:
    with clients(2) as (anna, ben):
        queue = anna.Queue("/jobs")
        for number in range(1, ITEMS):
            queue.put(b"%d" % number)
        queue.put(b"0", priority=1)  # the others have 100
        first = ben.Queue("/jobs").get()
        print("first comes", first, "which was put last, with priority 1")
        expect(first == b"0", "the lowest priority number comes first")

        annas, bens = together(take_all, anna=anna, ben=ben)
        expect(sorted(annas + bens) == list(range(1, ITEMS)), "every item is given once")
        # a client that lists the queue once and then takes from that list, as kazoo's does, keeps to its order
        expect(annas == sorted(annas) and bens == sorted(bens), "items come in the order in which they were put")


if __name__ == "__main__":
    main()
