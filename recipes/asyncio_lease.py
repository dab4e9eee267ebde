"""asyncio's NonBlockingLease: who does a job now and then, such as a backup every hour.

Promise    Until a lease's time is over, its holder alone can obtain it, again and again. It is held by the clocks
           of the clients, so they must agree; a lease should be much longer than they differ.
SUSPENDED  `obtain` waits for the connection; `asyncio.timeout` limits that.
LOST       The lease stays, whatever becomes of the session. If the holder dies, nobody has it until its time is
           over: that is the difference from a lock.

An `obtain` that is cancelled has it or not: obtain it again. `client.MultiNonBlockingLease` has several holders.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta

from _aio_clients import clients, run
from _clients import expect

from parkazoo.aio import ParKazooClient

LASTS_S = 4  # of whole seconds: its znode has no others
ROUNDS = 5
backups: list[str] = []


async def back_up(name: str, zk: ParKazooClient) -> None:
    """In each round, do the job if it is this client's."""
    lease = zk.NonBlockingLease("/backup", timedelta(hours=1), name)
    for _ in range(ROUNDS):
        if await lease.obtain():
            backups.append(name)
        await asyncio.sleep(0.02)


async def main() -> None:
    async with clients(2) as (anna, ben):
        await asyncio.gather(back_up("anna", anna), back_up("ben", ben))
        print("the backups are from", *backups)
        expect(len({*backups}) == 1 and len(backups) == ROUNDS, "its holder alone obtains it, each time")

        short, loop = timedelta(seconds=LASTS_S), asyncio.get_running_loop()
        begun_s = loop.time()
        expect(await anna.NonBlockingLease("/report", short, "anna").obtain(), "the first one obtains it")
        await anna.stop()
        lease = ben.NonBlockingLease("/report", short, "ben")
        while not await lease.obtain():
            await asyncio.sleep(0.1)
        lasted_s = loop.time() - begun_s
        print(f"anna's session has ended; ben has the lease {lasted_s:.1f} s after she got it")
        expect(lasted_s >= LASTS_S - 1, "it is held until its time is over, without a session")


if __name__ == "__main__":
    run(main())
