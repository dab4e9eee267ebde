"""DataWatch, ChildrenWatch: a function that is called when a znode's data, or its children, change.

Promise    The function is called at once, and again after each change. Changes that follow each other closely
           may come as one call. The last state always arrives. DataWatch also waits for a znode that is not
           there yet.
SUSPENDED  No calls. What has changed meanwhile arrives when the connection is back.
LOST       The same: both set their watches again in the new session.

Watches work wherever the znodes are. Depending on the path of /shop, its children are on another ensemble or
not; the program cannot see the difference. Calls for znodes on different ensembles may come in another order
than the changes. The plain one-shot `get(..., watch=)` and `get_children(..., watch=)` work too.
"""

from __future__ import annotations

import queue

from _clients import TIMEOUT_S, clients, expect

changes: queue.Queue[object] = queue.Queue()


def expect_told(what: object) -> None:
    told = changes.get(timeout=TIMEOUT_S)
    print("ben sees:", told)
    expect(told == what, f"ben sees {what}")


def main() -> None:
    with clients(2) as (anna, ben):

        @ben.DataWatch("/shop")
        def data_changed(data: bytes | None, stat: object) -> None:
            changes.put(data)

        expect_told(None)  # there is no such znode
        anna.create("/shop", b"closed")
        expect_told(b"closed")
        anna.set("/shop", b"open")
        expect_told(b"open")

        @ben.ChildrenWatch("/shop")  # needs a znode
        def children_changed(names: list[str]) -> bool:
            changes.put(sorted(names))
            return len(names) < 2  # False ends the watch

        expect_told([])
        anna.create("/shop/boots")
        expect_told(["boots"])
        anna.create("/shop/shirt")
        expect_told(["boots", "shirt"])
        anna.delete("/shop/boots")  # no call: the function has returned False
        anna.set("/shop", b"closed")
        expect_told(b"closed")


if __name__ == "__main__":
    main()
