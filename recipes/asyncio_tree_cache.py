"""asyncio's TreeCache: a copy of a znode and all below it, and kazoo's events of what changes there.

Promise    The copy follows the znodes, on all ensembles: after INITIALIZED it has each that existed throughout,
           and the last state of each always arrives. Of changes in quick succession it may show only the last.
SUSPENDED  Nothing new arrives. The copy stays as it is; listeners get CONNECTION_SUSPENDED.
LOST       Listeners get CONNECTION_LOST, later CONNECTION_RECONNECTED. Everything is read anew, and what has
           changed meanwhile is told.

Listeners are plain functions, which the loop calls: let them put events into a queue, or set one, as below. `async
with` starts and closes it. A program that wants states, no events, has `zk.watch_tree`.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from _aio_clients import clients, end_session, run
from _clients import expect
from kazoo.recipe.cache import TreeEvent

from parkazoo.aio import ParKazooClient

HOSTS = 5


async def configure(zk: ParKazooClient, limit: int) -> None:
    """Write the settings of all hosts: each in a directory of its own, on any ensemble."""
    for number in range(HOSTS):
        path, value = f"/hosts/{number}/settings", json.dumps({"limit": limit}).encode()
        if await zk.exists(path) is None:
            await zk.create(path, value, makepath=True)
        else:
            await zk.set(path, value)


async def main() -> None:
    async with clients(2) as (anna, ben):
        await configure(ben, 1)
        cache, events = anna.TreeCache("/hosts"), asyncio.Queue[Any]()
        cache.listen(events.put_nowait)

        async def hear(what: object, times: int = 1) -> None:
            while times:
                times -= (await events.get()).event_type == what

        def limits() -> list[int]:
            found = [cache.get_data(f"/hosts/{number}/settings") for number in range(HOSTS)]
            return [json.loads(each.data)["limit"] for each in found]

        async with asyncio.timeout(60), cache:
            await hear(TreeEvent.INITIALIZED)
            print("limits at first:", limits())
            expect(limits() == [1] * HOSTS, "it has all that existed")
            await configure(ben, 2)
            await hear(TreeEvent.NODE_UPDATED, HOSTS)
            print("limits after ben's changes:", limits())
            expect(limits() == [2] * HOSTS, "it has what has changed")
            await end_session(anna)  # she has no ephemeral, and so is SUSPENDED, not LOST
            await configure(ben, 3)
            await ben.create("/hosts/new")
            await hear(TreeEvent.CONNECTION_SUSPENDED)
            while limits() != [3] * HOSTS or "new" not in cache.get_children("/hosts"):
                await events.get()
            print("limits after a lost session:", limits())


if __name__ == "__main__":
    run(main())
