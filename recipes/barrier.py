"""Barrier: all wait until somebody opens it.

Promise    `wait` returns True only after the barrier was removed; False if it still stood after the timeout.
           The barrier is a plain znode: it stays when the session of its creator ends.
SUSPENDED  The watch of a `wait` that is under way has gone with the connection, and it would never hear of
           the removal: wait with a timeout, and call it again.
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
                is_open.set()  # before, so that nobody can pass and find it unset
                return bool(gate.remove())
            has_passed = client.Barrier("/gate").wait(TIMEOUT_S)
            return bool(has_passed) and is_open.is_set()

        removed, annas, bens = together(act, guard=guard, anna=anna, ben=ben)
        expect(removed, "the barrier was there to be removed")
        expect(annas and bens, "both pass, and not before it is removed")
        print("guard has removed it; anna and ben have passed")
        expect(anna.Barrier("/gate").wait(timeout=0), "who comes later passes at once")


if __name__ == "__main__":
    main()
