"""DoubleBarrier: no client begins before all are there, and none goes before all are done.

Promise    `enter` returns when `num_clients` have entered, `leave` when all have left. A client whose session
           ends counts as one that has left. Neither takes a timeout.
SUSPENDED  A client inside may be counted out as soon as the servers end the session: stop, and wait for
           CONNECTED or LOST. An `enter` or `leave` under way has lost its watch with the connection, and may
           wait for ever: call them in a thread that the program can do without.
LOST       We are no longer inside. Others may have gone on without us: give up this round.

`enter` does not raise; look at `participating` after it. Let the work take longer than entering does: as with
kazoo, a client that leaves at once removes the signal to begin before a slow client has seen it.
"""

from __future__ import annotations

import threading

from _clients import TIMEOUT_S, clients, expect, together

from parkazoo import ParKazooClient

CLIENTS = 3
meet = threading.Barrier(CLIENTS)  # the work, which needs all of them inside
done: list[str] = []


def take_part(name: str, client: ParKazooClient) -> int:
    barrier = client.DoubleBarrier("/round", CLIENTS)
    barrier.enter()
    expect(barrier.participating, "enter() succeeds")
    meet.wait(TIMEOUT_S)
    done.append(name)
    barrier.leave()
    return len(done)  # as this client finds it when it goes


def main() -> None:
    with clients(CLIENTS) as (anna, ben, carl):
        seen = together(take_part, anna=anna, ben=ben, carl=carl)
        print(f"{CLIENTS} clients were inside together; as each left, {seen} were done")
        expect(seen == [CLIENTS] * CLIENTS, "no client leaves before all are done")


if __name__ == "__main__":
    main()
