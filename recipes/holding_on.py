"""Holding on: a worker pauses only while an ensemble that its work needs is away.

Promise    A job begins only while the lock is this worker's: its ensemble is CONNECTED (`lock.state`).
SUSPENDED  An ensemble on which the client has something is away. If it is another one than the lock's and that
           of the results (`state_of`), the lock is still ours, and the work goes on.
LOST       The lock is gone: the worker asks for a new one. This comes also if the ensemble stays away for
           `give_up_after` seconds, so that others get what the client holds on the other ensembles.

It looks before each job. If an ensemble goes away in the middle of one, ConnectionLoss does not say whether the
job is done: the worker looks at the lock again, and then reads the results and their version again. What must not
happen twice is guarded by `version=`: see lock.py. docs/guide/holding-on.md says when to do what.

To see it, make it longer, and freeze an ensemble of `parkazoo local up` meanwhile. `parkazoo local status` shows
the processes of its servers:

    JOBS=600 python recipes/holding_on.py 127.0.0.1:24601,127.0.0.1:24602
    kill -STOP PID PID PID; sleep 20; kill -CONT PID PID PID
"""

from __future__ import annotations

import os
import threading

from _clients import clients, expect, in_background
from kazoo.exceptions import BadVersionError, ConnectionLoss, SessionExpiredError
from kazoo.protocol.states import KazooState

from parkazoo import ParKazooClient

JOBS = int(os.environ.get("JOBS", "5"))  # of each worker
JOB_S = 0.1
GIVE_UP_AFTER_S = 30.0  # more than the session timeout
LOOK_AGAIN_S = 1.0  # a listener hears nothing if a second ensemble goes away after the first


def work(name: str, client: ParKazooClient) -> None:
    changed = threading.Event()

    def hear(state: str) -> None:
        print(f"{name} is {state}", flush=True)
        changed.set()

    client.add_listener(hear)
    lock = client.Lock("/lock", name)
    done = 0
    while done < JOBS:
        changed.clear()
        state = lock.state
        if not lock.is_acquired or state == KazooState.LOST:
            lock = client.Lock("/lock", name)
            lock.acquire()
            print(f"{name} has the lock", flush=True)
        elif KazooState.SUSPENDED in (state, client.state_of("/results")):
            changed.wait(LOOK_AGAIN_S)
        else:
            try:
                done = do_job(name, client)
            except (ConnectionLoss, SessionExpiredError, BadVersionError) as error:
                print(f"{name} looks again: {type(error).__name__}", flush=True)
    lock.release()


def do_job(name: str, client: ParKazooClient) -> int:
    """Do one job, unless the results have all of this worker's; how many they have then."""
    data, stat = client.get("/results")
    done = data.decode().split().count(name)
    if done < JOBS:
        threading.Event().wait(JOB_S)
        client.set("/results", data + f"{name} ".encode(), version=stat.version)
        done += 1
    return done


def main() -> None:
    with clients(2, give_up_after=GIVE_UP_AFTER_S) as (anna, ben):
        anna.create("/results")
        workers = [in_background(work, "anna", anna), in_background(work, "ben", ben)]
        for worker in workers:
            worker.result()
        results = anna.get("/results")[0].decode().split()
        print("done by", *results)
        expect(sorted(results) == ["anna"] * JOBS + ["ben"] * JOBS, "every job is done once")


if __name__ == "__main__":
    main()
