"""asyncio's Spread: one flat directory whose children are on all ensembles.

Promise    A child is a znode like any other: created once, with versions, ephemeral if wanted. A listing has each
           child that was there from its beginning to its end. A watch is called once when any child comes or goes.
SUSPENDED  As for every znode: ephemeral children may go as soon as the servers end the session.
LOST       Ephemeral children are gone, on all ensembles; a watch has heard of it.

A watch is a plain function, which the loop calls; a cancelled listing leaves none. Many creates may be under way
at a time, as below: each goes to the ensemble of its bucket.
"""

from __future__ import annotations

import asyncio
from functools import partial

from _aio_clients import clients, end_session, run
from _clients import expect
from kazoo.protocol.states import WatchedEvent

from parkazoo.aio import ParKazooClient

BUCKETS, EACH = 16, 50


async def join(name: str, zk: ParKazooClient) -> None:
    members = zk.Spread("/members", BUCKETS)
    await asyncio.gather(*(members.create(f"{name}-{number}", ephemeral=True) for number in range(EACH)))


def tell(has_changed: asyncio.Event, event: WatchedEvent) -> None:
    has_changed.set()


async def see(number: int, zk: ParKazooClient) -> list[str]:
    """The names of the members, when there are so many."""
    members = zk.Spread("/members", BUCKETS)
    async with asyncio.timeout(60):
        while True:
            has_changed = asyncio.Event()
            names = await members.get_children(partial(tell, has_changed))
            print("there are", len(names), "members")
            if len(names) == number:
                return names
            await has_changed.wait()


async def main() -> None:
    async with clients(3) as (anna, ben, carla):
        async with asyncio.TaskGroup() as tasks:
            seeing = tasks.create_task(see(2 * EACH, carla))
            tasks.create_task(join("anna", anna))
            tasks.create_task(join("ben", ben))
        expect(len({*seeing.result()}) == 2 * EACH, "one watch hears of all buckets, and each is listed once")
        await end_session(anna)
        left = await see(EACH, carla)
        expect(all(name.startswith("ben") for name in left), "anna's are gone, wherever they were")


if __name__ == "__main__":
    run(main())
