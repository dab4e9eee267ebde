"""`parkazoo map rebalance`: hot directories move to where there is room, while clients write."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest import mock

from kazoo.exceptions import KazooException

from parkazoo.admin import RebalancePlan, Rule, add_rule, read_map, rebalance, remove_rule
from parkazoo.admin.all_znodes import Pace
from parkazoo.admin.clients import AdminClient, connect_to
from parkazoo.admin.moving.copying import MovingCopy
from parkazoo.admin.moving.znodes_below import count_below
from parkazoo.protocol.moving import MOVES
from parkazoo.protocol.placement import MIRRORS
from tests.live.grow_case import GrowCase
from tests.live.map_case import error_of, output_of, run_command
from tests.live.world import DEADLINE_S, wait_until

OLD = [f"/old/{number}" for number in range(6)]
MORE = 20  # children of each, which outnumber pins and homes
SETS = 5  # of each znode at once


class Writer:
    """Sets a znode of each directory, again and again.

    :ivar done: sets that succeeded, by path. :ivar unsure: those of which it is not known.
    """

    def __init__(self, client: Any, paths: list[str]) -> None:
        self._client = client
        self._paths = paths
        self._is_over = threading.Event()
        self.done: Counter[str] = Counter()
        self.unsure: Counter[str] = Counter()

    @contextmanager
    def writing(self) -> Iterator[None]:
        thread = threading.Thread(target=self._run)
        thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            thread.join()

    def _run(self) -> None:
        while not self._is_over.is_set():
            asked = [(path, self._client.set_async(path, b"x")) for path in self._paths for _ in range(SETS)]
            for path, answer in asked:
                self._count(path, answer)

    def _count(self, path: str, answer: Any) -> None:
        try:
            answer.get(DEADLINE_S)
        except KazooException:
            self.unsure[path] += 1
        else:
            self.done[path] += 1


class RebalanceTest(GrowCase):
    """Old directories are all on a; b and c have come since."""

    def setUp(self) -> None:
        super().setUp()
        add_rule(self.a, Rule("/old", ("a",)))
        self.worker, _ = self.client()
        self.paths = [f"{path}/x" for path in OLD]
        for path in self.paths:
            self.worker.create(path, makepath=True)
        remove_rule(self.a, "/old")
        self.grow()
        self.assertEqual(self.places(), {"a": len(OLD)})

    def places(self) -> Mapping[str, int]:
        return Counter(self.place(path) for path in OLD)

    def assert_nothing_is_left(self) -> None:
        self.assert_published("a", "b", "c")
        self.assertIsNone(read_map(self.a).move)
        mirrors = [name for each in self.plain for name in each.get_children(MIRRORS)]
        self.assertEqual(max(Counter(each.partition("%~")[0] for each in mirrors).values()), 1, mirrors)
        for client in self.plain:
            self.assertEqual(client.get_children(MOVES) if client.exists(MOVES) else [], [])

    def test_hot_directories(self) -> None:
        """Each ensemble has a third of the writes then, and nothing is lost."""
        writer = Writer(self.worker, self.paths)
        command = ("map", "rebalance", "--hosts", self.a, "--strangers-gone", "--seconds", "2")
        outs: list[str] = []

        def is_even() -> bool:
            status, out, err = run_command(*command)
            outs.append(out)
            self.assertEqual((status, err), (0, ""), out)
            return self.places() == {"a": 2, "b": 2, "c": 2}

        with writer.writing():
            wait_until(is_even, "each ensemble has two of the directories")
            wait_until(
                lambda: "nothing to do: each ensemble has its share" in output_of(*command), "nothing to do"
            )
        self.assertRegex(
            "\n".join(outs),
            r"(?s)counted [\d,]+ writes.*moves, each with all below.*/old/\d has moved to [bc]: operations",
        )
        for path in self.paths:
            version = self.worker.get(path)[1].version
            done, unsure = writer.done[path], writer.unsure[path]
            self.assertGreater(done, 0)
            self.assertIn(version, range(done, done + unsure + 1))
        self.assert_nothing_is_left()

    def test_interrupted(self) -> None:
        """What the move under way has begun is taken back."""
        with (
            mock.patch.object(MovingCopy, "bring", side_effect=KeyboardInterrupt),
            mock.patch("parkazoo.admin.rebalancing.FEW_ZNODES", 1),
            self.assertRaises(KeyboardInterrupt),
        ):
            rebalance(self.a, seconds=1, strangers_gone=True)
        self.assertEqual(self.places(), {"a": len(OLD)})
        self.assert_nothing_is_left()

    def test_by_znodes(self) -> None:
        """Hardly anything is written."""
        more = [self.worker.create_async(f"{path}/{number}") for path in OLD for number in range(MORE)]
        for each in more:
            each.get(DEADLINE_S)
        with mock.patch("parkazoo.admin.rebalancing.FEW_ZNODES", 1):
            plans: list[RebalancePlan] = []
            done = rebalance(self.a, seconds=1, strangers_gone=True, on_plan=plans.append)
        self.assertEqual(([each.unit for each in plans], done.stayed), (["znodes"], {}))
        self.assertEqual(set(self.places()), {"a", "b", "c"})
        self.assertEqual([len(self.worker.get_children(path)) for path in OLD], [MORE + 1] * len(OLD))
        self.assert_nothing_is_left()

    def test_znodes_below(self) -> None:
        with connect_to({"a": self.a}, {}, DEADLINE_S) as (clients, _):
            client: AdminClient = clients["a"]
            found = count_below(client, ["/parkazoo/clients", "/nowhere"], Pace())
            self.assertEqual(found, {"/parkazoo/clients": len(client.children("/parkazoo/clients"))})


class DrainTest(GrowCase):
    """Directories that plain kazoo has made, before there was a second ensemble."""

    def setUp(self) -> None:
        super().setUp()
        for path in (*OLD, "/queue/entries", "/queue/taken"):
            self.plain[0].create(f"{path}/x", makepath=True)
        self.grow()

    def drained(self, *options: str) -> tuple[int, str]:
        status, out, err = run_command(
            "map", "drain", "a", "--move", "--hosts", self.a, "--strangers-gone", "--yes", *options
        )
        self.assertEqual(err, "")
        return status, out

    def test_all_move(self) -> None:
        """In kazoo's layout a LockingQueue has transactions over two directories: they go together."""
        _, out = self.drained("--dry-run")
        self.assertRegex(out, "/old/0: would copy 1 znode (by [0-9,]+ writes )?from a to ")
        error = error_of("map", "move", "/queue/entries", "--to", "b", "--hosts", self.a, "--strangers-gone")
        self.assertIn("are a LockingQueue in kazoo's layout: its transactions", " ".join(error.split()))
        status, out = self.drained()
        self.assertEqual(status, 0, out)
        self.assertNotIn("a", {self.place(path) for path in (*OLD, "/old", "/queue")})
        self.assertEqual(self.place("/queue/entries"), self.place("/queue/taken"))
        worker, _ = self.client()
        self.assertEqual(worker.get_children("/old/0"), ["x"])
        worker.LockingQueue("/queue").put(b"1")
        queue = worker.LockingQueue("/queue")
        self.assertEqual(
            (queue.get(timeout=DEADLINE_S), queue.get(timeout=DEADLINE_S)), (b"1", b"1")
        )  # x is locked
        self.assertTrue(queue.consume())
