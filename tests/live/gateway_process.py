"""A gateway as a process of its own, which tests kill, freeze and start again."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from bench import ROOT
from tests.live.world import DEADLINE_S


class GatewayProcess:
    """
    :param hosts: of the cluster. :param table: the file of sessions.
    :param inside: what leads to the machine where it runs, as a Machine's `argv`.
    :ivar port: the same after each start.
    """

    def __init__(self, hosts: str, table: Path, *options: str, inside: Sequence[str] = ()) -> None:
        self._hosts = hosts
        self._inside = inside
        self._options = options
        self._table = table
        self.port = 0
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start it, and wait until programs can connect."""
        command = [*self._inside, sys.executable, "-m", "parkazoo", "gateway"]
        command += [
            f"--hosts={self._hosts}",
            f"--table={self._table}",
            f"--listen=127.0.0.1:{self.port}",
            *self._options,
        ]
        self._process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        said = self._process.stdout.readline()
        assert said.startswith("listening on 127.0.0.1:"), said
        self.port = int(said.rpartition(":")[2])

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def send(self, number: int) -> None:
        assert self._process is not None
        os.kill(self._process.pid, number)

    def end(self, number: int = signal.SIGKILL) -> int:
        """End it with a signal; returns its status."""
        if self._process is None:
            return 0
        process, self._process = self._process, None
        with process:
            for each in (number, signal.SIGCONT):
                with suppress(ProcessLookupError):
                    os.kill(process.pid, each)
            return process.wait(DEADLINE_S)

    def ask(self, word: bytes) -> str:
        """The answer to a four-letter word."""
        with socket.create_connection(("127.0.0.1", self.port), DEADLINE_S) as sock:
            sock.sendall(word)
            with sock.makefile() as file:
                return file.read()

    def fact(self, name: str) -> int:
        """A number in the answer to mntr."""
        return int(dict(line.split("\t") for line in self.ask(b"mntr").splitlines())[name])
