"""asyncio's once: a write is done exactly once, though its connection is lost or its task is cancelled.

Promise    As a create, set or delete, or a transaction's commit. But if an answer is lost, the client finds out
           whether the write was done, and does it again only if it was not.
SUSPENDED  It waits until the connection is back.
LOST       It raises SessionExpiredError, which says so if the write may have been done.

If it is cancelled, by `asyncio.timeout` too, the write may have been done, or may be done later, but never twice.
Then a name that the caller has chosen shows which, as the orders' below.
"""

from __future__ import annotations

import asyncio

from _aio_clients import clients, run
from _clients import expect

from parkazoo.aio import ParKazooClient

ORDERS = 30  # of each shop
PATIENCE_S = 0.01


async def sell(name: str, zk: ParKazooClient) -> int:
    """Each order is a znode, and one cake less: both or neither. Returns how many calls were cancelled."""
    cancelled = 0
    for number in range(ORDERS):
        order = f"/bakery/{name}-{number}"
        while await zk.exists(order) is None:
            cakes, stat = await zk.get("/bakery/cakes")
            sale = zk.transaction()
            sale.set_data("/bakery/cakes", b"%d" % (int(cakes) - 1), stat.version)
            sale.create(order)
            try:
                async with asyncio.timeout(PATIENCE_S):
                    await zk.once(sale.commit)  # it fails if the other shop was faster
            except TimeoutError:
                cancelled += 1
    return cancelled


async def main() -> None:
    async with clients(2) as (anna, ben):
        await anna.create("/bakery/cakes", b"%d" % (2 * ORDERS), makepath=True)
        cancelled = await asyncio.gather(sell("anna", anna), sell("ben", ben))
        orders = {*await anna.get_children("/bakery")} - {"cakes"}
        cakes = int((await anna.get("/bakery/cakes"))[0])
        print(f"{sum(cancelled)} calls were cancelled; {cakes} cakes are left, and there are {len(orders)} orders")
        expect(cakes == 0 and len(orders) == 2 * ORDERS, "each sale was made once")


if __name__ == "__main__":
    run(main())
