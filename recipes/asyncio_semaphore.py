"""asyncio's Semaphore: at most `max_leases` bodies at a time, in all processes.

Promise    Among clients whose session lives, at most `max_leases` hold a lease. All must name the same
           `max_leases`; otherwise ValueError is raised.
SUSPENDED  Nothing happens to the body. The lease may go to another as soon as the servers end the session.
LOST       The lease is gone. The body is cancelled, and the block raises LockLostError.

An object has one lease: each task needs its own. A task that is cancelled gives back its lease, or its place
among those that wait.
"""

from __future__ import annotations

import asyncio

from _aio_clients import clients, run
from _clients import expect

from parkazoo.aio import ParKazooClient

LEASES = 2
JOBS = 4  # of each client
inside: set[str] = set()
counts: list[int] = []  # how many were inside, each time that one entered


async def print_job(name: str, zk: ParKazooClient, meet: asyncio.Barrier) -> None:
    async with zk.Semaphore("/printers", name, max_leases=LEASES):
        inside.add(name)
        counts.append(len(inside))
        await meet.wait()  # so that all leases are in use
        inside.remove(name)


async def main() -> None:
    async with clients(3) as (anna, ben, carla):
        meet = asyncio.Barrier(LEASES)
        async with asyncio.TaskGroup() as jobs:
            for number in range(JOBS):
                jobs.create_task(print_job(f"anna {number}", anna, meet))
                jobs.create_task(print_job(f"ben {number}", ben, meet))
        print(f"{len(counts)} jobs were printed, never more than {max(counts)} at a time")
        expect(max(counts) == LEASES, f"{LEASES} hold a lease at the same time, and no more")

        alone = asyncio.create_task(print_job("anna", anna, meet))
        async with ben.Semaphore("/printers", "ben", max_leases=LEASES):
            while not inside:
                await asyncio.sleep(0.01)
            printers = carla.Semaphore("/printers", "carla", max_leases=LEASES)
            try:
                async with asyncio.timeout(0.5), printers:
                    expect(False, "there is no lease for a third one")
            except TimeoutError:
                print("carla has given up; the holders are", sorted(await printers.lease_holders()))
            alone.cancel()
            async with printers:
                holders = sorted(await printers.lease_holders())
                print("anna was cancelled; the holders are", holders)
                expect(holders == ["ben", "carla"], "a cancelled task gives back its lease")


if __name__ == "__main__":
    run(main())
