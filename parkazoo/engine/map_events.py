"""When a client reads the map again, of which its ensembles tell that it has changed.

Many clients hear of it at the same moment. So each reads the primary alone at once; the copies, which only repeat
it, later. While a directory moves, the next map is urgent for few: the others take turns.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Generic

from parkazoo.engine.ports import MemberT
from parkazoo.protocol.cluster_map import ClusterMap

NEWS_S = 0.25  # so long a copy that tells something new waits for the primary to tell it
LATER_S = 1.0  # and up to twice that: what nobody waits for
TURN_S = 0.002  # for one client
MOST_TURNS = 5000
CallLater = Callable[[float, Callable[[], None]], None]


def some_time_later(part: float, clients: int = MOST_TURNS) -> float:
    """Seconds, others for each client.

    :param part: from 0 to 1, another for each client.
    :param clients: how many do the same then.
    """
    return min(LATER_S, clients * TURN_S) * (1 + part)


class MapEvents(Generic[MemberT]):
    """All of it is on the loop.

    :param newest: the client's map; None: it has none yet.
    :param is_connected: whether the client has a connection to an ensemble, by name.
    :param part: from 0 to 1, another for each client.
    :param must_hurry: whether the next step of a move concerns the client.
    """

    def __init__(
        self,
        call_later: CallLater,
        newest: Callable[[], ClusterMap | None],
        is_connected: Callable[[str], bool],
        part: Callable[[], float],
        must_hurry: Callable[[], bool],
    ) -> None:
        self._call_later = call_later
        self._newest = newest
        self._is_connected = is_connected
        self._part = part
        self._must_hurry = must_hurry
        self._known: dict[MemberT, int] = {}  # the number of the client's map, when the copy there was read last
        self._due: MemberT | None = None  # tells of a change that has not been read yet

    @property
    def _number(self) -> int:
        newest = self._newest()
        return 0 if newest is None else newest.epoch

    def have_read(self, member: MemberT) -> None:
        """The copy on a member's ensemble, and its map is taken."""
        self._known[member] = self._number
        if member is self._due:
            self._due = None

    def told(self, member: MemberT) -> None:
        """The copy there has changed: the member is to read it."""
        if self._is_first(member):
            self._due = member
            self._read_in_turn(member)
        elif self._is_repeated(member):
            self._call_later(some_time_later(self._part()), member.read_map)
        else:
            self._call_later(NEWS_S, partial(self._read_news, member))

    def _is_first(self, member: MemberT) -> bool:
        """Whether nobody else tells it before."""
        newest = self._newest()
        first = member.name if newest is None else newest.bootstrap
        return member.name == first or not self._is_connected(first)

    def _is_repeated(self, member: MemberT) -> bool:
        """Whether the client has read the same elsewhere, or will soon."""
        return self._due is not None or self._number > self._known.get(member, 0)

    def _read_in_turn(self, member: MemberT) -> None:
        newest = self._newest()
        clients = 0 if newest is None or newest.move is None else newest.move.clients
        if clients and not self._must_hurry():
            self._call_later(self._part() * TURN_S * min(clients, MOST_TURNS), member.read_map)
        else:
            member.read_map()

    def _read_news(self, member: MemberT) -> None:
        if self._is_repeated(member):
            self._call_later(some_time_later(self._part()), member.read_map)
        else:
            member.read_map()
