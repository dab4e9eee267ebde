"""A cluster's health at one moment: its map, quorums, disks, versions, clocks and settings."""

from __future__ import annotations

import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from parkazoo.admin.answers import NOT_LISTED, number_of
from parkazoo.admin.check import MapProblem, check_ensembles
from parkazoo.admin.clients import TIMEOUT_S, Auth, Connections
from parkazoo.admin.inquiry import ADMIN_PORT, Inquiry, inquire
from parkazoo.admin.read import connect_by_newest, read_map
from parkazoo.admin.server_status import ServerStatus, ask_servers
from parkazoo.admin.status import ClusterStatus, status_of
from parkazoo.admin.strangers import Strangers
from parkazoo.wire.sizes import DEFAULT_LIMIT

WRONG, WARNING, UNKNOWN, FINE = LEVELS = ("wrong", "warning", "unknown", "fine")  # the worst first
TOPICS = ("map", "quorum", "disk", "versions", "clock", "settings")
MAP_TOPIC, QUORUM, DISK, VERSIONS, CLOCK, SETTINGS = TOPICS
UNTOLD = "autopurge.purgeInterval, autopurge.snapRetainCount"
APART_S = 2.0  # clocks that NTP sets differ by less
NEARLY = 0.8  # of a limit
SLOW_FSYNC_MS = 50.0  # on average, as in conf/prometheus-alerts.yml
FEW_FSYNCS = 10  # less says nothing
OFTEN = 3  # times out of the quorum: a rolling restart takes a follower out once, when its leader stops
LATELY_S = 600.0  # later it is over
VOTING = frozenset({"leader", "follower", "standalone"})
THIS = "this machine"
SEES = {
    "conf": "its settings cannot be seen",
    "mntr": "its disk, its open files, and a leader's followers in sync, cannot be seen",
    "cons": "its connections and its clock cannot be seen",
}
ALLOW = "4lw.commands.whitelist=srvr,conf,mntr,cons in its zoo.cfg, and a restart"
ALIKE = "give all servers of the ensemble the same line in zoo.cfg, and restart them one by one"
SAME_FLAG = "give all its servers the same -Djute.maxbuffer, by SERVER_JVMFLAGS, and restart them one by one"
JUTE = "jute.maxbuffer"
MORE = f"more than {DEFAULT_LIMIT}"
LOG_APART = "dataLogDir"
WITHIN = {  # settings that an ensemble's servers should have in common, and what it means if not
    "tickTime": "its sessions end earlier or later, by the server that leads",
    "initLimit": "how long a follower may take to join depends on the server that leads",
    "syncLimit": "how far a follower may lag depends on the server that leads",
    "minSessionTimeout": "the time-out of a session depends on the server that its client meets",
    "maxSessionTimeout": "the time-out of a session depends on the server that its client meets",
    "maxClientCnxns": "how many connections a host may have depends on the server",
    JUTE: "a request that one server takes ends the connection to another, and may take a follower out",
    LOG_APART: "one of them writes its log beside its snapshots: all writes wait for the slower ones of a quorum",
}
BETWEEN = {  # a cluster's ensembles should have these in common
    "minSessionTimeout": "a client's sessions have different time-outs: it may lose one and keep the others",
    "maxSessionTimeout": "a client's sessions have different time-outs: it may lose one and keep the others",
    JUTE: "how large a znode may be depends on its path",
}


class HealthFinding(NamedTuple):
    """Describes something that is wrong, may become wrong, or cannot be seen.

    :param level: ``wrong``, ``warning`` or ``unknown``. :param topic: one of `TOPICS`.
    :param ensemble: its name; several: with commas. :param servers: that it is about; empty: the ensemble.
    """

    level: str
    topic: str
    ensemble: str
    servers: tuple[str, ...]
    seen: str
    meaning: str
    remedy: str


class Health(NamedTuple):
    """:param settings: of each server, by name; None for one that the server does not tell.
    :param seconds: that the check took.
    """

    status: ClusterStatus
    findings: Sequence[HealthFinding]
    settings: Mapping[str, Mapping[str, str | None]]
    seconds: float

    def verdict(self, topic: str | None = None) -> str:
        """Returns the worst level of a topic's findings, or of all."""
        found = {each.level for each in self.findings if topic in (None, each.topic)}
        return next((level for level in LEVELS if level in found), FINE)

    def to_json(self) -> dict[str, Any]:
        return {
            "cluster": self.status.cluster_map.cluster,
            "map": self.status.cluster_map.epoch,
            "verdict": self.verdict(),
            "topics": {topic: self.verdict(topic) for topic in TOPICS},
            "findings": [each._asdict() for each in self.findings],
            "servers": [
                {**each._asdict(), "settings": self.settings.get(each.server)} for each in self.status.servers
            ],
            "untold": UNTOLD,
            "seconds": round(self.seconds, 3),
        }


def check_cluster(
    hosts: str,
    *,
    admin_port: int = ADMIN_PORT,
    auth: Auth = (),
    timeout_s: float = TIMEOUT_S,
    partly: Callable[[Health], object] | None = None,
    **client_options: Any,
) -> Health:
    """Asks every server of the cluster at `hosts`. It writes nothing. Other arguments as for `init_map`.

    :param admin_port: of the servers' AdminServers; 0: they are not asked.
    :param partly: called with what is known as soon as the servers have answered: to read the map's copies and the
        clients takes longer, if connections come and go.
    :raises ClusterMapError: as `read_map`. Other problems are in the findings.
    """
    began_s = time.monotonic()
    cluster_map = read_map(hosts, auth=auth, timeout_s=timeout_s, **client_options)
    options = {**client_options, "auth_data": list(auth)}
    with connect_by_newest(cluster_map, options, timeout_s) as (cluster_map, connections):
        told = inquire(connections, timeout_s, admin_port)
        servers = ask_servers(cluster_map, connections)
        settings = _settings(told, servers)
        if partly is not None:
            so_far = ClusterStatus(cluster_map, [*check_ensembles(connections)], servers, (), Strangers({}, {}))
            findings = [*judge(so_far, told, settings), *_unseen(connections)]
            partly(Health(so_far, findings, settings, time.monotonic() - began_s))
        status = status_of(cluster_map, connections, servers, options, timeout_s)
    return Health(status, judge(status, told, settings), settings, time.monotonic() - began_s)


def _unseen(connections: Connections) -> Iterator[HealthFinding]:
    if connections.clients:
        yield HealthFinding(
            UNKNOWN,
            MAP_TOPIC,
            ", ".join(connections.clients),
            (),
            "the copies of the map and the clients have not been read",
            "what is wrong with them cannot be seen",
            "check again, with a longer --timeout",
        )


def judge(
    status: ClusterStatus, told: Sequence[Inquiry], settings: Mapping[str, Mapping[str, str | None]]
) -> list[HealthFinding]:
    """Returns the findings, the worst first."""
    ensembles = {
        name: [each for each in status.servers if each.ensemble == name] for name in status.cluster_map.ensembles
    }
    found = [
        *(_of_map(each) for each in status.findings),
        *(each for name, servers in ensembles.items() for each in _judge_quorum(name, servers, told)),
        *_judge_links(told),
        *_judge_disks(told),
        *(each for name, servers in ensembles.items() for each in _judge_versions(name, servers)),
        *_judge_clocks(told),
        *_judge_words(told),
        *_judge_limits(told),
        *_judge_buffers(told, settings),
        *_judge_differences(told, settings),
    ]
    merged: dict[HealthFinding, dict[str, None]] = {}
    for each in found:
        merged.setdefault(each._replace(servers=()), {}).update(dict.fromkeys(each.servers))
    return sorted(
        (each._replace(servers=tuple(servers)) for each, servers in merged.items()),
        key=lambda each: (LEVELS.index(each.level), TOPICS.index(each.topic)),
    )


def _of_map(problem: MapProblem) -> HealthFinding:
    level = WARNING if problem.is_warning else WRONG
    return HealthFinding(level, MAP_TOPIC, problem.ensemble, (), problem.problem, problem.meaning, problem.remedy)


def _judge_quorum(name: str, servers: Sequence[ServerStatus], told: Sequence[Inquiry]) -> Iterator[HealthFinding]:
    own = {each.server: each for each in told if each.ensemble == name}
    silent = tuple(each.server for each in servers if each.serves and each.role is None)
    if silent:
        yield HealthFinding(
            UNKNOWN, QUORUM, name, silent, "srvr is not answered", "its role cannot be seen", ALLOW
        )
    serving = [each for each in servers if each.role in VOTING]
    lost = tuple(each.server for each in servers if not each.serves)
    observers = sum(each.role == "observer" for each in servers)
    named = len(servers) - observers
    voters = next((each.voters for each in own.values() if each.voters), named)
    if lost and serving and not silent and voters <= named and len(serving) <= voters // 2 + 1:
        yield HealthFinding(
            WARNING,
            QUORUM,
            name,
            lost,
            f"{len(serving)} of {voters} voting members serve",
            "if one more stops, nothing there can be read or written",
            "start the others: `parkazoo status` says why they do not serve",
        )
    leaders = [each.server for each in serving if each.role == "leader"]
    if len(leaders) > 1:
        yield HealthFinding(
            WARNING,
            QUORUM,
            name,
            tuple(leaders),
            "each says that it leads",
            "one was cut off and does not know it yet, or these are two ensembles",
            "check again in a minute; then compare `/zookeeper/config` on them",
        )
    followers = sum(each.role == "follower" for each in serving)
    for leader in leaders:
        synced = number_of(own[leader].monitor, "synced_followers") if leader in own else None
        if synced is not None and synced < followers:
            yield HealthFinding(
                WARNING,
                QUORUM,
                name,
                (leader,),
                f"its followers in sync: {synced:g} of {followers}",
                "a follower lags, and does not help if another server stops",
                "check again in a minute; then look at the followers' logs and disks",
            )


def _judge_links(told: Sequence[Inquiry]) -> Iterator[HealthFinding]:
    """By how often a server came back into its quorum, the first time included, and how long it has been there."""
    for each in told:
        times = number_of(each.monitor, "cnt_unavailable_time", "unavailable_time_count")
        since_ms = number_of(each.monitor, "uptime")
        if times is not None and since_ms is not None and times > OFTEN and since_ms < LATELY_S * 1000:
            yield HealthFinding(
                WARNING,
                QUORUM,
                each.ensemble,
                (each.server,),
                f"it has left its quorum {times - 1:,.0f} times since its start, and is back for "
                f"{since_ms / 1000:,.0f} s",
                "its clients lose their connection each time; its link to the others comes and goes, it pauses, "
                "or leaders were restarted",
                "look at the network between the ensemble's servers, and for pauses in its log",
            )


def _judge_disks(told: Sequence[Inquiry]) -> Iterator[HealthFinding]:
    for each in told:
        times = number_of(each.monitor, "cnt_fsynctime", "fsynctime_count")
        whole_ms = number_of(each.monitor, "sum_fsynctime", "fsynctime_sum")
        if times is None or whole_ms is None or times < FEW_FSYNCS or whole_ms < SLOW_FSYNC_MS * times:
            continue
        yield HealthFinding(
            WARNING,
            DISK,
            each.ensemble,
            (each.server,),
            f"since its start its log has waited {whole_ms / times:,.0f} ms for each fsync, on average",
            "its disk is slow: each write waits for the disks of a majority",
            "give its log a disk of its own (dataLogDir), or a faster one",
        )


def _judge_versions(name: str, servers: Sequence[ServerStatus]) -> Iterator[HealthFinding]:
    by_version = _grouped({each.server: each.version for each in servers if each.version})
    if len(by_version) > 1:
        yield HealthFinding(
            WARNING,
            VERSIONS,
            name,
            tuple(each.server for each in servers if each.version),
            f"ZooKeeper {_spread(by_version)}",
            "an upgrade is under way, or was left half done",
            "upgrade the others, one by one, the leader last",
        )


def _judge_clocks(told: Sequence[Inquiry]) -> Iterator[HealthFinding]:
    """By the other servers' if three or more are known, otherwise by this machine's."""
    known = [(each, each.clock_s) for each in told if each.clock_s is not None]
    by_others = len(known) > 2
    others_s = statistics.median([sum(ahead_s) / 2 for _, ahead_s in known]) if by_others else 0.0
    clocks = [(each.ensemble, each.server, ahead_s) for each, ahead_s in known]
    for name, server, (least_s, most_s) in (*clocks, *([("", THIS, (0.0, 0.0))] if by_others else [])):
        if not least_s - APART_S <= others_s <= most_s + APART_S:
            ahead_s = (least_s + most_s) / 2 - others_s
            whose = "most servers'" if by_others else "this machine's"
            yield HealthFinding(
                WARNING,
                CLOCK,
                name,
                (server,),
                f"its clock is {abs(ahead_s):.1f} s {'ahead of' if ahead_s > 0 else 'behind'} {whose}",
                "times of znodes are those of the ensemble's leader; `parkazoo fsck` judges age by them",
                "see why NTP does not set it: `timedatectl`",
            )
    for each in told:
        if each.clock_s is None and each.silent.get("cons") != NOT_LISTED:
            yield HealthFinding(
                UNKNOWN,
                CLOCK,
                each.ensemble,
                (each.server,),
                "its clock was not seen",
                "it may be wrong",
                "check again",
            )


def _judge_words(told: Sequence[Inquiry]) -> Iterator[HealthFinding]:
    for each in told:
        for word, why in each.silent.items():
            topic = CLOCK if word == "cons" and each.clock_s is None else SETTINGS
            meaning = SEES[word] if word != "cons" or topic == CLOCK else "its connections cannot be seen"
            remedy = ALLOW if why == NOT_LISTED else "`parkazoo status`, and the server's log"
            yield HealthFinding(
                UNKNOWN, topic, each.ensemble, (each.server,), f"{word} is not answered: {why}", meaning, remedy
            )


def _judge_limits(told: Sequence[Inquiry]) -> Iterator[HealthFinding]:
    for each in told:
        most = number_of(each.settings, "maxClientCnxns") or 0  # none, or no limit
        by_host = Counter(one.address.rpartition(":")[0] for one in each.connections or ())
        for host, number in by_host.items():
            if most > 0 and number >= NEARLY * most:
                yield HealthFinding(
                    WARNING,
                    SETTINGS,
                    each.ensemble,
                    (each.server,),
                    f"{host} has {number:,} of {most:,.0f} connections (maxClientCnxns)",
                    "when all are used, the server closes further ones from there at once",
                    "raise maxClientCnxns in zoo.cfg, or have programs there share clients",
                )
        opened, limit = (number_of(each.monitor, f"{name}_file_descriptor_count") for name in ("open", "max"))
        if opened is not None and limit and opened >= NEARLY * limit:
            yield HealthFinding(
                WARNING,
                SETTINGS,
                each.ensemble,
                (each.server,),
                f"it has {opened:,.0f} of {limit:,.0f} files open",
                "soon it will refuse connections",
                "raise its limit of open files (`ulimit -n`, LimitNOFILE)",
            )
        if each.is_admin_open:
            yield HealthFinding(
                WARNING,
                SETTINGS,
                each.ensemble,
                (each.server,),
                "its AdminServer answers other machines, without a password",
                "anyone who reaches it reads paths and sessions, and can load the server",
                "admin.serverAddress=127.0.0.1 or admin.enableServer=false in its zoo.cfg, and a restart",
            )


def _judge_buffers(
    told: Sequence[Inquiry], settings: Mapping[str, Mapping[str, str | None]]
) -> Iterator[HealthFinding]:
    for each in told:
        without_effect = (each.properties or {}).get(f"zookeeper.{JUTE}")
        limit = settings[each.server][JUTE]
        if without_effect is not None and str(without_effect) != limit:
            yield HealthFinding(
                WARNING,
                SETTINGS,
                each.ensemble,
                (each.server,),
                f"zoo.cfg has {JUTE}={without_effect}, and there it has no effect",
                f"its limit is {limit} bytes",
                f"give its JVM -D{JUTE}={without_effect}, by SERVER_JVMFLAGS, and restart it",
            )
        if limit is None or limit == MORE:
            yield HealthFinding(
                UNKNOWN,
                SETTINGS,
                each.ensemble,
                (each.server,),
                f"{JUTE} is {limit or 'not seen'}",
                "how large it is, and whether the servers agree, cannot be seen",
                "compare it on the servers; an AdminServer tells it (--admin-port)",
            )


def _judge_differences(
    told: Sequence[Inquiry], settings: Mapping[str, Mapping[str, str | None]]
) -> Iterator[HealthFinding]:
    names = dict.fromkeys(each.ensemble for each in told)
    values: dict[str, dict[str, set[str]]] = defaultdict(dict)
    for name in names:
        own = [each.server for each in told if each.ensemble == name]
        for setting, meaning in WITHIN.items():
            by_value = _grouped(_compared(setting, {server: settings[server] for server in own}))
            values[setting][name] = {*by_value}
            if len(by_value) > 1:
                yield HealthFinding(
                    WARNING,
                    SETTINGS,
                    name,
                    tuple(own),
                    f"{setting}: {_spread(by_value)}",
                    meaning,
                    SAME_FLAG if setting == JUTE else ALIKE,
                )
    for setting, meaning in BETWEEN.items():
        alone = {name: next(iter(each)) for name, each in values[setting].items() if len(each) == 1}
        by_value = _grouped(alone)
        if len(by_value) > 1:
            yield HealthFinding(
                WARNING,
                SETTINGS,
                ", ".join(alone),
                (),
                f"{setting}: {_spread(by_value)}",
                meaning,
                "give all servers of the cluster the same",
            )


def _compared(setting: str, settings: Mapping[str, Mapping[str, str | None]]) -> dict[str, str | None]:
    """Of each server what can be compared with the others': not a folder, nor a limit with "more than" another."""
    found = {server: own[setting] for server, own in settings.items()}
    if setting == LOG_APART:
        return {
            server: value and ("that of the snapshots" if value == settings[server]["dataDir"] else "apart")
            for server, value in found.items()
        }
    if setting == JUTE and MORE in found.values():
        return {server: MORE if _is_more(value) else value for server, value in found.items()}
    return found


def _is_more(value: str | None) -> bool:
    return value is not None and value.isdecimal() and int(value) > DEFAULT_LIMIT


def _settings(told: Sequence[Inquiry], servers: Sequence[ServerStatus]) -> dict[str, dict[str, str | None]]:
    takes = {each.server: each.takes_default for each in servers}
    return {
        each.server: {
            **{name: (each.settings or {}).get(name) for name in ("dataDir", *WITHIN) if name != JUTE},
            JUTE: _buffer(each, takes.get(each.server)),
            "4lw.commands.whitelist": _property(each, "zookeeper.4lw.commands.whitelist"),
        }
        for each in told
    }


def _buffer(each: Inquiry, takes_default: bool | None) -> str | None:
    """The limit of a request in bytes: as the server says, or else as it does."""
    if each.properties is not None:
        return _property(each, JUTE) or str(DEFAULT_LIMIT)
    if takes_default is None or each.takes_more is None:
        return None
    if not takes_default:
        return f"less than {DEFAULT_LIMIT}"
    return MORE if each.takes_more else str(DEFAULT_LIMIT)


def _property(each: Inquiry, name: str) -> str | None:
    value = (each.properties or {}).get(name)
    return value if isinstance(value, str) else None


def _grouped(values: Mapping[str, str | None]) -> dict[str, list[str]]:
    """By known value, whose it is."""
    found: dict[str, list[str]] = defaultdict(list)
    for whose, value in values.items():
        if value is not None:
            found[value].append(whose)
    return found


def _spread(by_value: Mapping[str, Iterable[str]]) -> str:
    return ", ".join(f"{value} on {' '.join(whose)}" for value, whose in by_value.items())
