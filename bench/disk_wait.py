"""A disk of its own for each server on one machine: its fsync takes a fixed time, and forces nothing.

Servers that share a disk would measure each other; those whose files are in memory wait for none. Java's
FileChannel.force, by which ZooKeeper forces its log, calls the C library's fdatasync. So this time is that of each
server's log, whatever the others do. ZooKeeper counts it: ``zk_avg_fsynctime`` of its answer to ``mntr``.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from bench.lab import LabError, NotPossible

SOURCE = Path(__file__).with_suffix(".c")
LIBRARY = SOURCE.with_suffix(".so").name


def compile_library(folder: Path) -> Path:
    """Make the library in a folder.

    :raises NotPossible: there is no C compiler.
    :raises LabError: it fails.
    """
    if not (compiler := shutil.which("cc")):
        raise NotPossible(
            "servers cannot wait for a disk here: there is no C compiler: apt-get install gcc libc6-dev"
        )
    library = folder / LIBRARY
    command = [compiler, "-shared", "-fPIC", "-O2", "-o", str(library), str(SOURCE)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise LabError(f"{SOURCE.name} cannot be compiled: {ended.stderr.strip()}")
    return library


def environment(library: str, wait_s: float) -> dict[str, str]:
    """What makes a program wait.

    :param library: its path, as the program finds it.
    """
    return {"LD_PRELOAD": library, "PARKAZOO_DISK_WAIT_US": str(round(wait_s * 1e6))}
