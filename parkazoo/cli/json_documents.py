"""What commands print with ``--json``: one document each."""

from __future__ import annotations

import json
from collections.abc import Mapping

import typer

from parkazoo.protocol.cluster_map import HASH, ClusterMap
from parkazoo.protocol.placement import Place


def print_json(document: Mapping[str, object]) -> None:
    typer.echo(json.dumps(document, indent=2))


def map_document(cluster_map: ClusterMap) -> dict[str, object]:
    """The map, with its number as ``map``: in what commands print, an epoch has weights and rules."""
    return {
        "cluster": cluster_map.cluster,
        "map": cluster_map.epoch,
        "format": cluster_map.format,
        "form": cluster_map.form.word,
        "hash": HASH,
        "bootstrap": cluster_map.bootstrap,
        "ensembles": dict(cluster_map.ensembles),
        "placement": list(cluster_map.placement),
        "unused": list(cluster_map.unused),
        "retired": list(cluster_map.retired),
        "leaving": dict(cluster_map.leaving),
        "gone": dict(cluster_map.gone),
        "epochs": [each.to_document() for each in cluster_map.epochs],
    }


def place_document(cluster_map: ClusterMap, place: Place) -> dict[str, str]:
    return {"ensemble": cluster_map.names[place.ensemble], "path": place.path}
