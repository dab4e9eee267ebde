"""What `parkazoo where` says of a place by hash can be computed by hand."""

from __future__ import annotations

import subprocess
import unittest
from dataclasses import replace

from parkazoo.cli.explanation import explain_children, explain_move
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.epochs import Form
from parkazoo.protocol.moving import Moving

MAP = ClusterMap("test", {name: f"{name}:1" for name in ("a", "bb", "c")}, ("a", "bb", "c"), "a")
MANY = [f"e{number}" for number in range(10)]
OF_TEN = ClusterMap("test", {name: f"{name}:1" for name in MANY}, tuple(MANY), "e0", weights={"e9": 4, "e0": 0})


def by_hand(command: str) -> str:
    return subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True).stdout.strip()


class TestExplanation(unittest.TestCase):
    def test_words(self) -> None:
        self.assertEqual(
            list(explain_children(replace(MAP, weights={"c": 0}), "/app/jobs")),
            [
                "children: on bb, whose bid for /app/jobs is the highest:",
                "    a   0ca86c9e  printf %s /app/jobs | sha256sum | cut -c1-8",
                "    bb  b12cc6f9  printf %s /app/jobs | sha256sum | cut -c9-16",
                "    c   none: its weight is 0",
            ],
        )

    def test_an_ensemble_that_has_come(self) -> None:
        *_, last = explain_children(replace(MAP, unweighted=("c",)), "/app/jobs")
        self.assertEqual(last, "    c   none: it has no weight yet")

    def test_a_directory_that_moves(self) -> None:
        """Said of it, and of what is below."""
        move = Moving("/app", "0" * 32, "a", "", "c")
        for moving, words in ((move, "from a to c"), (move._replace(has_switched=True), "they are on c")):
            known = replace(MAP, form=Form.GROWN, move=moving)
            for path in ("/app", "/app/jobs"):
                (line,) = explain_move(known, path)
                self.assertEqual(line.partition(". ")[0], f"the children of /app move: {words}")
            self.assertEqual([*explain_move(known, "/apple"), *explain_move(MAP, "/app")], [])

    def test_by_hand(self) -> None:
        for cluster_map in (MAP, OF_TEN):
            for path in ("/", "/app", "/a b/it's", "/ünï/$код", "/-n %s \\n"):
                first, *lines = explain_children(cluster_map, path)
                bids = {}
                for line in lines:
                    name, bid, command = line.split(maxsplit=2)
                    if bid != "none:":
                        self.assertEqual(by_hand(command), bid)
                        bids[name] = bid
                self.assertIn(f"on {max(bids, key=lambda each: bids[each])}, ", first)

    def test_no_hash(self) -> None:
        apart = ClusterMap("test", {"a": "a:1", "b": "b:1"}, ("a",), "b")
        alone = ClusterMap("test", {"a": "a:1"}, ("a",), "a")
        for cluster_map, path, words in (
            (alone, "/app", "on a, which is the only ensemble"),
            (apart, "/zookeeper", "on b, the bootstrap ensemble, as everything in /zookeeper"),
            (MAP, "/zookeeper/config", "on a, the bootstrap ensemble, as everything in /zookeeper"),
            (apart, "/app", "on a, whose bid for /app is the highest:"),
        ):
            self.assertEqual(next(explain_children(cluster_map, path)), f"children: {words}")
