"""asyncio's DistributedDict: a dict that several processes share.

Promise    A write is done once when it returns, or its error says that nobody knows. Reads are of a copy that
           watches keep, and send nothing. `changes()` tells of the last state of each key. An update is never
           lost with compare_and_set.
SUSPENDED  Reads answer from the copy, which is_stale then. Writes wait.
LOST       The copy is read anew, and what has changed is told. A write under way raises OutcomeUnknown if it may
           have been done. Ephemeral entries, those of a membership table, are gone.

A write that is cancelled may be done, or be done later, but never twice.
"""

from __future__ import annotations

import asyncio

from _aio_clients import clients, end_session, run
from _clients import expect

from parkazoo.aio import ParKazooClient

VISITS = 20


async def count(zk: ParKazooClient) -> None:
    """Add to what others add to."""
    async with zk.DistributedDict("/settings") as settings:
        added = 0
        while added < VISITS:
            visits, version = settings.get_with_version("visits")
            added += await settings.compare_and_set("visits", version, visits + 1)  # False if another was faster


async def follow(zk: ParKazooClient, is_open: asyncio.Event) -> list[int]:
    """The numbers of visits that it hears of, until somebody says `stop`."""
    heard = []
    async with zk.DistributedDict("/settings") as settings:
        is_open.set()
        async for key, _, new, _ in settings.changes():
            if key == "visits":
                heard.append(new)
            if "stop" in settings:
                break
    return heard


async def main() -> None:
    async with clients(3) as (anna, ben, carla), asyncio.timeout(120):
        async with anna.DistributedDict("/settings") as settings, asyncio.TaskGroup() as tasks:
            await settings.update(hello="world", visits=0)
            is_open = asyncio.Event()
            following = tasks.create_task(follow(carla, is_open))
            await is_open.wait()
            await asyncio.gather(count(anna), count(ben))
            await settings.set("stop", True)
            print(await settings.snapshot())
            expect((await settings.snapshot())["visits"] == 2 * VISITS, "no update is lost")
        heard = following.result()
        print("carla has heard of", len(heard), "of", 2 * VISITS, "visits, the last", heard[-1])
        expect(heard == sorted(heard), "the changes of a key come in order")

        async with (
            anna.DistributedDict("/members", ephemeral=True) as annas,
            ben.DistributedDict("/members", ephemeral=True) as bens,
        ):
            await asyncio.gather(annas.set("anna", 1), bens.set("ben", 2))
            print("members:", sorted(await annas.snapshot()))
            expect(sorted(await annas.snapshot()) == ["anna", "ben"], "both are there")
            changes = annas.changes()
            await end_session(ben)
            async for key, _, new, _ in changes:
                if key == "ben" and new is None:
                    break
            print("members:", sorted(annas))
            expect(sorted(annas) == ["anna"], "ben is gone with his session")


if __name__ == "__main__":
    run(main())
