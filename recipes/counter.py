"""Counter: a number that all clients add to.

Promise    Each `+=` and `-=` is done once, on top of all the others. It reads, adds and writes with the version
           that it has read, and begins again if another client was faster.
SUSPENDED  An addition under way is retried until the connection is back. If its answer was lost, the client finds
           out whether it was done (with kazoo's client such an addition counts twice).
LOST       An addition under way raises SessionExpiredError, which says so if it may have been done. The number
           itself is a plain znode and stays.
"""

from __future__ import annotations

from _clients import clients, expect, together

from parkazoo import ParKazooClient

ADDITIONS = 20


def count(name: str, client: ParKazooClient) -> int | None:
    counter = client.Counter("/visitors", default=0)
    for _ in range(ADDITIONS):
        counter += 1  # afterwards counter.pre_value and .post_value are the numbers before and after this addition
    print(name, "ends at", counter.post_value)
    return counter.post_value


def main() -> None:
    with clients(2) as (anna, ben):
        last = together(count, anna=anna, ben=ben)
        total = anna.Counter("/visitors").value
        print("the counter says", total)
        expect(total == 2 * ADDITIONS and total in last, "no addition is lost")


if __name__ == "__main__":
    main()
