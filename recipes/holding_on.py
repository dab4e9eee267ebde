"""Holding on: a worker pauses only while an ensemble that its work needs is away.

Promise    A job begins only while the lock is this worker's: its ensemble is CONNECTED (`lock.state`).
SUSPENDED  An ensemble on which the client has something is away. If it is another one than the lock's and that
           of the results (`state_of`), the lock is still ours, and the work goes on.
LOST       The lock is gone: the worker asks for a new one. This comes also if the ensemble stays away for
           `give_up_after` seconds, so that others get what the client holds on the other ensembles.

It looks before each job. What must not happen twice is guarded as well, by `version=`: see lock.py.
docs/guide/holding-on.md says when to do what.
"""

from __future__ import annotations

import threading

from _clients import TIMEOUT_S, clients, expect, together
from kazoo.protocol.states import KazooState

from parkazoo import ParKazooClient

JOBS = 5
GIVE_UP_AFTER_S = 30.0  # more than the session timeout
LOOK_AGAIN_S = 1.0  # a listener hears nothing if a second ensemble goes away after the first


def work(name: str, client: ParKazooClient) -> list[int]:
    """Do JOBS jobs; their numbers."""
    changed = threading.Event()
    client.add_listener(lambda state: changed.set())
    lock = client.Lock("/lock", name)
    jobs: list[int] = []
    while len(jobs) < JOBS:
        changed.clear()
        state = lock.state
        if not lock.is_acquired or state == KazooState.LOST:
            lock = client.Lock("/lock", name)
            lock.acquire(timeout=TIMEOUT_S)
        elif KazooState.SUSPENDED in (state, client.state_of("/results")):
            changed.wait(LOOK_AGAIN_S)
        else:
            jobs.append(do_job(client))
    lock.release()
    print(name, "did", *jobs)
    return jobs


def do_job(client: ParKazooClient) -> int:
    data, stat = client.get("/results")
    client.set("/results", b"%d" % (int(data) + 1), version=stat.version)
    return int(data)


def main() -> None:
    with clients(2, give_up_after=GIVE_UP_AFTER_S) as (anna, ben):
        anna.create("/results", b"0")
        annas, bens = together(work, anna=anna, ben=ben)
        expect(sorted(annas + bens) == list(range(2 * JOBS)), "every job is done once")


if __name__ == "__main__":
    main()
