"""How a client stands with each ensemble that it has joined, and so what its own state is."""

from __future__ import annotations

from typing import Generic, TypeVar

from kazoo.protocol.states import KeeperState

from parkazoo.protocol import states

MemberT = TypeVar("MemberT")


class Standing(Generic[MemberT]):
    """The members' states, and for which of them the client waits; :mod:`parkazoo.protocol.states` says why.

    :ivar is_failing: operations fail though no connection is lost: the client is not connected meanwhile.
    """

    is_failing = False

    def __init__(self) -> None:
        self._states: dict[MemberT, str] = {}
        self._awaited: set[MemberT] = set()  # until they are connected
        self._shaken: set[MemberT] = set()  # until the requests that they have just lost have failed
        self._anew: set[MemberT] = set()  # since the client was LOST, until they are connected

    def __getitem__(self, member: MemberT) -> str:
        """Its KeeperState; CLOSED if it has not begun."""
        return self._states.get(member, KeeperState.CLOSED)

    def is_connected(self, member: MemberT) -> bool:
        return self[member] in states.CONNECTED_STATES

    def begins(self, member: MemberT) -> None:
        self._states[member] = KeeperState.CONNECTING

    def awaits(self, member: MemberT) -> None:
        """The client is not connected without it, from now on."""
        self._awaited.add(member)

    def ends(self, member: MemberT) -> None:
        """The client has it no more."""
        del self._states[member]
        for members in (self._awaited, self._shaken, self._anew):
            members.discard(member)

    def changed(self, member: MemberT, state: str) -> None:
        self._states[member] = state
        if state in states.CONNECTED_STATES:
            self._awaited.discard(member)
            self._anew.discard(member)

    def lost(self, member: MemberT, has_ephemerals: bool, has_watches: bool, has_unanswered: bool) -> bool:
        """Its connection is lost.

        :returns: whether :meth:`calmed` is to be called when the requests have failed that had no answer.
        """
        if states.matters(has_ephemerals, has_watches):
            self._awaited.add(member)
        elif has_unanswered:
            self._shaken.add(member)
        return member in self._shaken

    def calmed(self, member: MemberT) -> None:
        self._shaken.discard(member)

    def has_begun_anew(self, member: MemberT) -> bool:
        """Whether the client has been LOST since it was connected there."""
        return member in self._anew

    def begins_anew(self) -> None:
        """The client is LOST: nothing is left anywhere."""
        self._awaited.clear()
        self._anew.update(self._states)
        for member, state in self._states.items():
            if state != KeeperState.EXPIRED_SESSION:
                self._states[member] = KeeperState.CONNECTING

    @property
    def state(self) -> str:
        """The client's KeeperState."""
        awaited = self._awaited | self._shaken
        state = states.state_of((state, member in awaited) for member, state in self._states.items())
        return KeeperState.CONNECTING if self.is_failing and state in states.CONNECTED_STATES else state
