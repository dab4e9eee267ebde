"""The file of a backup: gzip, one JSON object a line; a header, a line for each directory's znode, a footer."""

from __future__ import annotations

import gzip
import json
import os
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import IO, Any, NamedTuple

from kazoo.exceptions import KazooException

from parkazoo.admin.backup.listed import EnsembleState, Listed
from parkazoo.admin.utc import stamp
from parkazoo.errors import ClusterMapError
from parkazoo.protocol.cluster_map import ClusterMap

FILE_NAME = "parkazoo-manifest.jsonl.gz"
MANIFEST_FORMAT = 1
FORMAT_KEY = "parkazoo-backup"
LONGEST = 1 << 23  # bytes of a line: a map has at most 1,000,000, a path fewer than jute.maxbuffer


class ManifestError(KazooException):
    """Reports a manifest that cannot be written or read, was damaged, or is of another cluster."""


class ClusterState(NamedTuple):
    """A cluster, as one walk over all its ensembles has seen it.

    :param at: when the walk began: ISO 8601, in UTC.
    :param ensembles: by name, without the absent ones. :param absent: why nothing is known of them.
    """

    at: str
    cluster_map: ClusterMap
    ensembles: Mapping[str, EnsembleState]
    absent: Mapping[str, str]

    def lines(self) -> Iterator[bytes]:
        """A line for each znode, in order of ensemble and path."""
        for name in sorted(self.ensembles):
            for each in self.ensembles[name].listed.values():
                yield _line({"ensemble": name, **each._asdict()})

    def digest(self) -> str:
        """Returns the digest of all these lines: two states with the same one have the same directories."""
        digest = sha256()
        for line in self.lines():
            digest.update(line)
        return digest.hexdigest()


@contextmanager
def new_manifest(folder: Path) -> Iterator[IO[bytes]]:
    """Has a file for `write_manifest`, under another name; at the end of the block it is the folder's manifest.

    :raises ManifestError: there is a manifest already, or the folder cannot be written.
    """
    path = folder / FILE_NAME
    with _told(folder):
        folder.mkdir(parents=True, exist_ok=True)
        _verify_free(path)
        opened, draft = tempfile.mkstemp(prefix=f"{FILE_NAME}.", suffix=".unfinished", dir=folder)
    file = os.fdopen(opened, "wb")
    try:
        try:
            yield file
        finally:
            with suppress(OSError):  # it has been told already
                file.close()
        with _told(path):
            _verify_free(path)  # another backup may have ended meanwhile
            Path(draft).replace(path)
        _sync(folder)
    except BaseException:
        with suppress(OSError):
            Path(draft).unlink()
        raise


def _verify_free(path: Path) -> None:
    if path.exists():
        raise ManifestError(f"{path} is there already: give each backup a folder of its own")


def _sync(folder: Path) -> None:
    """Has the disk keep the file's name, where a folder can be synced."""
    with suppress(OSError):
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """An error of the disk is one message."""
    try:
        yield
    except OSError as error:
        raise ManifestError(f"{error.filename or path} cannot be used: {error.strerror or error}") from None


def write_manifest(state: ClusterState, file: IO[bytes]) -> None:
    """:raises ManifestError: the disk is full."""
    header = {
        FORMAT_KEY: MANIFEST_FORMAT,
        "at": state.at,
        "cluster": state.cluster_map.cluster,
        "map": json.loads(state.cluster_map.to_json()),
        "ensembles": {
            name: {
                "identity": each.record,
                "zxid": f"{each.zxid:#x}",
                "znodes": each.znodes,
                "hidden": each.hidden,
                "directories": len(each.listed),
            }
            for name, each in sorted(state.ensembles.items())
        },
    }
    first, content = _line(header), sha256()
    seal = sha256(first)
    with _told(Path(FILE_NAME)):
        with gzip.GzipFile(filename="", fileobj=file, mode="wb") as packed:
            packed.write(first)
            for line in state.lines():
                seal.update(line)
                content.update(line)
                packed.write(line)
            footer = _line({"ended": stamp(), "digest": content.hexdigest()})
            seal.update(footer)
            packed.write(footer)
            packed.write(_line({"sha256": seal.hexdigest()}))
        file.flush()
        os.fsync(file.fileno())


def read_manifest(folder: Path) -> ClusterState:
    """:raises ManifestError: there is none, it cannot be read, or it was cut off, changed or damaged."""
    path = folder / FILE_NAME
    with _told(path):
        try:
            with gzip.open(path, "rb") as file:
                return _parse(file, path)
        except FileNotFoundError:
            raise ManifestError(
                f"{folder} has no {FILE_NAME}: no backup of `parkazoo backup` has ended there"
            ) from None
        except (gzip.BadGzipFile, EOFError, zlib.error):
            raise _damaged(path) from None


def _parse(file: gzip.GzipFile, path: Path) -> ClusterState:
    try:
        line = file.readline(LONGEST)
        header = json.loads(line)
        if header[FORMAT_KEY] != MANIFEST_FORMAT:
            raise ManifestError(f"{path} has format {header[FORMAT_KEY]!r}; this version reads {MANIFEST_FORMAT}")
        cluster_map = ClusterMap.from_json(json.dumps(header["map"]).encode())
        ensembles = {name: _an_ensemble(each) for name, each in header["ensembles"].items()}
        seal = sha256(line)
        while True:
            line = file.readline(LONGEST)
            found = json.loads(line)
            if "sha256" in found:
                break
            seal.update(line)
            if "digest" not in found:
                ensemble = ensembles[found.pop("ensemble")]
                each = _a_listed(found)
                ensemble.listed[each.znode] = each
        if found["sha256"] != seal.hexdigest() or file.read(1) or ensembles.keys() != {*cluster_map.ensembles}:
            raise ValueError
        return ClusterState(str(header["at"]), cluster_map, ensembles, {})
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError, ClusterMapError):
        raise _damaged(path) from None


def _damaged(path: Path) -> ManifestError:
    return ManifestError(f"{path} was cut off, changed or damaged: nothing can be compared with it")


def _an_ensemble(found: dict[str, Any]) -> EnsembleState:
    return EnsembleState(
        int(found["zxid"], 16), str(found["identity"]), int(found["znodes"]), int(found["hidden"]), {}
    )


def _a_listed(found: dict[str, Any]) -> Listed:
    """:raises (TypeError, ValueError): it is none."""
    each = Listed(**found)
    numbers = each.czxid, each.cversion, each.children, each.pin_czxid
    if (
        not isinstance(each.znode, str)
        or not isinstance(each.pin, str)
        or any(type(n) is not int for n in numbers)
    ):
        raise TypeError
    if not each.znode.startswith("/"):
        raise ValueError
    return each


def _line(found: dict[str, Any]) -> bytes:
    return json.dumps(found, separators=(",", ":")).encode() + b"\n"
