"""LockingQueue: an item is locked during the work on it, and removed when the work is done.

Promise    An item that was put is never lost, and never given to two clients while the session of its holder
           lives. It comes back if its holder's session ends, or by `release`.
SUSPENDED  The item may go to another client as soon as the servers end the session: stop working on it until
           CONNECTED or LOST comes. `holds_lock` asks the servers.
LOST       The item is another client's now, or will be; `consume` does not remove it.

So two clients may work on one item, one that was cut off and the next one: make the work repeatable. kazoo's
own LockingQueue needs a transaction over two directories, which may be on different ensembles. This one,
`client.LockingQueue`, keeps each lock beside its item; with one ensemble it keeps kazoo's layout.
"""

from __future__ import annotations

from _clients import TIMEOUT_S, clients, expect, together

from parkazoo import ParKazooClient

ITEMS = 10


def work(name: str, client: ParKazooClient) -> list[int]:
    queue = client.LockingQueue("/parcels")
    items = []
    while len(queue):  # locked items are counted
        item = queue.get(timeout=0.1)  # seconds; None if all items are locked by others for so long
        if item is not None:
            number = int(item)  # the work
            expect(queue.consume(), "a holder can consume its item")
            items.append(number)
    print(name, "got", *items)
    return items


def main() -> None:
    with clients(3) as (anna, ben, carl):
        anna.LockingQueue("/parcels").put_all([b"%d" % number for number in range(ITEMS)])
        item = carl.LockingQueue("/parcels").get(TIMEOUT_S)
        print("carl got", item, "and crashes")
        carl.stop()  # the session ends without consume() or release()
        annas, bens = together(work, anna=anna, ben=ben)
        expect(sorted(annas + bens) == list(range(ITEMS)), "every item is done once, also the one that carl had")


if __name__ == "__main__":
    main()
