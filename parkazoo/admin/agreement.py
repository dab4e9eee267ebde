"""The map that is wanted, and the one that is there or was begun."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Mapping

from parkazoo.admin.contents import DRAFT, Contents, parse_map
from parkazoo.admin.identity import cluster_of
from parkazoo.errors import ClusterMapError
from parkazoo.protocol.cluster_map import ClusterMap, format_hosts, parse_hosts
from parkazoo.protocol.placement import MAP, MIRRORS, ROOT

APART = "bootstrap"  # the name of a bootstrap ensemble that carries no znodes


def plan_map(bootstrap: str, ensembles: Mapping[str, str]) -> ClusterMap:
    """The map that is asked for, validated, with a fresh cluster id."""
    own = set(parse_hosts(bootstrap))
    servers = {name: set(parse_hosts(hosts)) for name, hosts in ensembles.items()}
    if not servers:
        raise ClusterMapError("give at least one ensemble that carries znodes")
    hosts = {name: format_hosts(parse_hosts(text)) for name, text in ensembles.items()}
    for name, theirs in servers.items():
        if own <= theirs:
            break
        if common := own & theirs:
            raise ClusterMapError(
                f"the bootstrap ensemble {bootstrap} shares {format_hosts(sorted(common))} with ensemble {name}: "
                f"let it be servers of {name} alone, or none of them"
            )
    else:
        name = APART
        if name in servers:
            raise ClusterMapError(
                f"{name!r} is the name of the ensemble at {bootstrap}: name the other one otherwise"
            )
        hosts[name] = format_hosts(parse_hosts(bootstrap))
    return ClusterMap(cluster=uuid.uuid4().hex, ensembles=hosts, placement=tuple(ensembles), bootstrap=name)


def agree_on_map(wanted: ClusterMap, states: Mapping[str, Contents]) -> tuple[ClusterMap, bool]:
    """The map to go on with: the one that is there, else the draft, else the one wanted; whether it is made.

    The one wanted is that of the cluster which the ensembles are of, if they are of one: perhaps its map is lost.
    """
    state = states[wanted.bootstrap]
    if state.map is not None:
        return same_map(wanted, parse_map(state.map, MAP, state.hosts), MAP), True
    if state.draft is not None:
        return same_map(wanted, parse_map(state.draft, DRAFT, state.hosts), DRAFT), False
    clusters = {cluster_of(each.record) for each in states.values() if each.record is not None}
    if len(clusters) == 1:
        return dataclasses.replace(wanted, cluster=clusters.pop() or wanted.cluster), False
    return wanted, False


def same_map(wanted: ClusterMap, found: ClusterMap, path: str) -> ClusterMap:
    """`found`, unless it is another map than the one wanted."""
    differences = []
    if found.bootstrap != wanted.bootstrap:
        differences.append(f"its bootstrap ensemble is {found.bootstrap}, not {wanted.bootstrap}")
    if found.placement != wanted.placement:
        differences.append(f"its placement is {', '.join(found.placement)}, not {', '.join(wanted.placement)}")
    for name, hosts in wanted.ensembles.items():
        theirs = found.ensembles.get(name)
        if theirs is not None and set(parse_hosts(theirs)) != set(parse_hosts(hosts)):
            differences.append(f"its ensemble {name} is {theirs}, not {hosts}")
    if not differences:
        return found
    where = f"{path} on {found.ensembles[found.bootstrap]}"
    told = "; ".join(differences)
    if path == MAP:
        raise ClusterMapError(
            f"there is another cluster map at {where}: {told}. See it with `parkazoo map show`; "
            "docs/operations/fsck.md says how to change a server's address in it"
        )
    raise ClusterMapError(
        f"a map with other arguments was begun and not finished at {where}: {told}. Finish it with its own "
        f"arguments; or, if none of its ensembles has znodes below {MIRRORS}, delete {ROOT} on each"
    )
