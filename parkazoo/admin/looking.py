"""A cluster's servers and registrations, looked at again and again by connections that stay."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from types import TracebackType
from typing import Any

from kazoo.exceptions import NoNodeError

from parkazoo.admin.clients import (
    TIMEOUT_S,
    AdminClient,
    Auth,
    Options,
    UnreadableError,
    connect_to,
    for_each,
    try_each,
)
from parkazoo.admin.contents import parse_map
from parkazoo.admin.rates import LOOK_WORDS, ClusterLook, ServerLook, parse_look
from parkazoo.admin.read import read_map
from parkazoo.admin.registrations import Registrations, read_registered
from parkazoo.errors import ClusterMapError
from parkazoo.protocol.cluster_map import ClusterMap, format_hosts, parse_hosts
from parkazoo.protocol.placement import CLIENTS, MAP
from parkazoo.protocol.registration import format_session
from parkazoo.wire.report import words_of

LOOK_S = 2.0  # for all words together: what a server says later is not said at this look


class Looker(AbstractContextManager["Looker"]):
    """Looks at the cluster at `hosts`. It writes nothing. Arguments as for `init_map`.

    Each look asks every server `LOOK_WORDS`, and each ensemble for the names of its registrations; what a
    registration says is read once. If the map has changed, the look is at the new one's servers.

    :raises ClusterMapError: as `read_map`, when the block is entered.
    """

    def __init__(
        self, hosts: str, *, auth: Auth = (), timeout_s: float = TIMEOUT_S, **client_options: Any
    ) -> None:
        self._hosts = hosts
        self.auth = auth
        self._timeout_s = timeout_s
        self._client_options = client_options
        self.options: Options = {**client_options, "auth_data": list(auth)}
        self._stack = ExitStack()
        self._asked: Counter[str] = Counter()
        self._known: dict[str, dict[str, Mapping[str, object]]] = {}

    def __enter__(self) -> Looker:
        self._open(read_map(self._hosts, auth=self.auth, timeout_s=self._timeout_s, **self._client_options))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _open(self, cluster_map: ClusterMap) -> None:
        self._stack.close()
        self.map = cluster_map
        self._known = {name: {} for name in cluster_map.ensembles}
        self._clients = self._stack.enter_context(_connected(cluster_map, self.options, self._timeout_s))
        self._servers = [
            (name, AdminClient(address, address, self.options, LOOK_S))
            for name in cluster_map.ensembles
            for address in (format_hosts([each]) for each in parse_hosts(cluster_map.ensembles[name]))
        ]
        try_each(self._clients, self._registered)  # now: otherwise the first rates have a request for each

    def look(self, own: Collection[str] = ()) -> ClusterLook:
        """:param own: more sessions of this command."""
        newest, _ = try_each(self._clients, self._newer_map)
        found = max((each for each in newest.values() if each), key=lambda each: each.epoch, default=None)
        if found is not None:
            self._open(found)
        time_s, at_s = time.time(), time.monotonic()
        servers = for_each(self._servers, lambda each: self._ask(*each))
        registered, unread = try_each(self._clients, self._registered)
        ours = frozenset({*own, *sessions_of(self._clients)})
        return ClusterLook(time_s, at_s, self.map.cluster, self.map.epoch, servers, registered, unread, ours)

    def _newer_map(self, client: AdminClient) -> ClusterMap | None:
        if not client.zk.connected:
            return None
        try:
            data, _ = client.wait(MAP, client.zk.get_async(MAP))
            found = parse_map(data or b"", MAP, client.hosts)
        except (ClusterMapError, NoNodeError):
            return None  # `parkazoo check` says it
        return found if found.cluster == self.map.cluster and found.epoch > self.map.epoch else None

    def _ask(self, ensemble: str, server: AdminClient) -> ServerLook:
        answers = {}
        began_s = at_s = time.monotonic()
        asked = self._asked[server.hosts] + 1
        for word in LOOK_WORDS:
            try:
                if (left_s := began_s + LOOK_S - time.monotonic()) <= 0:
                    raise TimeoutError(f"no answer within {LOOK_S:g} s")
                answers[word] = server.ask(word, left_s)
            except OSError as error:
                why = words_of(error)
                answers.update({each: why for each in LOOK_WORDS if each not in answers})
                break
            self._asked[server.hosts] += 1
            if len(answers) == 1:
                at_s = (began_s + time.monotonic()) / 2
        return parse_look(ensemble, server.hosts, at_s, asked, answers)

    def _registered(self, client: AdminClient) -> Registrations:
        if not client.zk.connected:
            raise UnreadableError("no connection to it")
        known = self._known[client.name]
        sessions = client.children(CLIENTS)
        said = {**known, **dict(read_registered(client, [each for each in sessions if each not in known]))}
        self._known[client.name] = {each: said[each] for each in sessions if each in said}
        return [*self._known[client.name].items()]


@contextmanager
def _connected(cluster_map: ClusterMap, options: Options, timeout_s: float) -> Iterator[Mapping[str, AdminClient]]:
    """A client of each ensemble; those that have no connection yet go on trying."""
    with connect_to(cluster_map.ensembles, options, timeout_s, gives_up=True, registers=True) as (clients, absent):
        every = {**clients, **{each.name: each for each in absent}}
        for each in every.values():
            each.timeout_s = LOOK_S
        yield {name: every[name] for name in cluster_map.ensembles}


def sessions_of(clients: Mapping[str, AdminClient]) -> list[str]:
    """Returns the ids of their sessions, as servers write them."""
    return [format_session(each.zk.client_id[0]) for each in clients.values() if each.zk.client_id is not None]
