"""A lost map is made again in the format by which the znodes were placed."""

from __future__ import annotations

import json
import unittest
from dataclasses import replace
from typing import Any

from kazoo.security import OPEN_ACL_UNSAFE

from parkazoo.admin.loss import assess
from parkazoo.admin.strays import agree_with_znodes, verify_no_strays
from parkazoo.errors import ClusterMapError
from parkazoo.kazoo_private import Create, Exists, GetChildren, GetData, SetData
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.pin import decode_pin
from parkazoo.protocol.placement import MIRRORS, PIN, Directory, above
from parkazoo.protocol.plans import PLANS
from tests.explore.alone import make_context, must, prepared, run
from tests.explore.model import Model
from tests.explore.znodes import Request

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
        d = placement.directory(f"{below}/d{number}")
        if (NAMES[d.home.ensemble], NAMES[d.mirror.ensemble]) == (home, children):
            return d
    raise AssertionError("there is none")


def write_pin(clients: dict[str, Any], d: Directory, data: bytes) -> None:
    must(clients[NAMES[d.home.ensemble]].model.execute(d.home.ensemble, SetData(d.pin, data, -1)))


def without_names(clients: dict[str, Any]) -> None:
    """The pins are as an earlier version made them."""
    model = clients["a"].model
    for ensemble, nodes in enumerate(model.nodes):
        for path in [path for path in nodes if path.endswith(f"/{PIN}")]:
            pin = decode_pin(nodes[path].data)
            data = json.dumps({"fence": [pin.ctime, pin.version]}).encode()
            must(model.execute(ensemble, SetData(path, data, -1)))


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
        """The others have pins that name it."""
        for made in (NEW, OLD):
            clients = ensembles_of(made, *PATHS, *(f"/{number}/child" for number in range(24)))
            for left_out in NAMES:
                names = tuple(name for name in NAMES if name != left_out)
                fewer = ClusterMap("test", {name: f"{name}:1" for name in names}, names, names[0])
                with self.assertRaisesRegex(
                    ClusterMapError,
                    f"on ensemble {left_out} are .* all its ensembles, {left_out} too, .* old order",
                ):
                    agree_with_znodes(fewer, clients, is_told=False)

    def test_the_last_one_is_left_out(self) -> None:
        """Rendezvous places all else as before: one pin tells, also in a mirror."""
        in_a_mirror = mirrored(NEW, "b", "c", below=mirrored(NEW, "a", "b").path)
        for d in (mirrored(NEW, "a", "c"), in_a_mirror):
            clients = ensembles_of(NEW, f"{d.path}/child")
            fewer = ClusterMap("test", {"a": "a:1", "b": "b:1"}, ("a", "b"), "a")
            with self.assertRaisesRegex(
                ClusterMapError, f"on ensemble c are the children of {d.path}\\. .* c are gone"
            ):
                agree_with_znodes(fewer, clients, is_told=False)

    def test_one_is_left(self) -> None:
        d = mirrored(NEW, "a", "b")
        clients = ensembles_of(NEW, f"{d.path}/child")
        alone = ClusterMap("test", {"a": "a:1"}, ("a",), "a")
        with self.assertRaisesRegex(
            ClusterMapError, f"^cluster test .* on ensemble b are the children of {d.path}"
        ):
            agree_with_znodes(alone, clients, is_told=False)
        without_names(clients)
        with self.assertRaisesRegex(ClusterMapError, f"out of reach .*{d.pin} on a.* in their old order"):
            agree_with_znodes(alone, clients, is_told=False)

    def test_pins_of_an_earlier_version(self) -> None:
        clients = ensembles_of(NEW, *PATHS)
        without_names(clients)
        self.assertEqual(agree_with_znodes(NEW, clients, is_told=False), NEW)
        with self.assertRaisesRegex(ClusterMapError, "in their old order"):
            agree_with_znodes(replace(NEW, placement=("c", "a", "b")), clients, is_told=False)

    def test_a_pin_that_names_another(self) -> None:
        """Its mirror was on an ensemble that was emptied: the order that it names is not the one that is given."""
        d = mirrored(NEW, "a", "b")
        clients = ensembles_of(NEW, d.path)
        must(clients["a"].model.execute(d.home.ensemble, Create(d.pin, b"", OPEN_ACL_UNSAFE, 0)))
        self.assertIs(agree_with_znodes(NEW, clients, is_told=True), NEW)
        write_pin(clients, d, b'{"fence": [1, 2], "on": "c"}')
        with self.assertRaisesRegex(ClusterMapError, f"out of reach .*{d.pin} on a.* in their old order"):
            agree_with_znodes(NEW, clients, is_told=True)

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
            verify_no_strays(NEW, ensembles_of(OLD, *PATHS))
