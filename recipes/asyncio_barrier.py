"""asyncio's Barrier: all wait until one opens it.

Promise    `wait` returns only after the barrier was removed. The barrier is a plain znode: it stays when the
           session of its creator ends.
SUSPENDED  `wait` waits for the connection, and looks again: it misses no removal.
LOST       The same. Only `zk.stop()` ends it, with ConnectionClosedError.

There is no timeout to give: `asyncio.timeout` limits a `wait`, and leaves no watch behind.
"""

from __future__ import annotations

import asyncio

from _aio_clients import clients, run
from _clients import expect

from parkazoo.aio import ParKazooClient


async def pass_gate(name: str, zk: ParKazooClient, is_open: asyncio.Event) -> bool:
    """Whether it was open when this passed."""
    await zk.Barrier("/gate").wait()
    print(name, "has passed")
    return is_open.is_set()


async def main() -> None:
    async with clients(3) as (guard, anna, ben):
        gate, is_open = guard.Barrier("/gate"), asyncio.Event()
        await gate.create()
        try:
            async with asyncio.timeout(0.2):
                await pass_gate("anna", anna, is_open)
            expect(False, "the barrier stands")
        except TimeoutError:
            print("the barrier stands")
        async with asyncio.TaskGroup() as tasks:
            passing = [tasks.create_task(pass_gate(*each, is_open)) for each in (("anna", anna), ("ben", ben))]
            is_open.set()  # before the removal, so that who passes finds it set
            expect(await gate.remove(), "it was there to be removed")
        expect(all(task.result() for task in passing), "nobody passes before it is removed")
        async with asyncio.timeout(30):
            await pass_gate("the guard, who comes later,", guard, is_open)


if __name__ == "__main__":
    run(main())
