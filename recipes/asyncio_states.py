"""asyncio: what a service does when its client is SUSPENDED or LOST.

Promise    The service is registered whenever it serves: by an ephemeral znode, made anew in each session.
SUSPENDED  The session, and with it the registration, may end at any moment. The service takes no new work.
LOST       The registration is gone. The service begins anew when there is a connection again.

`zk.states()` leaves out no state, so LOST always comes between two sessions. Here a client with the same id ends
the session, as servers do when nobody has pinged for the session timeout.
"""

from __future__ import annotations

import asyncio

from _aio_clients import clients, end_session, run
from _clients import expect
from kazoo.exceptions import SessionExpiredError
from kazoo.protocol.states import KazooState

from parkazoo.aio import ParKazooClient


class Service:
    """:ivar serves: whether it takes work. :ivar heard: the states of its client so far."""

    def __init__(self, zk: ParKazooClient) -> None:
        self.zk = zk
        self.serves = asyncio.Event()
        self.heard: list[str] = []

    async def run(self) -> None:
        """Until the client stops."""
        is_registered = False
        async for state in self.zk.states():
            print("the service is", state, flush=True)
            self.heard.append(state)
            if state != KazooState.CONNECTED:
                self.serves.clear()
                is_registered = is_registered and state != KazooState.LOST
                continue
            if not is_registered:
                try:
                    await self.zk.once(self.zk.create, "/services/one", ephemeral=True)
                except SessionExpiredError:
                    continue  # LOST comes next
                is_registered = True
            self.serves.set()


async def verify(service: ParKazooClient, other: ParKazooClient) -> None:
    stat = await other.exists("/services/one")
    number = service.client_id
    is_there = stat is not None and number is not None and stat.ephemeralOwner == number[0]
    expect(is_there, "who serves is registered")


async def main() -> None:
    async with clients(2) as (anna, ben):
        await ben.ensure_path("/services")
        service = Service(anna)
        task = asyncio.create_task(service.run())
        await service.serves.wait()
        await verify(anna, ben)
        await end_session(anna)
        await service.serves.wait()
        await verify(anna, ben)
        await anna.stop()
        await task
        expect(service.heard[0] == KazooState.CONNECTED, "the first state is that of now")
        kept = [each for each in service.heard if each != KazooState.SUSPENDED]
        between = kept[kept.index(KazooState.LOST) + 1 : -1]
        expect({*between} == {KazooState.CONNECTED} and kept[-1] == KazooState.LOST, "none is left out")


if __name__ == "__main__":
    run(main())
