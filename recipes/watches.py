"""DataWatch, ChildrenWatch: a function that is called as a znode's data, or its children, change.

Promise    The function is called at once, and again after each change; changes that follow each other closely
           may be told as one. The last state is always told. DataWatch also waits for a znode that is not
           there yet.
SUSPENDED  No calls. What has changed meanwhile is told when the connection is back.
LOST       The same: both set their watches again in the new session.

Watches hold wherever the znodes are: here the children of /shop are on another ensemble than /shop itself, or
not, depending on its path; the program cannot tell. Calls for different znodes may come in another order than
the changes if they are on different ensembles. The plain one-shot `get(..., watch=)` and `get_children(...,
watch=)` work too.
"""

from __future__ import annotations

import queue

from _clients import TIMEOUT_S, clients, expect

changes: queue.Queue[object] = queue.Queue()


def expect_told(what: object) -> None:
    told = changes.get(timeout=TIMEOUT_S)
    print("ben is told:", told)
    expect(told == what, f"ben is told {what}")


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
        anna.delete("/shop/boots")  # not told: the function has returned False
        anna.set("/shop", b"closed")
        expect_told(b"closed")


if __name__ == "__main__":
    main()
