"""Placement is a pure function that every client on every machine must compute alike, for ever."""

from __future__ import annotations

import itertools
import random
import subprocess
import sys
import unittest

from parkazoo.protocol.placement import (
    ENSEMBLE,
    FENCE_COUNT,
    FENCES,
    MAP,
    MIRRORS,
    ROOT,
    Directory,
    Place,
    Placement,
    escape,
    hash_of,
    is_reserved,
    join,
    logical,
    split,
    unescape,
)
from parkazoo.protocol.where.places import Places

# Made with: printf %s PATH | sha256sum
SHA256 = {
    "/": "8a5edab282632443219e051e4ade2d1d5bbc671c781051bf1437897cbdfea0f1",
    "/app": "f53b52ad6d21cceb72dfa78fb67614fe14f110c58e68412b01508d6a485501c3",
    "/app/jobs": "0ca86c9eb12cc6f9735b538a56586e4fab4c297ce3f257c4e21a62e3c67cd4dc",
    "/zookeeperx": "d327dcb36c95788f55e9124f0a95ced158736432fb62c0db3964fdce1c6b6765",
    "/ünï/код": "811a69f9e8f31f7f59addaffdf2b6143869ecf032f29ae3f5b1a537562bf547c",
    "/a%2Fb": "62367424402e3555f8ccb18ab6a08fb38a6da4296fb37d81bcc214be951afe38",
}
# Of the first 1, 2, 3, 5, 7 and 8 words of eight digits, which is the highest.
HIGHEST = {
    "/": (0, 0, 0, 0, 0, 7),
    "/app": (0, 0, 0, 0, 0, 0),
    "/app/jobs": (0, 1, 1, 1, 5, 5),
    "/zookeeperx": (0, 0, 0, 0, 5, 5),
    "/ünï/код": (0, 1, 1, 1, 1, 1),
    "/a%2Fb": (0, 0, 2, 2, 2, 2),
}
NAMES = (
    "a",
    "%",
    "%2F",
    "%25",
    "%252F",
    "2F",
    "ü",
    "код",
    "\U0001f600",
    "a b",
    "..a",
    ".parkazooo",
    "x.parkazoo",
    "parkazoo",
    "mirrors",
    "zookeeper",
)


def paths(depth: int) -> list[str]:
    """All paths of at most `depth` names out of NAMES that a user may use."""
    found = [
        "/" + "/".join(names)
        for length in range(1, depth + 1)
        for names in itertools.product(NAMES, repeat=length)
    ]
    return ["/", *(path for path in found if not is_reserved(path))]


class HashTest(unittest.TestCase):
    def test_known_answers(self) -> None:
        for path, digest in SHA256.items():
            self.assertEqual(f"{hash_of(path):064x}", digest, path)

    def test_known_ensembles(self) -> None:
        for path, expected in HIGHEST.items():
            found = tuple(Placement(n).of_children(path) for n in (1, 2, 3, 5, 7, 8))
            self.assertEqual(found, expected, path)

    def test_same_in_another_process(self) -> None:
        # Python's own hash() of a str differs from process to process
        code = (
            "from parkazoo.protocol.placement import Placement\n"
            "print([Placement(5).of_children(f'/d{i}') for i in range(50)])"
        )
        answer = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
        ).stdout
        self.assertEqual(answer.strip(), str([Placement(5).of_children(f"/d{i}") for i in range(50)]))

    def test_spread_evenly(self) -> None:
        placement = Placement(4)
        counts = [0] * 4
        for number in range(4000):
            counts[placement.of_children(f"/app/{number}")] += 1
        # 1000 each with a standard deviation of 27; the paths are fixed, so this can't fail by chance
        self.assertTrue(all(900 < count < 1100 for count in counts), counts)


class EnsembleTest(unittest.TestCase):
    def test_one_of_the_ensembles(self) -> None:
        for n in (1, 2, 3, 7, 100):
            placement = Placement(n)
            for path in paths(2):
                self.assertIn(placement.of(path), range(n))
                self.assertIn(placement.of_children(path), range(n))

    def test_siblings_together(self) -> None:
        placement = Placement(5)
        for directory in paths(1):
            found = {placement.of(join(directory, f"child-{number}")) for number in range(100)}
            self.assertEqual(found, {placement.of_children(directory)})

    def test_asked_again(self) -> None:
        known = Places(Placement(3)).known
        first = [known(path) for path in paths(2)]
        self.assertEqual([known(path) for path in paths(2)], first)
        self.assertEqual([Places(Placement(3)).known(path) for path in paths(2)], first)

    def test_same_after_the_caches_have_overflown(self) -> None:
        known = Places(Placement(3)).known
        before = known("/app/jobs/1")
        for number in range(70_000):
            known(f"/d/{number}")
        self.assertEqual(known("/app/jobs/1"), before)

    def test_one_ensemble_is_native_throughout(self) -> None:
        known = Places(Placement(1)).known
        for path in paths(2):
            self.assertEqual(known(path), Directory(path, *[Place(0, path)] * 2, True))

    def test_no_ensemble(self) -> None:
        with self.assertRaises(ValueError):
            Placement(0)

    def test_root_is_native(self) -> None:
        for n in (1, 2, 3, 10):
            placement = Placement(n)
            self.assertTrue(placement.is_native("/"))
            home = Place(placement.of_children("/"), "/")
            self.assertEqual(Places(placement).known("/"), Directory("/", home, home, True))

    def test_zookeeper_is_the_bootstrap_ensembles(self) -> None:
        for bootstrap in (0, 2, 3):
            placement = Placement(3, bootstrap)
            for path in ("/zookeeper", "/zookeeper/config", "/zookeeper/quota/a"):
                self.assertEqual(Places(placement).known(path).home, Place(bootstrap, path))
                self.assertTrue(placement.is_native(path))

    def test_zookeepers_namesakes_are_not(self) -> None:
        placement = Placement(3, 3)
        for path in ("/zookeeperx", "/zookeeperx/a", "/a/zookeeper", "/a/zookeeper/b"):
            self.assertIn(Places(placement).known(path).home.ensemble, range(3), path)


class PhysicalPathTest(unittest.TestCase):
    def test_by_hand(self) -> None:
        # The children of / and of /app live on 0 of 3 (see HIGHEST), those of /app/jobs on 1.
        placement = Placement(3)
        known = Places(placement).known
        self.assertEqual(known("/app").home, Place(0, "/app"))
        self.assertTrue(placement.is_native("/app"))
        self.assertEqual(known("/app/jobs").home, Place(0, "/app/jobs"))
        self.assertFalse(placement.is_native("/app/jobs"))
        self.assertEqual(known("/app/jobs").mirror, Place(1, f"{MIRRORS}/%2Fapp%2Fjobs"))
        self.assertEqual(known("/app/jobs/1").home, Place(1, f"{MIRRORS}/%2Fapp%2Fjobs/1"))
        self.assertEqual(known("/app/jobs").pin, "/app/jobs/.parkazoo")

    def test_recursion_of_the_specification(self) -> None:
        for n in (2, 3, 5):
            placement = Placement(n)
            known = Places(placement).known
            for path in paths(3):
                if path == "/":
                    continue
                parent, name = split(path)
                if placement.is_native(parent):
                    expected = join(known(parent).home.path, name)
                else:
                    expected = f"{MIRRORS}/{escape(parent)}/{name}"
                self.assertEqual(known(path).home, Place(placement.of(path), expected))

    def test_inverse(self) -> None:
        for n in (1, 2, 3, 5):
            known = Places(Placement(n)).known
            for path in paths(3):
                self.assertEqual(logical(known(path).home.path), path)
                self.assertEqual(logical(known(path).mirror.path), path)

    def test_inverse_of_random_names(self) -> None:
        rng = random.Random(7)
        alphabet = "%25F/ab.é\U0001f600-" + MIRRORS
        known = Places(Placement(3)).known
        for _ in range(20_000):
            drawn = "".join(rng.choices(alphabet, k=rng.randrange(1, 40)))
            path = "/" + "/".join(filter(None, drawn.split("/")))
            if not is_reserved(path):
                self.assertEqual(logical(known(path).home.path), path)

    def test_no_two_znodes_share_a_place(self) -> None:
        for n in (2, 3):
            known = Places(Placement(n)).known
            places = [known(path).home for path in paths(3)]
            self.assertEqual(len(set(places)), len(places))

    def test_depth_does_not_matter(self) -> None:
        path = "/d" * 5000
        for n in (1, 2, 3):
            self.assertEqual(logical(Places(Placement(n)).known(path).home.path), path)

    def test_normalised_paths_only(self) -> None:
        # A trailing slash is the client's to remove: to placement it would be another path.
        self.assertNotEqual(hash_of("/app/"), hash_of("/app"))

    def test_escape(self) -> None:
        self.assertEqual(escape("/a/b%2Fc"), "%2Fa%2Fb%252Fc")
        for path in paths(2):
            self.assertNotIn("/", escape(path))
            self.assertEqual(unescape(escape(path)), path)

    def test_fences(self) -> None:
        known = Places(Placement(3)).known
        found = set()
        for number in range(20_000):
            directory = f"/dir-{number}"
            parent, name = split(known(directory).fence)
            self.assertEqual(parent, FENCES)
            found.add(int(name))
        self.assertEqual(found, set(range(FENCE_COUNT)))

    def test_known_fences(self) -> None:
        # Bits 128 to 137 of the hash. Made with: printf %s PATH | sha256sum | cut -c30-32, the lowest ten bits
        known = Places(Placement(3)).known
        self.assertEqual(known("/app").fence, f"{FENCES}/{0x4FE & 0x3FF}")
        self.assertEqual(known("/app/jobs").fence, f"{FENCES}/{0xE4F & 0x3FF}")


class ReservedTest(unittest.TestCase):
    def test_reserved(self) -> None:
        for path in (
            ROOT,
            MAP,
            ENSEMBLE,
            MIRRORS + "/%2Fa/b",
            "/.parkazoo",
            "/a/.parkazoo",
            "/a/.parkazoo/b",
            "/parkazoo/a/b",
        ):
            self.assertTrue(is_reserved(path), path)

    def test_look_alikes_are_not(self) -> None:
        for path in (
            "/",
            "/parkazoox",
            "/a/parkazoo",
            "/a/parkazoo/map",
            "/.parkazoox",
            "/x.parkazoo",
            "/a/.parkazoo.",
            "/PARKAZOO",
        ):
            self.assertFalse(is_reserved(path), path)

    def test_below_a_prefix_only_it_is_a_mirror(self) -> None:
        self.assertEqual(logical("/parkazoo/mirrorsx/%2Fa"), "/parkazoo/mirrorsx/%2Fa")
        self.assertEqual(logical(MIRRORS), MIRRORS)
