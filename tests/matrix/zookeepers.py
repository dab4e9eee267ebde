"""Versions of ZooKeeper's servers, fetched once into build/matrix/."""

from __future__ import annotations

from pathlib import Path

from bench import ROOT
from parkazoo.local.jars import JARS, fetch_jars

FOLDER = ROOT / "build" / "matrix"
SLF4J_2 = (3, 9)  # the first with it
LOGBACK = "ch.qos.logback:logback-classic:"
FOR_SLF4J_1 = "1.2.13"


def coordinates_of(version: str) -> str:
    """Returns the Maven coordinates of a server and of what it needs beside its own dependencies."""
    is_old = tuple(int(each) for each in version.split(".")[:2]) < SLF4J_2
    found = []
    for each in JARS.split("+"):
        group_and_name, _, number = each.rpartition(":")
        if group_and_name.endswith(":zookeeper"):
            number = version
        elif is_old and each.startswith(LOGBACK):
            number = FOR_SLF4J_1
        found.append(f"{group_and_name}:{number}")
    return "+".join(found)


def find_distribution(version: str) -> Path:
    """Returns a folder for ZOOKEEPER_PATH. It is fetched if it is missing.

    :raises LocalClusterError: it cannot be fetched.
    """
    folder = FOLDER / f"zookeeper-{version}"
    if not (folder / "lib").exists():
        folder.mkdir(parents=True, exist_ok=True)
        fetch_jars(coordinates_of(version), folder / "lib")
    return folder
