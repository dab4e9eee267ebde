"""client.once: a write is done exactly once, though its connection is lost.

Promise    As `client.retry` of a create, set or delete, or of a transaction's commit. But if an answer is lost,
           the client finds out whether the write was done, and does it again only if it was not.
SUSPENDED  It waits until the connection is back.
LOST       It raises SessionExpiredError, which says so if the write may have been done.

To see it, make it longer, and meanwhile end all servers with `parkazoo local down` and start them again, within
the session timeout, with `parkazoo local up`:

    ORDERS=20000 python recipes/exactly_once.py 127.0.0.1:24601
"""

from __future__ import annotations

import os

from _clients import clients, expect, together

from parkazoo import ParKazooClient

ORDERS = int(os.environ.get("ORDERS", "50"))  # of each shop


def sell(name: str, client: ParKazooClient) -> list[str]:
    """Each order is a znode, and one cake less: both or neither."""
    orders: list[str] = []
    while len(orders) < ORDERS:
        cakes, stat = client.retry(client.get, "/bakery/cakes")
        sale = client.transaction()
        sale.set_data("/bakery/cakes", b"%d" % (int(cakes) - 1), stat.version)
        sale.create("/bakery/order-", name.encode(), sequence=True)
        _, order = client.once(sale.commit)
        if isinstance(order, str):  # else the other one was faster
            orders.append(order)
    print(name, "sold", len(orders), "cakes, the last as", orders[-1])
    return orders


def main() -> None:
    with clients(2) as (anna, ben):
        anna.create("/bakery/cakes", b"%d" % (2 * ORDERS), makepath=True)
        sold = [order for orders in together(sell, anna=anna, ben=ben) for order in orders]
        found = [f"/bakery/{name}" for name in anna.get_children("/bakery") if name != "cakes"]
        cakes = int(anna.get("/bakery/cakes")[0])
        print(cakes, "cakes are left, and there are", len(found), "orders")
        expect(cakes == 0 and sorted(found) == sorted(sold), "each sale was made once, and its name is known")


if __name__ == "__main__":
    main()
