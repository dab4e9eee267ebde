"""Starts, signals and reaps processes that never outlive this one."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from parkazoo.local.cluster_error import LocalClusterError

PROCESS = Path(__file__).with_name("supervisor_process.py")


class Supervisor:
    """The owner's end of supervisor_process.py. Any thread may ask; answers come at once.

    :param locks: file descriptors that it keeps open.
    :param remove: a folder that it removes at its end.
    """

    def __init__(self, log: Path, locks: Sequence[int] = (), remove: Path | None = None) -> None:
        self._turn = threading.Lock()
        self._number = 0
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
        self._requests = self._process.stdin
        self._answers = self._process.stdout

    @property
    def pid(self) -> int:
        return self._process.pid

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

    def detach(self) -> None:
        """Leave the servers running when this process ends."""
        self.ask("detach")
        self._close()
        self._process.returncode = 0  # no child to wait for any more

    def end(self) -> None:
        """Kill what still runs, and wait until it is gone."""
        self._close()
        self._process.wait()

    def _close(self) -> None:
        self._answers.close()
        with contextlib.suppress(OSError):  # a request that was never read, because the supervisor was killed
            self._requests.close()
