"""A program that packs orders, moved to parkazoo.aio."""

from __future__ import annotations

from asyncio import Event
from contextlib import suppress

from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError
from kazoo.security import make_digest_acl

from parkazoo.aio import ParKazooClient as KazooClient

OWN = [make_digest_acl("shop", "secret", all=True)]
TOO_MANY = 100


class Shop:
    """Orders below one path, and how many parcels are ready."""

    def __init__(self, zk: KazooClient, root: str) -> None:
        self.zk = zk
        self.root = root
        self.changed = Event()

    async def open(self) -> None:
        await self.zk.ensure_path(f"{self.root}/shop/orders")
        with suppress(NodeExistsError):  # another shop was first
            await self.zk.create(f"{self.root}/shop/parcels", b"0")
        await self.zk.create(f"{self.root}/shop/open", ephemeral=True, makepath=True)

    async def order(self, goods: list[str]) -> list[str]:
        for each in goods:
            await self.zk.create(f"{self.root}/shop/orders/order-", each.encode(), sequence=True)
        return await self.orders()

    async def orders(self) -> list[str]:
        """Those that nobody has packed, the oldest first."""
        await self.zk.sync(f"{self.root}/shop/orders")
        names = await self.zk.get_children(f"{self.root}/shop/orders")
        return sorted(each for each in names if each.startswith("order-"))

    async def add(self, number: int) -> int:
        """Count parcels, whoever else does."""
        while True:
            value, stat = await self.zk.get(f"{self.root}/shop/parcels")
            total = int(value) + number
            try:
                await self.zk.set(f"{self.root}/shop/parcels", b"%d" % total, version=stat.version)
            except BadVersionError:
                continue
            return total

    async def work(self, packer: str) -> list[str]:
        """Pack all orders, one packer at a time."""
        packed = []
        async with self.zk.Lock(f"{self.root}/shop/table", packer):
            for name in await self.orders():
                goods, stat = await self.zk.get(f"{self.root}/shop/orders/{name}")
                transaction = self.zk.transaction()
                transaction.check(f"{self.root}/shop/orders/{name}", stat.version)
                transaction.delete(f"{self.root}/shop/orders/{name}")
                transaction.create(f"{self.root}/shop/orders/packed-{goods.decode()}", packer.encode())
                results = await transaction.commit()
                if all(not isinstance(each, Exception) for each in results):
                    packed.append(goods.decode())
                    await self.add(1)
        return packed

    async def follow(self) -> int:
        """Wait until the number of parcels changes; that number."""
        self.changed.clear()
        before, _ = await self.zk.get(f"{self.root}/shop/parcels", watch=self.note)
        await self.add(TOO_MANY)
        await self.changed.wait()
        value, _ = await self.zk.get(f"{self.root}/shop/parcels")
        return int(value) - int(before)

    def note(self, event: object) -> None:
        self.changed.set()

    async def close(self) -> None:
        await self.zk.delete(f"{self.root}/shop", recursive=True)


async def main(hosts: str, root: str) -> list[object]:
    zk = KazooClient(hosts=hosts, timeout=10.0, auth_data=[("digest", "shop:secret")], default_acl=OWN)
    await zk.start(timeout=30)
    try:
        shop = Shop(zk, root)
        await shop.open()
        ordered = await shop.order(["apples", "bread", "cheese"])
        packed = await shop.work("anna")
        left = await shop.work("ben")
        counted = await shop.follow()
        acls, _ = await zk.get_acls(f"{root}/shop/parcels")
        await shop.close()
        try:
            await zk.get(f"{root}/shop")
        except NoNodeError:
            left.append("closed")
        return [ordered, packed, left, counted, acls == OWN]
    finally:
        await zk.stop()
