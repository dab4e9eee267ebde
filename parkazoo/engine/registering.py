"""How a client's sessions are registered: under which id of the client, and with which epoch of the map."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Generic

from kazoo.exceptions import NoNodeError
from kazoo.protocol.states import KeeperState

from parkazoo.engine.map_events import MOST_TURNS, CallLater, some_time_later
from parkazoo.engine.ports import Client, MemberT, OnAnswer, Runtime
from parkazoo.kazoo_private import Create, SetData
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.registration import registration_path
from parkazoo.protocol.standing import Standing

PARTS = 1000


class Registering(Generic[MemberT]):
    """Makes the registrations of a client's sessions, and has them follow the map.

    All of it is on the loop; any thread may read `number`.

    :param number: to go on with; None: a new one.
    :ivar number: the client's id where there are several ensembles. Where there is one, it is the session's there.
    :ivar said: the map by which all operations work; None: there is none yet.
    """

    def __init__(
        self,
        client: Client,
        runtime: Runtime,
        standing: Standing[MemberT],
        number: int | None,
        call_later: CallLater,
    ) -> None:
        self._client = client
        self._runtime = runtime
        self._standing = standing
        self._call_later = call_later
        self._registered: dict[MemberT, int] = {}  # with which epoch of the map
        self.number = runtime.new_number() if number is None else number
        self.said: ClusterMap | None = None

    @property
    def part(self) -> float:
        """From 0 to 1, another for each client: what all hear at once they do one after the other."""
        return self.number % PARTS / PARTS

    @property
    def epoch(self) -> int:
        """What the registrations say."""
        return 0 if self.said is None else self.said.epoch

    def renumber(self) -> None:
        """The client is another one from now on."""
        self.number = self._runtime.new_number()

    def make(self, member: MemberT, session: int, is_one: bool) -> Create:
        """Make the request by which a member's new session registers.

        :param is_one: there has never been more than one ensemble.
        """
        self._registered[member] = self.epoch
        if is_one:
            self.number = session  # so it stays if there are more
        return self._request(session, is_one)

    def _request(self, session: int, is_one: bool) -> Create:
        return self._client.registration(session, session if is_one else self.number, self.epoch)

    def acknowledge(self, newest: ClusterMap, members: Iterable[MemberT], is_one: bool) -> None:
        """Have each session that is registered say a map: nothing is under way by an older one.

        For a step of a move a command waits where the children have been. Everywhere else it is said later.
        """
        move = None if self.said is None else newest.move_since(self.said)
        self.said = newest
        for member in members:
            if move is None or member.name == move.source:
                self.register_again(member, is_one)
            else:
                delay_s = some_time_later(self.part, move.clients or MOST_TURNS)
                self._call_later(delay_s, partial(self.register_again, member, is_one))

    def register_again(self, member: MemberT, is_one: bool) -> None:
        """Have a session say the epoch, if it has registered with an older one."""
        epoch = self.epoch
        if self._registered.get(member, 0) != epoch and self._standing[member] == KeeperState.CONNECTED:
            create = self._request(member.session_id, is_one)
            registered = OnAnswer(partial(self._have_registered, member, epoch, create))
            member.submit(SetData(create.path, create.data, -1), registered)

    def _have_registered(self, member: MemberT, epoch: int, create: Create | None, answer: object) -> None:
        """:param create: of a registration that may be missing, because there was no place for it once."""
        if not isinstance(answer, Exception):  # else again, when it is connected again
            self._registered[member] = epoch
        elif create is not None and isinstance(answer, NoNodeError) and self._is_at_work(member, create):
            member.submit(create, OnAnswer(partial(self._have_registered, member, epoch, None)))

    def _is_at_work(self, member: MemberT, registration: Create) -> bool:
        """Whether the session of a registration is still the member's, so that it owns the ephemeral."""
        is_connected = self._standing[member] == KeeperState.CONNECTED
        return is_connected and registration.path == registration_path(member.session_id)
