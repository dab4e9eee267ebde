"""Barrier: all clients wait until one opens it.

Promise    `wait` returns True only after the barrier was removed, and False if it still stood after the
           timeout. The barrier is a plain znode: it stays when the session of its creator ends.
SUSPENDED  A `wait` under way has lost its watch with the connection, and would never hear of the removal.
           Wait with a timeout, and call it again.
LOST       The same.
"""

from __future__ import annotations

import threading

from _clients import TIMEOUT_S, clients, expect, together

from parkazoo import ParKazooClient

is_open = threading.Event()


def main() -> None:
    with clients(3) as (guard, anna, ben):
        gate = guard.Barrier("/gate")
        gate.create()
        expect(not anna.Barrier("/gate").wait(timeout=0), "the barrier stands")
        print("the barrier stands")

        def act(name: str, client: ParKazooClient) -> bool:
            if name == "guard":
                is_open.set()  # before the removal, so that a client that passes finds it set
                return bool(gate.remove())
            has_passed = client.Barrier("/gate").wait(TIMEOUT_S)
            return bool(has_passed) and is_open.is_set()

        removed, annas, bens = together(act, guard=guard, anna=anna, ben=ben)
        expect(removed, "the barrier was there to be removed")
        expect(annas and bens, "both pass, and not before it is removed")
        print("guard has removed it; anna and ben have passed")
        expect(anna.Barrier("/gate").wait(timeout=0), "a client that comes later passes at once")


if __name__ == "__main__":
    main()
