"""asyncio: workers take jobs from a directory, each under a lock of its own.

Promise    Each job is done once, also if its worker is cancelled in the middle of it, or dies.
SUSPENDED  A request may raise ConnectionLoss; whether the job is done is not known then. Look again: if its
           znode is there, it is not.
LOST       The lock is gone, and another worker may begin the same job. Both work, but only one result counts:
           the transaction deletes the job, and that only one of them can do.

A worker that is cancelled leaves no lock behind: its client withdraws what it had, also if it had only asked.
The jobs and the results are siblings, so they are on one ensemble, and a transaction may have both.
"""

from __future__ import annotations

import asyncio

from _aio_clients import clients, run
from _clients import expect
from kazoo.exceptions import NoNodeError

from parkazoo.aio import ParKazooClient

JOBS = 12
JOB_S = 0.02


async def work(name: str, zk: ParKazooClient) -> None:
    """Do jobs until none is left to be done."""
    async with zk.watch_children("/jobs") as states:
        async for names in states:
            todo = sorted(each for each in names or () if each.startswith("todo-"))
            if not todo:
                return
            for job in todo:
                await do_job(name, zk, job.removeprefix("todo-"))


async def do_job(name: str, zk: ParKazooClient, job: str) -> None:
    """Do a job, unless another worker has it."""
    lock = zk.Lock(f"/locks/{job}", name)
    if not await lock.acquire(blocking=False):
        return
    try:
        if await zk.exists(f"/jobs/todo-{job}") is not None:
            await asyncio.sleep(JOB_S)  # the work
            async with zk.transaction() as both:
                both.delete(f"/jobs/todo-{job}")
                both.create(f"/jobs/done-{job}", name.encode())
    except NoNodeError:  # it was done meanwhile
        pass
    finally:
        await lock.release()


async def main() -> None:
    async with clients(3) as (anna, ben, carla):
        await anna.ensure_path("/jobs")
        await asyncio.gather(*(anna.create("/jobs/todo-", sequence=True) for _ in range(JOBS)))
        async with asyncio.TaskGroup() as workers:
            workers.create_task(work("ben", ben))
            workers.create_task(work("carla", carla))
            annas = workers.create_task(work("anna", anna))
            async with carla.watch_children("/locks") as states:
                async for names in states:
                    if len(names or ()) >= 2:  # they are at work
                        break
            annas.cancel()
        names = await ben.get_children("/jobs")
        done = [(await ben.get(f"/jobs/{each}"))[0].decode() for each in sorted(names)]
        print("done by", *done)
        expect(sorted(names) == [f"done-{number:010d}" for number in range(JOBS)], "each job is done once")
        held = [await ben.get_children(f"/locks/{each}") for each in await ben.get_children("/locks")]
        expect(not any(held), "no lock is left, nor anyone who waits for one")


if __name__ == "__main__":
    run(main())
