"""asyncio's SetPartitioner: `async for` gives this member's share of a set, and the next one when members change.

Promise    From one turn of the loop until `wait_for_release` returns, one member alone holds each item. Every item
           has a holder once the members have been the same for `time_boundary` seconds.
SUSPENDED  `wait_for_release` returns: stop the work on the share. The next turn releases it, and divides anew.
LOST       The same, and the next turn raises LockLostError: make a new SetPartitioner, as below.

`async with` releases the share and leaves at its end, also where it is cancelled. The workers of a share are a
TaskGroup's: it ends when they have ended.
"""

from __future__ import annotations

import asyncio
from typing import NoReturn

from _aio_clients import clients, end_session, run
from _clients import expect

from parkazoo.aio import LockLostError, ParKazooClient

TREES = {"oak", "elm", "ash", "fir", "yew", "bay"}
STABLE_S = 0.5
holders: dict[str, list[str]] = {tree: [] for tree in TREES}  # who is at work on each
at_work: list[int] = []  # how many were, each time that one began


async def water(name: str, tree: str) -> NoReturn:
    """Work on one item, until that is cancelled."""
    holders[tree].append(name)
    at_work.append(len(holders[tree]))
    try:
        while True:
            await asyncio.sleep(0.02)  # the work
    finally:
        holders[tree].remove(name)


async def take_part(name: str, zk: ParKazooClient) -> None:
    """Work on this member's share, whatever it is, until that is cancelled."""
    while True:
        partitioner = zk.SetPartitioner("/trees", TREES, identifier=name, time_boundary=STABLE_S)
        try:
            async with partitioner:
                async for share in partitioner:
                    print(name, "has", *share)
                    async with asyncio.TaskGroup() as workers:
                        tasks = [workers.create_task(water(name, tree)) for tree in share]
                        await partitioner.wait_for_release()
                        for task in tasks:
                            task.cancel()
        except LockLostError:
            print(name, "has lost its session")


async def divided(*names: str) -> None:
    """Wait until these members, and no others, are at work on all items."""
    async with asyncio.timeout(60):
        while {*names} != {name for each in holders.values() for name in each} or not all(holders.values()):
            await asyncio.sleep(0.05)


async def main() -> None:
    async with clients(2) as (anna, ben), asyncio.TaskGroup() as members:
        annas = members.create_task(take_part("anna", anna))
        bens = members.create_task(take_part("ben", ben))
        await divided("anna", "ben")
        await end_session(ben)
        await divided("anna", "ben")
        annas.cancel()
        await divided("ben")
        bens.cancel()
    expect({*at_work} == {1}, "one member holds each item")


if __name__ == "__main__":
    run(main())
