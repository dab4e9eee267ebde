"""Which ensembles a client knows and has joined, by which map, and with which sessions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Generic, Protocol

from kazoo.exceptions import ConnectionLoss
from kazoo.protocol.states import KeeperState

from parkazoo.engine.gone import Gone
from parkazoo.engine.observed import ObservedPort
from parkazoo.engine.ports import Client, MemberT, MemberT_contra, OtherSession, Owner, RequestPort, Runtime
from parkazoo.engine.registering import Registering
from parkazoo.engine.unjoined import Unjoined
from parkazoo.errors import ClusterMapError
from parkazoo.monitoring import MapChanged
from parkazoo.protocol.atlas import Atlas, NoCopyError
from parkazoo.protocol.client_id import SESSION_PASSWORD_BYTES, SessionId, unpack_sessions
from parkazoo.protocol.cluster_map import FIRST, ClusterMap, format_hosts, parse_hosts
from parkazoo.protocol.placement import Placement
from parkazoo.protocol.server_list import Server, Servers, parse_config
from parkazoo.protocol.standing import Standing
from parkazoo.protocol.steps import DataAnswer
from parkazoo.protocol.wrong_ensemble import copy_error, identity_error


class RosterOwner(Owner[MemberT_contra], Protocol[MemberT_contra]):
    """The session, as its roster sees it."""

    is_stopping: bool
    """The members have been asked to end."""

    @property
    def is_open(self) -> bool:
        """Whether operations are taken."""

    def refusal(self) -> Exception | None:
        """Why no request is taken any more; None as long as they are."""

    def fail(self, error: Exception) -> None:
        """Stop: the client cannot start."""

    def begin_member(self, member: MemberT_contra) -> None:
        """Have a member connect."""

    def have_come(self, ensembles: int) -> None:
        """Make room for more ensembles, before there are ports to them.

        :param ensembles: how many there are by now.
        """

    def map_has_changed(self) -> None:
        """Work by the newest map."""


class Roster(Generic[MemberT]):
    """The ensembles of the map, and the members of the joined ones.

    It answers what members ask before they send anything. It changes on the loop alone. Any thread may read
    `members`, a tuple that is replaced, and `ports` and `names`, which only grow, in this order.

    :param owner: the members' too.
    :param make_member: makes a member from its owner, a name, hosts and a session to go on with.
    :param resume: the client_id of the session to go on with, if any.
    :ivar first: the member on whichever ensemble answers first.
    :ivar members: of the ensembles that are joined, in that order.
    :ivar ports: of all ensembles, indexed as in the placement, once the map is known. Those of ensembles that come
        are appended. :ivar names: their names.
    :ivar asked: what operations use in their place: `ports` itself, unless somebody hears of requests.
    :ivar placement: by the first map; later ones place znodes alike.
    :ivar known: the members whose ensemble has been seen to be the right one.
    :ivar sessions: to go on with, by ensemble.
    """

    placement: Placement

    def __init__(
        self,
        owner: RosterOwner[MemberT],
        client: Client,
        runtime: Runtime,
        make_member: Callable[[Any, str, str, SessionId | None], MemberT],
        resume: SessionId | None,
        standing: Standing[MemberT],
        registering: Registering[MemberT],
    ) -> None:
        self._owner = owner
        self._client = client
        self._runtime = runtime
        self._make_member = make_member
        self._resume = resume
        # A session of kazoo's. Of one of ours it is not known yet which ensembles it is on.
        first = resume if resume is not None and len(resume[1]) == SESSION_PASSWORD_BYTES else None
        self.first = make_member(owner, FIRST, client.describe_hosts(), first)
        self.members: tuple[MemberT, ...] = (self.first,)
        self.ports: list[RequestPort] = []
        self.names: list[str] = []
        is_heard = client.monitor is not None and client.monitor.meter(FIRST) is not None
        self.asked: list[RequestPort] = [] if is_heard else self.ports
        self._atlas = Atlas()
        self._servers = Servers()
        self._standing = standing
        self._standing.begins(self.first)
        self._registering = registering
        self.known = {self.first} if first else set[MemberT]()
        self._refused: dict[MemberT, set[str]] = {}  # servers that are not its ensemble's
        self.sessions: dict[str, SessionId] = {}

    @property
    def has_stayed_one(self) -> bool:
        """There has never been more than one ensemble. Ids do not change back if the others are taken out."""
        return len(self.names) == 1

    @property
    def is_of_one(self) -> bool:
        """Whether the newest map has one ensemble."""
        return self._atlas.is_of_one

    @property
    def cluster_map(self) -> ClusterMap | None:
        return self._atlas.map

    @property
    def _hosts(self) -> list[str]:
        """The servers to begin with."""
        return self._client.describe_hosts().split(",")

    # ---- what members ask ------------------------------------------------------------------------

    def recognize(
        self, member: MemberT, record: DataAnswer, copy: DataAnswer | None, server: str
    ) -> Exception | None:
        """See :meth:`parkazoo.engine.ports.Owner.recognize`."""
        if self.cluster_map is None:
            assert copy is not None  # as this was asked with has_map false
            return self._meet(record, copy, server)
        error = identity_error(self.cluster_map, member.name, record)
        if error is not None:
            return self._refuse(member, error, server)
        return None if copy is None else self.take_copy(member, copy, server)

    def take_copy(self, member: MemberT, copy: DataAnswer, server: str) -> Exception | None:
        """See :meth:`parkazoo.engine.ports.Owner.take_copy`."""
        before = self.cluster_map
        try:
            is_newer = self._atlas.take(copy, server)
        except Exception as error:
            return self._refuse(member, error, server)
        if is_newer and before is not None:
            self._follow(before)
        return None

    def take_config(self, member: MemberT, config: DataAnswer) -> None:
        """See :meth:`parkazoo.engine.ports.Owner.take_config`."""
        if self._atlas.is_of_one or isinstance(config, Exception):
            return
        if self._servers.take(member.name, parse_config(config[0])):
            self._settle(member, member.name)

    def doubts(self, member: MemberT, server: Server) -> str:
        """See :meth:`parkazoo.engine.ports.Owner.doubts`."""
        if self._owner.is_open or member is not self.first or self._atlas.is_of_one:
            return ""  # of one ensemble the user's own servers are used, and no others
        assert self.cluster_map is not None
        hosts = self.cluster_map.ensembles.get(member.name, "")
        return "" if not hosts or server in parse_hosts(hosts) else hosts

    def refuse_copy(self, member: MemberT, server: str) -> Exception:
        """See :meth:`parkazoo.engine.ports.Owner.refuse_copy`."""
        assert self.cluster_map is not None
        return self._refuse(member, copy_error(self.cluster_map, member.name, server), server)

    def _refuse(self, member: MemberT, error: Exception, server: str) -> Exception:
        """What waits for an ensemble fails when all its servers have turned out to be wrong."""
        if not self._owner.is_open and member is self.first:
            self._owner.fail(error)
        elif member not in self.known:
            assert self.cluster_map is not None
            refused = self._refused.setdefault(member, set())
            refused.add(server)
            known = self.cluster_map.ensembles.get(member.name, server)  # it may have been taken out
            hosts = self._servers.hosts(member.name, known)
            if len(refused) >= len(parse_hosts(hosts)):
                member.fail_waiting(error)
        return error

    def _meet(self, record: DataAnswer, copy: DataAnswer, server: str) -> Exception | None:
        """The first server that answers gives the map, and says which ensemble it belongs to."""
        try:
            name = self._atlas.meet(record, copy, server)
        except NoCopyError as error:  # another ensemble of the cluster may have one
            if error.asked is None or error.asked >= len(self._hosts):
                self._owner.fail(error)
            return error
        except Exception as error:
            self._owner.fail(error)
            return error
        assert self.cluster_map is not None
        self._registering.said = self.cluster_map
        self._settle(self.first, name)
        self._warn_of_strangers(self.cluster_map)
        self.placement = self.cluster_map.make_placement()
        self._add(self.cluster_map.names)
        self._tell_map(self.cluster_map, self.names)
        self.ports[self.names.index(name)] = self.first
        return self._go_on_with_sessions(name)

    def _add(self, names: Iterable[str]) -> None:
        """Ensembles that the map names."""
        for name in names:
            self.ports.append(self._port(name))
            if self.asked is not self.ports:
                self.asked.append(self._observe(name))
            self.names.append(name)  # now other threads may find it

    def _port(self, name: str) -> RequestPort:
        """In the place of a member."""
        assert self.cluster_map is not None
        if name in self.cluster_map.gone:
            return Gone()
        join = partial(self._runtime.call, partial(self._join, name))
        return Unjoined(self._runtime.make_lock(), self._owner.refusal, join)

    def _observe(self, name: str) -> RequestPort:
        """Make what tells of each request to the port that came last."""
        monitor = self._client.monitor
        assert monitor is not None
        meter = monitor.meter(name)
        assert meter is not None
        index, has_operations = len(self.asked), monitor.operation_meter is not None
        return ObservedPort(self.ports, index, meter, monitor.now_s, has_operations=has_operations)

    def _tell_map(self, cluster_map: ClusterMap, come: Sequence[str]) -> None:
        if (monitor := self._client.monitor) is not None:
            monitor.tell(MapChanged(cluster_map.epoch, cluster_map.form.word, tuple(come)))

    def _warn_of_strangers(self, cluster_map: ClusterMap) -> None:
        """Servers of two clusters in one list: each start would take the map of the first that answers."""
        servers = {format_hosts([each]) for hosts in cluster_map.ensembles.values() for each in parse_hosts(hosts)}
        strangers = {each.lower() for each in self._hosts} - servers
        if strangers and not self._atlas.is_of_one:
            self._client.logger.warning(
                "The map of cluster %s does not name %s: the client only begins there. If they are of another "
                "cluster, take them out of its hosts",
                cluster_map.cluster,
                ", ".join(sorted(strangers)),
            )

    def _settle(self, member: MemberT, name: str) -> None:
        assert self.cluster_map is not None
        if self._atlas.is_of_one:  # the user's hosts may be other names for its servers
            member.settle(name, None, (), None)
        elif name in self.cluster_map.ensembles:  # else it has been taken out: nothing is there, nor will be
            hosts = self._servers.hosts(name, self.cluster_map.ensembles[name])
            member.settle(name, hosts, self._servers.spare(name), self._client.session_timeout_s)

    def _go_on_with_sessions(self, name: str) -> Exception | None:
        """Join the ensembles on which there is a session to resume.

        :param name: of the first member, which has just begun a session, unless it was one of kazoo's.
        """
        if self._resume is None or len(self._resume[1]) == SESSION_PASSWORD_BYTES:
            return None
        sessions = unpack_sessions(self._resume[1])
        assert self.cluster_map is not None
        if not sessions or self._atlas.is_of_one or not sessions.keys() <= self.cluster_map.ensembles.keys():
            self._client.logger.warning("The client_id is not one of this cluster's: starting a new session")
            self._registering.renumber()
            return None
        self.sessions = sessions
        for each in sessions:
            self._join(each)
        if name not in sessions:
            return None
        self._standing.awaits(self.first)
        self.first.resume(sessions[name])
        return OtherSession("it goes on with the session of the client_id")

    def take_beside(self, ensemble: int, copy: DataAnswer) -> None:
        """Takes the copy of the map on an ensemble that has shown a pin with an unknown name."""
        name = self.names[ensemble]
        for member in self.members:
            if member.name == name:
                self.take_copy(member, copy, f"ensemble {name}")

    def is_joined(self, ensemble: int) -> bool:
        """Whether a port leads to a member. Any thread may ask."""
        return not isinstance(self.ports[ensemble], Unjoined)

    def is_connected(self, ensemble: int) -> bool:
        """Whether its member is connected. Any thread may ask."""
        name = self.names[ensemble]
        return any(member.is_connected for member in self.members if member.name == name)

    def unjoined(self) -> list[Unjoined]:
        """The ports of ensembles that are not joined."""
        return [port for port in self.ports if isinstance(port, Unjoined)]

    def _join(self, name: str) -> None:
        """On the loop: begin the member of an ensemble, if it has not begun."""
        cluster_map = self.cluster_map
        assert cluster_map is not None
        index = self.names.index(name)
        unjoined = self.ports[index]
        if self._owner.is_stopping or not isinstance(unjoined, Unjoined):
            return
        if name not in cluster_map.ensembles:  # it has been taken out again, before any directory was there
            unjoined.drop(ConnectionLoss)
            return
        session = self.sessions.get(name)
        member = self._make_member(self._owner, name, cluster_map.ensembles[name], session)
        self._settle(member, name)
        self._standing.begins(member)
        if session is not None:
            self._standing.awaits(member)
        self.members = (*self.members, member)
        self._owner.begin_member(member)
        unjoined.pass_on(member)
        self.ports[index] = member

    def _follow(self, before: ClusterMap) -> None:
        """There is a newer map: other addresses, more ensembles, a higher form."""
        assert self.cluster_map is not None
        number = self.cluster_map.epoch
        self._client.logger.info("The cluster map has changed: map %d", number, extra={"map": number})
        if come := [name for name in self.cluster_map.names if name not in self.names]:
            self._grow(come)
        self._tell_map(self.cluster_map, come)
        for member in self.members:
            if before.ensembles.get(member.name) != self.cluster_map.ensembles.get(member.name):
                self._settle(member, member.name)
        self._owner.map_has_changed()

    def _grow(self, come: Sequence[str]) -> None:
        """There are more ensembles.

        If there was one, it was used by the user's hosts. It still is, but for those that the map gives to others;
        the map's other servers are spare.
        """
        assert self.cluster_map is not None
        self._client.logger.info("The cluster has more ensembles: %s", ", ".join(come))
        if len(self.names) == 1:
            (name,) = self.names
            hosts = [self.cluster_map.ensembles[new] for new in come if new not in self.cluster_map.gone]
            others = {each for new in hosts for each in parse_hosts(new)}
            with suppress(ClusterMapError):  # names that no map could have
                used = (each for each in parse_hosts(",".join(dict.fromkeys(self._hosts))) if each not in others)
                self._servers.begin(name, self.cluster_map.ensembles[name], format_hosts(used))
            self._settle(self.first, name)
        self._owner.have_come(len(self.names) + len(come))
        self._add(come)

    # ---- ensembles that have left ----------------------------------------------------------------

    def close_gone(self) -> list[MemberT]:
        """The members whose ensemble has left the map. Nothing joins such an ensemble from now on."""
        assert self.cluster_map is not None
        gone = self.cluster_map.gone
        for index, name in enumerate(self.names):
            port = self.ports[index]
            if name in gone and isinstance(port, Unjoined):
                self.ports[index] = empty = Gone()
                port.pass_on(empty)
        return [member for member in self.members if member.name in gone]

    def join_first(self) -> None:
        """Have a session on the bootstrap ensemble, which never leaves."""
        assert self.cluster_map is not None
        self._join(self.cluster_map.bootstrap)

    def part_with(self, member: MemberT) -> None:
        """Its ensemble has left the map; another member is connected."""
        self.ports[self.names.index(member.name)] = Gone()
        self.members = tuple(each for each in self.members if each is not member)
        if self.first is member:
            self.first = self.members[0]

    # ---- for people ------------------------------------------------------------------------------

    def state_on(self, ensemble: int) -> str:
        """The KeeperState of one ensemble: CLOSED if it is not joined."""
        return next(
            (self._standing[each] for each in self.members if each is self.ports[ensemble]), KeeperState.CLOSED
        )

    def describe_missing(self) -> str:
        """The ensembles that were not reached and why, for the message of a time-out."""
        if self.cluster_map is None:
            return f"the cluster ({self.first.describe_troubles()})"
        missing = [
            f"ensemble {member.name} ({member.describe_troubles()})"
            for member in self.members
            if not self._standing.is_connected(member)
        ]
        return " and ".join(missing) or "all ensembles at once"
