"""The archive of ZooKeeper's classes as Java has read and checked them once, so that servers start sooner."""

from __future__ import annotations

import fcntl
import os
import subprocess
import tempfile
import zlib
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path

from parkazoo.local.addresses import PORTS_OF_A_SERVER, ServerPorts, free_ports
from parkazoo.local.cluster_error import LocalClusterError
from parkazoo.local.jars import cache_folder
from parkazoo.local.servers import LocalServer, Machine
from parkazoo.local.settings import ZOO_CFG, format_zoo_cfg, java_command, lay_out, server_command
from parkazoo.local.supervisor import Supervisor

DUMP_TIMEOUT_S = 60.0
MOST_KEPT = 4  # archives of 30 MB, each of a Java and of jars


def class_data_flags(
    java: Path, jars: Sequence[Path], progress: Callable[[str], None] = lambda _: None
) -> list[str]:
    """The flags of servers that use the archive. It is made if there is none for this Java and these jars.

    Whatever goes wrong, servers start, without an archive.

    :param progress: called before the archive is made, which takes a few seconds.
    """
    try:
        archives = _Archives(java, jars)
        archive = archives.find()
        if archive is None:
            archives.cache.mkdir(parents=True, exist_ok=True)
            with (archives.cache / "lock").open("a") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # whoever makes it now is not waited for
                archive = archives.find()
                if archive is None:
                    progress("preparing ZooKeeper's classes")
                    archive = archives.make()
        is_empty = not archive.stat().st_size
    except (OSError, RuntimeError):  # the cache cannot be written, or another process has the lock; no home
        return []
    return [] if is_empty else [f"-XX:SharedArchiveFile={archive}"]


class _Archives:
    """The archive of a Java and of jars. Its name has its checksum: Java may crash on a damaged one."""

    def __init__(self, java: Path, jars: Sequence[Path]) -> None:
        self._java = java
        self._jars = jars
        self.cache = cache_folder()
        made_from = [java.resolve(), *jars]
        self._name = f"classes-{sha256(os.pathsep.join(map(str, made_from)).encode()).hexdigest()[:12]}"
        self._newest = max(each.stat().st_ctime for each in made_from)

    def find(self) -> Path | None:
        """None if there is none, or only of an older Java or older jars, or a damaged one."""
        for archive in self._all():
            if archive.stat().st_mtime >= self._newest and archive == self._path(archive):
                return archive
        return None

    def make(self) -> Path:
        """Make the archive, all or nothing. It is empty if this Java makes none, so that it is not asked again."""
        with tempfile.TemporaryDirectory(dir=self.cache) as folder:
            draft = Path(folder, "draft")
            try:
                classes = self._run_server(Path(folder))
                dump = ["-Xshare:dump", f"-XX:SharedClassListFile={classes}", f"-XX:SharedArchiveFile={draft}"]
                command = java_command(self._java, dump, self._jars)
                subprocess.run(command, capture_output=True, timeout=DUMP_TIMEOUT_S, check=True)
            except (LocalClusterError, subprocess.SubprocessError):
                draft.unlink(missing_ok=True)
            draft.touch()
            by_age = sorted(self.cache.glob("classes-*.jsa"), key=lambda each: each.stat().st_mtime)
            for old in {*self._all(), *by_age[: 1 - MOST_KEPT]}:
                old.unlink()
            return draft.replace(self._path(draft))

    def _all(self) -> list[Path]:
        return [*self.cache.glob(f"{self._name}-*.jsa")]

    def _path(self, archive: Path) -> Path:
        return self.cache / f"{self._name}-{zlib.crc32(archive.read_bytes()):08x}.jsa"

    def _run_server(self, folder: Path) -> Path:
        """Run a server until it serves, a quorum of its own. Returns the file with the classes that it loaded."""
        classes = folder / "classes"
        ports, machine = ServerPorts(*free_ports(PORTS_OF_A_SERVER)), Machine()
        command = server_command(self._java, [f"-XX:DumpLoadedClassList={classes}"], self._jars)
        lay_out(folder, 1, format_zoo_cfg(ZOO_CFG, 1, [ports], [machine]))
        supervisor = Supervisor(folder / "supervisor.log")
        try:
            server = LocalServer("a1", folder, ports, command, machine, supervisor)
            server.launch()
            server.wait_serving()
            server.stop()
        finally:
            supervisor.end()
        return classes
