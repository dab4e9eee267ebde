"""A gateway in the place of a ZooKeeper server, for test suites that start servers of their own.

It takes what zkServer.sh takes: `start-foreground FILE`. Servers whose folders lie in one folder are of one
cluster: their gateways share a table, and a chroot of which nobody knows, with what a server's root has.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from parkazoo import ParKazooClient

HOSTS = "NEIGHBOURS_HOSTS"  # in the environment: the hosts of the ensembles


def main() -> None:
    lines = (line.partition("=") for line in Path(sys.argv[2]).read_text().splitlines())
    settings = {name.strip(): value.strip() for name, _, value in lines}
    folder = Path(settings["dataDir"]).parent
    hosts, chroot = os.environ[HOSTS], "/" + "-".join(folder.parts[-2:])
    with ParKazooClient(hosts) as client:
        client.ensure_path(f"{chroot}/zookeeper")
    argv = [sys.executable, "-m", "parkazoo", "gateway", f"--hosts={hosts}{chroot}", f"--table={folder / 'table'}"]
    os.execv(sys.executable, [*argv, f"--listen=127.0.0.1:{settings['clientPort']}"])


if __name__ == "__main__":
    main()
