"""Party: who is here.

Promise    Lists the members that have joined and whose session lives. A member that crashes is listed until its
           session times out.
SUSPENDED  Still a member, until the servers end the session.
LOST       No longer a member, though `participating` says so: join again.

`client.ShallowParty` keeps the identifier in the znode's name instead of its data: one request lists all.
"""

from __future__ import annotations

import threading

from _clients import TIMEOUT_S, clients, expect


def main() -> None:
    with clients(3) as (anna, ben, carl):
        party = anna.Party("/party", "anna")
        party.join()
        ben.Party("/party", "ben").join()
        carl.Party("/party", "carl").join()
        print("here are:", *sorted(party))
        expect(sorted(party) == ["anna", "ben", "carl"], "all members are listed")

        has_gone = threading.Event()

        @anna.ChildrenWatch("/party")  # Party itself does not report who comes or goes
        def changed(names: list[str]) -> None:
            if len(names) < 3:
                has_gone.set()

        ben.stop()  # the session ends without leave()
        expect(has_gone.wait(TIMEOUT_S), "the watch reports that a member has gone")
        print("here are:", *sorted(party))
        expect(sorted(party) == ["anna", "carl"], "a member whose session has ended is not listed")
        party.leave()
        expect(len(party) == 1, "one is left")


if __name__ == "__main__":
    main()
