"""Deferred writes: many writes that need not be waited for.

Promise    What is done is a prefix of what was issued, on each ensemble, and each write is done once. After the
           barrier all of it is durable, and visible to all clients; before, nothing need be.
SUSPENDED  What is pending waits for the servers, and goes on then. Nothing is done twice.
LOST       Nothing more is done. The tickets say what was.
"""

from __future__ import annotations

from _clients import clients, expect

from parkazoo import DeferredError

MANY = 2000


def main() -> None:
    with clients(2) as (anna, ben):
        anna.ensure_path("/counts")
        with anna.deferred() as later:
            for number in range(MANY):
                later.add(f"/counts/{number:04}", b"1")
            expect(len(anna.get_children("/counts")) == MANY, "her own reads see them")
        ben.sync("/counts")
        print("ben sees", len(ben.get_children("/counts")), "counts")
        expect(len(ben.get_children("/counts")) == MANY, "after the barrier all clients see them")
        try:
            with anna.deferred() as later:
                first, missing, last = (later.put(f"/counts/{name}", b"2") for name in ("0000", "none", "0001"))
        except DeferredError as error:
            print(error)
        states = first.state, missing.state, last.state
        expect(states == ("committed", "failed", "dropped"), "what is done is a prefix")


if __name__ == "__main__":
    main()
