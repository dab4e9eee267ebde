"""Each server asked for its settings, counters and connections: by four-letter words, and its AdminServer."""

from __future__ import annotations

import ipaddress
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from parkazoo.admin.answers import (
    AdminAnswer,
    ServerConnection,
    count_voters,
    parse_admin_answer,
    parse_configuration,
    parse_connections,
    parse_monitor,
    why_unanswered,
)
from parkazoo.admin.clients import AdminClient, Connections, for_each
from parkazoo.admin.words import ask_server
from parkazoo.protocol.cluster_map import parse_hosts
from parkazoo.protocol.registration import format_session
from parkazoo.wire.report import words_of
from parkazoo.wire.sizes import DEFAULT_LIMIT

ADMIN_PORT = 8080  # ZooKeeper's default
WORDS = ("conf", "mntr", "cons")
Range = tuple[float, float]  # the least and the most


class Inquiry(NamedTuple):
    """Describes a server by its own words; None for what it does not tell.

    :param settings: from ``conf``. :param voters: of its ensemble, as ``conf`` lists them.
    :param monitor: the values of ``mntr``.
    :param properties: of its JVM, which its AdminServer tells since ZooKeeper 3.6.
    :param is_admin_open: whether its AdminServer answers at an address that other machines reach.
    :param silent: by four-letter word: why it is not answered.
    :param takes_more: whether it takes requests larger than ZooKeeper's default allows; None also if `properties`
        say it.
    :param clock_s: how far its clock is ahead of this machine's.
    """

    ensemble: str
    server: str
    settings: Mapping[str, str] | None = None
    voters: int | None = None
    monitor: Mapping[str, str] | None = None
    connections: Sequence[ServerConnection] | None = None
    properties: Mapping[str, object] | None = None
    is_admin_open: bool = False
    silent: Mapping[str, str] = {}
    takes_more: bool | None = None
    clock_s: Range | None = None


def inquire(connections: Connections, timeout_s: float, admin_port: int) -> list[Inquiry]:
    """Asks each server that serves, all at the same time.

    :param timeout_s: seconds for all words of a server, and as many for its AdminServer beside them.
    :param admin_port: of the AdminServers; 0: they are not asked.
    """
    asked = [(server, name, client) for server, (name, client) in connections.servers.items()]
    calls: list[Callable[[], Inquiry | _Admin | None]] = [partial(_ask, *each, timeout_s) for each in asked]
    calls += [partial(_ask_admin, server, admin_port, timeout_s) for server, _, _ in asked]
    found = for_each(calls, lambda call: call())
    told = []
    for own, admin in zip(found[: len(asked)], found[len(asked) :], strict=True):
        assert isinstance(own, Inquiry)
        told.append(own if not isinstance(admin, _Admin) else _join(own, admin))
    sizes = [
        (each, connections.servers[each.server][1]) if each.properties is None else (each, None) for each in told
    ]
    return for_each(sizes, lambda each: _try_size(*each))


class _Admin(NamedTuple):
    """:param about: says whose AdminServer it is."""

    about: Mapping[str, object]
    properties: Mapping[str, object] | None
    is_open: bool
    clock_s: Range | None


def _ask(server: str, ensemble: str, client: AdminClient, timeout_s: float) -> Inquiry:
    deadline = time.monotonic() + timeout_s
    said: dict[str, str] = {}
    silent: dict[str, str] = {}
    for word in WORDS:
        try:
            answer = client.ask(word, max(0.1, deadline - time.monotonic()))
        except OSError as error:
            silent[word] = words_of(error)
            continue
        if why := why_unanswered(word, answer):
            silent[word] = why
        else:
            said[word] = answer
    connected = parse_connections(said["cons"]) if "cons" in said else None
    return Inquiry(
        ensemble,
        server,
        settings=parse_configuration(said["conf"]) if "conf" in said else None,
        voters=count_voters(said["conf"]) if "conf" in said else None,
        monitor=parse_monitor(said["mntr"]) if "mntr" in said else None,
        connections=connected,
        silent=silent,
        clock_s=_clock(client, connected or ()),
    )


def _clock(client: AdminClient, connected: Sequence[ServerConnection]) -> Range | None:
    """By when the server says that this command's own connection was made."""
    if client.zk.client_id is None or not client.connected_s:
        return None
    session = format_session(client.zk.client_id[0])
    for each in connected:
        if each.session == session and each.established_ms is not None:
            made_s = each.established_ms / 1000
            return made_s - client.connected_s, made_s - client.began_s
    return None


def _ask_admin(server: str, port: int, timeout_s: float) -> _Admin | None:
    """None if it does not answer, or is no AdminServer."""
    if not port:
        return None
    ((host, _),) = parse_hosts(server)
    deadline = time.monotonic() + timeout_s
    began_s = time.time()
    about = _get("configuration", host, port, deadline)
    ended_s = time.time()
    if about is None:
        return None
    clock_s = None
    if about.date is not None:  # to the second, rounded down
        told_s = about.date.timestamp()
        clock_s = told_s - ended_s, told_s + 1 - began_s
    properties = _get("system_properties", host, port, deadline)
    return _Admin(about.values, properties and properties.values, not _is_local(host), clock_s)


def _get(command: str, host: str, port: int, deadline: float) -> AdminAnswer | None:
    request = f"GET /commands/{command} HTTP/1.0\r\nHost: {host}\r\n\r\n"
    try:
        return parse_admin_answer(ask_server(request, (host, port), max(0.1, deadline - time.monotonic())))
    except OSError:
        return None


def _is_local(host: str) -> bool:
    try:
        found = {str(info[4][0]) for info in socket.getaddrinfo(host, None)}
    except OSError:
        return False
    return all(ipaddress.ip_address(each.partition("%")[0]).is_loopback for each in found)


def _join(own: Inquiry, admin: _Admin) -> Inquiry:
    """Several servers of a machine have one default port: the AdminServer may be another one's."""
    if own.settings is not None:
        is_own = str(admin.about.get("server_id")) == own.settings.get("serverId") and admin.about.get(
            "data_dir"
        ) == own.settings.get("dataDir")
    else:
        is_own = str(admin.about.get("client_port")) == own.server.rpartition(":")[2]
    if not is_own:
        return own
    return own._replace(
        properties=admin.properties, is_admin_open=admin.is_open, clock_s=own.clock_s or admin.clock_s
    )


def _try_size(each: Inquiry, client: AdminClient | None) -> Inquiry:
    return each if client is None else each._replace(takes_more=client.takes(DEFAULT_LIMIT + 1))
