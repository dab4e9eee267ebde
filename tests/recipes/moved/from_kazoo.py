"""A program that packs orders, as it was written for kazoo."""

from __future__ import annotations

from contextlib import suppress
from threading import Event

from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError
from kazoo.security import make_digest_acl

OWN = [make_digest_acl("shop", "secret", all=True)]
TOO_MANY = 100


class Shop:
    """Orders below one path, and how many parcels are ready."""

    def __init__(self, zk: KazooClient, root: str) -> None:
        self.zk = zk
        self.root = root
        self.changed = Event()

    def open(self) -> None:
        self.zk.ensure_path(f"{self.root}/shop/orders")
        with suppress(NodeExistsError):  # another shop was first
            self.zk.create(f"{self.root}/shop/parcels", b"0")
        self.zk.create(f"{self.root}/shop/open", ephemeral=True, makepath=True)

    def order(self, goods: list[str]) -> list[str]:
        for each in goods:
            self.zk.create(f"{self.root}/shop/orders/order-", each.encode(), sequence=True)
        return self.orders()

    def orders(self) -> list[str]:
        """Those that nobody has packed, the oldest first."""
        self.zk.sync(f"{self.root}/shop/orders")
        names = self.zk.get_children(f"{self.root}/shop/orders")
        return sorted(each for each in names if each.startswith("order-"))

    def add(self, number: int) -> int:
        """Count parcels, whoever else does."""
        while True:
            value, stat = self.zk.get(f"{self.root}/shop/parcels")
            total = int(value) + number
            try:
                self.zk.set(f"{self.root}/shop/parcels", b"%d" % total, version=stat.version)
            except BadVersionError:
                continue
            return total

    def work(self, packer: str) -> list[str]:
        """Pack all orders, one packer at a time."""
        packed = []
        with self.zk.Lock(f"{self.root}/shop/table", packer):
            for name in self.orders():
                goods, stat = self.zk.get(f"{self.root}/shop/orders/{name}")
                transaction = self.zk.transaction()
                transaction.check(f"{self.root}/shop/orders/{name}", stat.version)
                transaction.delete(f"{self.root}/shop/orders/{name}")
                transaction.create(f"{self.root}/shop/orders/packed-{goods.decode()}", packer.encode())
                results = transaction.commit()
                if all(not isinstance(each, Exception) for each in results):
                    packed.append(goods.decode())
                    self.add(1)
        return packed

    def follow(self) -> int:
        """Wait until the number of parcels changes; that number."""
        self.changed.clear()
        before, _ = self.zk.get(f"{self.root}/shop/parcels", watch=self.note)
        self.add(TOO_MANY)
        self.changed.wait()
        value, _ = self.zk.get(f"{self.root}/shop/parcels")
        return int(value) - int(before)

    def note(self, event: object) -> None:
        self.changed.set()

    def close(self) -> None:
        self.zk.delete(f"{self.root}/shop", recursive=True)


def main(hosts: str, root: str) -> list[object]:
    zk = KazooClient(hosts=hosts, timeout=10.0, auth_data=[("digest", "shop:secret")], default_acl=OWN)
    zk.start(timeout=30)
    try:
        shop = Shop(zk, root)
        shop.open()
        ordered = shop.order(["apples", "bread", "cheese"])
        packed = shop.work("anna")
        left = shop.work("ben")
        counted = shop.follow()
        acls, _ = zk.get_acls(f"{root}/shop/parcels")
        shop.close()
        try:
            zk.get(f"{root}/shop")
        except NoNodeError:
            left.append("closed")
        return [ordered, packed, left, counted, acls == OWN]
    finally:
        zk.stop()
