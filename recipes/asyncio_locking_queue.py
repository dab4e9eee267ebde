"""asyncio's LockingQueue: an item is locked during the block, and removed at its end.

Promise    An item that was put is never lost, and never given to two while the session of its holder lives. The
           end of the block consumes it. If the block raises, is cancelled, or its session ends, it comes back.
SUSPENDED  Nothing happens to the block. The item may go to another client as soon as the servers end the session.
LOST       The block is cancelled, and raises LockLostError. The item is another client's now, or will be.

So two may work on one item, one that was cut off and the next one: make the work repeatable. `entry` waits for an
item: cancel a worker that is to end, or limit it by `asyncio.timeout`.
"""

from __future__ import annotations

import asyncio

from _aio_clients import clients, end_session, run
from _clients import expect

from parkazoo.aio import LockLostError, ParKazooClient

ITEMS = 12


async def work(zk: ParKazooClient, done: list[bytes]) -> None:
    """Until it is cancelled."""
    queue = zk.LockingQueue("/parcels")
    while True:
        async with queue.entry() as item:
            await asyncio.sleep(0.01)  # the work
            done.append(item)  # a cancel strikes before this, or not in the block: no await follows


async def hold(zk: ParKazooClient, has_it: asyncio.Event) -> None:
    async with zk.LockingQueue("/parcels").entry() as item:
        print("carla has", item)
        has_it.set()
        await asyncio.Event().wait()  # work without end


async def main() -> None:
    async with clients(3) as (anna, ben, carla):
        queue, has_it = anna.LockingQueue("/parcels"), asyncio.Event()
        await queue.put_all([b"%d" % number for number in range(ITEMS)])
        holding = asyncio.create_task(hold(carla, has_it))
        await has_it.wait()
        await end_session(carla)
        result = (await asyncio.gather(holding, return_exceptions=True))[0]
        print("her session has ended:", repr(result))
        expect(isinstance(result, LockLostError), "the block is cancelled")

        done: list[bytes] = []
        workers = [asyncio.create_task(work(zk, done)) for zk in (anna, ben, ben, carla)]
        while len(done) < ITEMS // 2:
            await asyncio.sleep(0.01)
        workers[0].cancel()  # perhaps in the middle of an item
        while await queue.qsize():
            await asyncio.sleep(0.05)
        for worker in workers:
            worker.cancel()
        await asyncio.wait(workers)
        print("done are", *sorted(map(int, done)))
        expect(sorted(map(int, done)) == list(range(ITEMS)), "every item is done once")


if __name__ == "__main__":
    run(main())
