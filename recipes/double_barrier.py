"""DoubleBarrier: nobody begins before all are there, nobody goes before all are done.

Promise    `enter` returns when `num_clients` have entered, `leave` when all have left. If a client's session
           ends, it counts as one that has left. Neither can be given a timeout.
SUSPENDED  Whoever is inside may be counted out as soon as the servers give the session up: stop, and wait for
           CONNECTED or LOST. The watch of an `enter` or `leave` that is under way has gone with the
           connection, and it may wait for ever: call them in a thread that the program can do without.
LOST       We are no longer inside. Others may have gone on without us: give up this round.

`enter` does not raise; look at `participating` after it. Let the work take longer than entering does: a
client that leaves at once takes the signal to begin away from one that is slow to look for it (so it is with
kazoo).
"""

from __future__ import annotations

import threading

from _clients import TIMEOUT_S, clients, expect, together

from parkazoo import ParKazooClient

CLIENTS = 3
meet = threading.Barrier(CLIENTS)  # the work: it can be done only while all are inside
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
        expect(seen == [CLIENTS] * CLIENTS, "nobody leaves before all are done")


if __name__ == "__main__":
    main()
