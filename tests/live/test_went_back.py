"""An ensemble that is restored from an older copy of its data: its clients, the checks, `accept-restore`."""

from __future__ import annotations

import itertools
import math
import shutil
import tempfile
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient
from kazoo.protocol.states import KazooState

from parkazoo.errors import WentBackError
from parkazoo.local import LocalCluster
from parkazoo.monitoring import EnsembleWentBack, Listener
from parkazoo.protocol.placement import ENSEMBLE
from tests.handlers import make_handler
from tests.live.map_case import error_of, run_command
from tests.live.world import DEADLINE_S, LiveTest, Seen, wait_until

WAIT = f"--timeout={DEADLINE_S:g}"


class Hears(Listener):
    def __init__(self) -> None:
        self.heard: list[EnsembleWentBack] = []

    def ensemble_went_back(self, event: EnsembleWentBack) -> None:
        self.heard.append(event)


class RestoredCase(LiveTest):
    """A cluster whose data are in a folder of the test's own."""

    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.copied = Path(folder.name) / "copy"
        cls.cluster = LocalCluster(cls.ensembles, cls.servers, data=Path(folder.name) / "cluster")
        cls.addClassCleanup(cls.cluster.stop)
        cls.cluster.start()

    def run_it(self, *command: str, status: int = 0) -> str:
        ended, out, err = run_command(*command, "--hosts", self.cluster.ensembles[0].hosts, WAIT)
        self.assertEqual((ended, err), (status, ""), out)
        return " ".join(out.split())

    def rise(self, client: Any, plain: KazooClient, path: str) -> int:
        """Has the version rise after a change of the client's; returns it."""
        before = plain.get(ENSEMBLE)[1].version
        client.set(path, b"changed")
        self.looks(client, path)
        return wait_until(
            lambda: (version := plain.get(ENSEMBLE)[1].version) > before and version, "a higher version"
        )

    def looks(self, client: Any, path: str) -> bool:
        """Has the client look at the version, after a request."""
        client.get(path)
        member = self.member(client, 0)
        member.runtime.loop.call(lambda: member.keep_memory(math.inf))
        return True


class WentBackTest(RestoredCase):
    ensembles = 2

    def copy(self) -> None:
        """Has the data of ensemble a copied, while it is stopped."""
        self.cluster.stop("a")
        shutil.copytree(self.data, self.copied)
        self.cluster.start("a")

    @property
    def data(self) -> Path:
        (server,) = self.cluster.ensembles[0].servers
        return server.data / "data"

    def test_it_goes_back(self) -> None:
        hears, plain = Hears(), self.kazoo(0)
        client, quiet = (self.joined(listeners=[each], timeout=60.0) for each in (hears, Hears()))
        states = [Seen(), Seen()]
        names = (f"/{number}" for number in itertools.count())
        path = next(name for name in names if self.placement.of_children(name) == 0) + "/child"
        client.create(path, b"first", makepath=True)
        seen = self.rise(client, plain, path)
        self.assertEqual(self.run_it("map", "check"), "the map and the ensembles agree")
        self.copy()
        for each, told in zip((client, quiet), states, strict=True):
            wait_until(lambda each=each: each.get(path), "the ensemble again")
            each.add_listener(told)
        later = self.rise(client, plain, path)
        self.assertEqual((later, hears.heard), (seen + 1, []))
        client.create(f"{path}-lock", ephemeral=True)
        zxid = max(self.member(each, 0).last_zxid for each in (client, quiet))

        with self.assertLogs("parkazoo", "ERROR") as logged:
            self.cluster.stop("a")
            wait_until(lambda: client.state == KazooState.SUSPENDED, "the loss of the connection")
            waits = client.get_async(path)
            shutil.rmtree(self.data)
            shutil.copytree(self.copied, self.data)
            self.cluster.start("a")
            writer = self.kazoo(0)
            writer.create("/filler")
            while writer.set("/filler", b"").mzxid <= zxid:  # one server alone takes no client that has seen more
                pass
            wait_until(lambda: KazooState.LOST in states[0], "the end of the session")
            with self.assertRaisesRegex(WentBackError, f"^{path} .ensemble a.: an ensemble has come back with an"):
                waits.get(timeout=DEADLINE_S)
            self.assertEqual(wait_until(lambda: client.get(path), "the client again")[0], b"changed")
            wait_until(
                lambda: self.looks(quiet, path) and KazooState.LOST in states[1], "what the other one noted"
            )
        self.assertTrue(any("ensemble a: it has gone back" in line for line in logged.output), logged.output)
        wait_until(lambda: hears.heard, "the event")
        self.assertEqual({each.ensemble for each in hears.heard}, {"a"})
        self.assertEqual(writer.get_children(ENSEMBLE), ["1"])

        found = self.run_it("map", "check", status=1)
        self.assertIn("it has gone back to an older", found)
        self.assertIn("gone back", self.run_it("check", status=1))
        self.assertIn("nothing is wrong", self.run_it("fsck"))
        told = f"accepted on a: a client that had seen change {later} of {ENSEMBLE} found change {seen}, 20"
        self.assertIn(told, self.run_it("map", "accept-restore", "a"))
        self.assertIn("nothing to do: no client has noted", self.run_it("map", "accept-restore", "a"))
        self.assertEqual(self.run_it("map", "check"), "the map and the ensembles agree")
        self.assertRegex(
            error_of("map", "accept-restore", "x", "--hosts", self.cluster.ensembles[0].hosts, WAIT),
            "^error: no ensemble of the map is called .x.: there are a, b",
        )


class OfThreeServersTest(RestoredCase):
    """All servers begin with the data that one of them had."""

    ensembles, servers = 1, 3

    def test_it_goes_back(self) -> None:
        hears, plain, states = Hears(), self.kazoo(0), Seen()
        client, path = self.joined(listeners=[hears], timeout=60.0), "/directory/child"
        client.create(path, b"first", makepath=True)
        seen = self.rise(client, plain, path)
        servers = self.cluster.ensembles[0].servers
        alone = self._begin(KazooClient(servers[0].address, handler=make_handler()), True)
        wait_until(lambda: alone.get(ENSEMBLE)[1].version == seen, "the rise, on the server that is copied")
        shutil.copytree(servers[0].data / "data" / "version-2", self.copied)
        client.add_listener(states)
        later = self.rise(client, plain, path)
        self.assertEqual((later, hears.heard), (seen + 1, []))

        with self.assertLogs("parkazoo", "ERROR") as logged:
            self.cluster.stop("a")
            wait_until(lambda: client.state == KazooState.SUSPENDED, "the loss of the connection")
            for server in servers:
                shutil.rmtree(server.data / "data" / "version-2")
                shutil.copytree(self.copied, server.data / "data" / "version-2")
            self.cluster.start("a")
            wait_until(lambda: KazooState.LOST in states, "the end of the session")
        self.assertTrue(any("ensemble a: it has gone back" in line for line in logged.output), logged.output)
        self.assertEqual(wait_until(lambda: client.get(path), "the client again")[1].version, 1)
        wait_until(lambda: hears.heard, "the event")
        self.assertEqual([each.ensemble for each in hears.heard], ["a"])
        self.assertEqual(wait_until(lambda: plain.get_children(ENSEMBLE), "the note"), ["1"])
        told = f"accepted on a: a client that had seen change {later} of {ENSEMBLE} found change {seen}, 20"
        self.assertIn(told, self.run_it("map", "accept-restore", "a"))
        self.assertEqual(self.run_it("map", "check"), "the map and the ensembles agree")
