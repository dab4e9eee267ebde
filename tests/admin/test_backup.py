"""The directories that are lost since a backup, all of them and no others; and manifests that are damaged."""

from __future__ import annotations

import contextlib
import gzip
import json
import random
import tempfile
import unittest
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from kazoo.exceptions import NoAuthError
from kazoo.security import OPEN_ACL_UNSAFE

from parkazoo.admin import new_identity
from parkazoo.admin.backup import looks
from parkazoo.admin.backup import manifest as manifest_module
from parkazoo.admin.backup.compare import Differences, Lost, Older, compare
from parkazoo.admin.backup.listed import list_directories
from parkazoo.admin.backup.looks import look_again
from parkazoo.admin.backup.manifest import (
    FILE_NAME,
    ClusterState,
    ManifestError,
    new_manifest,
    read_manifest,
    write_manifest,
)
from parkazoo.admin.clients import AdminClient, NoRightError
from parkazoo.kazoo_private import Create, Delete, Exists, GetChildren2, GetData, SetData
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.epochs import Form
from parkazoo.protocol.pin import encode_pin
from parkazoo.protocol.placement import ENSEMBLE, MIRRORS, OURS, PIN, ROOT, Directory, above, join, logical, split
from parkazoo.protocol.plans import PLANS
from parkazoo.protocol.where.places import NATIVE, Places
from tests.explore.alone import make_context, must, outcome, prepared
from tests.explore.znodes import Request, Znodes
from tests.where_is import where_is

NAMES = ("a", "b", "c")
MAP = ClusterMap("test", {name: f"{name}:1" for name in NAMES}, NAMES, "a")
FORMS = {form: replace(MAP, form=form) for form in (Form.PLAIN, Form.GROWN)}
PATHS = [f"/{first}{rest}" for first in range(20) for rest in ("", "/s", "/s/t", "/s/t/u", "/v")]
Part = tuple[int, str, bool]  # a znode on an ensemble, and whether it has the children


class Answered:
    """What an asynchronous call has returned."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def ready(self) -> bool:
        return True


class ModelClient(AdminClient):
    """An AdminClient of an ensemble in memory."""

    def __init__(self, tree: Tree, ensemble: int) -> None:
        self.tree, self.ensemble, self.name = tree, ensemble, NAMES[ensemble]
        self.zk: Any = self
        self.may_not_read: set[str] = set()
        self.before_get: Callable[[str], object] = lambda path: None

    @property
    def last_zxid(self) -> int:
        return self.tree.model.zxids[self.ensemble]

    def read(self, path: str) -> bytes | None:
        if path in self.may_not_read:
            raise NoRightError("no right")
        found: bytes | None = self.tree.model.nodes[self.ensemble][path].data
        return found

    def wait(self, path: str, answer: Answered) -> Any:
        if isinstance(answer.answer, NoAuthError):
            raise NoRightError("no right")
        return must(answer.answer)

    def _ask(self, request: Request, path: str) -> Answered:
        if path in self.may_not_read:
            return Answered(NoAuthError())
        return Answered(self.tree.model.execute(self.ensemble, request))

    def get_children_async(self, path: str, watch: None, include_data: bool) -> Answered:
        assert include_data
        return self._ask(GetChildren2(path, None), path)

    def get_async(self, path: str) -> Answered:
        self.before_get(path)
        return self._ask(GetData(path, None), path)

    def exists_async(self, path: str) -> Answered:
        return self._ask(Exists(path, None), path)


class Tree:
    """A cluster in memory, with one client's operations."""

    def __init__(self, form: Form) -> None:
        self.map = FORMS[form]
        placement = self.map.make_placement()
        self.placement = placement
        self.model = prepared(placement, PATHS)
        for ensemble, name in enumerate(NAMES):
            record = json.dumps(self.map.identity(name)).encode()
            must(self.model.execute(ensemble, Create(ENSEMBLE, record, OPEN_ACL_UNSAFE, 0)))
        self.context = make_context(placement)
        if form is Form.GROWN:
            places = Places(placement, placement.of_children, contextlib.nullcontext())
            self.context = self.context.risen(form, places)
        self.context.names = NAMES
        self.clients = {name: ModelClient(self, ensemble) for ensemble, name in enumerate(NAMES)}

    def operate(self, request: Request) -> Any:
        return outcome(self.model, PLANS[request.type].operation(self.context, request))

    def make(self, *paths: str) -> None:
        for path in paths:
            for each in reversed([path, *above(path)]):
                if each != "/":
                    self.operate(Create(each, b"", OPEN_ACL_UNSAFE, 0))

    def delete(self, *paths: str) -> None:
        for path in paths:
            must(self.operate(Delete(path, -1)))

    def state(self, *absent: str) -> ClusterState:
        states = {
            name: list_directories(client, lambda: False, lambda name, znodes: None)
            for name, client in self.clients.items()
            if name not in absent
        }
        return ClusterState("now", self.map, states, dict.fromkeys(absent, "away"))

    def compare(self, then: ClusterState, *absent: str) -> Differences:
        clients: Any = {name: client for name, client in self.clients.items() if name not in absent}
        return compare(then, self.state(*absent), partial(look_again, clients, 0.0))

    def decide_by(self, ensemble: int) -> None:
        """A newer epoch of a grown map puts the children of new directories there."""
        root = self.placement.of_children("/")
        self.context.places.decide_by(lambda path: root if path == "/" else ensemble)

    def went_back(self, ensemble: int, saved: Znodes) -> None:
        self.model.nodes[ensemble] = saved

    def parts(self) -> dict[str, set[Part]]:
        """Of each directory with children, the znode above these, and its pin."""
        found: dict[str, set[Part]] = {}
        for ensemble, nodes in enumerate(self.model.nodes):
            for znode, each in nodes.items():
                if each.children - OURS and (not znode.startswith(ROOT) or znode.startswith(f"{MIRRORS}/")):
                    found.setdefault(logical(znode), set()).add((ensemble, znode, True))
        for ensemble, nodes in enumerate(self.model.nodes):
            for home, name in map(split, nodes):
                if name == PIN and logical(home) in found:
                    found[logical(home)].add((ensemble, join(home, name), False))
        del found["/"]
        return found

    def is_there(self, part: Part) -> bool:
        ensemble, znode, has_children = part
        found = self.model.nodes[ensemble].get(znode)
        return found is not None and (not has_children or bool(found.children - OURS))

    def lost(self, parts: Mapping[str, set[Part]]) -> set[str]:
        return {path for path, several in parts.items() if not all(map(self.is_there, several))}

    def known(self, parts: Mapping[str, set[Part]]) -> set[str]:
        """The directories of which an ensemble has a part, and all above them."""
        known = {path for path in parts if any(map(self.is_there, parts[path]))}
        return known | {each for path in known for each in above(path)}

    def mirrored(self, home: str, mirror: str) -> Iterator[Directory]:
        for d in (where_is(self.placement, path) for path in sorted(PATHS, key=len)):
            if (NAMES[d.home.ensemble], NAMES[d.mirror.ensemble]) == (home, mirror):
                yield d


class TestLost(unittest.TestCase):
    def test_a_hundred_of_a_hundred(self) -> None:
        """Each ensemble goes back to before they were made: manifest and other ensembles name them all."""
        for form in FORMS:
            for ensemble, name in enumerate(NAMES):
                with self.subTest(form=form, ensemble=name):
                    tree = Tree(form)
                    tree.make("/0/s")
                    saved = tree.model.nodes[ensemble]
                    tree.make(*(f"{path}/child" for path in PATHS))
                    parts = tree.parts()
                    self.assertEqual(len(parts), len(PATHS))
                    then = tree.state()
                    self.assertEqual(tree.compare(then), Differences([], [], []))
                    tree.went_back(ensemble, saved)
                    lost = tree.lost(parts)
                    found = tree.compare(then)
                    self.assertEqual([each.path for each in found.lost], sorted(lost))
                    self.assertEqual({each.ensemble for each in found.lost}, {name})
                    self.assertGreater(len(lost), 40)

    def test_znodes_are_counted(self) -> None:
        """The users', without mirrors."""
        for form in FORMS:
            tree = Tree(form)
            tree.make("/1/s/t/u/child", "/2")
            self.assertEqual(sum(each.znodes for each in tree.state().ensembles.values()), 6)

    def test_newer_than_the_backup(self) -> None:
        """The copy is newer than the manifest, the directories newer than the copy: other ensembles name them."""
        for form in FORMS:
            for ensemble, name in enumerate(NAMES):
                with self.subTest(form=form, ensemble=name):
                    tree = Tree(form)
                    tree.make("/0/s")
                    then = tree.state()
                    tree.make("/1/s")
                    saved = tree.model.nodes[ensemble]
                    tree.make(*(f"{path}/child" for path in PATHS))
                    parts = tree.parts()
                    tree.went_back(ensemble, saved)
                    lost = tree.lost(parts) & tree.known(parts)
                    found = tree.compare(then)
                    self.assertEqual([each.path for each in found.lost], sorted(lost))
                    self.assertEqual({each.ensemble for each in found.lost}, {name})
                    self.assertGreater(len(lost), 20)

    def test_deleted_ones_are_not_lost(self) -> None:
        for form in FORMS:
            tree = Tree(form)
            tree.make(*(f"{path}/child" for path in PATHS))
            then = tree.state()
            gone = PATHS[::7]
            for path in sorted(tree.parts(), key=len, reverse=True):
                if any(path == each or path.startswith(f"{each}/") for each in gone):
                    tree.delete(*(f"{path}/{name}" for name in ("child",) if f"{path}/child" not in PATHS))
                    tree.delete(path)
            self.assertEqual(tree.compare(then).lost, [])

    def test_deleted_and_back(self) -> None:
        """They were deleted after the copy was made: it brings back homes and mirrors, and nothing is lost."""
        tree = Tree(Form.PLAIN)
        here, *_ = tree.mirrored("b", "a")
        old, new = [each for each in tree.mirrored("a", "b") if not here.path.startswith(each.path)][:2]
        tree.make(f"{old.path}/child", f"{here.path}/child")
        then = tree.state()
        saved = tree.model.nodes[1]
        for each in (old, here):
            tree.delete(f"{each.path}/child", each.path)
        rest = tree.model.nodes[1]
        tree.went_back(1, saved)
        self.assertEqual(tree.compare(then).lost, [])
        tree.model.nodes[1] = rest
        tree.make(f"{new.path}/child")
        tree.went_back(1, saved)
        self.assertEqual(tree.compare(then).lost, [Lost(new.path, "b", "children")])

    def test_what_is_lost_and_by_whom(self) -> None:
        tree = Tree(Form.PLAIN)
        d, *_ = tree.mirrored("a", "b")
        then = tree.state()
        a, b = tree.model.nodes[:2]
        tree.make(f"{d.path}/child")
        whole = [*tree.model.nodes]
        tree.went_back(0, a)
        self.assertEqual(tree.compare(then).lost, [Lost(d.path, "a", "home")])
        tree.make(d.path)
        self.assertEqual(tree.compare(then).lost, [Lost(d.path, "a", "pin")])
        tree.model.nodes = [*whole]
        tree.went_back(1, b)
        self.assertEqual(tree.compare(then).lost, [Lost(d.path, "b", "children")])
        tree.make(f"{d.path}/child")
        self.assertEqual(tree.compare(then).lost, [])

    def test_older(self) -> None:
        """The directory is there, with fewer children than at the backup."""
        tree = Tree(Form.PLAIN)
        d, *_ = tree.mirrored("a", "b")
        tree.make(f"{d.path}/1")
        saved = tree.model.nodes[1]
        tree.make(f"{d.path}/2", f"{d.path}/3")
        then = tree.state()
        self.assertEqual(tree.state().digest(), then.digest())
        tree.went_back(1, saved)
        self.assertNotEqual(tree.state().digest(), then.digest())
        self.assertEqual(tree.compare(then), Differences([], [Older(d.path, "b", 3, 1)], []))

    def test_first_children_are_lost(self) -> None:
        """Their directory was a leaf at the copy. Nothing else shows that the ensemble went back."""
        for form in FORMS:
            for is_native in (False, True):
                with self.subTest(form=form, is_native=is_native):
                    tree = Tree(form)
                    name = "b" if is_native else "a"
                    d, *_ = tree.mirrored("b", name)
                    tree.make(d.path)
                    saved = [*tree.model.nodes]
                    tree.make(f"{d.path}/child")
                    then = tree.state()
                    tree.model.nodes = saved
                    self.assertEqual(tree.compare(then).lost, [Lost(d.path, name, "children")])

    def test_what_was_between_is_lost(self) -> None:
        """All that is left is a mirror, and a directory above, which is a leaf again."""
        tree = Tree(Form.PLAIN)
        root = tree.placement.of_children("/")
        path = next(
            f"/{first}/s/t"
            for first in range(20)
            if [tree.placement.of_children(f"/{first}{rest}") == root for rest in ("", "/s", "/s/t")]
            == [True, True, False]
        )
        top, between = split(split(path)[0])[0], split(path)[0]
        tree.make(top)
        then, saved = tree.state(), tree.model.nodes[root]
        tree.make(f"{path}/child")
        tree.went_back(root, saved)
        kinds = {top: "children", between: "home and children", path: "home"}
        expected = [Lost(each, NAMES[root], what) for each, what in kinds.items()]
        self.assertEqual(tree.compare(then).lost, expected)

    def test_emptied_since(self) -> None:
        """The ensemble went back, but its directory has been emptied behind the backup, after that."""
        tree = Tree(Form.PLAIN)
        d, *rest = tree.mirrored("b", "b")
        other = next(each for each in rest if not each.path.startswith(d.path))
        tree.make(d.path, f"{d.path}/child", f"{other.path}/1")
        saved = tree.model.nodes[1]
        tree.make(f"{other.path}/2")
        then = tree.state()
        tree.went_back(1, saved)
        tree.delete(f"{d.path}/child")
        self.assertEqual(tree.compare(then), Differences([], [Older(other.path, "b", 2, 1)], []))

    def test_the_root_went_back(self) -> None:
        """Of no other directory was the list of children changed; the root was made by no transaction."""
        tree = Tree(Form.PLAIN)
        root = tree.placement.of_children("/")
        top = next(each.path for each in tree.mirrored(*[NAMES[root]] * 2) if each.path.count("/") == 1)
        saved = tree.model.nodes[root]
        tree.make("/leaf", f"{top}/child")
        then = tree.state()
        tree.went_back(root, saved)
        expected = [Lost(top, NAMES[root], "home and children")], [Older("/", NAMES[root], 2, 0)]
        self.assertEqual(tree.compare(then), Differences(*expected, []))

    def test_made_again_elsewhere(self) -> None:
        """The copy has an earlier life of the directory, with another place of its children."""
        tree = Tree(Form.GROWN)
        d, *_ = tree.mirrored("a", "b")
        first = tree.state()
        tree.make(f"{d.path}/1")
        saved = tree.model.nodes[0]
        tree.delete(f"{d.path}/1", d.path)
        tree.decide_by(2)
        tree.make(f"{d.path}/2")
        then = tree.state()
        tree.went_back(0, saved)
        self.assertEqual(tree.compare(then).lost, [Lost(d.path, "a", "home")])
        self.assertEqual(tree.compare(first).lost, [])  # it may be the mirror that is back

    def test_the_mirror_of_an_earlier_life(self) -> None:
        tree = Tree(Form.PLAIN)
        d, *_ = tree.mirrored("a", "b")
        tree.make(f"{d.path}/1", f"{d.path}/2")
        then, saved = tree.state(), tree.model.nodes[1]
        tree.delete(f"{d.path}/1", f"{d.path}/2", d.path)
        tree.make(f"{d.path}/3")
        other = next(each for each in tree.mirrored("a", "b") if not d.path.startswith(each.path))
        tree.make(f"{other.path}/child")
        self.assertEqual(tree.compare(then), Differences([], [], []))
        tree.went_back(1, saved)
        expected = [Lost(other.path, "b", "children")], [Older(d.path, "b", 2, 2)]
        self.assertEqual(tree.compare(then), Differences(*expected, []))

    def test_brought_back(self) -> None:
        """The home was lost, and is there again; fsck has joined it to its children by a new pin."""
        tree = Tree(Form.PLAIN)
        d, *_ = tree.mirrored("a", "b")
        saved = tree.model.nodes[0]
        tree.make(f"{d.path}/child")
        then = tree.state()
        tree.went_back(0, saved)
        tree.make(d.path)
        pin = encode_pin(must(tree.model.execute(1, Exists(d.fence, None))), "b")
        must(tree.model.execute(0, Create(d.pin, pin, OPEN_ACL_UNSAFE, 0)))
        self.assertEqual(tree.compare(then), Differences([], [], []))

    def test_all_went_back(self) -> None:
        """A copy of all ensembles, of different moments, brings back halves of directories: they are not lost."""
        for ensemble in (0, 1):
            tree = Tree(Form.PLAIN)
            d, *_ = tree.mirrored("a", "b")
            before = [*tree.model.nodes]
            tree.make(f"{d.path}/child")
            saved = [*tree.model.nodes]
            tree.delete(f"{d.path}/child", d.path)
            tree.make("/0/s/t/u/child", "/1/s/t/u/child", "/2/s/t/u/child")
            then = tree.state()
            tree.model.nodes = before
            tree.went_back(ensemble, saved[ensemble])
            self.assertNotIn(d.path, [each.path for each in tree.compare(then).lost])

    def test_promoted_while_the_backup_was_made(self) -> None:
        """The walk has seen the pin, but not the mirror, which is there."""
        tree = Tree(Form.PLAIN)
        d, *_ = tree.mirrored("a", "b")
        tree.make(d.path)
        before, saved = tree.state(), tree.model.nodes[1]
        tree.make(f"{d.path}/child")
        later = tree.state()
        walked = {"a": later.ensembles["a"]._replace(zxid=before.ensembles["a"].zxid)}
        then = before._replace(ensembles={**before.ensembles, **walked})
        tree.went_back(1, saved)
        self.assertEqual(tree.compare(then).lost, [Lost(d.path, "b", "children")])

    def test_deleted_while_it_is_listed(self) -> None:
        """A native directory's pin and proof were listed, and its pin is gone when it is read."""
        tree = Tree(Form.GROWN)
        tree.context.places.decide_by(lambda path: NATIVE)
        tree.make("/x/child")
        then = tree.state()
        (name,) = (name for name, each in then.ensembles.items() if "/x" in each.listed)
        self.assertTrue(then.ensembles[name].listed["/x"].has_proof)

        def delete(path: str) -> None:
            if path == "/x/.parkazoo" and tree.is_there((NAMES.index(name), "/x", True)):
                tree.delete("/x/child", "/x")

        tree.clients[name].before_get = delete
        self.assertEqual(tree.compare(then).lost, [])

    def test_an_unfinished_delete(self) -> None:
        """A client has left a mark and crashed. Others have made children since: these are lost."""
        tree = Tree(Form.PLAIN)
        d, *_ = tree.mirrored("a", "b")
        saved = tree.model.nodes[1]
        tree.make(f"{d.path}/child")
        must(tree.model.execute(0, Create(d.mark("crashed.-1"), b"", OPEN_ACL_UNSAFE, 0)))
        then = tree.state()
        self.assertEqual(tree.compare(then), Differences([], [], []))
        whole = tree.model.nodes[1]
        tree.went_back(1, saved)
        self.assertEqual(tree.compare(then).lost, [Lost(d.path, "b", "children")])
        tree.went_back(1, whole)
        tree.delete(f"{d.path}/child")
        fence = must(tree.model.execute(1, Exists(d.fence, None))).version
        must(tree.model.execute(1, SetData(d.fence, b"", fence)))
        must(tree.model.execute(1, Delete(d.mirror.path, -1)))  # as a delete does
        self.assertEqual(tree.compare(then), Differences([], [], []))

    def test_an_unfinished_promotion(self) -> None:
        """A client has crashed between pin and mirror: if it was so at the backup, nothing is lost."""
        tree = Tree(Form.PLAIN)
        d, *_ = tree.mirrored("a", "b")
        tree.make(d.path)
        before = tree.state()
        pin = encode_pin(must(tree.model.execute(1, Exists(d.fence, None))), "b")
        must(tree.model.execute(0, Create(d.pin, pin, OPEN_ACL_UNSAFE, 0)))
        self.assertEqual(tree.compare(tree.state()).lost, [])
        self.assertEqual(tree.compare(before).lost, [Lost(d.path, "b", "children")])

    def test_an_ensemble_is_away(self) -> None:
        """Nothing is said of it, and directories that need it are unknown, not lost."""
        tree = Tree(Form.GROWN)
        tree.make(*(f"{path}/child" for path in PATHS))
        then = tree.state()
        for name in NAMES:
            found = tree.compare(then, name)
            self.assertEqual((found.lost, found.older), ([], []))
            needed = {logical(znode) for znode in then.ensembles[name].listed} - {"/", MIRRORS}
            self.assertLessEqual(needed, set(found.unknown))

    def test_an_ensemble_is_away_that_may_have_the_mirror(self) -> None:
        """Without it nobody knows where the child has its home: that is not lost."""
        tree = Tree(Form.GROWN)
        root = tree.placement.of_children("/")
        away, other = {0, 1, 2} - {root}
        tree.make("/x")
        then, saved = tree.state(), tree.model.nodes[root]
        tree.decide_by(away)
        tree.make("/x/y")
        tree.decide_by(other)
        tree.make("/x/y/z")
        tree.went_back(root, saved)
        self.assertEqual(tree.compare(then, NAMES[away]), Differences([], [], ["/x/y"]))

    def test_znodes_that_may_not_be_read(self) -> None:
        tree = Tree(Form.PLAIN)
        d, *_ = tree.mirrored("a", "b")
        tree.make(f"{d.path}/child")
        then = tree.state()
        tree.clients["a"].may_not_read.add(d.home.path)
        now = tree.state()
        self.assertEqual(now.ensembles["a"].hidden, 1)
        self.assertEqual(now.ensembles["a"].listed[d.home.path].pin, "b")
        tree.clients["a"].may_not_read.add("/")
        tree.clients["b"].may_not_read.add("/")
        self.assertEqual(tree.compare(then).lost, [])

    def test_a_pin_that_may_not_be_read(self) -> None:
        tree = Tree(Form.PLAIN)
        d, *_ = tree.mirrored("a", "b")
        tree.make(f"{d.path}/child")
        then = tree.state()
        tree.clients["a"].may_not_read.add(d.pin)
        now = tree.state().ensembles["a"]
        self.assertEqual((now.hidden, d.home.path in now.listed), (1, True))
        self.assertEqual(tree.compare(then).lost, [])

    def test_an_unknown_ensemble(self) -> None:
        """The map went back to one without it."""
        tree = Tree(Form.GROWN)
        d, *_ = tree.mirrored("a", "c")
        tree.make(f"{d.path}/child")
        then = tree.state()
        del tree.clients["c"]
        tree.map = ClusterMap("test", {n: f"{n}:1" for n in "ab"}, ("a", "b"), "a", form=Form.GROWN)
        self.assertEqual(tree.compare(then).lost, [Lost(d.path, "c", "children")])

    def test_any(self) -> None:
        """Any ensembles go back, each to a moment of its own, before or after the backup."""
        for seed in range(40):
            with self.subTest(seed=seed):
                self.check_any(random.Random(seed))

    def check_any(self, chance: random.Random) -> None:
        tree = Tree(chance.choice([*FORMS]))
        moments = [[*tree.model.nodes]]
        backup_at = chance.randrange(20)
        then, backed_up = tree.state(), tree.parts()
        for moment in range(20):
            tree.make(chance.choice(PATHS) + chance.choice(("", "/child")))
            moments.append([*tree.model.nodes])
            if moment == backup_at:
                then, backed_up = tree.state(), tree.parts()
        parts = tree.parts()
        restored = chance.sample(range(len(NAMES)), chance.randint(1, len(NAMES)))
        for ensemble in restored:
            tree.went_back(ensemble, chance.choice(moments)[ensemble])
        lost = tree.lost(parts) & (tree.known(parts) | backed_up.keys())
        found = tree.compare(then)
        self.assertEqual([each.path for each in found.lost], sorted(lost))
        self.assertLessEqual({each.ensemble for each in found.lost}, {NAMES[each] for each in restored})


class TestManifest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        tree = Tree(Form.PLAIN)
        tree.make("/1/s/t", "/\u00fc %/\u2603")
        self.state = tree.state()

    def write(self, folder: Path) -> Path:
        with new_manifest(folder) as file:
            write_manifest(self.state, file)
        return folder / FILE_NAME

    def refused(self, pattern: str) -> None:
        with self.assertRaisesRegex(ManifestError, pattern):
            read_manifest(self.folder)

    def test_read_as_it_was_written(self) -> None:
        path = self.write(self.folder / "new" / "folder")
        found = read_manifest(path.parent)
        self.assertEqual((found, found.digest()), (self.state, self.state.digest()))
        self.assertEqual([*path.parent.iterdir()], [path])
        footer = json.loads(gzip.decompress(path.read_bytes()).splitlines()[-2])
        self.assertEqual(footer["digest"], self.state.digest())

    def test_it_is_not_overwritten(self) -> None:
        self.write(self.folder)
        with self.assertRaisesRegex(ManifestError, "is there already"):
            self.write(self.folder)

    def test_two_at_once(self) -> None:
        """The second to end does not overwrite the first."""
        with self.assertRaisesRegex(ManifestError, "is there already"), new_manifest(self.folder) as file:
            path = self.write(self.folder)
            saved = path.read_bytes()
            file.write(b"another")
        self.assertEqual((path.read_bytes(), [*self.folder.iterdir()]), (saved, [path]))

    def test_broken_off(self) -> None:
        with self.assertRaises(KeyboardInterrupt), new_manifest(self.folder) as file:
            write_manifest(self.state, file)
            raise KeyboardInterrupt
        self.assertEqual([*self.folder.iterdir()], [])
        self.refused("has no parkazoo-manifest")

    def test_the_disk_is_full(self) -> None:
        with (
            mock.patch.object(manifest_module.os, "fsync", side_effect=OSError(28, "No space left on device")),
            self.assertRaisesRegex(ManifestError, "^[^\n]*cannot be used: No space left on device$"),
        ):
            self.write(self.folder)
        self.assertEqual([*self.folder.iterdir()], [])

    def test_a_folder_that_is_none(self) -> None:
        file = self.folder / "file"
        file.write_text("")
        for look in (read_manifest, self.write):
            with self.assertRaisesRegex(
                ManifestError, "cannot be used: Not a directory|cannot be used: File exists"
            ):
                look(file / "below" if look is self.write else file)

    def test_damaged(self) -> None:
        """Cut off or changed anywhere: packed, and within."""
        path = self.write(self.folder)
        packed = path.read_bytes()
        plain = gzip.decompress(packed)
        chance = random.Random(1)
        for at in (0, 1, 5, len(packed) // 2, len(packed) - 9, len(packed) - 1):
            path.write_bytes(packed[:at])
            self.refused("was cut off, changed or damaged")
        for _ in range(100):
            changed = bytearray(plain)
            changed[chance.randrange(len(plain))] ^= 1 << chance.randrange(8)
            path.write_bytes(gzip.compress(bytes(changed), 1))
            self.refused("was cut off, changed or damaged|has format")
        lines = plain.splitlines(keepends=True)
        for found in (
            [],
            lines[:1],
            lines[:-1],
            lines[1:],
            [*lines, b"{}\n"],
            [lines[0], lines[-1]],
            [b"[]\n"],
            [b"1"],
        ):
            path.write_bytes(gzip.compress(b"".join(found), 1))
            self.refused("was cut off, changed or damaged")

    def test_a_copy_with_an_identity_of_its_own(self) -> None:
        """It can be compared with a backup of its original; another cluster cannot."""
        path = self.write(self.folder)
        moved = {name: f"{name}-copy:1" for name in NAMES}
        _, own = new_identity._plan(moved, dict.fromkeys(NAMES, MAP))
        for cluster_map, is_copy in ((own, True), (MAP, True), (replace(own, cluster="x"), False)):
            found = contextlib.nullcontext((self.state._replace(cluster_map=cluster_map), {}))
            with (
                mock.patch.object(looks, "read_map", return_value=cluster_map),
                mock.patch.object(looks, "_looked", return_value=found),
                contextlib.nullcontext()
                if is_copy
                else self.assertRaisesRegex(ManifestError, "of cluster test; this is x"),
            ):
                self.assertTrue(looks.compare_with(path.parent, "h:1", grace_s=0.0).is_same)

    def test_another_format(self) -> None:
        path = self.write(self.folder)
        found = gzip.decompress(path.read_bytes()).replace(b'"parkazoo-backup":1', b'"parkazoo-backup":2')
        path.write_bytes(gzip.compress(found))
        self.refused("has format 2; this version reads 1")
