"""Real members without servers: their owner, in place of a session, a runtime and a client."""

from __future__ import annotations

import logging
from typing import Any

from kazoo.client import KazooClient

from parkazoo.compat.kazoo_member import KazooMember
from parkazoo.errors import ClusterMapError
from parkazoo.kazoo_private import Create
from parkazoo.protocol.client_id import SessionId
from parkazoo.protocol.ops.creates import EPHEMERAL
from parkazoo.protocol.placement import logical
from parkazoo.protocol.registration import registration_path
from parkazoo.wire.backlog import Backlog
from parkazoo.wire.handler import ThreadingHandler
from parkazoo.wire.link import Link
from parkazoo.wire.member import MemberOptions
from tests.handlers import make_handler

LONG_S = 600.0  # a session time-out that no test waits for


class Gate:
    is_closed = False


class Owner:
    """What a member needs of a session, a runtime and a client.

    :ivar has_map: the cluster map is known: a new session need not ask for it before it has registered.
    :ivar is_lost: the end of a member's session is the end of the client's.
    :ivar copies: of the map, as members have found them behind a registration.
    :ivar configs: of the ensemble, likewise.
    :ivar gone_back: members whose ensemble has gone back.
    :ivar mistakes: what was raised though nothing outside causes it.
    :ivar missed: how often a request that leaves a watch has waited in vain.
    """

    is_leaving = False
    link_type = Link
    monitor: Any = None

    def __init__(self, loop: Any) -> None:
        self.has_map = self.is_lost = True
        self.copies: list[Any] = []
        self.configs: list[Any] = []
        self.gone_back: list[Any] = []
        self.missed = 0
        self.mistakes: list[Exception] = []
        self.loop = loop
        self.gate: Any = Gate()
        self.states: list[str] = []
        self.ended: list[Any] = []
        self.log = logging.getLogger("parkazoo.test")

    def member_changed(self, member: Any, state: str) -> None:
        self.states.append(state)

    def member_ended(self, member: Any) -> None:
        self.ended.append(member)

    def member_told(self, member: Any) -> None:
        """It has an event."""

    def deliver(self, watch: Any, event: Any) -> None:
        watch(event)

    def have_mistaken(self, error: Exception) -> None:
        self.mistakes.append(error)

    def member_missed(self, member: Any) -> None:
        self.missed += 1

    def is_fatal(self, member: Any) -> bool:
        return self.is_lost

    def recognize(self, member: Any, record: Any, copy: Any, server: str) -> Exception | None:
        """The servers of a member are marked with its name."""
        is_right = not isinstance(record, Exception) and record[0] == member.name.encode()
        return None if is_right else ClusterMapError("another ensemble")

    def registration(self, member: Any, session: int) -> Any:
        return Create(registration_path(session), b"", [], EPHEMERAL)

    def take_copy(self, member: Any, copy: Any, server: str) -> Exception | None:
        self.copies.append(copy)
        return None

    def map_told(self, member: Any) -> None:
        member.read_map()

    def doubts(self, member: Any, server: Any) -> str:
        """The map names every server here."""
        return ""

    def unready(self, member: Any) -> None:
        """A session may be used at once."""

    def take_config(self, member: Any, config: Any) -> None:
        self.configs.append(config)

    def went_back(self, member: Any) -> None:
        self.gone_back.append(member)

    def recover(self) -> None:
        """No thread is interrupted here."""

    def unchroot(self, path: str) -> str:
        return logical(path)


def make_member(
    owner: Any,
    hosts: str = "127.0.0.1:1",
    *,
    hook: Any = None,
    sasl: Any = None,
    **options: Any,
) -> KazooMember:
    """A member called b.

    :param hook: see :class:`KazooMember`.
    """
    auth_data = {*options.pop("auth_data", ())}
    handler: ThreadingHandler = options.pop("handler", None) or make_handler()
    timeout_s: float = options.pop("timeout", LONG_S)
    session: SessionId | None = options.pop("client_id", None)
    kazoo = KazooClient(handler=handler, **options)  # has what is not given
    common = MemberOptions(
        owner.unchroot,
        lambda name: owner.log,
        timeout_s,
        auth_data,
        kazoo,
        sasl,
        kazoo._conn_retry,
        bool(kazoo.read_only),
        kazoo.randomize_hosts,
    )
    return KazooMember(owner, owner, "b", hosts, session, common, handler, hook or (lambda original: None))


class Emptied(Backlog):
    """A backlog that another thread empties just after it was seen to hold something."""

    lies = 3

    def __len__(self) -> int:
        if self.lies and not super().__len__():
            self.lies -= 1
            return 1
        return super().__len__()
