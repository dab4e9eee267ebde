"""A program for those who build a wall together, moved to parkazoo.aio."""

from __future__ import annotations

import asyncio

from parkazoo.aio import ParKazooClient as ZKClient

MASONS = ("ada", "bob")


class Wall:
    """Its gate, its masons, and how many stones it has."""

    def __init__(self, zk: ZKClient, path: str) -> None:
        self.zk = zk
        self.path = path
        self.stones = self.zk.Counter(f"{path}/stones")

    async def begin(self) -> int:
        await self.zk.ensure_path(f"{self.path}/plan")
        await self.zk.create(f"{self.path}/stones", value=b"0")
        return await self.stones.value()

    async def carry(self, number: int) -> None:
        """Nobody begins before the gate is open, and before all are there."""
        await self.zk.Barrier(f"{self.path}/gate").wait()
        together = self.zk.DoubleBarrier(f"{self.path}/shift", len(MASONS))
        await together.enter()
        await self.stones.add(number)
        await together.leave()

    async def work(self) -> int:
        gate = self.zk.Barrier(f"{self.path}/gate")
        await gate.create()
        carrying = asyncio.gather(*(self.carry(len(each)) for each in MASONS))
        await gate.remove()
        await carrying
        return await self.stones.value()

    async def draw(self, line: bytes) -> None:
        async with self.zk.WriteLock(f"{self.path}/plan"):
            await self.zk.set(f"{self.path}/plan", line, -1)

    async def look(self) -> bytes:
        async with self.zk.ReadLock(f"{self.path}/plan"):
            return (await self.zk.get(f"{self.path}/plan"))[0]

    async def present(self) -> list[str]:
        parties = [self.zk.Party(f"{self.path}/masons", each) for each in MASONS]
        for party in parties:
            await party.join()
        names = sorted(await party.members())
        for party in parties:
            await party.leave()
        return names


async def main(hosts: str, root: str) -> list[object]:
    zk = ZKClient(hosts, timeout=10)
    await zk.start()
    try:
        wall = Wall(zk, f"{root}/wall")
        stones = [await wall.begin(), await wall.work()]
        await wall.draw(b"a door")
        seen = await asyncio.gather(wall.look(), wall.look())
        names = await wall.present()
        await zk.delete(f"{root}/wall", recursive=True)
        return [stones, seen, names, await zk.get_children(root)]
    finally:
        await zk.stop()
