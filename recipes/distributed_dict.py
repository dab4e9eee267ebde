"""DistributedDict: a dict that several processes share.

Promise    A write is done once when it returns, or its error says that nobody knows. A read sees the own writes,
           never goes back, and sees those of others when the policy says. An update is never lost with
           compare_and_set.
SUSPENDED  Reads answer from the copy, which is_stale then. Writes wait.
LOST       The copy is read anew, and what has changed is told. A write under way raises OutcomeUnknown if it may
           have been done. Ephemeral entries, those of a membership table, are gone.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
from typing import Any

from _clients import TIMEOUT_S, clients, connected, expect

from parkazoo import ParKazooClient
from parkazoo.structures.policies import Always

VISITS = 20


def count(d: Any) -> None:
    """Add to what others add to."""
    added = 0
    while added < VISITS:
        visits, version = d.get_with_version("visits")
        added += d.compare_and_set("visits", version, visits + 1)  # False if another was faster


def second(hosts: str, pipe: Any) -> None:
    """The other process."""
    with connected(hosts) as client:
        d2 = client.DistributedDict("/settings", Always())
        pipe.send(repr(d2))
        d2["hello"] = "mars"
        members = client.DistributedDict("/members", ephemeral=True)
        members["d2"] = os.getpid()
        count(d2)
        pipe.send("done")
        pipe.recv()


def first(client: ParKazooClient) -> None:
    d1 = client.DistributedDict("/settings")  # kept by watches: a read costs no request
    changes: list[tuple[Any, ...]] = []
    has_heard = threading.Event()

    @d1.on_change
    def hear(key: str, old: Any, new: Any, version: int | None) -> None:
        changes.append((key, old, new))
        if new == "mars":
            has_heard.set()

    d1["hello"] = "world"
    d1["visits"] = 0
    members = client.DistributedDict("/members", Always(), ephemeral=True)
    members["d1"] = os.getpid()
    mine, its = multiprocessing.get_context("spawn").Pipe()
    hosts = (sys.argv[1] if len(sys.argv) == 2 else os.environ["PARKAZOO_HOSTS"]) + client.chroot
    other = multiprocessing.get_context("spawn").Process(target=second, args=(hosts, its))
    other.start()
    print("d2:", mine.recv())
    expect(has_heard.wait(TIMEOUT_S), "d1 hears of what d2 does")
    print("d1:", changes[0], "and then", next(each for each in changes if each[2] == "mars"))
    count(d1)
    mine.recv()
    d1.refresh()
    print("d1:", d1)
    expect(d1["hello"] == "mars" and d1["visits"] == 2 * VISITS, "no update is lost")
    print("members:", sorted(members))
    expect(sorted(members) == ["d1", "d2"], "both are there")
    mine.send("go")
    other.join(TIMEOUT_S)
    print("members:", sorted(members))
    expect(sorted(members) == ["d1"], "d2 is gone with its session")


def main() -> None:
    with clients(1) as (client,):
        first(client)


if __name__ == "__main__":
    main()
