"""`parkazoo advise` on real servers."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from parkazoo.admin import init_map
from parkazoo.protocol.placement import Placement
from parkazoo.protocol.registration import format_session
from tests.live.map_case import MapCase, error_of, run_command
from tests.live.test_top import load
from tests.live.world import wait_until

HOT = "/advice/hot"
PATHS = [*(f"{HOT}/{number}" for number in range(8)), "/advice/b/x", "/advice/c/x"]  # eight of ten writes


class AdviseTest(MapCase):
    def advised(self, client: Any, judge: Callable[[str], None], *options: str) -> None:
        """Asks while the client sets PATHS; again if a connection was lost meanwhile, or writes were too slow."""

        def ask() -> bool:
            status, out, err = run_command("advise", *options)
            self.assertEqual((status, err), (0, ""), out)
            judge(out)
            return True

        for path in PATHS:
            client.ensure_path(path)
        with load(client, PATHS, at_once=len(PATHS)):
            wait_until(ask, "the advice")

    def check(self, found: dict[str, Any], measure: str) -> dict[str, dict[str, Any]]:
        """What both measures must find; the sentences by kind."""
        self.assertEqual(found["measure"], measure)
        hottest, second, *_ = found["directories"]
        self.assertEqual((hottest["directory"], second["directory"] in {"/advice/b", "/advice/c"}), (HOT, True))
        self.assertGreater(hottest["writes"], 4 * second["writes"])
        self.assertIsNotNone(hottest["age_s"])
        told = {each["kind"]: each for each in found["advice"]}
        self.assertEqual(told["one-directory"]["figures"]["directory"], HOT)
        self.assertIn("the tree is ", told["unknown-growth"]["text"])
        return told

    def test_a_cluster(self) -> None:
        init_map(self.a, self.all)
        user, _ = self.client()

        def judge_changes(out: str) -> None:
            found = json.loads(out)
            told = self.check(found, "follow")
            self.assertEqual(found["directories"][0]["ensemble"], "abc"[Placement(3).of_children(HOT)])
            self.assertIn("uneven", told)
            assert user.client_id is not None
            self.assertEqual(told["busy-client"]["figures"]["client"], format_session(user.client_id[0]))

        def judge_looks(out: str) -> None:
            self.check(json.loads(out), "sample")

        self.advised(user, judge_changes, "--hosts", self.a, "--json", "--seconds", "3")
        self.advised(user, judge_looks, "--hosts", self.a, "--json", "--sample", "--seconds", "3")
        self.assertIn("has a cluster map", error_of("advise", "--plain", self.a, out=""))

    def test_before_adoption(self) -> None:
        """Of one ZooKeeper without a map, in words."""

        def judge(out: str) -> None:
            self.assertRegex(out, r"^Looked for \d+ s, each change was counted: [\d,]+ writes/s\.\n")
            self.assertRegex(out, rf"\n{HOT} alone has \d+% of all writes: no ensemble can take a part of it\. ")
            self.assertRegex(out, rf"\n\d+% +[\d,.]+ +zookeeper +\d+ \w+ +{HOT} *\n")

        self.advised(self.plain[0], judge, "--plain", self.a, "--seconds", "3")
        self.assertIn("no cluster map", error_of("advise", "--hosts", self.a, out=""))
