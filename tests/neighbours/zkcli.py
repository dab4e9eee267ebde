"""ZooKeeper's own shell takes a lock that programs in several languages share: its znodes have Curator's names.

    python -m tests.neighbours.zkcli JAVA ... turns HOST:PORT DIRECTORY FILE NAME

It types commands as a user does, and reads whose turn it is from what ``ls`` says.
"""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

TIMEOUT_MS = 180_000
POLL_S = 0.05
END, SAID_LAST = "printwatches", "printwatches is on"  # the shell answers it by itself, behind all answers before
LISTED = re.compile(r"^\[(.*)\]$", re.MULTILINE)
LOST, NO_NODE = "KeeperErrorCode = ConnectionLoss", "Node does not exist"


class Shell:
    """:param command: of the shell, without its options."""

    def __init__(self, command: Sequence[str], server: str) -> None:
        argv = [*command, "-timeout", f"{TIMEOUT_MS}", "-server", server]
        self._process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def ask(self, command: str) -> str:
        """What it says to a command.

        :raises RuntimeError: it has ended, or its session has.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{command}\n{END}\n")
        self._process.stdin.flush()
        said = []
        for line in self._process.stdout:
            if line.rstrip() == SAID_LAST:
                return "".join(said)
            said.append(line)
            if "state:Expired" in line:
                break
        raise RuntimeError("".join(said))

    def end(self) -> None:
        self._process.communicate("quit\n")


class Lock:
    def __init__(self, shell: Shell, directory: str) -> None:
        self._shell = shell
        self._directory = directory
        self._prefix = f"_c_{uuid.uuid4()}-lock-"

    def acquire(self) -> None:
        while not (contenders := self._contenders()) or not contenders[0].startswith(self._prefix):
            if self._own(contenders):
                time.sleep(POLL_S)
            else:
                self._do(f"create -e -s {self._directory}/{self._prefix} x", "Created")

    def release(self) -> None:
        while own := self._own(self._contenders()):
            for name in own:
                self._do(f"delete {self._directory}/{name}", "", NO_NODE)

    def _own(self, contenders: Sequence[str]) -> list[str]:
        return [name for name in contenders if name.startswith(self._prefix)]

    def _contenders(self) -> list[str]:
        """Their names, the first comer's first."""
        while (listed := LISTED.search(said := self._shell.ask(f"ls {self._directory}"))) is None:
            self._see(said, LOST)
            time.sleep(POLL_S)
        names = [name for name in listed[1].split(", ") if name]
        return sorted(names, key=lambda name: name.rpartition("-")[2])

    def _do(self, command: str, *said: str) -> None:
        """The next listing tells what a lost answer has not."""
        self._see(self._shell.ask(command), LOST, *said)

    def _see(self, said: str, *expected: str) -> None:
        words = [line for line in said.splitlines() if line.startswith(("KeeperErrorCode", "Node ", "Created"))]
        unexpected = [line for line in words if not any(each and each in line for each in expected)]
        if unexpected:
            raise RuntimeError(said)


def take(command: Sequence[str], server: str, directory: str, file: str, name: str) -> None:
    """Take the lock again and again until the input ends, and write each time into the file when it is held."""
    shell = Shell(command, server)
    lock = Lock(shell, directory)
    reader = threading.Thread(target=sys.stdin.read, daemon=True)
    reader.start()
    with Path(file).open("a") as turns:
        while reader.is_alive():
            lock.acquire()
            print(name, "in", file=turns, flush=True)
            shell.ask(f"get {directory}")  # it takes a while; it may be lost
            print(name, "out", file=turns, flush=True)
            lock.release()
    shell.end()


if __name__ == "__main__":
    take(sys.argv[1:-5], *sys.argv[-4:])
