"""What `parkazoo check` finds in what servers have said."""

from __future__ import annotations

import io
import json
import threading
import time
import unittest
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from typing import Any
from unittest import mock

from rich.console import Console

from parkazoo.admin.answers import NOT_LISTED, ServerConnection
from parkazoo.admin.check import MapProblem
from parkazoo.admin.clients import Connections
from parkazoo.admin.health import FINE, LEVELS, TOPICS, Health, HealthFinding, _settings, _unseen, judge
from parkazoo.admin.inquiry import Inquiry, _Admin, _join
from parkazoo.admin.server_status import ServerStatus
from parkazoo.admin.status import ClusterStatus
from parkazoo.admin.strangers import Stranger, Strangers
from parkazoo.cli.check_command import _ended_in_time, _Screen, nagios, nagios_line
from parkazoo.protocol.cluster_map import ClusterMap

SERVERS = {"a": ("a1:1", "a2:1", "a3:1"), "b": ("b1:1",)}
MAP = ClusterMap("x", {name: ",".join(servers) for name, servers in SERVERS.items()}, ("a", "b"), "a")
SETTINGS = {
    "tickTime": "2000",
    "initLimit": "10",
    "syncLimit": "5",
    "minSessionTimeout": "4000",
    "maxSessionTimeout": "40000",
    "maxClientCnxns": "60",
    "dataDir": "/data",
    "dataLogDir": "/log",
    "serverId": "1",
    "clientPort": "1",
}
MONITOR = {"synced_followers": "2", "open_file_descriptor_count": "63", "max_file_descriptor_count": "20000"}
EVERY = Strangers({}, {})


def inquiry(ensemble: str, server: str, **changes: Any) -> Inquiry:
    about: dict[str, Any] = {
        "settings": SETTINGS,
        "voters": len(SERVERS[ensemble]) if ensemble == "a" else None,
        "monitor": MONITOR,
        "connections": [ServerConnection("10.0.0.7:4711", "0x7", 3, 5)],
        "takes_more": False,
        "clock_s": (-0.01, 0.01),
    }
    return Inquiry(ensemble, server, **(about | changes))


def serving(ensemble: str, server: str, role: str | None, **changes: Any) -> ServerStatus:
    about: dict[str, Any] = {"serves": True, "version": "3.9.5", "znodes": 9, "takes_default": True}
    return ServerStatus(ensemble, server, role=role, **(about | changes))


class Cluster:
    """Two ensembles in order; tests change what one server says."""

    def __init__(self) -> None:
        self.problems: list[MapProblem] = []
        self.told = {server: inquiry(name, server) for name, servers in SERVERS.items() for server in servers}
        roles = ("follower", "leader", "follower", "standalone")
        self.servers = {
            server: serving(name, server, role)
            for (name, server), role in zip(
                ((name, server) for name, servers in SERVERS.items() for server in servers), roles, strict=True
            )
        }

    def tell(self, server: str, **changes: Any) -> None:
        self.told[server] = self.told[server]._replace(**changes)

    def set(self, server: str, **changes: str) -> None:
        self.tell(server, settings={**SETTINGS, **changes})

    def lose(self, server: str) -> None:
        del self.told[server]
        self.servers[server] = ServerStatus(self.servers[server].ensemble, server, serves=False, trouble="refused")

    def check(self) -> Health:
        status = ClusterStatus(MAP, self.problems, [*self.servers.values()], [], EVERY)
        told = [*self.told.values()]
        settings = _settings(told, status.servers)
        return Health(status, judge(status, told, settings), settings, 1.25)


class HealthCase(unittest.TestCase):
    def setUp(self) -> None:
        self.cluster = Cluster()

    def found(self) -> Sequence[HealthFinding]:
        found = self.cluster.check()
        for each in found.findings:
            self.assertTrue(all((each.seen, each.meaning, each.remedy)), each)
            self.assertIn(each.topic, TOPICS)
        json.dumps(found.to_json())
        return found.findings

    def one(self, level: str, topic: str, ensemble: str, servers: Sequence[str], pattern: str) -> HealthFinding:
        """It is the only finding."""
        (each,) = self.found()
        self.assertEqual(
            (each.level, each.topic, each.ensemble, each.servers), (level, topic, ensemble, (*servers,))
        )
        self.assertRegex(each.seen, pattern)
        return each


class TestJudge(HealthCase):
    def test_in_order(self) -> None:
        self.assertEqual(self.found(), [])
        self.assertEqual(self.cluster.check().verdict(), FINE)

    def test_the_map(self) -> None:
        self.cluster.problems = [
            MapProblem("b", "late", "later", "wait", is_warning=True),
            MapProblem("a", "lost", "gone", "mend"),
        ]
        self.assertEqual(
            [(each.level, each.topic) for each in self.found()], [("wrong", "map"), ("warning", "map")]
        )

    def test_a_lost_follower(self) -> None:
        self.cluster.lose("a3:1")
        self.one("warning", "quorum", "a", ["a3:1"], "2 of 3 voting members serve")

    def test_a_lost_observer(self) -> None:
        """It has no vote: both members that have one serve, and neither may stop."""
        for server in ("a1:1", "a2:1"):
            self.cluster.tell(server, voters=2)
        self.cluster.lose("a3:1")
        self.one("warning", "quorum", "a", ["a3:1"], "2 of 2")
        self.cluster.servers["a3:1"] = serving("a", "a3:1", "observer")
        self.assertEqual(self.found(), [])

    def test_two_leaders(self) -> None:
        self.cluster.servers["a1:1"] = serving("a", "a1:1", "leader")
        self.one("warning", "quorum", "a", ["a1:1", "a2:1"], "says that it leads")

    def test_members_that_the_map_does_not_name(self) -> None:
        """Whether they serve is not known: that the map does not name them is a finding of its own."""
        for server in ("a1:1", "a2:1"):
            self.cluster.tell(server, voters=5)
        self.cluster.lose("a3:1")
        self.assertEqual(self.found(), [])

    def test_a_follower_lags(self) -> None:
        self.cluster.tell("a2:1", monitor={**MONITOR, "synced_followers": "1"})
        self.one("warning", "quorum", "a", ["a2:1"], "in sync: 1 of 2")

    def test_a_link_that_comes_and_goes(self) -> None:
        """As a follower of ZooKeeper 3.9.5 tells it behind such a link, in either spelling of its metrics."""
        flapping = {"cnt_unavailable_time": "4", "looking_count": "25", "uptime": "1218"}
        self.cluster.tell("a1:1", monitor={**MONITOR, **flapping})
        self.one("warning", "quorum", "a", ["a1:1"], "it has left its quorum 3 times .* is back for 1 s")
        self.cluster.tell("a1:1", monitor={**MONITOR, "unavailable_time_count": "4.0", "uptime": "1218.0"})
        self.one("warning", "quorum", "a", ["a1:1"], "it has left its quorum 3 times")
        for other in ({"cnt_unavailable_time": "3"}, {"uptime": "600000"}, {"uptime": "x"}):
            self.cluster.tell("a1:1", monitor={**MONITOR, **flapping, **other})
            self.assertEqual(self.found(), [])

    def test_a_slow_disk(self) -> None:
        slow = {"cnt_fsynctime": "40", "sum_fsynctime": "3240"}
        self.cluster.tell("b1:1", monitor={**MONITOR, **slow})
        each = self.one("warning", "disk", "b", ["b1:1"], "its log has waited 81 ms for each fsync, on average")
        self.assertIn("its disk is slow", each.meaning)
        self.cluster.tell("b1:1", monitor={**MONITOR, "fsynctime_count": "40.0", "fsynctime_sum": "3240.0"})
        self.one("warning", "disk", "b", ["b1:1"], "81 ms")
        for other in ({"sum_fsynctime": "1999"}, {"cnt_fsynctime": "9", "sum_fsynctime": "900"}):
            self.cluster.tell("b1:1", monitor={**MONITOR, **slow, **other})
            self.assertEqual(self.found(), [])

    def test_srvr_is_off(self) -> None:
        self.cluster.servers["a1:1"] = serving("a", "a1:1", None, version=None)
        self.one("unknown", "quorum", "a", ["a1:1"], "srvr is not answered")

    def test_versions(self) -> None:
        self.cluster.servers["a1:1"] = serving("a", "a1:1", "follower", version="3.8.4")
        self.one("warning", "versions", "a", SERVERS["a"], "3.8.4 on a1:1, 3.9.5 on a2:1 a3:1")

    def test_a_clock(self) -> None:
        """Beside three others it is this one's; beside one, this machine's may be wrong as well."""
        self.cluster.tell("a1:1", clock_s=(7.1, 7.3))
        self.one("warning", "clock", "a", ["a1:1"], "7.2 s ahead of most servers'")
        for server in SERVERS["a"]:
            del self.cluster.told[server]
        self.cluster.tell("b1:1", clock_s=(-7.3, -7.1))
        self.one("warning", "clock", "b", ["b1:1"], "7.2 s behind this machine's")

    def test_this_machines_clock(self) -> None:
        for server in self.cluster.told:
            self.cluster.tell(server, clock_s=(-9.1, -8.9))
        self.one("warning", "clock", "", ["this machine"], "9.0 s ahead of most servers'")

    def test_a_clock_not_seen_closely(self) -> None:
        """A connection that took long to come about shows little: no alarm."""
        self.cluster.tell("a1:1", clock_s=(-9.0, 1.0))
        self.assertEqual(self.found(), [])

    def test_words_that_are_off(self) -> None:
        for server in ("a1:1", "a2:1"):
            self.cluster.tell(
                server,
                settings=None,
                voters=None,
                monitor=None,
                connections=None,
                clock_s=None,
                silent=dict.fromkeys(("conf", "mntr", "cons"), NOT_LISTED),
            )
        found = self.found()
        self.assertEqual({each.level for each in found}, {"unknown"})
        self.assertEqual({each.servers for each in found}, {("a1:1", "a2:1")})
        self.assertEqual([each.seen.partition(" ")[0] for each in found], ["cons", "conf", "mntr"])
        self.assertEqual([each.topic for each in found], ["clock", "settings", "settings"])

    def test_an_admin_server_tells_the_time(self) -> None:
        self.cluster.tell("b1:1", connections=None, silent={"cons": NOT_LISTED})
        each = self.one("unknown", "settings", "b", ["b1:1"], "cons is not answered")
        self.assertEqual(each.meaning, "its connections cannot be seen")

    def test_its_words_do_not_come(self) -> None:
        self.cluster.tell("b1:1", connections=None, clock_s=None, silent={"cons": "timed out"})
        found = self.found()
        self.assertEqual(
            [each.seen for each in found], ["its clock was not seen", "cons is not answered: timed out"]
        )

    def test_many_connections(self) -> None:
        there = [ServerConnection(f"10.0.0.7:{port}", hex(port), 1, 5) for port in range(1000, 1048)]
        self.cluster.tell("a1:1", connections=there)
        self.one("warning", "settings", "a", ["a1:1"], "10.0.0.7 has 48 of 60 connections")
        self.cluster.tell("a1:1", connections=there[:40])
        self.assertEqual(self.found(), [])
        self.cluster = Cluster()
        for server in self.cluster.told:
            self.cluster.set(server, maxClientCnxns="0")  # no limit
        self.cluster.tell("a1:1", connections=there)
        self.assertEqual(self.found(), [])

    def test_files(self) -> None:
        self.cluster.tell("a1:1", monitor={**MONITOR, "open_file_descriptor_count": "16000"})
        self.one("warning", "settings", "a", ["a1:1"], "16,000 of 20,000 files")

    def test_an_open_admin_server(self) -> None:
        self.cluster.tell("a1:1", is_admin_open=True)
        self.one("warning", "settings", "a", ["a1:1"], "AdminServer answers other machines")


class TestSettings(HealthCase):
    def test_servers_differ(self) -> None:
        for setting in ("tickTime", "initLimit", "syncLimit", "maxClientCnxns"):
            with self.subTest(setting):
                self.cluster = Cluster()
                self.cluster.set("a2:1", **{setting: "77"})
                self.one("warning", "settings", "a", SERVERS["a"], f"^{setting}: [0-9]+ on a1:1 a3:1, 77 on a2:1")

    def test_ensembles_differ(self) -> None:
        self.cluster.set("b1:1", maxSessionTimeout="10000")
        self.one("warning", "settings", "a, b", [], "^maxSessionTimeout: 40000 on a, 10000 on b")

    def test_logs(self) -> None:
        """Folders may have any names; what counts is whether the log is apart."""
        self.cluster.set("a2:1", dataDir="/other", dataLogDir="/others")
        self.assertEqual(self.found(), [])
        self.cluster.set("a2:1", dataLogDir="/data")
        self.one(
            "warning", "settings", "a", SERVERS["a"], "dataLogDir: apart on a1:1 a3:1, that of the snapshots on a2"
        )

    def test_a_buffer_that_differs(self) -> None:
        """Known by what the server does; or, with an AdminServer, by what it says."""
        self.cluster.tell("a2:1", takes_more=True)
        found = self.found()
        self.assertEqual([each.level for each in found], ["warning", "unknown"])
        self.assertRegex(found[0].seen, "^jute.maxbuffer: 1048575 on a1:1 a3:1, more than 1048575 on a2:1")
        self.cluster.tell("a2:1", takes_more=None, properties={"jute.maxbuffer": "4194304"})
        self.one("warning", "settings", "a", SERVERS["a"], "1048575 on a1:1 a3:1, 4194304 on a2:1")

    def test_large_buffers(self) -> None:
        """More than the default, and more than another's 2 MB: nobody can tell whether they differ."""
        for server in ("a1:1", "a3:1", "b1:1"):
            self.cluster.tell(server, takes_more=True)
        self.cluster.tell("a2:1", takes_more=None, properties={"jute.maxbuffer": "2097152"})
        found = self.found()
        self.assertEqual([(each.level, each.ensemble) for each in found], [("unknown", "a"), ("unknown", "b")])

    def test_a_small_buffer(self) -> None:
        self.cluster.servers["b1:1"] = serving("b", "b1:1", "standalone", takes_default=False)
        self.one("warning", "settings", "a, b", [], "1048575 on a, less than 1048575 on b")

    def test_a_buffer_in_zoo_cfg(self) -> None:
        """As ZooKeeper 3.9.5's AdminServer shows it."""
        self.cluster.tell("b1:1", takes_more=None, properties={"zookeeper.jute.maxbuffer": "4000000"})
        each = self.one("warning", "settings", "b", ["b1:1"], "jute.maxbuffer=4000000, and there it has no effect")
        self.assertEqual(each.meaning, "its limit is 1048575 bytes")

    def test_a_buffer_that_is_not_seen(self) -> None:
        self.cluster.tell("b1:1", takes_more=None)
        self.one("unknown", "settings", "b", ["b1:1"], "jute.maxbuffer is not seen")

    def test_whose_admin_server(self) -> None:
        """On one machine several servers have one default port."""
        own = inquiry("a", "a1:1", clock_s=None)
        about = {"server_id": 1, "data_dir": "/data", "client_port": 1}
        joined = _join(own, _Admin(about, {"x": "y"}, True, (0.0, 1.0)))
        self.assertEqual((joined.properties, joined.is_admin_open, joined.clock_s), ({"x": "y"}, True, (0.0, 1.0)))
        for other in ({"server_id": 2}, {"data_dir": "/data2"}):
            self.assertEqual(_join(own, _Admin(about | other, {"x": "y"}, True, None)), own)
        silent = own._replace(settings=None)
        self.assertIsNotNone(_join(silent, _Admin(about, {"x": "y"}, True, None)).properties)
        self.assertEqual(_join(silent, _Admin(about | {"client_port": 2}, {}, True, None)), silent)


class TestNagios(HealthCase):
    def test_in_order(self) -> None:
        status, line = nagios(self.cluster.check(), strict=True)
        self.assertEqual(
            (status, line),
            (
                0,
                "PARKAZOO OK - map 1, 2 ensembles, 4 servers | servers=4 serving=4 wrong=0 warning=0 unknown=0 "
                "clients=0 znodes=18 time=1.250s",
            ),
        )

    def test_levels(self) -> None:
        self.cluster.tell("b1:1", takes_more=None)
        found = self.cluster.check()
        status, line = nagios(found, strict=False)
        self.assertEqual(status, 0)
        self.assertIn("4 servers (and 1 more: parkazoo check)", line)
        self.assertEqual(nagios(found, strict=True)[0], 3)
        self.cluster.lose("a3:1")
        status, line = nagios(self.cluster.check(), strict=False)
        self.assertEqual(status, 1)
        self.assertTrue(
            line.startswith("PARKAZOO WARNING - a a3:1: 2 of 3 voting members serve (and 1 more"), line
        )
        self.assertIn(" | servers=4 serving=3 wrong=0 warning=1 unknown=1 ", line)
        self.cluster.problems = [MapProblem("a", "lost\n  two | lines \x1b", "gone", "mend")]
        status, line = nagios(self.cluster.check(), strict=False)
        self.assertEqual(status, 2)
        self.assertTrue(line.startswith("PARKAZOO CRITICAL - a: lost two / lines \\x1b (and 2 more"), line)

    def test_one_line(self) -> None:
        line = nagios_line(2, "x" * 4000 + "\n|")
        self.assertEqual((line.count("\n"), line.count("|")), (0, 0))
        self.assertLess(len(line), 400)


class TestText(HealthCase):
    def test_by_ensemble(self) -> None:
        """What is about all comes first; then each ensemble's, the worst first."""
        self.cluster.problems = [
            MapProblem("b", "behind", "later", "wait", is_warning=True),
            MapProblem("a, b", "old clients", "waits", "end them"),
        ]
        self.cluster.tell("b1:1", takes_more=None)
        self.cluster.lose("a3:1")
        with io.StringIO() as file:
            _Screen(Console(file=file, width=200), False, False).tell(self.cluster.check(), strict=False)
            lines = [line.strip() for line in file.getvalue().splitlines()]
        heads = [line for line in lines if line.startswith(("the cluster", "ensemble ", *LEVELS))]
        self.assertEqual(
            heads,
            [
                "the cluster",
                "wrong map: a, b",
                "ensemble a",
                "warning quorum: a3:1",
                "ensemble b",
                "warning map",
                "unknown settings: b1:1",
            ],
        )
        self.assertIn("seen   old clients", lines)

    def test_who_may_lose_znodes(self) -> None:
        """Before pins decide, sessions that are not registered are no finding; one ensemble has all znodes."""
        found = self.cluster.check()
        strangers = Strangers({("b", "0x7"): Stranger("0x7", "10.0.0.7:4711", "b1:1", "b")}, {})
        one = replace(MAP, ensembles={"a": MAP.ensembles["a"]}, placement=("a",))
        for unregistered, cluster_map, is_told in (
            (strangers, MAP, True),
            (strangers, one, False),
            (EVERY, MAP, False),
        ):
            status = found.status._replace(unregistered=unregistered, cluster_map=cluster_map)
            with io.StringIO() as file:
                _Screen(Console(file=file, width=200), False, False).tell(
                    found._replace(status=status), strict=False
                )
                told = "1 session is not registered: `parkazoo clients` tells whose; a plain kazoo program that"
                self.assertEqual(told in file.getvalue(), is_told)


class TestInTime(unittest.TestCase):
    def test_it_ends(self) -> None:
        """Whatever it waits for; also if nobody reads what it says."""
        for status, tell_late in ((2, lambda: 2), (3, mock.Mock(side_effect=BrokenPipeError))):
            ended = threading.Event()
            end = mock.Mock(side_effect=lambda _, ended=ended: ended.set())
            with _ended_in_time(0.01, tell_late, 3, end):
                self.assertTrue(ended.wait(60.0))
            end.assert_called_once_with(status)

    def test_what_is_known(self) -> None:
        """Servers have answered; what takes longer is unknown."""
        cluster = Cluster()
        cluster.lose("a3:1")
        (unread,) = _unseen(Connections({"a": mock.Mock(), "b": mock.Mock()}, {}, {}, {}))
        found = cluster.check()
        late = found._replace(findings=[*found.findings, unread])
        for is_nagios, is_json, status, words in (
            (True, False, 1, ("WARNING - a a3:1: 2 of 3 voting members serve (and 1 more",)),
            (
                False,
                True,
                1,
                ("2 of 3 voting members serve", "have not been read", "has not ended within 20 s: g"),
            ),
            (
                False,
                False,
                1,
                ("2 of 3 voting members serve", "have not been read", "has not ended within 20 s: g"),
            ),
        ):
            with self.subTest(is_nagios=is_nagios, is_json=is_json), io.StringIO() as file:
                with redirect_stdout(file), redirect_stderr(file):
                    screen = _Screen(Console(file=file, width=200), is_nagios, is_json)
                    self.assertEqual(screen.tell_late(20.0, [cluster.check(), late]), status)
                for each in words:
                    self.assertIn(each, file.getvalue())

    def test_nothing_is_known(self) -> None:
        for is_nagios, status in ((True, 3), (False, 1)):
            with io.StringIO() as file, redirect_stdout(file), redirect_stderr(file):
                self.assertEqual(_Screen(Console(file=file), is_nagios, False).tell_late(20.0, []), status)
                self.assertEqual(file.getvalue().count("\n"), 1)
                self.assertIn("the check has not ended within 20 s", file.getvalue())

    def test_it_is_not_ended(self) -> None:
        before = threading.active_count()
        with _ended_in_time(3600.0, self.fail, 1, self.fail):
            self.assertEqual(threading.active_count(), before + 1)
        deadline = time.monotonic() + 60.0
        while threading.active_count() > before and time.monotonic() < deadline:
            time.sleep(0.001)
        self.assertEqual(threading.active_count(), before)
