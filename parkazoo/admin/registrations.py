"""The clients of a cluster, from their registrations on its ensembles."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from kazoo.exceptions import NoAuthError

from parkazoo.admin.clients import (
    TIMEOUT_S,
    AdminClient,
    Auth,
    connect_to,
    for_each,
    reasons,
    try_each,
)
from parkazoo.admin.many_reads import ask_all
from parkazoo.admin.read import read_map
from parkazoo.admin.session_use import NOT_ASKED, FullDirectory, Held, SessionUse, ask_held, use_of, with_lost
from parkazoo.admin.strangers import ConnectedSessions, Lookout, Strangers
from parkazoo.admin.verify import verify_names
from parkazoo.errors import ClusterMapError
from parkazoo.kazoo_private import GetData
from parkazoo.protocol.cluster_map import format_hosts, parse_hosts
from parkazoo.protocol.placement import CLIENTS
from parkazoo.protocol.registration import CLIENT, decode_registration, is_command, parse_session
from parkazoo.version import __version__

AT_ONCE = 256  # registrations, or other znodes, that are asked for together
MOST_SAID = 1 << 32  # of a number: no process has a greater one, and no map
LONGEST_SAID = 255  # of a word: no host has a longer name
UNDERSTOOD_SINCE = (0, 1, 0)  # the version of ParKazoo whose clients can read each map that commands write
Registrations = list[tuple[str, Mapping[str, object]]]  # each session, and what it says


class RegisteredClient(NamedTuple):
    """Describes a client by its registrations; None for a value that they do not have.

    :param client: its id, as ZooKeeper's servers write session ids; None if the registration is damaged.
    :param host: its host, as it says.
    :param pid: its process there.
    :param version: of ParKazoo.
    :param map: the number of its cluster map: the newest that it says anywhere.
    :param since: the start of its session, in UTC.
    :param sessions: the id of its session on each ensemble.
    """

    client: str | None
    host: int | str | None
    pid: int | str | None
    version: int | str | None
    map: int | str | None
    since: int | str | None
    sessions: Mapping[str, str]


class ClientList(NamedTuple):
    """:param clients: the oldest first.
    :param absent: ensembles that cannot be reached or read, and why; clients may have sessions there too.
    :param unregistered: the sessions of others, as servers list their connections.
    :param connected: the sessions that have a connection.
    :param held: ephemerals and watches, if they were asked for.
    :param servers: the ensemble of each server that was asked.
    """

    clients: list[RegisteredClient]
    absent: dict[str, str]
    unregistered: Strangers
    connected: ConnectedSessions
    held: Held
    servers: Mapping[str, str]

    def use_of(self, sessions: Mapping[str, str]) -> SessionUse:
        """Returns what sessions, by ensemble, do and hold together."""
        unseen = {self.servers[server] for server in self.unregistered.unseen}
        return use_of(sessions, unseen, self.connected, self.held)

    def fullest(self) -> tuple[str, FullDirectory] | None:
        """Returns the directory with the most ephemerals of one client, behind its ensemble; None: not known."""
        if not self.held.fullest:
            return None
        name, found = max(self.held.fullest.items(), key=lambda each: each[1].ephemerals)
        clients = {each.sessions.get(name): each.client for each in self.clients}
        return name, found._replace(owner=clients.get(found.owner) or found.owner)


def list_clients(
    hosts: str,
    ensembles: Collection[str] = (),
    *,
    holdings: bool = False,
    auth: Auth = (),
    timeout_s: float = TIMEOUT_S,
    **options: Any,
) -> ClientList:
    """Lists the clients that have a session on one of `ensembles`; without names, on any. It writes nothing.

    Plain kazoo clients do not register, so their sessions are listed apart. Arguments as for `init_map`.

    :param holdings: whether servers are asked for ephemerals and watches too, which costs them much if there are
        many.
    :raises ClusterMapError: as `read_map`; or there is no such ensemble.
    """
    cluster_map = read_map(hosts, auth=auth, timeout_s=timeout_s, **options)
    verify_names(ensembles, cluster_map)
    asked = {
        name: cluster_map.ensembles[name] for name in cluster_map.ensembles if not ensembles or name in ensembles
    }
    with connect_to(asked, {**options, "auth_data": list(auth)}, timeout_s, gives_up=True) as (clients, absent):
        found, unreadable = read_registrations(clients)
        servers = {format_hosts([each]): name for name in clients for each in parse_hosts(asked[name])}
        own = {**options, "auth_data": list(auth)}
        held = NOT_ASKED
        if holdings:  # first: who has no connection afterwards had none, or has ended meanwhile
            held = ask_held([(name, AdminClient(each, each, own, timeout_s)) for each, name in servers.items()])
        lookout = Lookout(clients, servers, own, timeout_s)
        seen = with_lost(lookout.look(), lookout.connected, held, servers)
        away = {**{client.name: reasons(client) for client in absent}, **unreadable}
        return ClientList(found, away, seen, lookout.connected, held, servers)


def read_registrations(clients: Mapping[str, AdminClient]) -> tuple[list[RegisteredClient], dict[str, str]]:
    """The registrations on these ensembles, by client, the oldest first; and which cannot be read, and why."""
    found, unreadable = try_each(clients, read_sessions)
    return by_client(found), unreadable


def by_client(registrations: Mapping[str, Registrations]) -> list[RegisteredClient]:
    """:param registrations: by ensemble."""
    found: dict[object, dict[str, tuple[str, Mapping[str, object]]]] = defaultdict(dict)
    for name, sessions in registrations.items():
        for session, said in sessions:
            is_whole = parse_session(said.get(CLIENT)) is not None
            found[said[CLIENT] if is_whole else (name, session)][name] = session, said
    return sorted((_describe(key, sessions) for key, sessions in found.items()), key=_age)


def read_sessions(client: AdminClient) -> Registrations:
    """Each session that is registered on an ensemble, and what it says."""
    return client.patiently(lambda: _read_sessions(client))


def _read_sessions(client: AdminClient) -> Registrations:
    return read_registered(client, client.children(CLIENTS))


def read_registered(client: AdminClient, sessions: Sequence[str]) -> Registrations:
    """Those of these sessions that clients have registered, and what they say."""
    reads = [GetData(f"{CLIENTS}/{name}", None) for name in sessions]
    requests = (reads[start : start + AT_ONCE] for start in range(0, len(reads), AT_ONCE))
    found: Registrations = []
    for path, answer in ask_all(client, requests):
        if isinstance(answer, NoAuthError):
            found.append((path.rpartition("/")[2], decode_registration(b"")))
        elif not isinstance(answer, Exception):  # else its session has ended meanwhile
            said = decode_registration(answer[0])
            if not is_command(said):
                found.append((path.rpartition("/")[2], said))
    return found


def _describe(key: object, sessions: Mapping[str, tuple[str, Mapping[str, object]]]) -> RegisteredClient:
    said = next(iter(sessions.values()))[1]
    about = partial(_one_word, said)
    maps = [each for _, what in sessions.values() if isinstance(each := _one_word(what, "epoch"), int)]
    return RegisteredClient(
        client=key if isinstance(key, str) else None,
        host=about("host"),
        pid=about("pid"),
        version=about("version"),
        map=max(maps, default=about("epoch")),
        since=about("since"),
        sessions={name: session for name, (session, _) in sessions.items()},
    )


def describe_client(client: RegisteredClient) -> str:
    """Describes a client in words, with its version if that differs; without an id, by its session's."""
    sessions = ", ".join(client.sessions)
    says = f"says map {client.map}" if client.map is not None else "says no map"
    who = client.client or f"session {', '.join(client.sessions.values())}"
    version = f", ParKazoo {client.version}" if client.version not in {None, __version__} else ""
    return f"{who} on {client.host}, pid {client.pid}{version}, since {client.since}: on {sessions} it {says}"


def verify_new_enough(clients: Mapping[str, AdminClient]) -> None:
    """:raises ClusterMapError: a client could not read a map that has more in it than the map until now."""
    sessions = dict(zip(clients, for_each(list(clients.values()), read_sessions), strict=True))
    if older := [each for each in by_client(sessions) if _is_older(each)]:
        clients_are = "1 client is" if len(older) == 1 else f"{len(older):,} clients are"
        raise ClusterMapError(
            f"the map is not changed: {clients_are} too old to read the next one. Upgrade first:"
            f"\n  {describe_client(older[0])}"
        )


def _is_older(client: RegisteredClient) -> bool:
    found = re.match(r"(\d+)\.(\d+)\.(\d+)", str(client.version))
    return found is not None and tuple(map(int, found.groups())) < UNDERSTOOD_SINCE


def _one_word(said: Mapping[str, object], key: str) -> int | str | None:
    """What a registration says, unless it is nothing to print: any client may write there."""
    found = said.get(key)
    if isinstance(found, str):
        return found if len(found) <= LONGEST_SAID and found.isprintable() else None
    if isinstance(found, bool) or not isinstance(found, int):
        return None
    return found if 0 <= found <= MOST_SAID else None


def _age(client: RegisteredClient) -> tuple[str, str]:
    return str(client.since or "~"), client.client or "~"
