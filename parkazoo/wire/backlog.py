"""The requests of a member that wait to be sent."""

from __future__ import annotations

from collections import deque

from parkazoo.engine.ports import Reply
from parkazoo.protocol.steps import WireRequest


class Backlog(deque[tuple[WireRequest, Reply | None]]):
    """Keeps a member's requests, oldest first, until its link takes them or the member fails them.

    The member has one for all its life. Its connection puts in, on any thread. Its link takes, on the loop and
    with its own lock held. The member takes what fails, on the loop or on a thread that submits. There is no lock,
    since each method of a deque is one step; so another thread may empty it between two of them.

    It is a deque itself: the link asks at each request whether it is empty.
    """

    __slots__ = ()

    def put(self, request: WireRequest, reply: Reply | None) -> None:
        self.append((request, reply))

    def take(self) -> tuple[WireRequest, Reply | None] | None:
        """The oldest; None if there is none."""
        try:
            return self.popleft()
        except IndexError:
            return None

    def take_oldest(self, count: int) -> list[tuple[WireRequest, Reply | None]]:
        """So many of the oldest, or all if there are fewer."""
        taken = (self.take() for _ in range(count))
        return [each for each in taken if each is not None]

    def requests(self) -> list[WireRequest]:
        """The requests that wait just now; others may be adding to them."""
        return [request for request, _ in self.copy()]
