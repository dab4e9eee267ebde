"""What a subtree takes from answers and events."""

from __future__ import annotations

import random
import unittest
from functools import partial
from typing import Any

from kazoo.exceptions import NoAuthError, NoNodeError
from kazoo.recipe.cache import TreeEvent

from parkazoo.recipe.subtree import DATA, NAMES, PRESENCE, Subtree, TreeRead
from tests.fakes.member import STAT


class World:
    """Znodes with one-shot watches: events wait until they are told, answers until they are taken."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.tree = Subtree("/t", None)
        self.znodes: dict[str, int] = {}  # czxid
        self.data: dict[str, int] = {}  # mzxid
        self.zxid = 0
        self.watches: dict[tuple[str, str], set[Any]] = {}
        self.queues: dict[str, list[Any]] = {DATA: [], NAMES: []}  # of two ensembles: each is in order

    def fire(self, kind: str, path: str, event: str) -> None:
        for znode in self.watches.pop((kind, path), ()):
            self.queues[kind].append(partial(self.tree.told, znode, event))

    def change(self) -> None:
        self.zxid += 1
        path = self.rng.choice(("/t", "/t/a", "/t/b", "/t/a/c", "/t/a/d"))
        parent = path.rpartition("/")[0]
        if path not in self.znodes:
            if parent in self.znodes or not parent:
                self.znodes[path] = self.data[path] = self.zxid
                self.fire(DATA, path, "CREATED")
                self.fire(NAMES, parent, "CHILD")
        elif self.rng.random() < 0.5:
            self.data[path] = self.zxid
            self.fire(DATA, path, "CHANGED")
        elif not any(each.startswith(path + "/") for each in self.znodes):
            del self.znodes[path]
            del self.data[path]
            self.fire(DATA, path, "DELETED")
            self.fire(NAMES, path, "DELETED")
            self.fire(NAMES, parent, "CHILD")

    def lose(self) -> None:
        """The connection: all watches are told so."""
        for kind, path in list(self.watches):
            self.fire(kind, path, "NONE")

    def serve(self, read: TreeRead) -> None:
        path = read.znode.path
        kind = NAMES if read.kind == NAMES else DATA
        answer: Any
        if path not in self.znodes:
            answer = None if read.kind == PRESENCE else NoNodeError()
        elif read.kind == NAMES:
            answer = [each[len(path) + 1 :] for each in self.znodes if each.rpartition("/")[0] == path]
        else:
            answer = b"", STAT._replace(czxid=self.znodes[path], mzxid=self.data[path])
        if path in self.znodes or read.kind == PRESENCE:
            self.watches.setdefault((kind, path), set()).add(read.znode)
        lost = self.rng.random() < 0.05
        self.queues[kind].append(lambda: self.tree.lose(read) if lost else self.tree.take(read, answer))

    def deliver(self) -> bool:
        queues = [queue for queue in self.queues.values() if queue]
        if queues:
            self.rng.choice(queues).pop(0)()
        return bool(queues)

    def state(self) -> dict[str, int]:
        return {path: stat.mzxid for path, (_, stat) in self.tree.found.items()}


class TestSubtree(unittest.TestCase):
    def test_it_follows(self) -> None:
        """Whatever the order of answers and events of two ensembles, it ends with what there is."""
        for seed in range(300):
            rng = random.Random(seed)
            world = World(rng)
            for _ in range(200):
                choice = rng.random()
                if choice < 0.2:
                    world.change()
                elif choice < 0.21:
                    world.lose()
                elif choice < 0.22:
                    world.tree.read_all()
                elif choice < 0.6:
                    if (read := world.tree.next()) is not None:
                        world.serve(read)
                else:
                    world.deliver()
            while True:
                world.tree.ask_again()
                if (read := world.tree.next()) is not None:
                    world.serve(read)
                elif not world.deliver():
                    break
            self.assertEqual((world.state(), world.tree.is_whole), (world.data, True), seed)
            told: dict[str, Any] = {}
            for kind, path, found in world.tree.changes:
                if kind == TreeEvent.NODE_REMOVED:
                    del told[path or ""]
                elif kind in (TreeEvent.NODE_ADDED, TreeEvent.NODE_UPDATED):
                    self.assertEqual(kind == TreeEvent.NODE_UPDATED, path in told)
                    told[path or ""] = found
            self.assertEqual(told, world.tree.found)

    def test_what_may_not_be_read(self) -> None:
        """Is left out; of the first znode it is an error."""
        tree = Subtree("/t", None)
        found = b"", STAT
        answers = {("/t", DATA): found, ("/t", NAMES): ["a", "b"], ("/t/b", DATA): found, ("/t/b", NAMES): []}
        while (read := tree.next()) is not None:
            tree.take(read, answers.get((read.znode.path, read.kind), NoAuthError()))
        self.assertEqual((sorted(tree.found), tree.is_whole, tree.failure), (["/t", "/t/b"], True, None))
        tree.read_all()
        while (read := tree.next()) is not None:
            tree.take(read, NoAuthError())
        self.assertIsInstance(tree.failure, NoAuthError)
        self.assertEqual(sorted(tree.found), ["/t"])
