"""The archive of ZooKeeper's classes: made once, and again when it does not fit; servers start without it."""

from __future__ import annotations

import fcntl
import os
import tempfile
from pathlib import Path
from unittest import mock

from parkazoo.local import (
    LocalCluster,
    LocalClusterError,
    LocalServer,
    class_data,
    find_java,
    find_zookeeper,
    role_of,
)
from parkazoo.local.class_data import class_data_flags
from tests.live.local_case import LocalCase

LOADED_BY = "-Xlog:class+load"


class TestClassData(LocalCase):
    java: Path
    jars: list[Path]
    made: Path
    said: list[str]

    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory(prefix="parkazoo-test-")
        cls.addClassCleanup(folder.cleanup)
        cache = Path(folder.name, "parkazoo")
        cls.java, cls.jars, cls.said = find_java(), find_zookeeper(), []
        with mock.patch.object(class_data, "cache_folder", return_value=cache):
            class_data_flags(cls.java, cls.jars, cls.said.append)
        (cls.made,) = cache.glob("*.jsa")

    def setUp(self) -> None:
        super().setUp()
        self.archive = self.folder / self.made.name
        patch = mock.patch.object(class_data, "cache_folder", return_value=self.folder)
        patch.start()
        self.addCleanup(patch.stop)

    def flags(self) -> list[str]:
        return class_data_flags(self.java, self.jars)

    def files(self) -> list[str]:
        return sorted(each.name for each in self.folder.iterdir())

    def test_servers_use_it(self) -> None:
        self.assertEqual(self.said, ["preparing ZooKeeper's classes"])
        self.assertEqual(sorted(each.name for each in self.made.parent.iterdir()), [self.made.name, "lock"])
        self.archive.symlink_to(self.made)
        with LocalCluster(1, 1, make_map=False, jvm_flags=[LOADED_BY]) as cluster:
            self.assertEqual(role_of(cluster.hosts).name, "standalone")
            log = cluster.ensembles[0].servers[0].log.read_text()
        self.assertRegex(log, r"org\.apache\.zookeeper\.server\.ZooKeeperServer source: shared objects file")
        self.assertEqual(self.files(), [self.made.name])

    def test_damaged_or_older(self) -> None:
        whole = self.made.read_bytes()
        newest = max(each.stat().st_ctime for each in self.jars)
        for what, content in (
            ("text", b"not an archive"),
            ("a part", whole[: len(whole) // 2]),
            ("one byte", whole[:-1] + bytes([whole[-1] ^ 1])),
            ("older than a jar", whole),
        ):
            with self.subTest(what), mock.patch.object(class_data._Archives, "_run_server") as run:
                self.archive.write_bytes(content)
                if content == whole:
                    self.assertEqual(self.flags(), [f"-XX:SharedArchiveFile={self.archive}"])
                    run.assert_not_called()
                    os.utime(self.archive, (newest - 1, newest - 1))
                run.return_value = self.folder / "no list of classes"
                self.assertEqual(self.flags(), [])
                run.assert_called_once()
                self.assertFalse(self.archive.exists())
            for empty in self.folder.glob("*.jsa"):
                empty.unlink()

    def test_few_are_kept(self) -> None:
        for number in range(class_data.MOST_KEPT + 1):
            other = self.folder / f"classes-{number}-00000000.jsa"
            other.touch()
            os.utime(other, (number, number))
        with mock.patch.object(class_data._Archives, "_run_server", side_effect=LocalClusterError):
            self.assertEqual(self.flags(), [])
        (made,) = self.folder.glob(f"{self.made.name.rpartition('-')[0]}-*.jsa")
        others = [f"classes-{number}-00000000.jsa" for number in (2, 3, 4)]
        self.assertEqual(self.files(), sorted([*others, made.name, "lock"]))

    def test_java_that_makes_none_is_asked_once(self) -> None:
        java, asked = self.folder / "java", self.folder / "asked"
        java.write_text(
            f'#!/bin/sh\ncase "$*" in *-Xshare:dump*) echo >>{asked}; exit 1;; esac\nexec {self.java} "$@"\n'
        )
        java.chmod(0o755)
        for _ in range(2):
            self.assertEqual(class_data_flags(java, self.jars), [])
        self.assertEqual(asked.read_text(), "\n")

    def test_cache_that_cannot_be_written(self) -> None:
        (self.folder / "file").touch()
        below = self.folder / "file" / "below"
        for cache in ({"return_value": below}, {"side_effect": RuntimeError("no home")}):
            with mock.patch.object(class_data, "cache_folder", **cache):
                self.assertEqual(self.flags(), [])

    def test_nobody_waits_for_who_makes_it(self) -> None:
        with (self.folder / "lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.assertEqual(self.flags(), [])
        self.assertEqual(self.files(), ["lock"])

    def test_interrupted(self) -> None:
        with (
            mock.patch.object(LocalServer, "wait_serving", side_effect=KeyboardInterrupt),
            self.assertRaises(KeyboardInterrupt),
        ):
            self.flags()
        self.assertEqual(self.files(), ["lock"])
