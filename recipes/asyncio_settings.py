"""asyncio: a service follows its settings, which others change.

Promise    The last settings always arrive, and older ones never come after newer ones. Of changes in quick
           succession a service may see only the last.
SUSPENDED  Nothing new arrives. The service goes on with the settings that it has.
LOST       The same: `watch_data` reads again as soon as there is a connection, and goes on.

Who changes them says by `version=` which settings it has read: so two changes at a time lose nothing.
"""

from __future__ import annotations

import asyncio
import json

from _aio_clients import clients, run
from _clients import expect
from kazoo.exceptions import BadVersionError

from parkazoo.aio import ParKazooClient

CHANGES = 20


async def serve(zk: ParKazooClient, is_ready: asyncio.Event) -> list[dict[str, int]]:
    """Serve by the newest settings, until they say `stop`."""
    seen = []
    async with zk.watch_data("/settings") as states:
        async for state in states:
            if state is None:
                continue  # nobody has written any yet
            seen.append(json.loads(state[0]))
            is_ready.set()
            if "stop" in seen[-1]:
                break
    return seen


async def change(zk: ParKazooClient, name: str, value: int) -> None:
    """Change one of the settings, whatever others change at the same time."""
    while True:
        data, stat = await zk.get("/settings")
        settings = json.loads(data) | {name: value}
        try:
            await zk.set("/settings", json.dumps(settings).encode(), version=stat.version)
        except BadVersionError:
            continue  # another change was first: begin with that
        return


async def change_often(zk: ParKazooClient, name: str) -> None:
    for value in range(1, CHANGES + 1):
        await change(zk, name, value)


async def main() -> None:
    async with clients(3) as (anna, ben, carla):
        is_ready = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            service = tasks.create_task(serve(anna, is_ready))
            await ben.create("/settings", json.dumps({"limit": 0, "rate": 0}).encode())
            await is_ready.wait()
            await asyncio.gather(change_often(ben, "limit"), change_often(carla, "rate"))
            await change(ben, "stop", 1)
        seen = service.result()
        print(f"the service has seen {len(seen)} of {2 * CHANGES + 2} settings")
        expect(seen[-1] == {"limit": CHANGES, "rate": CHANGES, "stop": 1}, "the last settings arrive")
        for name in ("limit", "rate"):
            values = [each[name] for each in seen]
            expect(values == sorted(values), "older settings do not come after newer ones")


if __name__ == "__main__":
    run(main())
