"""Spread: one flat directory whose children are on all ensembles.

Promise    A child is a znode like any other: created once, with versions, ephemeral if wanted. A listing has each
           child that was there from its beginning to its end. A watch is called once when any child comes or goes.
SUSPENDED  As for every znode: ephemeral children may go as soon as the servers end the session.
LOST       Ephemeral children are gone, on all ensembles; a watch has heard of it.

A directory's children are on one ensemble. That is its limit if it is hot. A Spread has them in buckets,
directories of their own, by the hash of their names. There is no order of all children, so there are no sequence
numbers, and a listing is of no one moment.
"""

from __future__ import annotations

import threading

from _clients import TIMEOUT_S, clients, expect, together

from parkazoo import ParKazooClient

BUCKETS, EACH = 16, 50


def join(name: str, client: ParKazooClient) -> int:
    members = client.Spread("/members", BUCKETS)
    for number in range(EACH):
        members.create(f"{name}-{number}", b"here", ephemeral=True)
    return members.count()


def main() -> None:
    with clients(3) as (anna, ben, carl):
        members, has_changed = carl.Spread("/members", BUCKETS), threading.Event()
        print("there are", len(members.get_children(lambda event: has_changed.set())), "members")
        together(join, anna=anna, ben=ben)
        expect(has_changed.wait(TIMEOUT_S), "one watch hears of all buckets")
        print("there are", members.count(), "members")
        expect(len(set(members.get_children())) == 2 * EACH, "each of them is listed once")
        anna.stop()  # hers go with her session, wherever they are
        expect(all(name.startswith("ben") for name in members.get_children()), "anna's are gone")
        print("there are", members.count(), "members")


if __name__ == "__main__":
    main()
