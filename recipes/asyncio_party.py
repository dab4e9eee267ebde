"""asyncio's Party: who is here.

Promise    Lists the members that have joined and whose session lives. A member that crashes is listed until its
           session times out.
SUSPENDED  Still a member, until the servers end the session. All calls wait for the connection.
LOST       No longer a member, and `participating` is False: join again, at the next CONNECTED, as below.

`async with` joins, and leaves at the end, also where it is cancelled. `client.ShallowParty` keeps the identifier
in the znode's name instead of its data: one request lists all.
"""

from __future__ import annotations

import asyncio

from _aio_clients import clients, end_session, run
from _clients import expect
from kazoo.client import KazooState

from parkazoo.aio import ParKazooClient


async def be_here(name: str, zk: ParKazooClient) -> None:
    """Be a member until the task is cancelled, in each session of the client."""
    async with zk.Party("/party", name) as party:
        async for state in zk.states():
            if state == KazooState.CONNECTED:
                await party.join()  # does nothing if it has joined


async def see(zk: ParKazooClient, *names: str) -> None:
    """Wait until these are here. Party itself does not tell who comes or goes."""
    async with asyncio.timeout(60), zk.watch_children("/party") as changes:
        async for _ in changes:
            members = await zk.Party("/party").members()
            print("here are:", *sorted(members))
            if sorted(members) == sorted(names):
                return


async def main() -> None:
    async with clients(3) as (anna, ben, carla), asyncio.TaskGroup() as tasks:
        annas = tasks.create_task(be_here("anna", anna))
        bens = tasks.create_task(be_here("ben", ben))
        await see(carla, "anna", "ben")
        before = await carla.get_children("/party")
        await end_session(ben)
        await see(carla, "anna", "ben")
        expect(before != await carla.get_children("/party"), "ben has joined again, in a new session")
        annas.cancel()
        await see(carla, "ben")
        bens.cancel()
        await see(carla)


if __name__ == "__main__":
    run(main())
