"""asyncio's Queue: gives each item once, lowest priority number first, then in the order in which they were put.

Promise    No two get the same item. An item is removed before the work on it: it is lost with a client that
           crashes meanwhile. Where that matters, use LockingQueue.
SUSPENDED  `get` and `put` wait for the connection. If an answer was lost, the client finds out whether it was
           done.
LOST       What is under way raises SessionExpiredError, which says so if an item may have been taken or put. The
           items are plain znodes and stay.

A `get` that is cancelled loses nothing: the object keeps the item for its next `get`. So keep the object. A `put`
that is cancelled may have put its item. `get` returns None at once if the queue is empty.
"""

from __future__ import annotations

import asyncio

from _aio_clients import clients, run
from _clients import expect

from parkazoo.aio import ParKazooClient

ITEMS = 60
END = b"end"
HASTE_S = 0.003


async def take_all(name: str, zk: ParKazooClient) -> list[int]:
    """Take items as they come, until the end, which stays for the others."""
    queue, cancelled = zk.Queue("/jobs"), 0
    items: list[int] = []
    async with zk.watch_children("/jobs") as changes:
        async for _ in changes:
            item: bytes | None = b""
            while item is not None:
                try:
                    async with asyncio.timeout(HASTE_S):
                        item = await queue.get()
                except TimeoutError:
                    cancelled += 1
                    continue
                if item == END:
                    await queue.put(END, priority=999)
                    print(name, "got", len(items), "items, though", cancelled, "calls of get were cancelled")
                    return items
                if item is not None:
                    items.append(int(item))
    return items


async def main() -> None:
    async with clients(3) as (anna, ben, carla):
        async with asyncio.TaskGroup() as tasks:
            takers = [tasks.create_task(take_all("anna", anna)), tasks.create_task(take_all("ben", ben))]
            queue = carla.Queue("/jobs")
            await asyncio.gather(*(queue.put(b"%d" % number) for number in range(ITEMS)))
            await queue.put(END, priority=999)  # the others have 100
        items = [item for taker in takers for item in taker.result()]
        expect(sorted(items) == list(range(ITEMS)), "every item is given once")
        expect(await queue.qsize() == 1, "nothing is left but the end")


if __name__ == "__main__":
    run(main())
