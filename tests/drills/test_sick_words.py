"""What servers say of a fault becomes the words that the drill `sick` waits for, without servers."""

from __future__ import annotations

import io
import re
import unittest

from rich.console import Console

from parkazoo.admin.answers import ServerConnection
from parkazoo.admin.check import _check_clients, behind
from parkazoo.admin.registrations import ClientList, RegisteredClient
from parkazoo.admin.session_use import Held, SessionUse
from parkazoo.admin.strangers import ConnectedSessions, Strangers
from parkazoo.cli.check_command import _print
from parkazoo.cli.clients_command import _table
from parkazoo.protocol.cluster_map import ClusterMap
from tests.admin.test_advice import DAY_S, advise, directory, ensemble
from tests.admin.test_health import MONITOR, Cluster
from tests.drills.sick import SCREENS, SICKNESSES
from tests.drills.sick_user import HOT

NOBODY = ConnectedSessions({}, ())


class TestWords(unittest.TestCase):
    def shows(self, name: str, screen: str, shown: str, culprit: str = "") -> None:
        pattern = SICKNESSES[name].words[screen].format(culprit=re.escape(culprit))
        self.assertRegex(shown, pattern)

    def check(self, cluster: Cluster) -> str:
        shown = io.StringIO()
        _print(Console(file=shown, width=120), cluster.check())
        return shown.getvalue()

    def test_each_screen_is_one(self) -> None:
        for name, sickness in SICKNESSES.items():
            self.assertLessEqual(sickness.words.keys(), SCREENS.keys(), name)
            self.assertTrue(sickness.words, name)
            for pattern in sickness.words.values():
                re.compile(pattern.format(culprit="7"))

    def test_in_order(self) -> None:
        shown = self.check(Cluster())
        for name, sickness in SICKNESSES.items():
            if pattern := sickness.words.get("check"):
                self.assertNotRegex(shown, pattern.format(culprit=".*"), name)

    def test_holdings_on_80_columns(self) -> None:
        """As an operator's terminal has them: host, pid and numbers are whole."""
        for name, screen, ephemerals, watches, told in (
            ("leaked-ephemerals", "clients --sort ephemerals", 2_002, 4, "1,234,567      2,002       4"),
            ("watches", "clients --sort watches", 1, 50_005, "1,234,567          1  50,005"),
        ):
            with self.subTest(name):
                sessions = {"a": "0x1", "b": "0x2", "c": "0x3"}
                client = RegisteredClient(
                    "0x35fdc3379cfaabe9", "worker12.net", 1234567, "0.1.0", 1, None, sessions
                )
                found = ClientList([client], {}, Strangers({}, {}), NOBODY, Held({}, {}, {"dump": "off"}), {})
                shown = io.StringIO()
                use = SessionUse(1_234_567, ephemerals, watches)
                Console(file=shown, width=80).print(_table([(client, use)], found))
                self.shows(name, screen, shown.getvalue(), "1234567")
                about = f"0x35fdc3379cfaabe9 worker12.net 1234567 a b c     {told}"
                self.assertIn(about, shown.getvalue())

    def test_servers(self) -> None:
        """`mntr` and `cons` as servers of 3.9.5 have answered in the drill."""
        slow = {"cnt_fsynctime": "213", "sum_fsynctime": "17133"}
        flapping = {"cnt_unavailable_time": "6", "uptime": "1201"}
        there = [ServerConnection(f"127.0.0.1:{port}", hex(port), 1, 5) for port in range(1000, 1052)]
        for name, server, changes in (
            ("slow-disk", "b1:1", {"monitor": {**MONITOR, **slow}}),
            ("flapping-link", "a1:1", {"monitor": {**MONITOR, **flapping}}),
            ("leaked-sessions", "a1:1", {"connections": there}),
            ("max-buffer", "a3:1", {"takes_more": True}),
        ):
            with self.subTest(name):
                cluster = Cluster()
                cluster.tell(server, **changes)
                self.shows(name, "check", self.check(cluster), server)

    def test_a_lost_follower(self) -> None:
        cluster = Cluster()
        cluster.lose("a3:1")
        self.shows("lost-follower", "check", self.check(cluster), "a3:1")

    def test_an_old_map(self) -> None:
        cluster = Cluster()
        newest = ClusterMap("x", {"a": "a1:1"}, ("a",), "a", epoch=2)
        clients = [RegisteredClient("0x7", "h", 4711, "0.1.0", 1, "2026-11-26T17:00:00Z", {"a": "0x7"})]
        cluster.problems = [*_check_clients(behind(clients, newest), newest)]
        self.shows("old-map", "check", self.check(cluster), "4711")

    def test_writes(self) -> None:
        found = advise(
            [ensemble("a", 90.0, queue=100), ensemble("b", 10.0, p99_ms=170.0)],
            [directory("a", HOT, 90.0, DAY_S), directory("b", "/y", 10.0, DAY_S)],
        )
        shown = "\n".join(each.text for each in found.sentences)
        for name in ("hot-directory", "full-queue", "slow-disk"):
            self.shows(name, "advise", shown)
