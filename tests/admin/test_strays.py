"""A map is made again, or for the first time, only if it finds all znodes where they are."""

from __future__ import annotations

import unittest
from dataclasses import replace
from typing import Any

from kazoo.security import OPEN_ACL_UNSAFE

from parkazoo.admin.loss import assess
from parkazoo.admin.strays import verify_no_strays, verify_places
from parkazoo.errors import ClusterMapError
from parkazoo.kazoo_private import Create, Exists, GetChildren, GetData, SetData
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.placement import MIRRORS, Directory, above
from parkazoo.protocol.plans import PLANS
from tests.explore.alone import make_context, must, prepared, run
from tests.explore.model import Model
from tests.explore.znodes import Request
from tests.where_is import where_is

NAMES = ("a", "b", "c")
NEW = ClusterMap("test", {name: f"{name}:1" for name in NAMES}, NAMES, "a")
OTHER = replace(NEW, weights={"a": 0})
PATHS = [f"/{first}{rest}" for first in "pqr" for rest in ("", "/s", "/s/t")]


class FakeAdminClient:
    def __init__(self, model: Model, ensemble: int) -> None:
        self.model, self.ensemble, self.zk = model, ensemble, self

    def __str__(self) -> str:
        return NAMES[self.ensemble]

    def children(self, path: str) -> list[str]:
        names: list[str] = must(self.model.execute(self.ensemble, GetChildren(path, None)))
        return names

    def is_there(self, path: str) -> bool:
        return must(self.model.execute(self.ensemble, Exists(path, None))) is not None

    def get_children_async(self, path: str) -> Request:
        return GetChildren(path, None)

    def get_async(self, path: str) -> Request:
        return GetData(path, None)

    def wait(self, path: str, answer: Request) -> Any:
        return must(self.model.execute(self.ensemble, answer))


def ensembles_of(cluster_map: ClusterMap, *paths: str) -> dict[str, Any]:
    """The ensembles of a cluster that has these znodes."""
    placement = cluster_map.make_placement()
    made = sorted({*paths, *(each for path in paths for each in above(path) if each != "/")})
    model = prepared(placement, made)
    context = make_context(placement)
    context.names = NAMES
    for path in made:
        request = Create(path, b"", OPEN_ACL_UNSAFE, 0)
        run(model, PLANS[request.type].operation(context, request))
    return {name: FakeAdminClient(model, index) for index, name in enumerate(NAMES)}


def mirrored(cluster_map: ClusterMap, home: str, children: str, below: str = "") -> Directory:
    """A directory whose home and children are on these ensembles."""
    placement = cluster_map.make_placement()
    for number in range(1000):
        d = where_is(placement, f"{below}/d{number}")
        if (NAMES[d.home.ensemble], NAMES[d.mirror.ensemble]) == (home, children):
            return d
    raise AssertionError("there is none")


def write_pin(clients: dict[str, Any], d: Directory, data: bytes) -> None:
    must(clients[NAMES[d.home.ensemble]].model.execute(d.home.ensemble, SetData(d.pin, data, -1)))


class TestLostMap(unittest.TestCase):
    def test_znodes_of_this_map(self) -> None:
        for made in (NEW, OTHER):
            verify_places(made, ensembles_of(made, *PATHS))
        verify_places(NEW, ensembles_of(OTHER))  # there are none

    def test_another_map(self) -> None:
        for made, wanted in ((OTHER, NEW), (NEW, OTHER), (NEW, replace(NEW, placement=("c", "a", "b")))):
            with self.assertRaisesRegex(
                ClusterMapError, "^znodes would .* give all its ensembles in their old order"
            ):
                verify_places(wanted, ensembles_of(made, *PATHS))

    def test_an_ensemble_is_left_out(self) -> None:
        """The others have pins that name it."""
        clients = ensembles_of(NEW, *PATHS, *(f"/{number}/child" for number in range(24)))
        for left_out in NAMES:
            names = tuple(name for name in NAMES if name != left_out)
            fewer = ClusterMap("test", {name: f"{name}:1" for name in names}, names, names[0])
            with self.assertRaisesRegex(
                ClusterMapError,
                f"on ensemble {left_out} are .* all its ensembles, {left_out} too, .* old order",
            ):
                verify_places(fewer, clients)

    def test_the_last_one_is_left_out(self) -> None:
        """Rendezvous places all else as before: one pin tells, also in a mirror."""
        in_a_mirror = mirrored(NEW, "b", "c", below=mirrored(NEW, "a", "b").path)
        for d in (mirrored(NEW, "a", "c"), in_a_mirror):
            clients = ensembles_of(NEW, f"{d.path}/child")
            fewer = ClusterMap("test", {"a": "a:1", "b": "b:1"}, ("a", "b"), "a")
            with self.assertRaisesRegex(
                ClusterMapError, f"on ensemble c are the children of {d.path}\\. .* c are gone"
            ):
                verify_places(fewer, clients)

    def test_one_is_left(self) -> None:
        d = mirrored(NEW, "a", "b")
        clients = ensembles_of(NEW, f"{d.path}/child")
        alone = ClusterMap("test", {"a": "a:1"}, ("a",), "a")
        with self.assertRaisesRegex(
            ClusterMapError, f"^cluster test .* on ensemble b are the children of {d.path}"
        ):
            verify_places(alone, clients)
        write_pin(clients, d, b"")
        with self.assertRaisesRegex(ClusterMapError, f"out of reach .*{d.pin} on a.* in their old order"):
            verify_places(alone, clients)

    def test_a_pin_that_names_another(self) -> None:
        """Its mirror was on an ensemble that was emptied: the order that it names is not the one that is given."""
        d = mirrored(NEW, "a", "b")
        clients = ensembles_of(NEW, d.path)
        must(clients["a"].model.execute(d.home.ensemble, Create(d.pin, b"", OPEN_ACL_UNSAFE, 0)))
        verify_places(NEW, clients)
        write_pin(clients, d, b'{"fence": [1, 2], "on": "c"}')
        with self.assertRaisesRegex(ClusterMapError, f"out of reach .*{d.pin} on a.* in their old order"):
            verify_places(NEW, clients)

    def test_a_loss_is_counted_where_the_pin_says(self) -> None:
        d = mirrored(NEW, "a", "b")
        clients = ensembles_of(NEW, f"{d.path}/child")
        write_pin(clients, d, b'{"fence": [1, 2], "on": "c"}')
        self.assertEqual(assess(NEW, clients, ["c"]).childless, (d.path,))
        self.assertEqual(clients["c"].children(MIRRORS), [])
        self.assertEqual(assess(NEW, clients, ["b"]).childless, ())

    def test_a_first_map(self) -> None:
        verify_no_strays(NEW, ensembles_of(NEW, *PATHS))
        with self.assertRaisesRegex(ClusterMapError, "^znodes would .* Begin with empty ensembles"):
            verify_no_strays(NEW, ensembles_of(OTHER, *PATHS))
