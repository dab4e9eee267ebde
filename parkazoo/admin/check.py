"""The cluster map compared with the ensembles, server by server."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from kazoo.security import ACL

from parkazoo.admin.accept_restore import find_notices
from parkazoo.admin.clients import AdminClient, Connections, try_each
from parkazoo.admin.contents import PARTS, Contents, has_mirrors, lost_parts, missing_fences, parts_of
from parkazoo.admin.copies import AGAIN, MEND_PRIMARY, mend_copy
from parkazoo.admin.ensemble_acls import ACLS_AT_ONCE, FoundACL, RemoteTree, Tree
from parkazoo.admin.identity import is_identity
from parkazoo.admin.membership import strangers, unnamed_voters
from parkazoo.admin.registrations import RegisteredClient, describe_client
from parkazoo.admin.server_status import ServerStatus
from parkazoo.admin.strangers import Strangers, describe_strangers
from parkazoo.admin.strays import SHOWN
from parkazoo.protocol.cluster_map import ClusterMap, describe_record, parse_hosts
from parkazoo.protocol.epochs import Form
from parkazoo.protocol.map_copies import CopyKind, judge_copy
from parkazoo.protocol.placement import CLIENTS, DONE, ENSEMBLE, FENCES, MAP, ROOT, join
from parkazoo.protocol.rights import is_masked
from parkazoo.protocol.server_list import CONFIG
from parkazoo.protocol.shared_identity import shared_identities
from parkazoo.wire.sizes import DEFAULT_LIMIT

ADMIT = "see why its servers do not answer, or give the identity that they want"
NAME_ALL = "`parkazoo map hosts` with all of the ensemble's servers"
AWAY = "nobody reads or writes the znodes that are there"
SHUT = "it cannot be verified, nor used by clients with this identity"
UNUSABLE = "clients refuse it, and the znodes that are there cannot be used"
MISLED = "clients that begin here may work by another map, or are refused"
LATE = "clients that begin here hear of the newest map later"
FEWER = "the ensemble can lose one server less"
REFUSED = "clients that meet it refuse it, and try another"
MOVED = "or put its new address into the map with `parkazoo map hosts`"


class MapProblem(NamedTuple):
    """What `check_map` found wrong: on which ensemble, what, what that means, and what to do.

    :param is_warning: whether the cluster serves all the same.
    """

    ensemble: str
    problem: str
    meaning: str
    remedy: str
    is_warning: bool = False


def find_wrong(
    cluster_map: ClusterMap,
    connections: Connections,
    servers: Sequence[ServerStatus],
    clients: Sequence[RegisteredClient],
    unregistered: Strangers,
) -> list[MapProblem]:
    """What `check_map` returns. An ensemble that cannot be read is one finding, and no reason to know nothing."""
    found, unreadable = try_each(connections.clients, lambda client: _look_at(client, cluster_map))
    seen = connections.without(unreadable)
    of_servers = [*_check_servers(seen, cluster_map, found)]
    remedies = {(finding.ensemble, finding.remedy) for finding in of_servers}
    return [
        *check_ensembles(seen),
        *(finding for look in found.values() for finding in look.findings),
        *_check_forms({name: look.is_open for name, look in found.items()}),
        *check_identities({name: look.acls for name, look in found.items()}, cluster_map.bootstrap),
        *of_servers,
        *_check_leaders(each for each in servers if (each.ensemble, NAME_ALL) not in remedies),
        *_check_sizes(servers),
        *_check_clients(behind(clients, cluster_map), cluster_map),
        *(_check_strangers(unregistered, cluster_map) if cluster_map.form >= Form.GUARDED else ()),
    ]


def check_ensembles(seen: Connections) -> Iterator[MapProblem]:
    """The ensembles of which nothing is known."""
    start = f"start its servers, {MOVED}"
    for name, why in seen.absent.items():
        yield MapProblem(name, f"cannot be reached: {why}", AWAY, start)
    for name, why in seen.unreadable.items():
        yield MapProblem(name, f"cannot be read: {why}", SHUT, ADMIT)


def behind(clients: Iterable[RegisteredClient], cluster_map: ClusterMap) -> list[RegisteredClient]:
    """The clients that say that they work by an older map."""
    return [each for each in clients if isinstance(each.map, int) and each.map < cluster_map.epoch]


class _Look(NamedTuple):
    """Facts about an ensemble.

    :param is_open: whether anyone may use ``/parkazoo``; None if it is not there.
    :param has_record: whether it says which ensemble it is.
    :param has_lost: whether it has lost its data.
    :param acls: of ``/parkazoo``, its parts and the fences, those in whole that this client may see; none of an
        open cluster.
    """

    findings: Sequence[MapProblem]
    is_open: bool | None
    has_record: bool
    has_lost: bool
    acls: Mapping[str, frozenset[ACL]]


def _look_at(client: AdminClient, cluster_map: ClusterMap) -> _Look:
    parts, contents = parts_of(client), Contents.read(client)
    return _Look(
        [*_check_ensemble(client, cluster_map, parts)],
        contents.is_open,
        ENSEMBLE in parts,
        bool(lost_parts(cluster_map, client.name, parts)),
        dict(acls_of_structure(RemoteTree(client, lambda: None), parts)) if contents.is_open is False else {},
    )


def acls_of_structure(tree: Tree, parts: Collection[str]) -> Iterator[tuple[str, frozenset[ACL]]]:
    """Yields path and ACL of each part and fence; not of a fence that a client made, open to all."""
    fences = [join(FENCES, name) for name in tree.children(FENCES)]
    paths = [ROOT, *sorted(PARTS.intersection(parts)), *sorted(fences)]
    for start in range(0, len(paths), ACLS_AT_ONCE):
        chunk = paths[start : start + ACLS_AT_ONCE]
        for path, found in zip(chunk, tree.read_acls(chunk), strict=True):
            if not isinstance(found, FoundACL) or is_masked(found.acl):
                continue
            if path.startswith(f"{FENCES}/") and not shared_identities(found.acl):
                continue
            yield path, frozenset(found.acl)


def _check_ensemble(client: AdminClient, cluster_map: ClusterMap, parts: Collection[str]) -> Iterator[MapProblem]:
    if lost := lost_parts(cluster_map, client.name, parts):
        yield MapProblem(
            client.name,
            f"{' and '.join(lost)} {'are' if len(lost) > 1 else 'is'} missing: it has lost its data, or these are "
            "new servers",
            "clients refuse it, and its part of the tree is gone until the data is back",
            "bring back the old servers or a backup; `parkazoo map init` with the arguments of the map (`parkazoo "
            f"map show` prints them) says what is lost, and with --replace {client.name} gives it up",
        )
    elif client.name == cluster_map.bootstrap and ENSEMBLE not in parts:
        yield MapProblem(client.name, f"{ENSEMBLE} is missing", UNUSABLE, AGAIN)
    for told in find_notices(client).values() if ENSEMBLE in parts else ():
        yield MapProblem(
            client.name,
            f"it has gone back to an older copy of its data: {told}",
            "writes that it had acknowledged are gone; clients that were there and came back have been LOST",
            "docs/operations/backup.md says how to see what is lost; then `parkazoo map accept-restore "
            f"{client.name}`",
        )
    if MAP in parts or not lost:
        yield from _check_map(client, cluster_map)
    if not lost and (missing := _missing(client, cluster_map, parts)):
        more = f" and {len(missing) - SHOWN} more" if len(missing) > SHOWN else ""
        problem = f"missing: {', '.join(missing[:SHOWN])}{more}"
        yield MapProblem(client.name, problem, "operations that need these fail", AGAIN)


def _check_map(client: AdminClient, published: ClusterMap) -> Iterator[MapProblem]:
    """The map there, compared with the published one; nothing of one that is missing."""
    copy = judge_copy(client.read(MAP), published)
    if client.name == published.bootstrap:
        if copy.is_wrong or copy.kind is CopyKind.OLDER:
            problem = f"its map is not the newest of its cluster: {copy.about}"
            yield MapProblem(client.name, problem, MISLED, MEND_PRIMARY)
    elif copy.is_wrong:
        problem = f"its copy of the map is wrong: {copy.about}"
        yield MapProblem(client.name, problem, MISLED, mend_copy(client.name))
    elif copy.kind in {CopyKind.OLDER, CopyKind.MISSING}:
        remedy = f"if no command is changing the map just now, {AGAIN}"
        yield MapProblem(client.name, f"its copy of the map: {copy.about}", LATE, remedy, is_warning=True)


def _missing(client: AdminClient, cluster_map: ClusterMap, parts: Collection[str]) -> list[str]:
    """What can be made again."""
    if not has_mirrors(cluster_map, client.name):
        return [CLIENTS] if CLIENTS not in parts else []
    return [path for path in (CLIENTS, FENCES, DONE) if path not in parts] or missing_fences(client)


def _check_leaders(servers: Iterable[ServerStatus]) -> Iterator[MapProblem]:
    """Ensembles whose servers all follow one that the map does not name."""
    roles: dict[str, set[str | None]] = defaultdict(set)
    for each in servers:
        roles[each.ensemble].add(each.role)
    for name, found in roles.items():
        if found <= {"follower", "observer"}:
            yield MapProblem(
                name,
                "none of the servers that the map names leads it: they may have left it, or never joined it",
                "clients that begin later find the ensemble only while these servers follow it",
                NAME_ALL,
                is_warning=True,
            )


def _check_sizes(servers: Sequence[ServerStatus]) -> Iterator[MapProblem]:
    small = [each for each in servers if each.takes_default is False]
    for name in dict.fromkeys(each.ensemble for each in small):
        told = ", ".join(each.server for each in small if each.ensemble == name)
        problem = f"requests of {DEFAULT_LIMIT:,} bytes, ZooKeeper's default, are too large for {told}"
        yield MapProblem(
            name,
            problem,
            "such a request ends the connection, and a follower with less than its leader may fall out",
            "give all servers of the cluster the same jute.maxbuffer",
            is_warning=True,
        )


def _check_clients(late: Sequence[RegisteredClient], cluster_map: ClusterMap) -> Iterator[MapProblem]:
    """One finding for all: a client has sessions on several ensembles."""
    if late:
        listed = "".join(f"\n  {describe_client(each)}" for each in late[:SHOWN])
        more = f"\n  and {len(late) - SHOWN:,} more" if len(late) > SHOWN else ""
        many = f"{len(late):,} clients work" if len(late) > 1 else "1 client works"
        yield MapProblem(
            ", ".join(name for name in cluster_map.ensembles if any(name in each.sessions for each in late)),
            f"{many} by an older map than {cluster_map.epoch}:{listed}{more}",
            "a growth, or the next change of the map, waits for them",
            "if the process is frozen or cut off, let it go on (kill -CONT): it follows; or end it: its sessions "
            "expire in time",
        )


def _check_strangers(unregistered: Strangers, cluster_map: ClusterMap) -> Iterator[MapProblem]:
    for name in cluster_map.ensembles:
        there = {session: each for session, each in unregistered.found.items() if each.ensemble == name}
        if there:
            yield MapProblem(
                name,
                describe_strangers(there),
                "a plain kazoo program that writes loses znodes",
                f"have it use ParKazooClient, with the right to write to {CLIENTS}. Ignore another command of "
                "parkazoo, and a program that only reads",
                is_warning=True,
            )


def _check_forms(forms: Mapping[str, bool | None]) -> Iterator[MapProblem]:
    if len({*forms.values()} - {None}) > 1:
        open_ones = ", ".join(name for name, is_open in forms.items() if is_open)
        yield MapProblem(
            open_ones,
            f"{ROOT} is open there and closed elsewhere",
            "anyone may change the map there",
            f"set the ACLs of {ROOT} and below",
        )


def check_identities(acls: Mapping[str, Mapping[str, frozenset[ACL]]], bootstrap: str) -> Iterator[MapProblem]:
    """Ensembles on which other identities may use the structure than on the first one that has the same part.

    :param acls: by ensemble and path. The bootstrap ensemble is the first one.
    """
    first: dict[str, frozenset[ACL]] = {}
    for name in sorted(acls, key=lambda each: each != bootstrap):
        differing = [path for path, acl in acls[name].items() if first.setdefault(path, acl) != acl]
        if differing:
            more = f" and {len(differing) - SHOWN:,} more" if len(differing) > SHOWN else ""
            yield MapProblem(
                name,
                f"not the same identities as elsewhere may use {', '.join(differing[:SHOWN])}{more}",
                "clients with one of them may be refused there, and one that is removed may still have access",
                "if `parkazoo map identity` was interrupted, run it again; otherwise set the ACLs there by hand",
                is_warning=True,
            )


def _check_servers(
    connections: Connections, cluster_map: ClusterMap, looks: Mapping[str, _Look]
) -> Iterator[MapProblem]:
    """Of the ensembles that serve."""
    wrong_server = f"start the ensemble's own server at this address, {MOVED}"
    servers = {server: client for server, (name, client) in connections.servers.items() if name in looks}
    records, unreadable = try_each(servers, lambda client: client.read(ENSEMBLE))
    silent = {server: (connections.servers[server][0], why) for server, why in unreadable.items()}
    for server, (name, reason) in {**connections.failed, **silent}.items():
        if name not in looks:
            continue
        remedy = f"start it if it does not run, see why it does not answer, {MOVED}"
        if looks[name].has_lost:
            remedy = (
                "do not start it beside the emptied ones, which would overwrite its data: "
                "see docs/operations/fsck.md"
            )
        yield MapProblem(name, f"server {server}: {reason}", FEWER, remedy, is_warning=True)
    for server, record in records.items():
        name = connections.servers[server][0]
        if record is not None and not is_identity(record, cluster_map, name):
            yield MapProblem(name, f"server {server} is {describe_record(record)}", REFUSED, wrong_server)
        elif record is None and looks[name].has_record:
            yield MapProblem(name, f"server {server} is in another ensemble", REFUSED, wrong_server)
    for name in looks:
        hosts = parse_hosts(cluster_map.ensembles[name])
        own = [
            servers[server]
            for server, record in records.items()
            if connections.servers[server][0] == name and is_identity(record or b"", cluster_map, name)
        ]
        outside, members = strangers(hosts, hosts, own)
        for server in outside:
            problem = f"server {server} is no member of the ensemble: {CONFIG} has {members}"
            remedy = "add it by ZooKeeper's reconfiguration, or leave it out: see `parkazoo map hosts`"
            meaning = "it may serve old data, and does not count for the quorum"
            yield MapProblem(name, problem, meaning, remedy, is_warning=True)
        for server in unnamed_voters(hosts, own):
            problem = f"the map does not name server {server}, a voting member of the ensemble"
            meaning = "clients that begin cannot find the ensemble by it"
            yield MapProblem(name, problem, meaning, NAME_ALL, is_warning=True)
