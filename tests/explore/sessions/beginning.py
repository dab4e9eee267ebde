"""The cluster to begin with, and its maps."""

from __future__ import annotations

import json

from kazoo.security import OPEN_ACL_UNSAFE

from parkazoo.kazoo_private import Create
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.placement import CLIENTS, ENSEMBLE, MAP, Placement
from tests.explore.alone import issue, must, prepared
from tests.explore.model import Model

NAMES = "abc"


def map_of(ensembles: int, epoch: int, come: int = 0) -> ClusterMap:
    """Each epoch has other addresses.

    :param come: so many ensembles come later: one with each epoch, and without a weight.
    """
    first = ensembles - come
    names = NAMES[: min(first + epoch - 1, ensembles)]
    hosts = {name: f"{name}{epoch}:1" for name in names}
    return ClusterMap("c", hosts, tuple(names), names[0], epoch, unweighted=tuple(names[first:]))


def beginning(ensembles: int, come: int = 0) -> Model:
    """The ensembles of a new cluster, with a znode w on each; those that come later are ready, without a map."""
    known, last = map_of(ensembles, 1, come), map_of(ensembles, come + 1, come)
    placement = last.make_placement()
    made = [path for path in directories(placement, ensembles - come) if path]
    model = prepared(placement, made)
    for ensemble, name in enumerate(last.names):
        identity = json.dumps(last.identity(name)).encode()
        for path, data in ((CLIENTS, b""), (ENSEMBLE, identity), (MAP, known.to_json())):
            if path != MAP or name in known.names:
                must(model.execute(ensemble, Create(path, data, OPEN_ACL_UNSAFE, 0)))
    for path in (*made, *(f"{directory}/w" for directory in directories(placement, ensembles - come))):
        issue(placement, model, Create(path, b"", OPEN_ACL_UNSAFE, 0))
    return model


def directories(placement: Placement, ensembles: int) -> list[str]:
    """For each of so many ensembles the directory whose children it holds in these scenarios; empty for `/`."""
    paths = ["", *(f"/d{number}" for number in range(100))]
    return [
        next(path for path in paths if placement.of_children(path or "/") == ensemble)
        for ensemble in range(ensembles)
    ]
