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


def map_of(ensembles: int, epoch: int) -> ClusterMap:
    """Each epoch has other addresses."""
    names = NAMES[:ensembles]
    return ClusterMap("c", {name: f"{name}{epoch}:1" for name in names}, tuple(names), names[0], epoch)


def beginning(ensembles: int) -> Model:
    """The ensembles of a new cluster, with a znode w on each."""
    placement, known = Placement(ensembles), map_of(ensembles, 1)
    made = [path for path in directories(placement) if path]
    model = prepared(placement, made)
    for ensemble, name in enumerate(known.names):
        for path, data in (
            (CLIENTS, b""),
            (MAP, known.to_json()),
            (ENSEMBLE, json.dumps(known.identity(name)).encode()),
        ):
            must(model.execute(ensemble, Create(path, data, OPEN_ACL_UNSAFE, 0)))
    for path in (*made, *(f"{directory}/w" for directory in directories(placement))):
        issue(placement, model, Create(path, b"", OPEN_ACL_UNSAFE, 0))
    return model


def directories(placement: Placement) -> list[str]:
    """For each ensemble the directory whose children it holds in these scenarios; empty for the root."""
    paths = ["", *(f"/d{number}" for number in range(100))]
    return [
        next(path for path in paths if placement.of_children(path or "/") == ensemble)
        for ensemble in range(placement.ensembles)
    ]
