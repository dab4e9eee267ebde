"""Lays out ZooKeeper in a folder: the version, the settings and the Java options of parkazoo.local.

python docker/lay_out.py /opt/zookeeper
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from parkazoo.local import find_zookeeper
from parkazoo.local.settings import JVM_FLAGS, LOGBACK, ZOO_CFG


def lay_out(folder: Path) -> None:
    (folder / "lib").mkdir()
    for jar in find_zookeeper(print):
        shutil.copy(jar, folder / "lib")
    (folder / "logback.xml").write_text(LOGBACK)
    (folder / "zoo.cfg").write_text("".join(f"{key}={value}\n" for key, value in ZOO_CFG.items()))
    # The folder is in the class path for logback.xml, which JVM_FLAGS name.
    (folder / "java.options").write_text("\n".join((*JVM_FLAGS, "-cp", f"{folder}:{folder}/lib/*", "")))


if __name__ == "__main__":
    lay_out(Path(sys.argv[1]))
