"""`parkazoo top` on real servers."""

from __future__ import annotations

import itertools
import json
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from kazoo.exceptions import KazooException
from kazoo.security import OPEN_ACL_UNSAFE, make_acl, make_digest_acl

from parkazoo.admin import init_map, recursive_watch
from parkazoo.admin.looking import Looker
from parkazoo.admin.rates import rates_between
from parkazoo.admin.recursive_watch import Follower, Followers
from parkazoo.protocol.registration import format_session
from tests.live.map_case import MapCase, error_of, output_of, run_command
from tests.live.world import DEADLINE_S, wait_until

PERIOD_S = 0.01
ROUND_S = 10.0
HOT = 200
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
        """A document a line, each with what this process' clients do; the same in a file, if that is wanted."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        file = Path(folder.name, "rates")

        def judge(out: str) -> None:
            self.assertEqual(file.read_text().splitlines()[-2:], out.splitlines())
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
            self.told(judge, "--json", "--count", "2", "--interval", "0.5", "--record", str(file))

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

    def test_each_change_counts_once(self) -> None:
        """In its directory, of which there are many, by its name, wherever its ensemble keeps it."""
        paths = [f"/hot/d{number}/x" for number in range(HOT)]
        for made in [self.user.create_async(path, makepath=True) for path in paths]:
            made.get(DEADLINE_S)
        wanted = Counter({path.rpartition("/")[0]: 1 + 40 // (rank + 1) for rank, path in enumerate(paths)})
        changes = [f"{directory}/x" for directory in wanted.elements()]

        def count(followers: Followers, found: Counter[str]) -> int:
            for each in followers.take().values():
                found.update(each.counts)
            return found.total()

        def found_in_a_round(followers: Followers) -> Mapping[str, int]:
            followers.take()
            for done in [self.user.set_async(path, b"x") for path in changes]:
                done.get(DEADLINE_S)
            found: Counter[str] = Counter()
            with suppress(AssertionError):  # the watch's connection was lost meanwhile
                wait_until(lambda: count(followers, found) >= len(changes), "all events", ROUND_S)
            return found

        with Looker(self.a) as looker, Followers(looker.auth, looker.options) as followers:
            followers.follow(looker.map)
            wait_until(lambda: not followers.troubles(), "all watches")
            wait_until(lambda: found_in_a_round(followers) == wanted, "each change is counted")

    def test_the_hottest_directory(self) -> None:
        """Every second change is in the same: it is named first, before some of each ensemble."""
        hot, *others = self.paths
        turns = [path for other in others for path in (hot, other)]

        def judge(out: str) -> None:
            found = json.loads(out)
            self.assertEqual(found["directories"][0]["directory"], hot.rpartition("/")[0])
            self.assertEqual({each["ensemble"] for each in found["directories"]}, {"a", "b", "c"})
            self.assertEqual(found["unseen"], [])
            self.assertEqual(len(found["clients"]), 1 + len(self.plain))  # without the watches' sessions

        with load(self.user, turns, at_once=len(turns)):
            self.told(judge, "--json", "--follow", "--once", "--interval", "2")

    def test_what_may_not_be_read(self) -> None:
        """Changes of znodes that the identity may not read come as no events; it is said how many."""
        hidden = [
            make_digest_acl("other", "secret", all=True),
            make_acl("world", "anyone", write=True, admin=True),
        ]
        for path in self.paths:
            self.user.set_acls(path, hidden)
            self.addCleanup(self.user.set_acls, path, OPEN_ACL_UNSAFE)  # so that the next test may delete it

        def judge(out: str) -> None:
            unseen = json.loads(out)["unseen"]
            self.assertEqual(len(unseen), 3, out)
            for name, line in zip("abc", unseen, strict=True):
                self.assertRegex(line, f"^the directories of {name}: [0-9]+% of its writes are not seen: ")

        with load(self.user, self.paths, at_once=4 * DIRECTORIES):
            self.told(judge, "--json", "--follow", "--once", "--interval", "2")

    def test_too_many_changes(self) -> None:
        """It ends the watch by itself; the rest goes on."""

        def judge(out: str) -> None:
            last = json.loads(out.splitlines()[-1])
            self.assertEqual(len(last["unseen"]), 3, out)
            for name, line in zip("abc", last["unseen"], strict=True):
                self.assertRegex(line, f"^the directories of {name}: it had more than 1 changes within a second")
            self.assertGreater(last["ensembles"][0]["writes"] or 0, 0)

        with (
            mock.patch.object(recursive_watch, "Follower", partial(Follower, most_events=1)),
            load(self.user, self.paths, at_once=4 * DIRECTORIES),
        ):
            self.told(judge, "--json", "--follow", "--count", "2", "--interval", "1")

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
