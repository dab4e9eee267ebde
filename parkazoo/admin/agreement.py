"""The map that is wanted, and the one that is there or was begun."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Iterator, Mapping

from parkazoo.admin.contents import DELETE_ALL, DRAFT, Contents, parse_map
from parkazoo.admin.identity import cluster_of, is_identity
from parkazoo.errors import ClusterMapError
from parkazoo.protocol.cluster_map import ClusterMap, format_hosts, parse_hosts
from parkazoo.protocol.epochs import Form
from parkazoo.protocol.placement import MAP, MIRRORS, ROOT

APART = "bootstrap"  # the name of a bootstrap ensemble that carries no znodes


def plan_map(bootstrap: str, ensembles: Mapping[str, str], form: Form = Form.PLAIN) -> ClusterMap:
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
    if form is Form.GROWN and len(ensembles) == 1:
        raise ClusterMapError(
            "a map of form grown begins with two or more ensembles that carry znodes: give another --ensemble, or "
            "leave out --form"
        )
    return ClusterMap(
        cluster=uuid.uuid4().hex, ensembles=hosts, placement=tuple(ensembles), bootstrap=name, form=form
    )


def agree_on_map(wanted: ClusterMap, states: Mapping[str, Contents]) -> tuple[ClusterMap, bool]:
    """The map to go on with: the one that is there, else the draft, else the one wanted; whether it is made.

    The one wanted is that of the cluster which the ensembles are of, if they are of one: perhaps its map is lost.
    """
    state = states[wanted.bootstrap]
    if state.map is not None:
        found = parse_map(state.map, MAP, state.hosts)
        if _is_copy(found, state):
            raise _other_bootstrap(found, wanted.bootstrap, state)
        return same_map(wanted, found, MAP), True
    if state.draft is not None:
        return same_map(wanted, parse_map(state.draft, DRAFT, state.hosts), DRAFT), False
    clusters = {cluster_of(each.record) for each in states.values() if each.record is not None}
    if len(clusters) == 1:
        return dataclasses.replace(wanted, cluster=clusters.pop() or wanted.cluster), False
    return wanted, False


def _is_copy(found: ClusterMap, state: Contents) -> bool:
    """Whether this is an ensemble of that map other than its bootstrap ensemble."""
    others = (name for name in found.names if name != found.bootstrap)
    return state.record is not None and any(is_identity(state.record, found, name) for name in others)


def _other_bootstrap(found: ClusterMap, name: str, state: Contents) -> ClusterMapError:
    return ClusterMapError(
        f"ensemble {found.bootstrap} ({found.ensembles[found.bootstrap]}) is the bootstrap ensemble of cluster "
        f"{found.cluster}, says the map on ensemble {name} ({state.hosts}): give its hosts as --bootstrap"
    )


def agree_with_copies(wanted: ClusterMap, states: Mapping[str, Contents]) -> ClusterMap:
    """The map to go on with where the primary is lost, and copies of its cluster are left, if they are.

    Its epoch is the newest copy's, or a later one if something else is wanted. So no copy is newer, or says
    something else in the same epoch. What was lost may have been one form ahead of all copies: a guarded client
    may have left pins, which a tolerant map could take back.
    """
    copies = {
        name: parse_map(state.map, MAP, state.hosts) for name, state in states.items() if state.map is not None
    }
    if not copies:
        return wanted
    name = max(copies, key=lambda each: copies[each].epoch)
    found = copies[name]
    if found.bootstrap != wanted.bootstrap:
        raise _other_bootstrap(found, name, states[name])
    if differences := "; ".join(_other_parts(wanted, found)):
        raise ClusterMapError(
            f"there is no cluster map on ensemble {wanted.bootstrap}, and the copy of it on ensemble {name} "
            f"({states[name].hosts}) is another map: {differences}"
        )
    found = found.with_hosts(wanted.ensembles)
    return found.with_form(Form.GUARDED) if found.form is Form.TOLERANT else found


def same_map(wanted: ClusterMap, found: ClusterMap, path: str) -> ClusterMap:
    """`found`, unless it is another map than the one wanted."""
    differences = [*_other_parts(wanted, found), *_other_hosts(wanted, found)]
    if not differences:
        return found
    where = f"{path} on {found.ensembles[found.bootstrap]}"
    told = "; ".join(differences)
    if path == MAP:
        raise ClusterMapError(
            f"there is another cluster map at {where}: {told}. See it with `parkazoo map show`; "
            "`parkazoo map hosts` changes servers' addresses in it. If an ensemble's machines are gone, let empty "
            "ones have its old addresses, and give up its data with --replace; then change them"
        )
    raise ClusterMapError(
        f"a map with other arguments was begun and not finished at {where}: {told}. Finish it with its own "
        f"arguments; or, if none of its ensembles has znodes below {MIRRORS}, delete {ROOT} on each ({DELETE_ALL})"
    )


def _other_parts(wanted: ClusterMap, found: ClusterMap) -> Iterator[str]:
    """What differs, but for the hosts. A map on its way from plain to grown is the plain one that was made.

    Where that was begun to be made again, `wanted` may be on its way too.
    """
    if found.bootstrap != wanted.bootstrap:
        yield f"its bootstrap ensemble is {found.bootstrap}, not {wanted.bootstrap}"
    carrying = [name for name in found.placement if name not in found.gone]
    if carrying != [*wanted.placement]:
        yield f"its placement is {', '.join(carrying)}, not {', '.join(wanted.placement)}"
    is_rising = Form.PLAIN < found.form < Form.GROWN
    if (found.form is Form.GROWN) is not (wanted.form is Form.GROWN):
        goes_on = " (`parkazoo map grow` was begun: run it again)" if is_rising else ""
        yield f"its form is {found.form.word}, not {wanted.form.word}{goes_on}"


def _other_hosts(wanted: ClusterMap, found: ClusterMap) -> list[str]:
    return [
        f"its ensemble {name} is {found.ensembles[name]}, not {hosts}"
        for name, hosts in wanted.ensembles.items()
        if name in found.ensembles and set(parse_hosts(found.ensembles[name])) != set(parse_hosts(hosts))
    ]
