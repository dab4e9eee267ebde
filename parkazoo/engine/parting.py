"""How a client parts with ensembles that have left the map: it closes its sessions there."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Generic

from kazoo.protocol.states import KeeperState

from parkazoo.engine.ports import MemberT, OnAnswer, Runtime
from parkazoo.engine.roster import Roster
from parkazoo.protocol.past import CATCH_UP, REFUSED
from parkazoo.protocol.standing import Standing
from parkazoo.protocol.watches import DirectoryWatch


class Parting(Generic[MemberT]):
    """Closes a session once nothing is left of it: it has told all its watches, and another session goes on.

    With a possible ephemeral there the client is LOST: others have deleted that, and it cannot know.

    All of it is on the loop.

    :param report: tells the client its state, if that has changed.
    :param lose: ends the client's session, for a reason. :param is_stopping: whether the session is.
    """

    def __init__(
        self,
        runtime: Runtime,
        roster: Roster[MemberT],
        standing: Standing[MemberT],
        report: Callable[[], None],
        lose: Callable[[str], None],
        is_stopping: Callable[[], bool],
    ) -> None:
        self._runtime = runtime
        self._roster = roster
        self._standing = standing
        self._report = report
        self._lose = lose
        self._is_stopping = is_stopping
        self._asked: set[MemberT] = set()
        self._has_told: set[MemberT] = set()

    def go_on(self) -> None:
        """Called when no operation is under way by an older map, and whenever a member has changed."""
        roster, standing = self._roster, self._standing
        if self._is_stopping():
            return
        for member in roster.close_gone():
            if not any(standing.is_connected(each) for each in roster.members if each is not member):
                roster.join_first()  # a client is not connected without a session
            elif member in self._has_told or not standing.is_connected(member):  # which has told NONE
                self._part(member)
            elif standing[member] == KeeperState.CONNECTED and member not in self._asked:
                # A server that has answered a write has sent the events of all before it.
                self._asked.add(member)
                member.submit(CATCH_UP, OnAnswer(partial(self._answered, member)))

    def _answered(self, member: MemberT, answer: object) -> None:
        self._runtime.call(partial(self._have_asked, member, answer))

    def _have_asked(self, member: MemberT, answer: object) -> None:
        self._asked.discard(member)
        if isinstance(answer, REFUSED):
            self._has_told.add(member)
            self.go_on()

    def _part(self, member: MemberT) -> None:
        """Its ensemble has no znode: an ephemeral of this session, which others have deleted, is lost."""
        has_told = member in self._has_told
        member.fail_waiting(None)
        is_lost = member.has_ephemerals
        self._roster.part_with(member)
        self._standing.ends(member)
        self._has_told.discard(member)
        for path, watch in member.data_watches():
            if has_told and isinstance(watch, DirectoryWatch):  # it waits elsewhere, too
                member.forget_watch(path, watch)
        member.begin_stop()
        if is_lost:
            self._lose(f"ensemble {member.name} has left the map")
        self._report()
