"""Whether what an ensemble has below ``/parkazoo`` fits the map."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kazoo.security import ACL, make_digest_acl_credential

from parkazoo.admin.clients import Auth
from parkazoo.admin.contents import DELETE_ALL, DRAFT, Contents
from parkazoo.admin.copies import mend_copy
from parkazoo.admin.identity import is_identity
from parkazoo.admin.strays import SHOWN
from parkazoo.errors import ClusterMapError
from parkazoo.protocol.cluster_map import ClusterMap, describe_record
from parkazoo.protocol.map_copies import Copy, CopyKind, judge_copy
from parkazoo.protocol.placement import ENSEMBLE, MAP, MIRRORS, ROOT


def verify_names(names: Collection[str], cluster_map: ClusterMap) -> None:
    """ClusterMapError if one of `names` is not an ensemble of the map."""
    if unknown := [name for name in names if name not in cluster_map.ensembles]:
        raise ClusterMapError(
            f"no ensemble of the map is called {unknown[0]!r}: there are {', '.join(cluster_map.ensembles)}"
        )


def verify_contents(
    cluster_map: ClusterMap, name: str, states: Mapping[str, Contents], closed: bool, is_made: bool
) -> None:
    state = states[name]
    where = f"ensemble {name} ({state.hosts})"
    if state.record is not None and not is_identity(state.record, cluster_map, name):
        told = f"{where} is {describe_record(state.record)}: an ensemble is in one cluster, under one name. "
        if state.has_mirrors:
            told += f"It has znodes of that cluster below {MIRRORS}: leave {ROOT} there, and use other servers"
        else:
            told += f"Use other servers; or, if nothing uses these any more, delete {ROOT} there ({DELETE_ALL})"
        raise ClusterMapError(told)
    if name != cluster_map.bootstrap and state.map is not None:
        _verify_copy(judge_copy(state.map, cluster_map), where, name)
    if state.draft is not None and name != cluster_map.bootstrap:
        raise ClusterMapError(
            f"a map was begun and not finished at {DRAFT} on {where}: finish it with its own arguments, which "
            "have its hosts as --bootstrap"
        )
    if state.is_open is not None:
        verify_form(where, state.is_open, closed)
    if state.strange:
        there = ", ".join(f"{ROOT}/{each}" for each in state.strange[:SHOWN])
        raise ClusterMapError(f"{where} has {there}, not of this cluster: {ROOT} is ParKazoo's, delete them")
    if state.has_mirrors and state.record is None and not is_made:
        raise ClusterMapError(
            f"{where} has znodes below {MIRRORS}, but no {ENSEMBLE}: it has been an ensemble of a cluster. Use "
            "other servers; or make that znode again as the other ensembles of its cluster have it, with this "
            "one's name"
        )


def _verify_copy(copy: Copy, where: str, name: str) -> None:
    """It is of this cluster, or the ensemble is not."""
    if copy.kind is CopyKind.FOREIGN:
        raise ClusterMapError(
            f"{where} carries another cluster map, at {MAP}: {copy.about}, and an ensemble is in one cluster"
        )
    if copy.kind is CopyKind.DAMAGED:
        raise ClusterMapError(
            f"cannot use the copy of the cluster map at {MAP} on {where}: {copy.about}. {mend_copy(name)}"
        )


def verify_identities(where: str, auth: Auth, acl: Collection[ACL]) -> None:
    """ClusterMapError if one of the digest identities has no part in the ACL of ``/parkazoo`` that is there."""
    there = {each.id.id for each in acl if each.id.scheme == "digest"}
    for scheme, credential in auth:
        user, _, password = credential.partition(":")
        if there and scheme == "digest" and make_digest_acl_credential(user, password) not in there:
            raise ClusterMapError(
                f"the identity digest:{user} has no right to {ROOT} on {where}: `parkazoo map init` gives rights "
                "to what it makes, and not to what is there. Leave it out of auth (--auth)"
            )


def verify_form(where: str, is_open: bool, closed: bool) -> None:
    if is_open and closed:
        raise ClusterMapError(f"{ROOT} on {where} is open to all: leave out --closed")
    if not is_open and not closed:
        raise ClusterMapError(
            f"{ROOT} on {where} is closed: give --closed, and the identity that it needs in --auth"
        )
