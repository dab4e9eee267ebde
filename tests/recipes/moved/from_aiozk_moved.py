"""A program that keeps seats of trains, moved to parkazoo.aio."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from kazoo.exceptions import BadVersionError as BadVersion
from kazoo.exceptions import NodeExistsError as NodeExists
from kazoo.exceptions import NoNodeError as NoNode

from parkazoo.aio import ParKazooClient as ZKClient

AT_A_TIME = 3


class Train:
    """Its seats, those who wait for one, and how many are sold."""

    def __init__(self, zk: ZKClient, path: str) -> None:
        self.zk = zk
        self.path = path

    async def open(self) -> None:
        await self.zk.ensure_path(f"{self.path}/seats")
        with suppress(NodeExists):  # another office was first
            await self.zk.create(f"{self.path}/sold", value=b"0")
        await self.zk.create(f"{self.path}/office", ephemeral=True)

    async def wait_in_line(self, name: str) -> str:
        path = await self.zk.create(f"{self.path}/seats/wait-", value=name.encode(), sequence=True)
        return path.rsplit("/", 1)[1]

    async def add(self, number: int) -> int:
        """Count the seats that are sold, whoever else does."""
        while True:
            value, stat = await self.zk.get(f"{self.path}/sold")
            total = int(value) + number
            try:
                await self.zk.set(f"{self.path}/sold", b"%d" % total, stat.version)
            except BadVersion:
                continue
            return total

    async def sell(self, clerk: str) -> list[str]:
        """Sell seats to those who wait, one clerk at a time and not too many."""
        sold = []
        async with self.zk.Lock(f"{self.path}/desk"):
            names = await self.zk.get_children(f"{self.path}/seats")
            for name in sorted(each for each in names if each.startswith("wait-")):
                who, stat = await self.zk.get(f"{self.path}/seats/{name}")
                async with self.zk.transaction() as transaction:
                    transaction.check(f"{self.path}/seats/{name}", stat.version)
                    transaction.delete(f"{self.path}/seats/{name}")
                    transaction.create(f"{self.path}/seats/sold-{who.decode()}", value=clerk.encode())
                sold.append(who.decode())
                await self.add(1)
                if len(sold) == AT_A_TIME:
                    break
        return sold

    async def end(self) -> list[str]:
        left = sorted(await self.zk.get_children(f"{self.path}/seats"))
        await self.zk.delete(self.path, recursive=True)
        return left


async def main(hosts: str, root: str) -> list[object]:
    zk = ZKClient(hosts, timeout=10)
    await zk.start()
    try:
        train = Train(zk, f"{root}/train")
        await train.open()
        line = [await train.wait_in_line(each) for each in ("ada", "bob", "cy", "dee")]
        sold = await asyncio.gather(train.sell("anna"), train.sell("ben"))
        left = await train.end()
        if await zk.exists(f"{root}/train"):
            left.append("not closed")
        try:
            await zk.get(f"{root}/train")
        except NoNode:
            left.append("closed")
        return [line, sorted(sold), left]
    finally:
        await zk.stop()
