"""One client's operations, issued without waiting, give what one ZooKeeper gives."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

from kazoo.exceptions import (
    BadVersionError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RolledBackError,
    RuntimeInconsistency,
)
from kazoo.protocol.states import ZnodeStat

from tests.live.world import DEADLINE_S, LiveTest, seed

CHAINS = 1000
PIPELINES = 300
OPERATIONS = 10_000
WINDOW, WINDOWS = 500, 6


class _Znode:
    def __init__(self, data: bytes, owner: int) -> None:
        self.data = data
        self.owner = owner
        self.version = 0
        self.created = 0  # children, ever
        self.deleted = 0

    def copy(self) -> _Znode:
        twin = _Znode(self.data, self.owner)
        twin.version, twin.created, twin.deleted = self.version, self.created, self.deleted
        return twin


class Model:
    """One ZooKeeper with one client, in its head."""

    def __init__(self, root: str, owner: int) -> None:
        self.znodes = {root: _Znode(b"", 0)}
        self.owner = owner

    def children(self, path: str) -> list[str]:
        start = path + "/"
        return sorted(p[len(start) :] for p in self.znodes if p.startswith(start) and "/" not in p[len(start) :])

    def stat(self, path: str) -> dict[str, int]:
        znode = self._find(path)
        return {
            "version": znode.version,
            "cversion": znode.created + znode.deleted,
            "numChildren": znode.created - znode.deleted,
            "dataLength": len(znode.data),
            "ephemeralOwner": znode.owner,
            "aversion": 0,
        }

    def _find(self, path: str, version: int = -1) -> _Znode:
        znode = self.znodes.get(path)
        if znode is None:
            raise NoNodeError
        if version not in (-1, znode.version):
            raise BadVersionError
        return znode

    def create(self, path: str, data: bytes, ephemeral: bool, sequence: bool) -> str:
        parent = self._find(path.rpartition("/")[0])
        if sequence:
            path += f"{parent.created:010d}"
        if path in self.znodes:
            raise NodeExistsError
        if parent.owner:
            raise NoChildrenForEphemeralsError
        parent.created += 1
        self.znodes[path] = _Znode(data, self.owner if ephemeral else 0)
        return path

    def create2(self, *args: Any) -> tuple[str, dict[str, int]]:
        path = self.create(*args)
        return path, self.stat(path)

    def delete(self, path: str, version: int) -> bool:
        self._find(path, version)
        if self.children(path):
            raise NotEmptyError
        del self.znodes[path]
        self.znodes[path.rpartition("/")[0]].deleted += 1
        return True

    def set(self, path: str, data: bytes, version: int) -> dict[str, int]:
        znode = self._find(path, version)
        znode.data = data
        znode.version += 1
        return self.stat(path)

    def check(self, path: str, version: int) -> bool:
        self._find(path, version)
        return True

    def get(self, path: str) -> tuple[bytes, dict[str, int]]:
        return self._find(path).data, self.stat(path)

    def exists(self, path: str) -> dict[str, int] | None:
        return self.stat(path) if path in self.znodes else None

    def get_children(self, path: str) -> list[str]:
        self._find(path)
        return self.children(path)

    def get_children2(self, path: str) -> tuple[list[str], dict[str, int]]:
        return self.get_children(path), self.stat(path)

    def transaction(self, operations: list[tuple[str, tuple[Any, ...]]]) -> list[Any]:
        before = {path: znode.copy() for path, znode in self.znodes.items()}
        results: list[Any] = []
        for index, (name, args) in enumerate(operations):
            try:
                results.append(getattr(self, name)(*args))
            except Exception as error:  # noqa: PERF203 - each may fail
                self.znodes = before
                after = len(operations) - index - 1
                return [RolledBackError] * index + [type(error)] + [RuntimeInconsistency] * after
        return results


def plain(value: Any) -> Any:
    """An answer in the model's words."""
    if isinstance(value, ZnodeStat):
        keys = ("version", "cversion", "numChildren", "dataLength", "ephemeralOwner", "aversion")
        return {key: getattr(value, key) for key in keys}
    if isinstance(value, Exception):
        return type(value)
    if isinstance(value, tuple):
        return tuple(plain(each) for each in value)
    if isinstance(value, list):
        return [plain(each) for each in value]
    return value


class Pipeline:
    """A random stream of operations, issued to a client and to the model in the same order."""

    NAMES = ("a", "b", "c", "s0000000000", "s0000000001", "0000000000")

    def __init__(self, client: Any, root: str, dice: random.Random) -> None:
        self.client = client
        self.root = root
        self.dice = dice
        self.model = Model(root, client.client_id[0])

    def path(self) -> str:
        depth = self.dice.choice((1, 1, 2, 2, 2, 3, 3, 4))
        return self.root + "".join("/" + self.name() for _ in range(depth))

    def name(self) -> str:
        return self.dice.choices(self.NAMES, (6, 6, 2, 2, 1, 1))[0]

    def data(self) -> bytes:
        return b"x" * self.dice.randrange(4)

    def version(self) -> int:
        return self.dice.choice((-1, -1, -1, 0, 1))

    def operation(self) -> tuple[str, tuple[Any, ...], Callable[[], Any]]:
        """The name and arguments for the model, and how to issue it."""
        client, dice, path = self.client, self.dice, self.path()
        kind = dice.choices(
            ("create", "create2", "delete", "set", "get", "exists", "get_children", "get_children2", "multi"),
            (30, 4, 26, 8, 8, 8, 6, 6, 6),
        )[0]
        if kind in ("create", "create2"):
            ephemeral, sequence, data = dice.random() < 0.08, dice.random() < 0.2, self.data()
            if sequence:
                path = path.rpartition("/")[0] + "/" + dice.choice(("s", "s", ""))
                if path == "/":
                    path = self.root + "/s"
            return (
                kind,
                (path, data, ephemeral, sequence),
                lambda: client.create_async(
                    path, data, ephemeral=ephemeral, sequence=sequence, include_data=kind == "create2"
                ),
            )
        if kind == "delete":
            version = self.version()
            return kind, (path, version), lambda: client.delete_async(path, version)
        if kind == "set":
            data, version = self.data(), self.version()
            return kind, (path, data, version), lambda: client.set_async(path, data, version)
        if kind == "multi":
            return self.transaction()
        if kind == "get_children2":
            return kind, (path,), lambda: client.get_children_async(path, include_data=True)
        return kind, (path,), lambda: getattr(client, kind + "_async")(path)

    def transaction(self) -> tuple[str, tuple[Any, ...], Callable[[], Any]]:
        parent = self.path().rpartition("/")[0]
        transaction, operations = self.client.transaction(), []
        for _ in range(self.dice.randrange(1, 4)):
            kind = self.dice.choice(("create", "create", "delete", "delete", "set", "check"))
            path = f"{parent}/{self.name()}"
            sequence = kind == "create" and self.dice.random() < 0.2
            path = parent + "/s" if sequence else path
            pairs = [pair for _, (other, *_) in operations for pair in ((path, other), (other, path))]
            if any(a.startswith(b) for a, b in pairs):  # what a delete is about concerns no other: "Known gaps"
                continue
            if kind == "create":
                data = self.data()
                transaction.create(path, data, sequence=sequence)
                operations.append((kind, (path, data, False, sequence)))
            elif kind == "delete":
                version = self.version()
                transaction.delete(path, version)
                operations.append((kind, (path, version)))
            elif kind == "set":
                data, version = self.data(), self.version()
                transaction.set_data(path, data, version)
                operations.append((kind, (path, data, version)))
            else:
                version = self.version()
                transaction.check(path, version)
                operations.append((kind, (path, version)))
        return "transaction", (operations,), transaction.commit_async

    def run(self, count: int) -> Counter[str]:
        """Issue `count` operations without waiting, then compare all answers.

        :returns: how often which outcome was seen, so that a test can tell that it tested something.
        """
        issued = []
        for number in range(count):
            kind, args, issue = self.operation()
            try:
                expected: Any = getattr(self.model, kind)(*args)
            except Exception as error:
                expected = type(error)
            issued.append((number, kind, args, expected, issue()))
        outcomes: Counter[str] = Counter()
        wrong = []
        for number, kind, args, expected, result in issued:
            try:
                answer = plain(result.get(timeout=2 * DEADLINE_S))
                if kind == "get_children":
                    answer.sort()
                elif kind == "get_children2":
                    answer[0].sort()
            except Exception as error:
                answer = type(error)
            outcomes[f"{kind}: {answer.__name__ if isinstance(answer, type) else 'ok'}"] += 1
            if answer != expected:
                wrong.append(f"{number}: {kind}{args!r}: {answer!r}, not {expected!r}")
        if wrong:
            raise AssertionError("\n".join([f"{len(wrong)} of {count} are wrong", *wrong[:10]]))
        return outcomes


class TestOrder(LiveTest):
    def test_chains(self) -> None:
        """create /a, /a/b, /a/b/c, then get the last: nothing is awaited before all are issued."""
        client = self.parkazoo()
        root = self.new_root(client)
        chains = []
        for number in range(CHAINS):
            top = f"{root}/{number}"
            results = [
                client.create_async(top),
                client.create_async(f"{top}/b"),
                client.create_async(f"{top}/b/c", b"%d" % number),
                client.get_async(f"{top}/b/c"),
            ]
            chains.append((number, top, results))
        for number, top, results in chains:
            self.assertEqual(results[0].get(timeout=DEADLINE_S), top)
            self.assertEqual(results[1].get(timeout=DEADLINE_S), f"{top}/b")
            self.assertEqual(results[2].get(timeout=DEADLINE_S), f"{top}/b/c")
            self.assertEqual(results[3].get(timeout=DEADLINE_S)[0], b"%d" % number)

    def test_chains_one_at_a_time(self) -> None:
        client = self.parkazoo()
        root = self.new_root(client)
        for number in range(CHAINS // 4):
            top = f"{root}/{number}"
            client.create_async(top)
            client.create_async(f"{top}/b")
            client.create_async(f"{top}/b/c", b"%d" % number)
            self.assertEqual(client.get_async(f"{top}/b/c").get(timeout=DEADLINE_S)[0], b"%d" % number)

    def test_a_directory_that_was_deleted_by_another_and_made_again(self) -> None:
        """What a client knew of its earlier life is no help, and no harm."""
        client, other = self.parkazoo(), self.parkazoo()
        root = self.new_root(client)
        tops = [f"{root}/{number}" for number in range(PIPELINES)]
        for result in [
            make for top in tops for make in (client.create_async(top), client.create_async(f"{top}/x"))
        ]:
            result.get(timeout=DEADLINE_S)
        for result in [end for top in tops for end in (other.delete_async(f"{top}/x"), other.delete_async(top))]:
            result.get(timeout=DEADLINE_S)
        for top in tops:
            client.create(top)
            results = (
                client.create_async(f"{top}/y"),
                client.get_async(top),
                client.get_children_async(top),
            )
            created, (_, stat), names = (result.get(timeout=DEADLINE_S) for result in results)
            self.assertEqual((created, stat.numChildren, names), (f"{top}/y", 1, ["y"]))

    def test_a_sequence_number_that_can_be_foretold(self) -> None:
        """A read of the znode that an earlier create with a sequence number makes sees it."""
        client = self.parkazoo()
        root = self.new_root(client)
        chains = []
        for number in range(CHAINS // 4):
            top = f"{root}/{number}"
            client.create_async(top)
            client.create_async(f"{top}/s", b"first", sequence=True)
            first = client.get_async(f"{top}/s0000000000")
            client.create_async(f"{top}/", b"second", sequence=True)
            second = client.get_async(f"{top}/0000000001")
            below = client.create_async(f"{top}/s0000000000/below")
            chains.append((top, first, second, below))
        for top, first, second, below in chains:
            self.assertEqual(first.get(timeout=DEADLINE_S)[0], b"first")
            self.assertEqual(second.get(timeout=DEADLINE_S)[0], b"second")
            self.assertEqual(below.get(timeout=DEADLINE_S), f"{top}/s0000000000/below")

    def test_random_pipeline(self) -> None:
        """Every answer of a random stream of operations is that of a sequential model of ZooKeeper."""
        number = seed()
        print(f"test_random_pipeline: PARKAZOO_TEST_SEED={number}")
        client = self.parkazoo()
        root = client.create(f"/pipeline-{number}")  # the placement depends on the paths
        pipeline = Pipeline(client, root, random.Random(number))
        outcomes: Counter[str] = Counter()
        for _ in range(WINDOWS):
            outcomes += pipeline.run(WINDOW)
        outcomes += pipeline.run(OPERATIONS)
        for kind in ("create", "create2", "delete", "set", "get", "exists", "get_children", "transaction"):
            self.assertGreater(outcomes[f"{kind}: ok"], 20, outcomes)
        for kind in ("create: NodeExistsError", "delete: NotEmptyError", "delete: BadVersionError"):
            self.assertGreater(outcomes[kind], 20, outcomes)
