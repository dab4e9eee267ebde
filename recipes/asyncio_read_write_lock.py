"""asyncio's ReadLock and WriteLock: many read at a time, one writes alone.

Promise    Among clients whose session lives, a writer is alone; readers exclude only writers. Who asks after a
           writer waits for it, so readers do not starve writers.
SUSPENDED  Nothing happens to the body. The lock may go to others as soon as the servers end the session.
LOST       The lock is gone. The body is cancelled, and the block raises LockLostError.

A cancel leaves nothing behind: neither the lock, nor a place among those that wait.
"""

from __future__ import annotations

import asyncio

from _aio_clients import clients, run
from _clients import expect

from parkazoo.aio import ParKazooClient

ROUNDS = 10
READERS = 3


async def write(zk: ParKazooClient) -> None:
    """Move money between two accounts, which are no siblings: perhaps on two ensembles, so no transaction."""
    for left in range(ROUNDS):
        async with zk.WriteLock("/lock"):
            await zk.set("/bank/a/money", b"%d" % left)
            await zk.set("/bank/b/money", b"%d" % (ROUNDS - left))


async def read(zk: ParKazooClient) -> set[int]:
    """The sums of both accounts that it has seen."""
    sums = set()
    for _ in range(ROUNDS):
        async with zk.ReadLock("/lock"):
            first, second = await asyncio.gather(zk.get("/bank/a/money"), zk.get("/bank/b/money"))
            sums.add(int(first[0]) + int(second[0]))
    return sums


async def meet(zk: ParKazooClient, all_are_here: asyncio.Barrier) -> None:
    async with zk.ReadLock("/lock"):
        await all_are_here.wait()


async def main() -> None:
    async with clients(READERS + 1) as (writer, *readers):
        for account in "ab":
            await writer.create(f"/bank/{account}/money", b"%d" % (ROUNDS // 2), makepath=True)
        async with asyncio.timeout(30):
            all_are_here = asyncio.Barrier(READERS)
            await asyncio.gather(*(meet(zk, all_are_here) for zk in readers))
        print(f"{READERS} readers had the lock at the same time")
        seen, *_ = await asyncio.gather(asyncio.gather(*map(read, readers)), write(writer))
        print("while one wrote, they saw the sums", set().union(*seen))
        expect(seen == [{ROUNDS}] * READERS, "nobody reads while one writes")


if __name__ == "__main__":
    run(main())
