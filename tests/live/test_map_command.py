"""`parkazoo map` and `parkazoo where`."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from kazoo.client import KazooClient

import parkazoo
from parkazoo.admin import init_map, read_map
from parkazoo.cli.options import split_hosts
from parkazoo.errors import ClusterMapError
from parkazoo.protocol.cluster_map import ClusterMap, format_hosts, no_map_error
from parkazoo.protocol.placement import FENCES, Place, Placement
from tests.live.map_case import (
    COMMAND_TIMEOUT_S,
    IDENTITY,
    MapCase,
    error_of,
    free_port,
    output_of,
    run_command,
    wipe,
)
from tests.where_is import where_is

CONF = Path(__file__).parents[2] / "conf"


class HostsTest(unittest.TestCase):
    """The command line takes hosts as kazoo does; what names no servers is refused."""

    def test_as_kazoo_takes_them(self) -> None:
        for hosts in ("h", "h:1", "h1,h2:1, h3 ", "h/", "h1,h2/app", "h:1/a/b/", "[::1],[::2]:7/app"):
            with self.subTest(hosts):
                client = KazooClient(hosts)
                self.assertEqual(split_hosts(hosts), (format_hosts(client.hosts), client.chroot))

    def test_refused(self) -> None:
        for hosts in ("", "/app", "h,,", "h:", "h:x", "h:0", "::1", "h;g", "user@h", "h,h:2181", "h/a/../b"):
            with self.subTest(hosts), self.assertRaises(ClusterMapError):
                split_hosts(hosts)
        for hosts in ("", "/app"):
            with self.assertRaisesRegex(ClusterMapError, f"^'{hosts}' names no server: give one"):
                split_hosts(hosts)


class CommandTest(MapCase):
    def run_process(self, *arguments: str, **environment: str) -> tuple[int, str, str]:
        """The same in a process of its own, as a user has it."""
        process = subprocess.run(
            [sys.executable, "-m", "parkazoo", *arguments],
            capture_output=True,
            text=True,
            timeout=COMMAND_TIMEOUT_S,
            check=False,
            env={**os.environ, "COLUMNS": "200", **environment},
        )
        self.assertNotIn("Traceback", process.stderr)
        return process.returncode, process.stdout, process.stderr

    def ensembles(self) -> list[str]:
        return [f"--ensemble={name}={hosts}" for name, hosts in self.all.items()]

    def test_init_show_check_where(self) -> None:
        init = ("map", "init", "--bootstrap", self.a, *self.ensembles())
        status, out, err = self.run_process(*init)
        self.assertEqual((status, err), (0, ""))
        cluster_map = read_map(self.a)
        for text in (cluster_map.cluster, *self.all.values(), f'ParKazooClient("{self.a}")'):
            self.assertIn(text, out)
        self.assertEqual(self.run_process(*init)[:2], (0, out))

        status, out, _ = self.run_process("map", "show", "--hosts", self.a)
        self.assertEqual(status, 0)
        self.assertIn(cluster_map.cluster, out)
        self.assertRegex(out, rf"a\s.*{self.a}.*znodes, the map")
        self.assertRegex(out, rf"b\s.*{self.b}.*znodes\s")
        self.assertEqual(self.run_process("map", "show", PARKAZOO_HOSTS=self.a)[:2], (0, out))

        status, out, _ = self.run_process("map", "check", "--hosts", self.a)
        self.assertEqual((status, out), (0, "the map and the ensembles agree\n"))
        self.assertEqual(
            json.loads(self.run_process("map", "check", "--json", PARKAZOO_HOSTS=self.a)[1]), {"findings": []}
        )
        self.plain[1].delete(f"{FENCES}/17")
        status, out, _ = self.run_process("map", "check", "--hosts", self.a)
        self.assertEqual(status, 1)
        self.assertRegex(out, f"b .*missing: {FENCES}/17.*map init")
        status, out, _ = self.run_process("map", "check", "--hosts", self.a, "--json")
        (finding,) = json.loads(out)["findings"]
        self.assertEqual((status, finding["ensemble"], finding["is_warning"]), (1, "b", False))
        self.assertEqual(finding["problem"], f"missing: {FENCES}/17")

    def test_show_as_json(self) -> None:
        made = init_map(self.a, self.all)
        status, out, _ = run_command("map", "show", "--hosts", self.b, "--json")
        about = {
            "cluster": made.cluster,
            "map": 1,
            "format": 2,
            "form": "plain",
            "hash": "rendezvous-sha256",
            "bootstrap": "a",
        }
        about |= {"ensembles": self.all, "placement": ["a", "b", "c"], "unused": [], "retired": []}
        about |= {"leaving": {}, "gone": {}}
        epochs = [{"epoch": 1, "weights": {"a": 1, "b": 1, "c": 1}, "rules": []}]
        self.assertEqual((status, json.loads(out)), (0, {**about, "epochs": epochs}))

    def test_where(self) -> None:
        init_map(self.a, self.all)
        placement = Placement(3)
        names = (f"/d{i}[bold]" for i in itertools.count())
        native, mirrored = [next(p for p in names if placement.is_native(p) is kind) for kind in (True, False)]
        d = where_is(placement, mirrored)
        for path, places in (
            (native, (where_is(placement, native).home,)),
            (mirrored, (d.home, d.mirror, Place(d.home.ensemble, d.pin), Place(d.mirror.ensemble, d.fence))),
        ):
            out = output_of("where", path + "/", "--hosts", self.a)
            self.assertIn("native" if path == native else "mirrored", out)
            for place in places:
                self.assertRegex(out, rf"{'abc'[place.ensemble]}\W+{re.escape(place.path)}\s")
            self.assertEqual("fence" in out, path == mirrored)
            found = json.loads(run_command("where", path, "--hosts", self.a, "--json")[1])
            self.assertEqual((found["path"], found["is_native"]), (path, path == native))
            there = [found[what] for what in ("home", "children", "pin", "fence") if found[what] is not None]
            expected = [{"ensemble": "abc"[place.ensemble], "path": place.path} for place in places]
            self.assertEqual([each for at, each in enumerate(there) if each not in there[:at]], expected)
            name = "abc"[placement.of_children(path)]
            self.assertIn(f"children: on {name}, whose bid for {path} is the highest:", out)
        relative = run_command("where", mirrored[1:], "--hosts", self.a)
        self.assertEqual(relative[1], out)

    def test_chroot(self) -> None:
        """--hosts and --bootstrap are what the program gives its client, chroot included."""
        hosts = f" {self.a} /app/"
        out = output_of("map", "init", "--bootstrap", hosts, *self.ensembles())
        self.assertIn(f'ParKazooClient("{self.a}/app")', out)
        for command in ("show", "check"):
            self.assertEqual(
                run_command("map", command, "--hosts", hosts), run_command("map", command, "--hosts", self.a)
            )
        self.assertIn(read_map(self.a).cluster, run_command("fsck", "--json", "--hosts", hosts)[1])
        for path, full in (("/jobs/7", "/app/jobs/7"), ("jobs/7/", "/app/jobs/7"), ("/", "/app")):
            self.assertEqual(
                run_command("where", path, "--hosts", hosts), run_command("where", full, "--hosts", self.a)
            )
        self.assertIn("reserved", error_of("where", "/x", "--hosts", f"{self.a}/parkazoo", status=2))

    def test_where_of_bad_paths(self) -> None:
        init_map(self.a, self.all)
        for path in ("/parkazoo", "/parkazoo/map", "/a/.parkazoo", "/a/../b", "."):
            err = error_of("where", path, "--hosts", self.a, status=2, out="")
            self.assertRegex(err, "^error: .*(reserved|is no path)")
        self.assertEqual(run_command("where", "/", "--hosts", self.a)[0], 0)

    def test_examples(self) -> None:
        """Each file of conf/ makes a map, with these ensembles' addresses in place of its own."""
        files = sorted(CONF.glob("*-ensemble*.json"))
        self.assertEqual([file.name for file in files], ["one-ensemble.json", "three-ensembles.json"])
        for file in files:
            for client in self.plain:
                wipe(client)
            plan = json.loads(file.read_text())
            ClusterMap("x", plan["ensembles"], tuple(plan["ensembles"]), "a")
            self.assertEqual(plan["bootstrap"], plan["ensembles"]["a"])
            addresses = iter(self.all.values())
            text = file.read_text()
            for hosts in plan["ensembles"].values():
                text = text.replace(f'"{hosts}"', f'"{next(addresses)}"')
            with tempfile.TemporaryDirectory() as folder:
                copy = Path(folder, file.name)
                copy.write_text(text)
                status, _, err = run_command("map", "init", "--file", str(copy))
            self.assertEqual((status, err), (0, ""))
            self.assertEqual(read_map(self.a).placement, tuple(plan["ensembles"]))

    def test_bad_files(self) -> None:
        for text, pattern in (
            ("", "is not JSON"),
            ("\xff", "is not JSON"),
            ("[]", "must be an object"),
            ('{"bootstrap": "h:1"}', "must be an object with the keys"),
            ('{"bootstrap": 1, "ensembles": {}}', '"bootstrap" must be a string'),
            ('{"bootstrap": "h:1", "ensembles": []}', '"ensembles" must be an object'),
            ('{"bootstrap": "h:1", "ensembles": {"a": 1}}', '"ensembles" must be an object'),
            ('{"bootstrap": "h:1", "ensembles": {"a": "h:1", "a": "h:2"}}', "'a' appears twice"),
            ('{"bootstrap": "h:", "ensembles": {"a": "h:1"}}', "not host:port"),
            ('{"bootstrap": "h", "ensembles": {"a": "h:1/app"}}', "not host:port"),
        ):
            with self.subTest(text), tempfile.TemporaryDirectory() as folder:
                file = Path(folder, "plan.json")
                file.write_text(text, encoding="latin-1")
                err = error_of("map", "init", "--file", str(file), status=2, out="")
                self.assertRegex(err, f"^error: .*{pattern}")

    def test_errors(self) -> None:
        status, out, err = run_command("map", "show", "--hosts", self.a)
        self.assertEqual((status, out), (1, ""))
        self.assertEqual(err, f"error: {no_map_error(self.a, None)}\n")
        for hosts in ("/app", " "):
            err = error_of("map", "show", "--hosts", hosts, status=2, out="")
            self.assertRegex(err, "^error: .* names no server: give")
        err = error_of("map", "show", "--hosts", self.a, "--ca", __file__, status=2, out="")
        self.assertRegex(err, f"^error: .*{__file__} holds no certificates")
        closed_port = f"127.0.0.1:{free_port()}"
        status, out, err = run_command("map", "check", "--hosts", closed_port, "--timeout", "1")
        self.assertEqual(
            (status, out, err),
            (1, "", f"error: no ZooKeeper answers within 1 s: {closed_port}: Connection refused\n"),
        )

    def test_version(self) -> None:
        self.assertEqual(self.run_process("--version"), (0, f"parkazoo {parkazoo.__version__}\n", ""))

    def test_usage(self) -> None:
        for arguments in (
            ("map", "show"),
            ("map", "init"),
            ("map", "init", "--bootstrap", self.a),
            ("map", "init", "--bootstrap", self.a, "--ensemble", "nonsense"),
            ("map", "init", "--bootstrap", self.a, "--ensemble", "a=h:1", "--ensemble", "a=h:2"),
            ("map", "init", "--file", "no-such-file.json"),
            ("map", "init", "--file", str(CONF / "one-ensemble.json"), "--bootstrap", self.a),
            ("map", "show", "--hosts", self.a, "--timeout", "0"),
            ("map", "show", "--hosts", self.a, "--timeout", "inf"),
            ("map", "show", "--hosts", self.a, "--timeout", "nan"),
            ("map", "show", "--hosts", self.a, "--ca", "no-such-file.pem"),
            ("map", "show", "--hosts", self.a, "--cert", __file__),
            ("where", "--hosts", self.a),
        ):
            with self.subTest(arguments):
                self.assertIn("Error", error_of(*arguments, PARKAZOO_HOSTS="", status=2, out=""))

    def test_closed(self) -> None:
        status, _, err = run_command("map", "init", "--bootstrap", self.a, "--ensemble", f"a={self.a}", "--closed")
        self.assertEqual(status, 2)
        self.assertIn("--auth", err)
        auth = ":".join(IDENTITY)
        said = []
        for arguments in (
            ("map", "init", "--bootstrap", self.a, "--ensemble", f"a={self.a}", "--closed", "--auth", auth),
            ("map", "show", "--hosts", self.a, "--auth", auth),
            ("map", "check", "--hosts", self.a, "--auth", auth),
            ("where", "/x", "--hosts", self.a, "--auth", auth),
        ):
            out = output_of(*arguments)
            said.append(out)
        self.assertEqual(run_command("map", "show", "--hosts", self.a, PARKAZOO_AUTH=auth)[0], 0)
        status, out, err = run_command("map", "show", "--hosts", self.a)
        self.assertEqual((status, out), (1, ""))
        self.assertIn("no right to use", err)
        for bad in ("secret-without-scheme", "digest:", ":secret-of-admin"):
            err = error_of("map", "show", "--hosts", self.a, "--auth", bad, status=2, out="")
            said.append(err)
        self.assertNotIn("secret", "".join(said))
