"""Sessions that have not registered: of plain kazoo programs, or of clients of ours that could not."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from parkazoo.admin.answers import ServerConnection, parse_connections, why_unanswered
from parkazoo.admin.clients import AdminClient, Options, for_each, try_each
from parkazoo.admin.strays import SHOWN
from parkazoo.protocol.placement import CLIENTS
from parkazoo.protocol.registration import format_session
from parkazoo.wire.report import words_of

LOOKS = 5
LOOK_EVERY_S = 0.5


class Stranger(NamedTuple):
    """:param address: of the client's end of the connection."""

    session: str
    address: str
    server: str
    ensemble: str

    def __str__(self) -> str:
        return f"{self.address} on {self.server}, session {self.session}"


OfEnsemble = tuple[str, str]  # the name of an ensemble, and a session's id, which another one may have too


class Strangers(NamedTuple):
    """:param found: by ensemble and session.
    :param unseen: servers of which it is not known who is connected, and why.
    """

    found: Mapping[OfEnsemble, Stranger]
    unseen: Mapping[str, str]

    def to_json(self) -> dict[str, Any]:
        return {"sessions": [each._asdict() for each in self.found.values()], "unseen": dict(self.unseen)}


class ConnectedSessions(NamedTuple):
    """:param sessions: by ensemble and id: the server that lists the session's connection, and its own words.
    :param registered: the sessions that were registered both before and after the servers were asked.
    """

    sessions: Mapping[OfEnsemble, tuple[str, ServerConnection]]
    registered: Collection[OfEnsemble]


class Lookout:
    """Looks for sessions that are not registered.

    :ivar connected: all sessions that the last look has seen, registered or not.

    :param clients: by name, of the ensembles.
    :param servers: to ask, with the names of their ensembles.
    :param own: other clients of this command, behind the names of their ensembles.
    """

    def __init__(
        self,
        clients: Mapping[str, AdminClient],
        servers: Mapping[str, str],
        options: Options,
        timeout_s: float,
        own: Iterable[tuple[str, AdminClient]] = (),
    ) -> None:
        self._clients = clients
        self._asked = {server: AdminClient(server, server, options, timeout_s) for server in servers}
        self._ensemble_of = servers
        self._own = [*clients.items(), *own]
        self.connected = ConnectedSessions({}, ())

    def look(self) -> Strangers:
        """Look once: a client that was about to register may be among those found."""
        before, _ = try_each(self._clients, _registered)
        said = dict(zip(self._asked, for_each(list(self._asked.values()), _connections), strict=True))
        after, unreadable = try_each(self._clients, _registered)
        own = {(name, format_session(client.zk._session_id)) for name, client in self._own}
        known = {*own, *_by_ensemble(before), *_by_ensemble(after)}
        found: dict[OfEnsemble, Stranger] = {}
        unseen: dict[str, str] = {}
        seen: dict[OfEnsemble, tuple[str, ServerConnection]] = {}
        for server, connections in said.items():
            name = self._ensemble_of[server]
            if isinstance(connections, str) or name not in after:
                unseen[server] = connections if isinstance(connections, str) else unreadable.get(name, "")
                continue
            for each in connections:
                if each.session is None:
                    continue
                seen[name, each.session] = server, each
                if (name, each.session) not in known:
                    found[name, each.session] = Stranger(each.session, each.address, server, name)
        registered = {*_by_ensemble(before)} & {*_by_ensemble(after)}
        self.connected = ConnectedSessions(seen, registered)
        return Strangers(found, unseen)

    def look_again(self) -> Strangers:
        """Look until none is seen twice in a row, or long enough to tell who stays.

        A client that starts registers meanwhile. One look may miss a session that goes to another server.
        """
        looks = [self.look()]
        while len(looks) < LOOKS and not (len(looks) > 1 and not looks[-1].found and not looks[-2].found):
            time.sleep(LOOK_EVERY_S)
            looks.append(self.look())
        times = Counter(session for look in looks for session in look.found)
        last = {**looks[-2].found, **looks[-1].found}
        return Strangers({session: each for session, each in last.items() if times[session] > 1}, looks[-1].unseen)


def describe_strangers(strangers: Mapping[OfEnsemble, Stranger]) -> str:
    """How many, and the first of them, one a line."""
    listed = "".join(f"\n  {each}" for each in [*strangers.values()][:SHOWN])
    more = f"\n  and {len(strangers) - SHOWN:,} more" if len(strangers) > SHOWN else ""
    return f"{count_strangers(strangers)} not registered:{listed}{more}"


def count_strangers(strangers: Mapping[OfEnsemble, Stranger]) -> str:
    return f"{len(strangers):,} sessions are" if len(strangers) > 1 else "1 session is"


def _by_ensemble(sessions: Mapping[str, Sequence[str]]) -> Iterator[OfEnsemble]:
    return ((name, each) for name, ids in sessions.items() for each in ids)


def _registered(client: AdminClient) -> list[str]:
    return client.children(CLIENTS)


def _connections(server: AdminClient) -> list[ServerConnection] | str:
    """The connections to a server; or why it does not tell."""
    try:
        said = server.ask("cons")
    except OSError as error:
        return f"it does not answer `cons`: {words_of(error)}"
    if why := why_unanswered("cons", said):
        return f"it does not answer `cons`: {why}"
    return parse_connections(said)
