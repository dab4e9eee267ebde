"""Starts, signals and reaps processes that never outlive this one."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from parkazoo.local import supervisor_process
from parkazoo.local.cluster_error import LocalClusterError

PROCESS = Path(supervisor_process.__file__)


class Channel:
    """Asks a supervisor_process.py. Any thread may ask; answers come at once."""

    def __init__(self, requests: IO[bytes], answers: IO[bytes]) -> None:
        self._turn = threading.Lock()
        self._number = 0
        self._requests = requests
        self._answers = answers

    def ask(self, name: str, *arguments: object) -> Any:
        with self._turn:
            self._number += 1
            try:
                self._requests.write(json.dumps([self._number, name, *arguments]).encode() + b"\n")
                self._requests.flush()
                while line := self._answers.readline():
                    number, value, error = json.loads(line)
                    if number == self._number:  # else the answer to a request that Ctrl-C has interrupted
                        break
            except (OSError, ValueError):
                line = b""
        if not line:
            raise LocalClusterError("this local cluster has ended, and its servers with it")
        if error is not None:
            raise LocalClusterError(error)
        return value

    def close(self) -> None:
        self._answers.close()
        with contextlib.suppress(OSError):  # a request that was never read, because the supervisor was killed
            self._requests.close()


@contextlib.contextmanager
def connected(folder: Path) -> Iterator[Channel]:
    """A channel to the supervisor of the cluster that was left running in `folder`.

    :raises LocalClusterError: it takes no requests.
    """
    with socket.socket(socket.AF_UNIX) as door:
        try:
            _connect(door, folder)
        except OSError as error:
            raise LocalClusterError(
                f"the local cluster in {folder} takes no requests ({error.strerror or error}): it belongs to the "
                "program that has started it, or to an earlier version of ParKazoo"
            ) from None
        channel = Channel(door.makefile("wb"), door.makefile("rb"))
        try:
            yield channel
        finally:
            channel.close()


def _connect(door: socket.socket, folder: Path) -> None:
    """The folder's path may be too long for a socket's, which has some hundred bytes: Linux has a shorter one."""
    folder_fd = os.open(folder, os.O_RDONLY)
    try:
        short = Path("/proc/self/fd", str(folder_fd))
        door.connect(str((short if short.exists() else folder) / supervisor_process.DOOR))
    finally:
        os.close(folder_fd)


class Supervisor(Channel):
    """The owner's end of supervisor_process.py.

    :param locks: file descriptors that it keeps open.
    :param remove: a folder that it removes at its end.
    """

    def __init__(self, log: Path, locks: Sequence[int] = (), remove: Path | None = None) -> None:
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", PROCESS, str(os.getpid()), *([remove] if remove else [])],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,  # out of reach of the terminal's Ctrl-C
                pass_fds=locks,
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        super().__init__(self._process.stdin, self._process.stdout)

    @property
    def pid(self) -> int:
        return self._process.pid

    def detach(self, folder: Path) -> None:
        """Leave the servers running when this process ends; `connected` reaches them by `folder`."""
        self.ask("detach", str(folder))
        self.close()
        self._process.returncode = 0  # no child to wait for any more

    def end(self) -> None:
        """Kill what still runs, and wait until it is gone."""
        self.close()
        self._process.wait()
