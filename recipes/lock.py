"""Lock: one client at a time, in the order in which they asked.

Promise    Among clients whose session lives, one holds the lock. If a holder's session ends, the next one
           gets it.
SUSPENDED  The client has lost touch with an ensemble. The lock may still be ours, or go to another client as
           soon as the servers end the session: stop what needs the lock until CONNECTED or LOST comes.
LOST       The lock is gone, whatever `is_acquired` says. Undo or abandon the work, make a new Lock and acquire
           it.

A program that was paused for longer than its session lives holds nothing any more, but does not know that yet.
So let what the lock protects refuse a late client, for example by `version=` as below.

`client.WriteLock` and `client.ReadLock` work in the same way; many clients may hold a ReadLock at once.
"""

from __future__ import annotations

from _clients import TIMEOUT_S, clients, expect, together

from parkazoo import ParKazooClient

TURNS = 10


def sell(name: str, client: ParKazooClient) -> list[int]:
    """Take numbered tickets. Reading and writing the number are two requests; the lock makes them one."""
    tickets = []
    for _ in range(TURNS):
        lock = client.Lock("/lock", name)
        lock.acquire(timeout=TIMEOUT_S)  # or `with lock:`, which waits for ever
        try:
            data, stat = client.get("/tickets")
            client.set("/tickets", b"%d" % (int(data) + 1), version=stat.version)
            tickets.append(int(data))
        finally:
            lock.release()
    print(name, "sold", *tickets)
    return tickets


def main() -> None:
    with clients(2) as (anna, ben):
        anna.create("/tickets", b"0")
        annas, bens = together(sell, anna=anna, ben=ben)
        expect(sorted(annas + bens) == list(range(2 * TURNS)), "every ticket is sold once")
        expect(anna.Lock("/lock").contenders() == [], "no client holds the lock or waits for it")


if __name__ == "__main__":
    main()
