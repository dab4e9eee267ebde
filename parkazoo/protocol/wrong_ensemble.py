"""Servers that are not the ensemble that the map means."""

from __future__ import annotations

import json

from kazoo.exceptions import NoNodeError

from parkazoo.errors import ClusterMapError
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.placement import ENSEMBLE
from parkazoo.protocol.steps import DataAnswer


def wrong_ensemble_error(cluster_map: ClusterMap, name: str, record: bytes | None) -> ClusterMapError | None:
    """The error to raise when the servers of ensemble `name` are not that ensemble; None if they are.

    :param record: the data of ``/parkazoo/ensemble`` there; None if there is no such znode.
    """
    expected = cluster_map.identity(name)
    if record is None:
        told = "is missing; if they are its servers, they have lost their data"
    else:
        try:
            found = json.loads(record)
        except (ValueError, RecursionError):  # not ParKazoo's
            found = record
        if found == expected:
            return None
        told = f"is {found!r}, not {expected!r}"
    servers = cluster_map.ensembles.get(name, f"of ensemble {name}, which was taken out,")
    return ClusterMapError(
        f"the servers {servers} are not ensemble {name} of this cluster: {ENSEMBLE} there "
        f"{told}. See `parkazoo map check`"
    )


def identity_error(cluster_map: ClusterMap, name: str, answer: DataAnswer) -> Exception | None:
    """The trouble with the servers of ensemble `name`, if any.

    :param answer: to a read of ``/parkazoo/ensemble`` there, which may be an exception.
    """
    if isinstance(answer, Exception) and not isinstance(answer, NoNodeError):
        return answer
    record = None if isinstance(answer, NoNodeError) else answer[0] or b""  # kazoo gives None for no data
    return wrong_ensemble_error(cluster_map, name, record)


def copy_error(cluster_map: ClusterMap, name: str, server: str) -> ClusterMapError:
    """The error to raise when a server has an ensemble's data, and is not in one ensemble with its servers.

    :param server: its address, which the map does not name.
    """
    return ClusterMapError(
        f"server {server} has the data of ensemble {name} of cluster {cluster_map.cluster}, but is not in one "
        f"ensemble with the servers that the map names, {cluster_map.ensembles[name]}: these do not know its "
        "sessions. If it belongs to a copy of the cluster, give the copy an identity of its own: `parkazoo map "
        "new-identity` with the copy's servers. If the ensemble has moved, stop the servers that it has left, and "
        f"put its new ones into the map: `parkazoo map hosts {name}=H:P,H:P`. See docs/operations/map.md"
    )
