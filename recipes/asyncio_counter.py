"""asyncio's Counter: a number that all tasks of all clients add to.

Promise    Each `add` is done once, on top of all the others. It reads, adds and writes with the version that it
           has read, and begins again if another was faster.
SUSPENDED  An addition under way waits for the connection. If its answer was lost, the client finds out whether it
           was done.
LOST       An addition under way raises SessionExpiredError, which says so if it may have been done. The number
           itself is a plain znode and stays.

An addition that is cancelled may be done or not, but never twice; so it is if `asyncio.timeout` ends it.
"""

from __future__ import annotations

import asyncio

from _aio_clients import clients, run
from _clients import expect

from parkazoo.aio import ParKazooClient

TASKS = 3  # of each client
ADDITIONS = 5  # of each task


async def count(zk: ParKazooClient) -> None:
    counter = zk.Counter("/visitors")
    for _ in range(ADDITIONS):
        await counter.add(1)


async def main() -> None:
    async with clients(2) as (anna, ben):
        async with asyncio.TaskGroup() as tasks:
            for _ in range(TASKS):
                tasks.create_task(count(anna))
                tasks.create_task(count(ben))
        total = await anna.Counter("/visitors").value()
        print(2 * TASKS, "tasks have counted to", total)
        expect(total == 2 * TASKS * ADDITIONS, "no addition is lost")

        hasty = [asyncio.create_task(anna.Counter("/visitors").add(1000)) for _ in range(TASKS)]
        while not any(task.done() for task in hasty):
            await asyncio.sleep(0)
        cancelled = [task.cancel() for task in hasty].count(True)
        await asyncio.wait(hasty)
        await anna.sync("/visitors")
        after = await ben.Counter("/visitors").add(1)
        done, ones = divmod(after, 1000)
        print(f"of {TASKS} additions {cancelled} were cancelled, and {done} done")
        expect(ones == total + 1 and TASKS - cancelled <= done <= TASKS, "a cancelled one is done once, or not")


if __name__ == "__main__":
    run(main())
