"""Cluster maps as JSON, good ones and some with something exchanged, for the tests that read them."""

from __future__ import annotations

import json
import unittest
from typing import Any

from parkazoo.errors import ClusterMapError
from parkazoo.protocol.cluster_map import ClusterMap

GOOD: dict[str, Any] = {
    "format": 2,
    "epoch": 1,
    "cluster": "5d3c",
    "bootstrap": "a",
    "ensembles": {"a": "h1:2181,h2:2181", "b": "h3:2181"},
    "hash": "rendezvous-sha256",
    "placement": ["a", "b"],
    "form": "plain",
    "epochs": [{"epoch": 1, "weights": {"a": 1, "b": 1}, "rules": []}],
}
OTHER_VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1.5,
    "",
    "x",
    [],
    {},
    [None],
    [[]],
    {"a": None},
    {"": ""},
)


def encoded(**changes: Any) -> bytes:
    """A good map, or one changed; without other words in `epochs`, each ensemble of the placement has weight 1."""
    document = {**GOOD, **changes}
    if "placement" in changes and "epochs" not in changes and isinstance(document["placement"], list):
        names = [name for name in document["placement"] if isinstance(name, str)]
        document["epochs"] = [{"epoch": 1, "weights": dict.fromkeys(names, 1), "rules": []}]
    return json.dumps(document).encode()


def with_first(**changes: Any) -> bytes:
    """A good map with something else in its only epoch."""
    return encoded(epochs=[{**GOOD["epochs"][0], **changes}])


def weighted(**weights: Any) -> bytes:
    return with_first(weights=weights)


class ReadCase(unittest.TestCase):
    def assert_refused(self, data: bytes | None, pattern: str = "") -> None:
        with self.assertRaisesRegex(ClusterMapError, pattern) as caught:
            ClusterMap.from_json(data)
        self.assertLess(len(str(caught.exception)), 1000, "a message for people")
