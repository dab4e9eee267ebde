"""Whether a server may be stopped now: its ensemble has all of its voting members in step, and enough of them."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from parkazoo.admin.answers import NOT_LISTED, count_voters, is_forbidden, parse_monitor, parse_server
from parkazoo.admin.arguments import arguments_alone
from parkazoo.admin.clients import AGAIN_S, TIMEOUT_S, AdminClient, Auth, Connections, UnreadableError, for_each
from parkazoo.admin.health import VOTING
from parkazoo.admin.read import connect_by_newest, read_map
from parkazoo.errors import ClusterMapError
from parkazoo.protocol.cluster_map import ClusterMap, format_hosts, parse_hosts
from parkazoo.protocol.server_list import CONFIG
from parkazoo.wire.report import words_of

FEWEST = 3  # voting members, of which one may stop
MEMBER = re.compile(r"^server\.(\d+)=", re.MULTILINE)
MYID = 0xFF  # the part of a session's highest byte, and of a server's id
GROUPED = re.compile(r"^(?:group|weight)\.", re.MULTILINE)
OF_EPOCH = 0xFFFFFFFF  # the part of a zxid that counts an epoch's transactions
LEADING = frozenset({"leader", "standalone"})
UNCOUNTED = "its quorums are by groups or weights, and this command counts members"
BEHIND = "it follows, but has not what its leader had"


class StopAnswer(NamedTuple):
    """:param is_safe: whether the server may be stopped; None: not known. :param told: in words, why.
    :param may_change: whether another answer may come if one waits.
    """

    is_safe: bool | None
    told: str
    may_change: bool = True


class QuorumMember(NamedTuple):
    """Describes a server of an ensemble by its own words.

    :param role: as ``srvr`` has it; None if it does not tell.
    :param trouble: why it does not serve in step, or does not tell; empty if it serves in step.
    :param is_mute: whether it serves, but does not answer ``srvr``.
    :param myid: of the server that has made a session there; 0: not known. The map may name one server twice.
    """

    server: str
    role: str | None
    trouble: str = ""
    is_mute: bool = False
    myid: int = 0


class Quorum(NamedTuple):
    """Describes an ensemble.

    :param members: the map's servers. :param outside: those of them that are no members.
    :param voters: how many voting members it has; None if that is not known.
    :param synced: followers in sync, as the leader counts them; None if it does not tell.
    :param absent: why it cannot be reached. :param untold: why `voters` is None. Both empty if there is no reason.
    """

    members: Sequence[QuorumMember]
    voters: int | None
    outside: Sequence[str] = ()
    synced: int | None = None
    absent: str = ""
    untold: str = ""


class _Objection(NamedTuple):
    told: str
    is_certain: bool = True
    may_change: bool = True


def may_stop(
    hosts: str, server: str, *, auth: Auth = (), timeout_s: float = TIMEOUT_S, **client_options: Any
) -> StopAnswer:
    """Asks all servers of the cluster at `hosts` whether it goes on without `server`. Writes no znode.

    Other arguments as for `init_map`.

    :param server: ``"h:p"``, as the map has it.
    :raises WrongArgumentError: the map does not name the server.
    :raises ClusterMapError: as `read_map`.
    """
    cluster_map = read_map(hosts, auth=auth, timeout_s=timeout_s, **client_options)
    options = {**client_options, "auth_data": list(auth)}
    with connect_by_newest(cluster_map, options, timeout_s) as (cluster_map, connections):
        own, server = _find(server, cluster_map)
        found = for_each(list(cluster_map.ensembles), lambda name: _ask(name, connections, timeout_s))
    return judge_stop(own, server, dict(zip(cluster_map.ensembles, found, strict=True)))


@arguments_alone()
def _find(server: str, cluster_map: ClusterMap) -> tuple[str, str]:
    """Returns its ensemble, and the server as connections name it."""
    given = parse_hosts(server)
    for name, hosts in cluster_map.ensembles.items():
        if len(given) == 1 and given[0] in parse_hosts(hosts):
            return name, format_hosts(given)
    raise ClusterMapError(f"the map does not name server {server}: `parkazoo map show` has all")


# ---- the judgement -------------------------------------------------------------------------------


def judge_stop(own: str, server: str, quorums: Mapping[str, Quorum]) -> StopAnswer:
    """Returns whether `server`, of ensemble `own`, may be stopped. Pure."""
    role = next((each.role for each in quorums[own].members if each.server == server), None)
    has_vote = role != "observer" and server not in quorums[own].outside
    found = [
        each
        for name, quorum in sorted(quorums.items(), key=lambda item: item[0] != own)
        for each in _objections(name, quorum, loses_one=has_vote and name == own)
    ]
    if found:
        certain = [each for each in found if each.is_certain]
        told = "; ".join(each.told for each in certain or found)
        may_change = all(each.may_change for each in found)
        return StopAnswer(False if certain else None, f"do not stop {server}: {told}", may_change)
    voters = quorums[own].voters
    why = f"{voters and voters - 1} of {voters} voting members of {own} go on" if has_vote else "it has no vote"
    return StopAnswer(True, f"{server} may stop: {why}")


def _objections(name: str, quorum: Quorum, loses_one: bool) -> Iterator[_Objection]:
    if quorum.absent:
        yield _Objection(f"{name} cannot be reached ({quorum.absent}): wait until it serves")
        return
    mute = [each for each in quorum.members if each.is_mute]
    for each in mute:
        yield _Objection(f"{name}: {each.server}: {each.trouble}", is_certain=False)
    if quorum.voters is None:
        yield _Objection(f"{name}: {quorum.untold}", is_certain=False)
        return
    if loses_one and quorum.voters < FEWEST:
        told = "a single voting member, and is away without it" if quorum.voters == 1 else "two, and needs both"
        yield _Objection(f"{name} has {told}: waiting does not help", may_change=False)
    may_vote = [each for each in quorum.members if each.role != "observer" and each.server not in quorum.outside]
    voting = [each for each in may_vote if each.role in VOTING]
    in_step = [each for each in voting if not each.trouble]
    leaders = {each.myid or each.server: each.server for each in voting if each.role in LEADING}
    if len(leaders) > 1:
        yield _Objection(f"{name}: {' and '.join(leaders.values())} each say that they lead: wait until one does")
    elif not leaders and not mute and _count(may_vote) >= quorum.voters:
        yield _Objection(f"{name}: no server leads: wait for the election")
    followers = _count(each for each in in_step if each.role == "follower")
    if quorum.synced is not None and quorum.synced < followers:
        yield _Objection(f"{name}: {quorum.synced} of {followers} followers are in sync: wait until all are")
    needed = quorum.voters if loses_one else quorum.voters // 2 + 1
    if _count(in_step) + len(mute) < needed:
        troubled = [each for each in quorum.members if each.trouble and not each.is_mute]
        why = ", ".join(f"{each.server}: {each.trouble}" for each in troubled)
        if troubled:
            wanted = f"{'all' if needed == quorum.voters else needed} of its {quorum.voters} voting members"
            yield _Objection(f"{name}: {why}: wait until {wanted} serve in step")
        else:
            told = f"{name}: the map names {_count(voting) + len(mute)} of its {quorum.voters} voting members"
            yield _Objection(f"{told}: `parkazoo map hosts` with all", is_certain=False)


def _count(members: Iterable[QuorumMember]) -> int:
    return len({each.myid or each.server for each in members})


# ---- the questions -------------------------------------------------------------------------------


def _ask(name: str, connections: Connections, timeout_s: float) -> Quorum:
    deadline = time.monotonic() + timeout_s
    own = {server: client for server, (whose, client) in connections.servers.items() if whose == name}
    away = [
        QuorumMember(server, None, why) for server, (whose, why) in connections.failed.items() if whose == name
    ]
    if name not in connections.clients:
        return Quorum(away, None, absent=connections.absent.get(name, ""), untold=connections.away[name])
    config, untold = _read_config(connections.clients[name])
    # After the sessions of this command, which are transactions: an idle follower has the new epoch by them.
    said = dict(zip(own, for_each([*own.values()], _ask_srvr), strict=True))
    leaders = {
        _myid(own[server]) or server: server for server, (member, _) in said.items() if member.role in LEADING
    }
    leader = next(iter(leaders.values())) if len(leaders) == 1 else None
    reached = 0 if leader is None else said[leader][1]
    told = for_each(list(own), lambda each: _await(own[each], *said[each], reached, deadline))
    members = [each._replace(myid=_myid(own[each.server])) for each in told]
    voters, outside = None if untold else count_voters(config), _outside(config, members)
    if any(each.role == "standalone" for each in members):
        voters, outside = 1, []
    synced = None if leader is None else _count_synced(own[leader])
    return Quorum([*members, *away], voters, outside, synced, untold=untold or f"{CONFIG} names no voting member")


def _read_config(client: AdminClient) -> tuple[str, str]:
    """Returns the configuration, and why no majority can be counted by it."""
    try:
        config = (client.read(CONFIG) or b"").decode(errors="replace")
    except UnreadableError as error:
        return "", str(error)
    return config, UNCOUNTED if GROUPED.search(config) else ""


def _outside(config: str, members: Collection[QuorumMember]) -> list[str]:
    """Returns the servers that are not in the configuration: they may serve, but not vote."""
    inside = {int(each) & MYID for each in MEMBER.findall(config)}
    return [each.server for each in members if inside and each.myid not in {0, *inside}]


def _myid(client: AdminClient) -> int:
    """Returns the id of the server at which the client's session began, which makes the session's highest byte."""
    session, _ = client.zk.client_id or (None, None)
    return int(session or 0) >> 56 & MYID


def _ask_srvr(client: AdminClient) -> tuple[QuorumMember, int]:
    """Returns what its server says, and the last zxid that it has."""
    try:
        said = client.ask("srvr")
    except OSError as error:
        return QuorumMember(client.hosts, None, words_of(error)), 0
    if is_forbidden(said):
        return QuorumMember(client.hosts, None, f"srvr: {NOT_LISTED}", is_mute=True), 0
    values = parse_server(said)
    role = values.get("Mode")
    if role is None:
        return QuorumMember(client.hosts, None, "it does not serve yet"), 0
    if role not in VOTING and role != "observer":
        return QuorumMember(client.hosts, None, f"it is {role}"), 0
    zxid = 0
    with suppress(ValueError):
        zxid = int(values.get("Zxid", "0"), 16)
    return QuorumMember(client.hosts, role), zxid


def _await(client: AdminClient, member: QuorumMember, zxid: int, reached: int, deadline: float) -> QuorumMember:
    """Returns a follower with its trouble, if it does not come to its leader's zxid in time.

    While an epoch has no transaction, followers have the zxid of the one before.
    """
    while member.role == "follower" and zxid < reached and reached & OF_EPOCH:
        if time.monotonic() > deadline:
            return member._replace(trouble=BEHIND)
        time.sleep(AGAIN_S)
        member, zxid = _ask_srvr(client)
    return member


def _count_synced(leader: AdminClient) -> int | None:
    try:
        return int(float(parse_monitor(leader.ask("mntr"))["synced_followers"]))
    except (OSError, KeyError, ValueError):
        return None
