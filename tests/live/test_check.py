"""`parkazoo check` on real servers, one after the other of which is sick."""

from __future__ import annotations

import json
import re
import unittest
from collections.abc import Sequence

from parkazoo.local import LocalCluster
from tests.live.map_case import error_of, free_port, run_command
from tests.live.secured import configure
from tests.live.world import DEADLINE_S

ONE_SERVER_S = "3"  # they answer at once, or never


class CheckCommandTest(unittest.TestCase):
    def setUp(self) -> None:
        self.cluster = LocalCluster(ensembles=1, servers=3)
        self.addCleanup(self.cluster.stop)
        self.cluster.start()
        (self.a,) = self.cluster.ensembles

    def found(self, *options: str, status: int = 0) -> Sequence[tuple[str, str, list[str], str]]:
        ended, out, err = run_command(
            "check", "--hosts", self.a.hosts, "--json", "--timeout", ONE_SERVER_S, *options
        )
        self.assertEqual((ended, err), (status, ""), out)
        self.document = json.loads(out)
        for each in self.document["findings"]:
            self.assertTrue(
                all(each[name] for name in ("level", "topic", "ensemble", "seen", "meaning", "remedy"))
            )
        return [
            (each["level"], each["topic"], each["servers"], each["seen"]) for each in self.document["findings"]
        ]

    def test_settings(self) -> None:
        self.assertEqual(self.found("--strict"), [])
        self.assertEqual({*self.document["topics"].values()}, {"fine"})
        for each in self.document["servers"]:
            settings = each["settings"]
            self.assertEqual((settings["tickTime"], settings["jute.maxbuffer"]), ("500", "1048575"))
        status, out, _ = run_command("check", "--hosts", self.a.hosts, "--strict", "--format", "nagios")
        self.assertEqual((status, out.count("\n")), (0, 1))
        self.assertRegex(out, r"^PARKAZOO OK - map 1, 1 ensembles, 3 servers \| servers=3 serving=3 wrong=0 ")

        one = self.a.followers()[0]
        one._argv.insert(1, "-Djute.maxbuffer=4000000")
        configure({one: {"4lw.commands.whitelist": "srvr", "maxClientCnxns": "60"}})
        self.a.wait_quorum()
        differing, *unseen = self.found()
        self.assertEqual(differing[:2], ("warning", "settings"))
        setting, _, values = differing[3].partition(": ")
        others = " ".join(each for each in self.a.hosts.split(",") if each != one.address)
        self.assertEqual(setting, "jute.maxbuffer")
        self.assertEqual({*values.split(", ")}, {f"1048575 on {others}", f"more than 1048575 on {one.address}"})
        self.assertEqual({each[0] for each in unseen}, {"unknown"})
        self.assertEqual({tuple(each[2]) for each in unseen}, {(one.address,)})
        self.assertEqual(
            sorted(each[3].partition(" is")[0] for each in unseen), ["conf", "cons", "jute.maxbuffer", "mntr"]
        )
        self.assertEqual(self.document["topics"]["clock"], "unknown")
        self.found("--strict", status=1)

    def test_losses(self) -> None:
        """A follower is frozen; one is killed; then the leader too."""
        one, other = self.a.followers()
        other.freeze()
        self.assertEqual(self.lost(), [other.address])
        other.thaw()
        other.wait_serving()
        one.kill()
        self.assertEqual(self.lost(), [one.address])
        status, out, _ = run_command(
            "check", "--hosts", self.a.hosts, "--format", "nagios", "--timeout", ONE_SERVER_S
        )
        self.assertEqual((status, out.count("\n")), (1, 1))
        self.assertRegex(out, r"^PARKAZOO WARNING - a.* \| servers=3 serving=2 ")
        status, out, _ = run_command("check", "--hosts", self.a.hosts, "--timeout", ONE_SERVER_S)
        self.assertEqual(status, 0)
        self.assertRegex(out, "2 of 3 servers serve; asked in")
        self.assertRegex(out, r"quorum +warning")
        address = re.escape(one.address)
        self.assertRegex(
            out, rf"warning quorum: {address}\n  seen +2 of 3 voting members serve +\n  means .*\n  do "
        )
        self.a.leader().kill()
        status, out, _ = run_command(
            "check", "--hosts", self.a.hosts, "--format", "nagios", "--timeout", ONE_SERVER_S
        )
        self.assertEqual((status, out.count("\n")), (2, 1))
        self.assertRegex(out, "^PARKAZOO CRITICAL - no ZooKeeper answers within 3 s: ")

    def lost(self) -> list[str]:
        """The server without which two of three serve; the finding of the map names it too."""
        found = {each[1]: each for each in self.found() if each[0] == "warning" and each[1] in ("map", "quorum")}
        (server,) = found["quorum"][2]
        self.assertEqual(found["quorum"][3], "2 of 3 voting members serve")
        self.assertIn(f"server {server}: ", found["map"][3])
        return [server]

    def test_may_stop(self) -> None:
        """The leader or a follower may stop while all serve; none while one is away."""
        one = self.a.followers()[0]
        addresses = [self.a.leader().address, one.address]
        for server in addresses:
            self.may_stop(server, 0, "OK - .* may stop: 2 of 3 voting members of a go on")
        one.kill()
        for server in addresses:
            self.may_stop(server, 1, rf"CRITICAL - do not stop .*{re.escape(one.address)}: ")
        one.start()
        self.may_stop(self.a.hosts.split(",")[0], 0, "OK")
        strange = f"127.0.0.1:{free_port()}"
        self.assertIn(
            f"the map does not name server {strange}",
            error_of("check", "--hosts", self.a.hosts, "--stop", strange, status=2),
        )

    def may_stop(self, server: str, status: int, pattern: str) -> None:
        """A safe one is awaited: on a busy machine a follower may lag."""
        wait = ("--wait", f"{DEADLINE_S:g}") if status == 0 else ()
        timeout = ("--timeout", f"{DEADLINE_S:g}")
        ended, out, err = run_command("check", "--hosts", self.a.hosts, "--stop", server, *timeout, *wait)
        self.assertEqual((ended, err), (status, ""), out)
        self.assertRegex(out, f"^PARKAZOO {pattern}")


class WithoutServersTest(unittest.TestCase):
    def test_nobody_answers(self) -> None:
        closed = f"127.0.0.1:{free_port()}"
        self.assertIn(f"{closed}: Connection refused", error_of("check", "--hosts", closed, "--timeout", "1"))
        status, out, err = run_command("check", "--hosts", closed, "--timeout", "1", "--format", "nagios")
        self.assertEqual((status, err, out.count("\n")), (2, "", 1))
        self.assertRegex(
            out, f"^PARKAZOO CRITICAL - no ZooKeeper answers within 1 s: {closed}: Connection refused"
        )

    def test_wrong_arguments(self) -> None:
        status, out, _ = run_command("check", "--hosts", "h:x", "--format", "nagios")
        self.assertEqual((status, out[:18]), (3, "PARKAZOO UNKNOWN -"))
        error_of("check", "--hosts", "h:x", status=2)
        error_of("check", "--hosts", "h:1", "--json", "--format", "nagios", status=2)
