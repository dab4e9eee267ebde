"""A lost map is made again in the format by which the znodes were placed."""

from __future__ import annotations

import unittest
from dataclasses import replace
from typing import Any

from kazoo.security import OPEN_ACL_UNSAFE

from parkazoo.admin.strays import agree_with_znodes, verify_no_strays
from parkazoo.errors import ClusterMapError
from parkazoo.kazoo_private import Create, GetChildren
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.placement import above
from tests.explore.alone import issue, must, prepared
from tests.explore.model import Model

NAMES = ("a", "b", "c")
NEW = ClusterMap("test", {name: f"{name}:1" for name in NAMES}, NAMES, "a")
OLD = replace(NEW, format=1)
PATHS = [f"/{first}{rest}" for first in "pqr" for rest in ("", "/s", "/s/t")]


class FakeAdminClient:
    def __init__(self, model: Model, ensemble: int) -> None:
        self.model, self.ensemble, self.zk = model, ensemble, self

    def __str__(self) -> str:
        return NAMES[self.ensemble]

    def children(self, path: str) -> list[str]:
        names: list[str] = must(self.model.execute(self.ensemble, GetChildren(path, None)))
        return names

    def get_children_async(self, path: str) -> str:
        return path

    def wait(self, path: str, answer: str) -> list[str]:
        return self.children(answer)


def ensembles_of(cluster_map: ClusterMap, *paths: str) -> dict[str, Any]:
    """The ensembles of a cluster that has these znodes."""
    placement = cluster_map.make_placement()
    made = sorted({*paths, *(each for path in paths for each in above(path) if each != "/")})
    model = prepared(placement, made)
    issue(placement, model, *(Create(path, b"", OPEN_ACL_UNSAFE, 0) for path in made))
    return {name: FakeAdminClient(model, index) for index, name in enumerate(NAMES)}


class TestLostMap(unittest.TestCase):
    def test_the_format_of_the_znodes(self) -> None:
        for made in (NEW, OLD):
            self.assertEqual(agree_with_znodes(NEW, ensembles_of(made, *PATHS), is_told=False), made)

    def test_a_copy_tells_the_format(self) -> None:
        for made in (NEW, OLD):
            self.assertIs(agree_with_znodes(made, ensembles_of(made, *PATHS), is_told=True), made)
        with self.assertRaisesRegex(ClusterMapError, "in their old order"):
            agree_with_znodes(NEW, ensembles_of(OLD, *PATHS), is_told=True)

    def test_no_znodes(self) -> None:
        self.assertIs(agree_with_znodes(NEW, ensembles_of(OLD), is_told=False), NEW)

    def test_another_order(self) -> None:
        for made in (NEW, OLD):
            clients = ensembles_of(made, *PATHS)
            with self.assertRaisesRegex(
                ClusterMapError, "^znodes would .* give all its ensembles in their old order"
            ):
                agree_with_znodes(replace(NEW, placement=("c", "a", "b")), clients, is_told=False)

    def test_an_ensemble_is_left_out(self) -> None:
        """The others have nothing where it does not belong, but pins of mirrors that were there."""
        for made in (NEW, OLD):
            clients = ensembles_of(made, *PATHS, *(f"/{number}/child" for number in range(24)))
            for left_out in NAMES:
                names = tuple(name for name in NAMES if name != left_out)
                fewer = ClusterMap("test", {name: f"{name}:1" for name in names}, names, names[0])
                with self.assertRaisesRegex(ClusterMapError, "in their old order"):
                    agree_with_znodes(fewer, clients, is_told=False)

    def test_a_first_map(self) -> None:
        verify_no_strays(NEW, ensembles_of(NEW, *PATHS))
        with self.assertRaisesRegex(ClusterMapError, "^znodes would .* Begin with empty ensembles"):
            verify_no_strays(NEW, ensembles_of(OLD, *PATHS))
