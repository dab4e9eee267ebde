"""`parkazoo backup` on real ensembles, of which one goes back to an older copy of its data."""

from __future__ import annotations

import json
import shutil
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from unittest import mock

from parkazoo.admin.backup.looks import compare_with
from parkazoo.admin.backup.manifest import FILE_NAME, new_manifest, read_manifest, write_manifest
from parkazoo.local import LocalCluster
from tests.live.map_case import error_of, run_command
from tests.live.world import DEADLINE_S, LiveTest

DIRECTORIES = 60
WAIT = f"--timeout={DEADLINE_S:g}"


class BackupTest(LiveTest):
    ensembles = 2

    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        cls.cluster = LocalCluster(ensembles=2, servers=1, data=cls.folder / "cluster")
        cls.addClassCleanup(cls.cluster.stop)
        cls.cluster.start()
        cls.hosts = ("--hosts", ",".join(each.hosts for each in cls.cluster.ensembles), WAIT)

    def backup(self, *more: str, status: int = 0) -> str:
        ended, out, err = run_command("backup", str(self.folder / "saved"), *self.hosts, *more)
        self.assertEqual((ended, err), (status, ""), out)
        return out

    def copy(self, name: str, back: bool = False) -> None:
        """Has the data of an ensemble that is stopped copied, or replaced by the copy."""
        (server,) = next(each for each in self.cluster.ensembles if each.name == name).servers
        data, saved = server.data / "data", self.folder / "copy"
        if back:
            shutil.rmtree(data)
        shutil.copytree(saved if back else data, data if back else saved)

    def test_an_ensemble_goes_back(self) -> None:
        name = "ab"[1 - self.placement.of_children("/")]
        client = self.parkazoo()
        paths = [f"/{number}" for number in range(DIRECTORIES)]
        client.create("/before/child", makepath=True)
        client.stop()
        self.cluster.stop(name)
        self.copy(name)
        self.cluster.start(name)
        client.start(DEADLINE_S)
        for path in paths:
            client.create(f"{path}/child", makepath=True)
        expected = {path for path in paths if "ab"[self.placement.of_children(path)] == name}
        self.assertGreater(len(expected), DIRECTORIES // 4)
        out = self.backup()
        self.assertRegex(out, f"{FILE_NAME}: all directories, as of 20.*\n.*holds no data")
        self.assertRegex(
            error_of("backup", str(self.folder / "saved"), *self.hosts), "^error: .* is there already"
        )
        self.assertIn("as they were", self.backup("--compare"))
        later = {f"/later-{number}" for number in range(DIRECTORIES)}
        for path in later:
            client.create(f"{path}/child", makepath=True)
        expected |= {path for path in later if "ab"[self.placement.of_children(path)] == name}
        client.stop()

        self.cluster.stop(name)
        found = json.loads(self.backup("--compare", "--json", status=1))
        self.assertEqual((found["fine"], found["lost"], [*found["now"]["absent"]]), (False, [], [name]))
        self.assertLessEqual(expected & {*paths}, {*found["unknown"]})
        self.assertRegex(
            error_of("backup", str(self.folder / "another"), *self.hosts),
            f"^error: no backup .* away: ensemble {name}: ",
        )
        self.copy(name, back=True)
        self.cluster.start(name)
        with mock.patch("parkazoo.cli.backup_command.compare_with", partial(compare_with, grace_s=0.0)):
            found = json.loads(self.backup("--compare", "--json", status=1))
            out = self.backup("--compare", status=1)
        self.assertEqual({each["path"] for each in found["lost"]}, expected)
        self.assertEqual(len(found["lost"]), len(expected))
        self.assertEqual({(each["ensemble"], each["what"]) for each in found["lost"]}, {(name, "children")})
        for path in expected:
            self.assertRegex(out, f"children +lost by {name} +{path}\n")
        self.assertIn(f"{len(expected)} directories are lost", out)

        saved = read_manifest(self.folder / "saved")
        foreign = saved._replace(cluster_map=replace(saved.cluster_map, cluster="other"))
        with new_manifest(self.folder / "foreign") as file:
            write_manifest(foreign, file)
        told = error_of("backup", str(self.folder / "foreign"), "--compare", *self.hosts, out="")
        self.assertRegex(told, "^error: .* has a backup of cluster other; this is ")
