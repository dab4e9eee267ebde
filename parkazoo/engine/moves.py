"""What a client does about a directory that moves, beside its operations (protocol/hold.py).

Before it says the map by which they are held, it makes copies of its ephemerals. When the move has ended, its
watches follow the children, and what it has in the wrong place is not missed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Generic

from parkazoo.engine.carrying import Carrying, lose_outlasting, moving_watches
from parkazoo.engine.driver import Driver
from parkazoo.engine.holding import Holding
from parkazoo.engine.owning import Owning
from parkazoo.engine.ports import MemberT, RequestPort, Runtime
from parkazoo.engine.roster import Roster
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.hold import Hold
from parkazoo.protocol.moving import NATIVE, opening
from parkazoo.protocol.placement import Directory, Place
from parkazoo.types.znodes import Watch

UNTOLD_S = 10.0  # no command needs so long to say how a hold has ended


class Moves(Generic[MemberT]):
    """Begins and ends with the map's entry of a move. All of it is on the loop.

    :param client_state: gives the client's KeeperState.
    :param go_on: is called when :meth:`have_ended` or :meth:`have_copies` may say otherwise.
    :param is_stopping: whether the session is.
    :ivar last: the last move of which operations know, see :attr:`ClusterMap.last_move`.
    """

    def __init__(
        self,
        runtime: Runtime,
        driver: Driver,
        roster: Roster[MemberT],
        client_state: Callable[[], str],
        go_on: Callable[[], None],
        is_stopping: Callable[[], bool],
    ) -> None:
        self._runtime = runtime
        self._driver = driver
        self._roster = roster
        self._client_state = client_state
        self._go_on = go_on
        self._is_stopping = is_stopping
        self.last = ""
        self._has_begun = False
        self._holding: Holding | None = None  # if a directory moves
        self._copying: Holding | None = None  # for which ephemerals are being copied, or have been
        self._is_copying = False

    def begin(self, cluster_map: ClusterMap) -> Hold | None:
        """The hold of operations that begin from now on, by this map.

        If a move has ended of which they know nothing, a server that lags might show the pin of before.
        """
        move = cluster_map.move
        has_slept = cluster_map.moved != self.last or (move is not None and move.has_switched)
        if has_slept and self._has_begun:
            self._driver.context.past.distrust()
        self._has_begun, self.last = True, cluster_map.last_move
        if move is None:
            self._holding = self._copying = None
        elif self._holding is None or self._holding.hold.moving.name != move.name:
            self._holding = Holding(
                self._runtime, self._driver, move, self._carry, self._have_ended, self._is_stopping
            )
            self._await_untold(self._holding)
        return None if self._holding is None else self._holding.hold

    def end(self) -> None:
        """The map has no entry any more, and nothing waits for its end."""
        if self._holding is not None:
            self._holding = self._copying = self._driver.context.hold = None
            self._driver.context.places.guess_again()

    # ---- the end of a move -----------------------------------------------------------------------

    def have_ended(self, cluster_map: ClusterMap) -> bool:
        """Whether nothing waits for the end of a move that the map says is over; else that is looked for.

        If the map is without it, the mark is gone, and the client has nothing where the children have been: the
        command would have waited. So it does not look; the home may be away. Watches that have outlasted the
        connection there hear that.
        """
        holding, move = self._holding, cluster_map.move
        if holding is None or holding.hold.is_over:
            return True
        if move is None or move.name != holding.hold.moving.name:
            lose_outlasting(self._runtime, *self._watches_of(holding), self._client_state())
            holding.end_without_look()
            self._forget_ephemerals(holding)
            return True
        if not move.has_switched:
            return True
        holding.find_end()
        return False

    def _await_untold(self, holding: Holding) -> None:
        self._runtime.call_later(UNTOLD_S, partial(self._look_untold, holding))

    def _look_untold(self, holding: Holding) -> None:
        """The children may have moved, and the map does not say so: watches where they have been tell nothing."""
        if holding is self._holding and not holding.hold.is_over and not self._is_stopping():
            if self.has_watches:
                holding.look()
            self._await_untold(holding)

    def _have_ended(self) -> None:
        """Operations have gone on."""
        if self._holding is not None:
            self._forget_ephemerals(self._holding)
        self._go_on()

    def _carry(self, holding: Holding, d: Directory) -> None:
        """Have watches follow the children of a directory that has moved."""
        old, _ = self._places_of(holding)
        Carrying(self._runtime, self._driver, self._roster.ports, self._client_state, d, old, holding.end)

    @property
    def has_watches(self) -> bool:
        """Whether there are some where a directory moves."""
        holding = self._holding
        if holding is None or holding.hold.is_over:
            return False
        return bool(self._watches_of(holding)[1])

    def _watches_of(self, holding: Holding) -> tuple[RequestPort, list[tuple[bool, str, Watch]]]:
        """Those where the children have been, and the port of that ensemble."""
        old, _ = self._places_of(holding)
        port = self._roster.ports[old.ensemble]
        return port, moving_watches(port, old.path, holding.hold.moving.generation == NATIVE)

    def _places_of(self, holding: Holding) -> tuple[Place, Place]:
        """Where the children have been, and where they go."""
        moving = holding.hold.moving
        d = holding.found or self._driver.context.known(moving.directory)
        return moving.places(self._roster.names, d.home)

    # ---- ephemerals ------------------------------------------------------------------------------

    def have_copies(self) -> bool:
        """Whether the client's ephemerals have copies where a directory goes; else they are made."""
        holding = self._holding
        if holding is None or holding.hold.is_over or holding.hold.moving.has_switched:
            return True
        if self._copying is not holding:
            self._copying, self._is_copying = holding, False
            self._copy(holding)
        return not self._is_copying

    def _copy(self, holding: Holding) -> None:
        moving = holding.hold.moving
        old, new = self._places_of(holding)
        for member in self._roster.members:
            if member.name != moving.source:
                continue
            paths, folder = member.ephemerals_below(old.path), old.path if member.has_unnamed_ephemerals else ""
            if paths or folder:
                self._is_copying = True
                Owning(
                    self._runtime,
                    member,
                    paths,
                    folder,
                    self._roster.ports[new.ensemble],
                    lambda path: new.path + path[len(old.path) :],
                    opening(moving.name),
                    partial(self._have_copied, holding),
                )

    def _have_copied(self, holding: Holding) -> None:
        if holding.hold.is_over:
            self._forget_ephemerals(holding)
        if self._copying is holding:
            self._is_copying = False
            self._go_on()

    def _forget_ephemerals(self, holding: Holding) -> None:
        """Those where the children are not will be deleted by others."""
        moving = holding.hold.moving
        old, new = self._places_of(holding)
        name, place = (moving.source, old) if holding.has_moved else (moving.target, new)
        for member in self._roster.members:
            if member.name == name:
                member.forget_ephemerals(place.path)
