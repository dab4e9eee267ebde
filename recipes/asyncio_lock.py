"""asyncio's Lock: `async with`, and a body that is cancelled when the lock is lost.

Promise    Among clients whose session lives, one holds the lock, in the order in which they asked.
SUSPENDED  Nothing happens to the body; `zk.state` says so. The lock may go to another client as soon as the
           servers end the session: let what the lock protects refuse a late client, by `version=` as below.
LOST       The lock is gone. The body is cancelled at its next await, and the block raises LockLostError.

A cancel leaves nothing behind, wherever it strikes: the client withdraws what the lock had asked for. So
`asyncio.timeout` around `acquire`, or around the block, limits either.
"""

from __future__ import annotations

import asyncio

from _aio_clients import clients, end_session, run
from _clients import expect

from parkazoo.aio import LockLostError, ParKazooClient

TURNS = 10


async def sell(name: str, zk: ParKazooClient) -> list[int]:
    """Take numbered tickets. Reading and writing the number are two requests; the lock makes them one."""
    tickets = []
    for _ in range(TURNS):
        async with zk.Lock("/lock", name):
            data, stat = await zk.get("/tickets")
            await zk.set("/tickets", b"%d" % (int(data) + 1), version=stat.version)
            tickets.append(int(data))
    print(name, "sold", *tickets)
    return tickets


async def hold(zk: ParKazooClient, has_it: asyncio.Event) -> None:
    async with zk.Lock("/lock", "anna"):
        has_it.set()
        await asyncio.Event().wait()  # work without end


async def main() -> None:
    async with clients(2) as (anna, ben):
        await anna.create("/tickets", b"0")
        sold = await asyncio.gather(sell("anna", anna), sell("ben", ben))
        expect(sorted(sold[0] + sold[1]) == list(range(2 * TURNS)), "every ticket is sold once")

        has_it = asyncio.Event()
        holding = asyncio.create_task(hold(anna, has_it))
        await has_it.wait()
        try:
            async with asyncio.timeout(0.5), ben.Lock("/lock", "ben"):
                expect(False, "one holds the lock")
        except TimeoutError:
            print("ben has given up; there are", await ben.Lock("/lock").contenders())
        await end_session(anna)
        async with ben.Lock("/lock", "ben"):
            result = (await asyncio.gather(holding, return_exceptions=True))[0]
            print("ben has the lock; anna's block has raised", repr(result))
            expect(isinstance(result, LockLostError), "a lost lock cancels the body")
        expect(await anna.Lock("/lock").contenders() == [], "no client holds the lock or waits for it")


if __name__ == "__main__":
    run(main())
