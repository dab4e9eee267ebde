"""asyncio's DoubleBarrier: none begins before all are there, and none goes before all are done.

Promise    `async with` enters when `num_clients` members have entered, and leaves when all have left. A member
           whose session ends counts as one that has left.
SUSPENDED  Entering and leaving wait for the connection. The body goes on; others may leave without this member as
           soon as the servers end the session.
LOST       Who is entering enters anew. Who is inside counts as gone, and is not cancelled; leaving still waits
           for the others.

Who is cancelled on the way in is withdrawn: it is not counted among those that are there. A cancelled leave goes
on by itself.
"""

from __future__ import annotations

import asyncio

from _aio_clients import clients, run
from _clients import expect

from parkazoo.aio import ParKazooClient

MEMBERS = 3
begun: list[str] = []
done: list[str] = []


async def take_part(name: str, zk: ParKazooClient) -> int:
    """How many were done when it went."""
    async with zk.DoubleBarrier("/round", MEMBERS, name):
        begun.append(name)
        await asyncio.sleep(0.02 * len(begun))  # the work, of another length for each
        done.append(name)
    return len(done)


async def count_to(number: int, zk: ParKazooClient) -> None:
    """Wait until so many members are there."""
    async with zk.watch_children("/round") as states:
        async for names in states:
            if len(names or ()) == number:
                return


async def main() -> None:
    async with clients(MEMBERS) as (anna, ben, carla):
        annas = asyncio.create_task(take_part("anna", anna))
        bens = asyncio.create_task(take_part("ben", ben))
        await count_to(2, carla)
        bens.cancel()
        await count_to(1, carla)
        print("ben has come, and was cancelled")
        carlas = asyncio.create_task(take_part("carla", carla))
        await count_to(2, ben)
        expect(not begun, "two are not enough: nobody begins")
        seen = await asyncio.gather(annas, take_part("ben", ben), carlas)
        print(f"{MEMBERS} members were inside together; as each left, {seen} were done")
        expect({*seen} == {MEMBERS}, "nobody leaves before all are done")


if __name__ == "__main__":
    run(main())
