"""Election: one leader, and another one when it goes.

Promise    `run` waits until this client leads, and calls the function. The client leads until the function
           returns or its session ends. The client that has waited longest is next.
SUSPENDED  We may be replaced as soon as the servers end the session: stop leading until CONNECTED or LOST
           comes. A function that leads has to listen for that, as the one below does.
LOST       We do not lead any more. Return from the function, and `run` again.
"""

from __future__ import annotations

import queue
import threading

from _clients import TIMEOUT_S, clients, expect, in_background
from kazoo.client import KazooState

from parkazoo import ParKazooClient

leaders: queue.Queue[str] = queue.Queue()
is_over = threading.Event()


def lead(name: str, must_stop: threading.Event) -> None:
    leaders.put(name)
    while not must_stop.wait(0.05) and not is_over.is_set():
        pass  # a round of a leader's work


def take_part(name: str, client: ParKazooClient) -> str:
    must_stop = threading.Event()
    client.add_listener(lambda state: must_stop.set() if state != KazooState.CONNECTED else None)
    client.Election("/election", name).run(lead, name, must_stop)
    return name


def main() -> None:
    with clients(2) as (anna, ben):
        names = {"anna": anna, "ben": ben}
        running = {name: in_background(take_part, name, client) for name, client in names.items()}
        first = leaders.get(timeout=TIMEOUT_S)
        print(first, "leads; its session ends")
        names[first].stop()  # its listener hears LOST
        second = leaders.get(timeout=TIMEOUT_S)
        print(second, "leads")
        expect({first, second} == set(names), "the other one is elected when the leader's session ends")
        is_over.set()
        expect(running[second].result(TIMEOUT_S) == second, "run() returns when the function does")


if __name__ == "__main__":
    main()
