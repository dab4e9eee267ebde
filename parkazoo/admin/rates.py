"""What servers say at two times, as rates: of ensembles, servers, clients and directories. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from parkazoo.admin.answers import (
    ServerConnection,
    number_of,
    parse_connections,
    parse_monitor,
    parse_server,
    why_unanswered,
)
from parkazoo.admin.registrations import Registrations, by_client

LOOK_WORDS = ("srvr", "mntr", "cons")  # in this order, which `ServerLook.asked` counts on


class ServerLook(NamedTuple):
    """Describes a server at one moment; None for a value that it does not tell.

    :param at_s: when it answered ``srvr``, by a clock that only goes on.
    :param asked: four-letter words that it has been asked until then, which its `received` counts too.
    :param received: requests since its start, pings and four-letter words included.
    :param reads: answered since its start, pings included. :param writes: those of its own clients.
    :param p99_ms: of the writes since its start. :param up_ms: since its start.
    :param silent: by word: why it is not answered.
    """

    ensemble: str
    server: str
    at_s: float
    asked: int = 0
    role: str | None = None
    received: int | None = None
    zxid: int | None = None
    queue: int | None = None
    connected: int | None = None
    znodes: int | None = None
    reads: float | None = None
    writes: float | None = None
    p99_ms: float | None = None
    watches: float | None = None
    up_ms: float | None = None
    connections: Sequence[ServerConnection] | None = None
    silent: Mapping[str, str] = {}


class ClusterLook(NamedTuple):
    """Describes a cluster at one moment.

    :param time_s: since the epoch. :param at_s: by a clock that only goes on.
    :param registered: by ensemble: what its sessions say.
    :param unread: by ensemble: why its registrations cannot be read. :param own: sessions of this command.
    """

    time_s: float
    at_s: float
    cluster: str
    map: int
    servers: Sequence[ServerLook]
    registered: Mapping[str, Registrations]
    unread: Mapping[str, str]
    own: Collection[str] = ()


class EnsembleRates(NamedTuple):
    """Rates are per second; None for a number that is not wholly known.

    :param serving: servers that serve, of `servers`.
    :param share: of the writes of all ensembles whose writes are seen.
    :param writes: transactions that its servers agreed on; sessions that begin and end are among them.
    """

    ensemble: str
    serving: int
    servers: int
    leader: str | None
    requests: float | None
    reads: float | None
    writes: float | None
    share: float | None
    p99_ms: float | None
    queue: int | None
    clients: int | None
    watches: float | None
    znodes: int | None


class ServerRates(NamedTuple):
    """:param writes: those of its own clients. :param share: of the requests of all servers that tell them.
    :param trouble: what it does not tell, and why; empty if it tells all.
    """

    ensemble: str
    server: str
    role: str | None
    requests: float | None
    reads: float | None
    writes: float | None
    share: float | None
    p99_ms: float | None
    queue: int | None
    clients: int | None
    watches: float | None
    znodes: int | None
    trouble: str


class ClientRates(NamedTuple):
    """:param client: its id as it has registered; of one that has not, its session.
    :param host: as it says, or its address. :param share: of the requests of all clients.
    """

    client: str
    is_registered: bool
    host: int | str | None
    pid: int | str | None
    version: int | str | None
    since: int | str | None
    map: int | str | None
    ensembles: tuple[str, ...]
    requests: float | None
    share: float | None


class DirectoryRates(NamedTuple):
    """:param directory: as clients name it. :param writes: znodes created, set and deleted in it.
    :param share: of all in its ensemble that were seen.
    """

    directory: str
    ensemble: str
    writes: float
    share: float


class Rates(NamedTuple):
    """:param seconds: between the two looks. :param directories: the hottest first.
    :param directories_s: how long these were counted; None: they are not.
    :param unseen: sentences that say what these rates miss.
    """

    time_s: float
    seconds: float
    cluster: str
    map: int
    ensembles: Sequence[EnsembleRates]
    servers: Sequence[ServerRates]
    clients: Sequence[ClientRates]
    directories: Sequence[DirectoryRates] = ()
    directories_s: float | None = None
    unseen: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        rows = ("ensembles", "servers", "clients", "directories")
        return {
            **self._asdict(),
            **{name: [each._asdict() for each in getattr(self, name)] for name in rows},
            "unseen": list(self.unseen),
        }

    def requests(self) -> float | None:
        return total(each.requests for each in self.ensembles)

    def writes(self) -> float | None:
        return total(each.writes for each in self.ensembles)


Row = TypeVar("Row", EnsembleRates, ServerRates, ClientRates)


def parse_look(ensemble: str, server: str, at_s: float, asked: int, answers: Mapping[str, str]) -> ServerLook:
    """:param answers: by four-letter word: what the server said, or why it did not."""
    silent = {word: why for word, said in answers.items() if (why := why_unanswered(word, said))}
    said = {word: answer for word, answer in answers.items() if word not in silent}
    server_says = parse_server(said.get("srvr", ""))
    monitor = parse_monitor(said.get("mntr", ""))
    connected = _whole(server_says.get("Connections"))
    return ServerLook(
        ensemble,
        server,
        at_s,
        asked,
        role=server_says.get("Mode") or monitor.get("server_state"),
        received=_whole(server_says.get("Received")),
        zxid=_whole(server_says.get("Zxid"), 16),
        queue=_whole(server_says.get("Outstanding")),
        connected=None if connected is None else max(0, connected - 1),  # the one that asks
        znodes=_whole(server_says.get("Node count")),
        # with the metrics provider of Prometheus, the names differ
        reads=number_of(monitor, "cnt_readlatency", "readlatency_count"),
        writes=number_of(monitor, "cnt_updatelatency", "updatelatency_count"),
        p99_ms=number_of(monitor, "p99_updatelatency", 'updatelatency{quantile="0.99"}'),
        watches=number_of(monitor, "watch_count"),
        up_ms=number_of(monitor, "uptime"),
        connections=parse_connections(said["cons"]) if "cons" in said else None,
        silent=silent,
    )


def rates_between(before: ClusterLook, now: ClusterLook) -> Rates:
    """Returns the rates between two looks. A server that has started meanwhile has none."""
    looks_before = {each.server: each for each in before.servers}
    pairs = [(looks_before.get(each.server), each) for each in now.servers]
    servers = _shared(
        [_server_rates(was, each, now.own) for was, each in pairs],
        lambda each: each.requests,
    )
    names = dict.fromkeys(each.ensemble for each in now.servers)
    ensembles = _shared(
        [_ensemble_rates(name, before, now, [row for row in servers if row.ensemble == name]) for name in names],
        lambda each: each.writes,
    )
    return Rates(
        round(now.time_s, 3),
        round(now.at_s - before.at_s, 3),
        now.cluster,
        now.map,
        ensembles,
        servers,
        _client_rates(looks_before, now),
        unseen=[f"who the sessions on {name} belong to: {why}" for name, why in now.unread.items()],
    )


def total(numbers: Iterable[float | None]) -> float | None:
    """Returns the sum of those that are known; None if none is."""
    known = [each for each in numbers if each is not None]
    return sum(known) if known else None


def _shared(rows: Sequence[Row], rate: Callable[[Row], float | None]) -> list[Row]:
    whole = total(map(rate, rows))
    return [
        each._replace(share=None if whole is None or (own := rate(each)) is None else round(own / (whole or 1), 4))
        for each in rows
    ]


# ---- servers and ensembles -----------------------------------------------------------------------


def _server_rates(was: ServerLook | None, now: ServerLook, own: Collection[str]) -> ServerRates:
    def rate(value: Callable[[ServerLook], float | None]) -> float | None:
        if was is None or now.at_s <= was.at_s or _has_started_between(was, now):
            return None
        return _rate(value(was), value(now), now.at_s - was.at_s)

    sessions = None
    if now.connections is not None:
        sessions = sum(each.session is not None and each.session not in own for each in now.connections)
    return ServerRates(
        now.ensemble,
        now.server,
        now.role,
        requests=rate(_requests),
        reads=rate(lambda each: each.reads),
        writes=rate(lambda each: each.writes),
        share=None,
        p99_ms=now.p99_ms,
        queue=now.queue,
        clients=now.connected if sessions is None else sessions,
        watches=now.watches,
        znodes=now.znodes,
        trouble=_trouble(now.silent),
    )


def _requests(look: ServerLook) -> int | None:
    return None if look.received is None else look.received - look.asked


def _has_started_between(was: ServerLook, now: ServerLook) -> bool:
    """Whether it counts from 0: one number that goes back tells of all; the others may have grown beyond again."""
    if now.up_ms is not None and now.up_ms < 1000 * (now.at_s - was.at_s):
        return True
    numbers: Sequence[tuple[float | None, float | None]] = (
        (_requests(was), _requests(now)),
        (was.reads, now.reads),
        (was.writes, now.writes),
    )
    return any(before is not None and after is not None and after < before for before, after in numbers)


def _trouble(silent: Mapping[str, str]) -> str:
    words: dict[str, list[str]] = {}
    for word in LOOK_WORDS:
        if word in silent:
            words.setdefault(silent[word], []).append(word)
    return "; ".join(f"{', '.join(each)}: {why}" for why, each in words.items())


def _rate(was: float | None, now: float | None, seconds: float) -> float | None:
    return None if was is None or now is None or now < was else round((now - was) / seconds, 2)


def _ensemble_rates(
    name: str, before: ClusterLook, now: ClusterLook, servers: Sequence[ServerRates]
) -> EnsembleRates:
    serving = [each for each in servers if each.role is not None]

    def whole(value: Callable[[ServerRates], float | None]) -> float | None:
        """None if a server that serves does not tell."""
        values = [value(each) for each in serving]
        return None if not values or None in values else total(values)

    queue, clients = whole(lambda each: each.queue), whole(lambda each: each.clients)
    requests, reads, watches = (
        whole(lambda each: each.requests),
        whole(lambda each: each.reads),
        whole(lambda each: each.watches),
    )
    return EnsembleRates(
        name,
        len(serving),
        len(servers),
        next((each.server for each in serving if each.role in {"leader", "standalone"}), None),
        requests=None if requests is None else round(requests, 2),
        reads=None if reads is None else round(reads, 2),
        writes=_transactions(name, before, now),
        share=None,
        p99_ms=max((each.p99_ms for each in serving if each.p99_ms is not None), default=None),
        queue=None if queue is None else int(queue),
        clients=None if clients is None else int(clients),
        watches=watches,
        znodes=max((each.znodes for each in serving if each.znodes is not None), default=None),
    )


def _transactions(name: str, before: ClusterLook, now: ClusterLook) -> float | None:
    """By the zxid of the server that is ahead, mostly the leader; None if another leader took over meanwhile."""
    was, last = (
        max(
            ((each.zxid, each.at_s) for each in look.servers if each.ensemble == name and each.zxid is not None),
            default=None,
        )
        for look in (before, now)
    )
    if was is None or last is None or _leader_of(was[0]) != _leader_of(last[0]) or last[1] <= was[1]:
        return None
    return _rate(was[0], last[0], last[1] - was[1])


def _leader_of(zxid: int) -> int:
    """The number of the leader under which a transaction was done, its epoch."""
    return zxid >> 32


# ---- clients -------------------------------------------------------------------------------------


def _client_rates(before: Mapping[str, ServerLook], now: ClusterLook) -> list[ClientRates]:
    """The busiest first; those of which it is not known last."""
    rates: dict[tuple[str, str], float | None] = {}
    addresses: dict[tuple[str, str], str] = {}
    for look in now.servers:
        rate_of = _rates_of_sessions(before.get(look.server), look)
        for each in look.connections or ():
            if each.session is not None and each.session not in now.own:
                rates[look.ensemble, each.session] = rate_of(each)
                addresses[look.ensemble, each.session] = each.address
    blind = {each.ensemble for each in now.servers if each.connections is None}
    rows = []
    for client in by_client(now.registered):
        sessions = [*client.sessions.items()]
        if {session for _, session in sessions} <= {*now.own}:
            continue
        requests = [rates.pop(each, None if each[0] in blind else 0.0) for each in sessions]
        rows.append(
            ClientRates(
                client.client or sessions[0][1],
                True,
                client.host,
                client.pid,
                client.version,
                client.since,
                client.map,
                tuple(client.sessions),
                None if None in requests else round(total(requests) or 0.0, 2),
                None,
            )
        )
    rows += [
        ClientRates(session, False, addresses[name, session], None, None, None, None, (name,), rate, None)
        for (name, session), rate in rates.items()
    ]
    shared = _shared(rows, lambda each: each.requests)
    return sorted(shared, key=lambda each: -1.0 if each.requests is None else each.requests, reverse=True)


def _rates_of_sessions(was: ServerLook | None, look: ServerLook) -> Callable[[ServerConnection], float | None]:
    """Returns what tells a server's connections' rates.

    A connection that was not there before counts from its begin. None if its server did not tell before.
    """
    if was is None or was.connections is None or look.at_s <= was.at_s:
        return lambda _: None
    seconds = look.at_s - was.at_s
    before = {(each.session, each.established_ms): each.requests for each in was.connections}

    def rate(now: ServerConnection) -> float:
        requests = before.get((now.session, now.established_ms), 0)
        return round(max(0, now.requests - requests) / seconds, 2)

    return rate


def _whole(text: str | None, base: int = 10) -> int | None:
    try:
        return None if text is None else int(text, base)
    except ValueError:
        return None
