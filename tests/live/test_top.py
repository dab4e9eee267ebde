"""`parkazoo top` on real servers."""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

from kazoo.exceptions import KazooException

from parkazoo.admin import init_map
from parkazoo.admin.looking import Looker
from parkazoo.admin.rates import rates_between
from parkazoo.protocol.registration import format_session
from tests.live.map_case import MapCase, error_of, output_of, run_command
from tests.live.world import DEADLINE_S, wait_until

PERIOD_S = 0.01
DIRECTORIES = 12  # enough for all three ensembles


@contextmanager
def load(client: Any, paths: list[str], at_once: int = 1) -> Iterator[None]:
    """Sets znodes in turn, so many at a time, as long as the block runs. A set that fails counts for nothing."""
    is_over = threading.Event()

    def run() -> None:
        turns = itertools.cycle(paths)
        while not is_over.wait(PERIOD_S):
            for done in [client.set_async(path, b"x") for path in itertools.islice(turns, at_once)]:
                with suppress(KazooException):
                    done.get(DEADLINE_S)

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run)
        try:
            yield
        finally:
            is_over.set()
            running.result()


class TopTest(MapCase):
    def setUp(self) -> None:
        super().setUp()
        init_map(self.a, self.all)
        self.user, _ = self.client()
        self.paths = [f"/top/d{number}/x" for number in range(DIRECTORIES)]
        for path in self.paths:
            self.user.create(path, makepath=True)

    def told(self, judge: Callable[[str], None], *options: str, **environment: str) -> None:
        """Runs the command until its output is right. Each run has to succeed.

        On a machine that stands still, a server answers too late, and the command says so.
        """
        deadline = time.monotonic() + DEADLINE_S
        while True:
            out = output_of("top", "--hosts", self.a, *options, **environment)
            try:
                return judge(out)
            except AssertionError:
                if time.monotonic() > deadline:
                    raise

    def test_documents(self) -> None:
        """A document a line, each with what this process' clients do."""

        def judge(out: str) -> None:
            documents = [json.loads(line) for line in out.splitlines()]
            self.assertEqual(len(documents), 2)
            for each in documents:
                self.assertEqual([row["ensemble"] for row in each["ensembles"]], ["a", "b", "c"])
                self.assertEqual([row["role"] for row in each["servers"]], ["standalone"] * 3)
                self.assertEqual(each["unseen"], [])
                self.assertTrue(all(row["writes"] for row in each["ensembles"]), each)
                self.assertAlmostEqual(sum(row["share"] or 0 for row in each["ensembles"]), 1.0, places=2)
                busiest = each["clients"][0]
                self.assertTrue(busiest["is_registered"])
                self.assertEqual({*busiest["ensembles"]}, {"a", "b", "c"})
                assert self.user.client_id is not None
                self.assertEqual(busiest["client"], format_session(self.user.client_id[0]))
                self.assertEqual(len(each["clients"]), 1 + len(self.plain))  # the command's own are not among them

        with load(self.user, self.paths):
            self.told(judge, "--json", "--count", "2", "--interval", "0.5")

    def test_a_screen(self) -> None:
        for columns in (80, 120):

            def judge(out: str, columns: int = columns) -> None:
                self.assertRegex(out, r"^parkazoo top  map 1  3 of 3 servers  [\d,]+ req/s  [\d,]+ writes/s")
                self.assertRegex(out, r"\nc +1/1 +\d+ +\d+ +\d+ +\d+% ")
                self.assertLessEqual(max(map(len, out.splitlines())), columns)
                self.assertRegex(out, r"\nnot registered 127\.0\.0\.1:\d+ 0x")

            with load(self.user, self.paths):
                self.told(judge, "--once", "--interval", "0.5", COLUMNS=str(columns))

    def test_screens_until_they_are_enough(self) -> None:
        """Without --once another screen follows."""
        out = output_of("top", "--hosts", self.a, "--count", "2", "--interval", "0.5")
        self.assertEqual(out.count("parkazoo top  map 1"), 2)

    def test_arguments(self) -> None:
        self.assertIn("--once or --count", error_of("top", "--hosts", self.a, "--once", "--count", "3", status=2))
        self.assertEqual(run_command("top", "--hosts", self.a, "--interval", "0")[0], 2)

    def test_a_server_that_goes_and_comes(self) -> None:
        """Its ensemble is unknown meanwhile. The others are looked at in time."""
        server = self.cluster.ensembles[2].servers[0]
        with Looker(self.a) as looker:
            looks = [looker.look()]

            def serving() -> list[int]:
                looks.append(looker.look())
                return [each.serving for each in rates_between(*looks[-2:]).ensembles]

            server.kill()
            try:
                wait_until(lambda: serving() == [1, 1, 0], "c does not serve")
                found = rates_between(*looks[-2:])
                self.assertIsNone(found.ensembles[2].writes)
                self.assertRegex(found.servers[2].trouble, "^srvr, mntr, cons: ")
            finally:
                self.cluster.start("c")
            wait_until(lambda: serving() == [1, 1, 1] and not looks[-1].unread, "c is read again")
            wait_until(
                lambda: serving() == [1, 1, 1] and rates_between(*looks[-2:]).servers[2].requests is not None,
                "its rate is known again",
            )

    def test_a_map_that_changes(self) -> None:
        with Looker(self.a) as looker:
            self.assertEqual(looker.look().map, 1)
            output_of("map", "hosts", f"c={self.c.replace('127.0.0.1', 'localhost')}", "--hosts", self.a)
            found = wait_until(lambda: (look := looker.look()).map > 1 and look, "the new map is seen")
            self.assertTrue(found.servers[2].server.startswith("localhost:"))
            wait_until(lambda: {each.role for each in looker.look().servers} == {"standalone"}, "all serve")
