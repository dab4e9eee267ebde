"""asyncio's deferred writes: many writes that need not be waited for.

Promise    What is done is a prefix of what was issued, on each ensemble, and each write is done once. After the
           barrier all of it is durable, and visible to all clients; before, nothing need be.
SUSPENDED  What is pending waits for the servers, and goes on then. Nothing is done twice.
LOST       Nothing more is done. The tickets say what was.

`await later.put(...)` issues, and returns a ticket; it waits only while `max_pending` writes are pending. `await
ticket` waits for the outcome, and raises its error. The end of `async with` is a barrier. If the block is
cancelled, the client sends what was issued, but nobody waits for it.
"""

from __future__ import annotations

import asyncio

from _aio_clients import clients, run
from _clients import expect

from parkazoo import DeferredError
from parkazoo.aio import ParKazooClient

FOLDERS = "/oak", "/elm", "/ash"
MANY = 500  # of each task


async def count(zk: ParKazooClient, folder: str) -> int:
    """How many it sees itself before the barrier."""
    await zk.ensure_path(folder)
    async with zk.deferred() as later:
        for number in range(MANY):
            await later.add(f"{folder}/{number:04}", b"1")
        last = await later.put(f"{folder}/{number:04}", b"2")
        await last  # this one only; those before it in this folder are done too
        return len(await zk.get_children(folder))


async def main() -> None:
    async with clients(2) as (anna, ben):
        counts = await asyncio.gather(*(count(anna, folder) for folder in FOLDERS))
        expect({*counts} == {MANY}, "what was issued before is done before")
        for folder in FOLDERS:
            await ben.sync(folder)
            seen = len(await ben.get_children(folder))
            print("ben sees", seen, "counts of", folder)
            expect(seen == MANY, "after the barrier all clients see them")
        try:
            async with anna.deferred() as later:
                tickets = [await later.put(f"/oak/{name}", b"3") for name in ("0000", "none", "0001")]
        except DeferredError as error:
            print(error)
        states = [ticket.state for ticket in tickets]
        expect(states == ["committed", "failed", "dropped"], "what is done is a prefix")


if __name__ == "__main__":
    run(main())
