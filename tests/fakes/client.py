"""A session without wire or thread: ensembles, members and a runtime whose clock a test turns by hand."""

from __future__ import annotations

import json
import logging
from typing import Any

from kazoo.protocol.states import KeeperState

from parkazoo.engine.session import Session
from parkazoo.kazoo_private import Create
from parkazoo.protocol.client_id import SessionId
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.placement import ENSEMBLE, MAP
from parkazoo.protocol.registration import encode_registration, registration_path
from tests.fakes.member import SESSION_TIMEOUT_S, Ensemble, Member
from tests.fakes.runtime import Runtime


def with_more(cluster_map: ClusterMap, **hosts: str) -> ClusterMap:
    """The next map, in which these ensembles have come."""
    return cluster_map.with_ensembles(hosts)


class Client:
    """Whom the session works for; it has begun, and no time has passed.

    :param first: the ensembles with whose servers it begins.
    :param monitor: see :class:`parkazoo.engine.ports.Client`.
    """

    give_up_after_s: float | None = None
    has_total_order = False
    session_timeout_s = SESSION_TIMEOUT_S

    def __init__(
        self, names: str = "abc", first: str = "a", resume: SessionId | None = None, monitor: Any = None
    ) -> None:
        hosts = {name: f"{name}:1" for name in names}
        self.map = ClusterMap(cluster="test", bootstrap=names[0], ensembles=hosts, placement=tuple(names))
        self.ensembles = {
            name: Ensemble({ENSEMBLE: self.identity(name), MAP: self.map.to_json()}) for name in names
        }
        self.servers = {f"{name}:1": ensemble for name, ensemble in self.ensembles.items()}
        self.first = first
        self.logger = logging.getLogger("parkazoo.test")
        self.client_state = KeeperState.CONNECTING
        self.states: list[str] = []
        self.causes: list[str] = []  # the ensembles by which they came
        self.resume = resume
        self.monitor = monitor
        self.begin()

    def begin(self) -> None:
        self.runtime = Runtime()
        self.session: Session[Member] = Session(self, self.runtime, self.make_member, self.resume)
        self.session.begin()

    def grow(self, *names: str) -> None:
        """A map with more ensembles is published. They have no copy yet, and the client has not heard of them."""
        self.map = with_more(self.map, **{name: f"{name}:1" for name in names})
        for name in names:
            self.ensembles[name] = self.servers[f"{name}:1"] = Ensemble({ENSEMBLE: self.identity(name)})
        self.ensembles[self.map.bootstrap].data[MAP] = self.map.to_json()

    def identity(self, name: str) -> bytes:
        return json.dumps(self.map.identity(name)).encode()

    def unchroot(self, path: str) -> str:
        return path

    def describe_hosts(self) -> str:
        return ",".join(self.map.ensembles[name] for name in self.first)

    def registration(self, session: int, client: int, epoch: int) -> Any:
        return Create(registration_path(session), encode_registration(client, {"epoch": epoch}), [], 0)

    def make_member(self, session: Any, name: str, hosts: str, session_id: SessionId | None) -> Member:
        member = Member(session, self.runtime, name, self._find, hosts)
        if session_id is not None:
            member.resume(session_id)
        return member

    def _find(self, hosts: str) -> list[Ensemble]:
        return [self.servers[address] for address in hosts.split(",")]

    def session_changed(self, state: str, ensemble: str) -> None:
        if state != self.client_state:
            self.client_state = state
            self.states.append(state)
            self.causes.append(ensemble)

    @property
    def joined(self) -> list[str]:
        return [member.name for member in self.session.roster.members]

    def __getitem__(self, name: str) -> Member:
        """The member of an ensemble."""
        return next(member for member in self.session.roster.members if member.name == name)
