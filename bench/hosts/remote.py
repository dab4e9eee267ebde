"""A host over SSH: commands of agent.py, and files."""

from __future__ import annotations

import base64
import errno
import json
import logging
import socket
import sys
import threading
import time
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from fabric import Config, Connection
from paramiko import SSHException
from paramiko.channel import Channel
from paramiko.common import OPEN_FAILED_CONNECT_FAILED
from paramiko.ssh_exception import (
    AuthenticationException,
    BadHostKeyException,
    ChannelException,
    NoValidConnectionsError,
    PasswordRequiredException,
)

from bench.hosts import agent
from bench.hosts.inventory import Host, Inventory
from bench.hosts.namespaces import connect, switch_of
from bench.lab import LabError

CONNECT_TIMEOUT_S = 10
ANSWER_TIMEOUT_S = 120.0
KEEPALIVE_S = 10
LOST_TIMEOUT_MS = 30_000
SSH_PORT = 22
NO_ANSWER = (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN)

# It runs this before anything else, so it has to be understood by any Python 3, and by any shell.
BOOTSTRAP = (
    "import base64,json,sys,zlib;"
    "exec(zlib.decompress(base64.b64decode(sys.argv[1]))) if sys.version_info>=(3,10) else "
    f'print("{agent.MARK}"+json.dumps(dict(error="its Python is "+sys.version.split()[0]+'
    '"; 3.10 or later is needed: install one there, and name it in python")));'
    "main(sys.argv[2]) if sys.version_info>=(3,10) else None"
)

# An error becomes one line for the user; paramiko would print a traceback as well.
logging.getLogger("paramiko").addHandler(logging.NullHandler())


class HostError(LabError):
    """Something is wrong with a host. The message does not name it: fleet.py does."""


class Remote:
    """A host, connected to when it is needed. Any thread may use it. Methods raise HostError."""

    def __init__(self, host: Host, inventory: Inventory, config: Config) -> None:
        self.host = host
        self._emulation = inventory.emulation
        self._turn = threading.Lock()
        key = {"key_filename": str(host.key), "look_for_keys": False} if host.key else {}
        self._connection = Connection(
            host.address,
            user=host.user,
            port=host.ssh_port,
            config=config,
            connect_timeout=CONNECT_TIMEOUT_S,
            connect_kwargs={"banner_timeout": CONNECT_TIMEOUT_S, "auth_timeout": CONNECT_TIMEOUT_S, **key},
        )
        if not self._emulation:  # an emulated host has new keys whenever it is made
            self._connection.client.load_system_host_keys()

    def __repr__(self) -> str:
        return f"<Remote {self.host.name}>"

    def connect(self) -> None:
        """Unless it is connected."""
        with self._turn:
            if not self._connection.is_connected:
                self._connect()

    def _connect(self) -> None:
        try:
            if self._emulation:
                self._connection.connect_kwargs["sock"] = connect(
                    switch_of(self._emulation), self.host.address, self._port, CONNECT_TIMEOUT_S
                )
            self._connection.open()
        except (OSError, EOFError, SSHException) as error:
            raise HostError(self._explain(error)) from None
        transport = self._connection.transport
        transport.set_keepalive(KEEPALIVE_S)
        if isinstance(transport.sock, socket.socket) and sys.platform == "linux":
            # what TCP by itself finds out about a host that has lost its power takes a quarter of an hour
            transport.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, LOST_TIMEOUT_MS)

    @property
    def _port(self) -> int:
        return self._connection.port or SSH_PORT

    def close(self) -> None:
        self._connection.close()

    def ask(
        self,
        command: str,
        *arguments: Any,
        stdin: bytes = b"",
        keep_stdin: bool = False,
        timeout_s: float | None = ANSWER_TIMEOUT_S,
        tell: Callable[[str], None] = lambda line: None,
    ) -> Any:
        """Have the host do one of agent.COMMANDS.

        :param keep_stdin: whether its stdin stays open until it has ended.
        :param timeout_s: how long it may be silent.
        :param tell: called with each line that it prints.
        :raises HostError: it cannot be reached, or could not do it.
        """
        self.connect()
        try:
            channel = self._connection.transport.open_session(timeout=timeout_s or ANSWER_TIMEOUT_S)
            with channel:
                channel.set_combine_stderr(True)
                channel.settimeout(timeout_s)
                channel.exec_command(self._command_line(command, arguments))
                _send(channel, stdin, keep_stdin)
                return self._hear(channel, tell)
        except TimeoutError:
            raise HostError(f"it has not answered for {timeout_s:.0f} s") from None
        except (OSError, EOFError, SSHException) as error:
            raise HostError(self._explain(error)) from None

    def _command_line(self, command: str, arguments: tuple[Any, ...]) -> str:
        asked = base64.b64encode(json.dumps([command, self.host.folder, arguments]).encode()).decode()
        return f"{self.host.python} -c '{BOOTSTRAP}' {_packed_agent()} {asked}"

    def _hear(self, channel: Channel, tell: Callable[[str], None]) -> Any:
        rest, last, answer = b"", "", None
        while part := channel.recv(agent.READ_BYTES):
            *lines, rest = (rest + part).split(b"\n")
            for line in (each.decode(errors="replace") for each in lines):
                if line.startswith(agent.MARK):
                    answer = json.loads(line.removeprefix(agent.MARK))
                elif line:
                    last = line
                    tell(line)
        if answer is None:
            if not self._connection.is_connected:
                raise HostError("the connection is lost")
            raise HostError(f"{self.host.python} does not work there: {rest.decode(errors='replace') or last}")
        if "error" in answer:
            raise HostError(answer["error"])
        return answer["value"]

    def talk(self, address: str, port: int, text: str, timeout_s: float) -> str:
        """What a server near the host answers, by a connection through SSH; empty if not, or not in time."""
        self.connect()
        deadline = time.monotonic() + timeout_s
        answer = b""
        try:
            ends = (address, port), ("127.0.0.1", 0)
            with self._connection.transport.open_channel("direct-tcpip", *ends, timeout=timeout_s) as channel:
                channel.sendall(text.encode())
                while (left := deadline - time.monotonic()) > 0:
                    channel.settimeout(left)
                    if not (part := channel.recv(agent.READ_BYTES)):
                        return answer.decode(errors="replace")
                    answer += part
        except ChannelException as error:
            if error.code != OPEN_FAILED_CONNECT_FAILED:
                raise HostError("its SSH server forwards no connections: set AllowTcpForwarding there") from None
        except TimeoutError:
            pass
        except (OSError, EOFError, SSHException) as error:
            raise HostError(self._explain(error)) from None
        return ""

    def fetch(self, there: str, here: Path) -> None:
        """Bring a file home."""
        self.connect()
        try:
            with self._connection.client.open_sftp() as files:
                files.get(there, str(here))
        except FileNotFoundError:
            raise HostError(f"there is no {there}") from None
        except (OSError, EOFError, SSHException) as error:
            raise HostError(self._explain(error)) from None

    def _explain(self, error: Exception) -> str:
        host = self.host
        at = f"{host.address} port {self._port}"
        if isinstance(error, NoValidConnectionsError):  # of all addresses that the name has
            error = next(iter(error.errors.values()))
        if isinstance(error, socket.gaierror):
            return f"its address {host.address} is not known: is it spelled right?"
        if isinstance(error, TimeoutError) or getattr(error, "errno", None) in NO_ANSWER:
            return f"no answer from {at}: is it up, and is the address right?"
        if isinstance(error, ConnectionRefusedError):
            return f"{at} is refused: does an SSH server run there?"
        if isinstance(error, PasswordRequiredException):
            return (
                f"{f'the key {host.key}' if host.key else 'a key in ~/.ssh'} has a passphrase: tell it to ssh-add"
            )
        if isinstance(error, BadHostKeyException):
            return f"{host.address} shows another host key than in ~/.ssh/known_hosts: is it that machine?"
        if isinstance(error, AuthenticationException):
            key = f"the key {host.key}" if host.key else "the keys of your SSH agent and ~/.ssh"
            return f"it refuses {key} for user {self._connection.user}"
        if "banner" in str(error) or "protocol version" in str(error):
            return f"what answers at {at} is no SSH server"
        return f"SSH: {error or 'the connection is lost'}"


def _send(channel: Channel, stdin: bytes, keep_stdin: bool) -> None:
    try:
        channel.sendall(stdin)
        if not keep_stdin:
            channel.shutdown_write()
    except OSError:
        if not channel.closed and not channel.exit_status_ready():
            raise  # otherwise it ended before it had read all, and will say why


@cache
def _packed_agent() -> str:
    return base64.b64encode(zlib.compress(Path(agent.__file__).read_bytes(), 9)).decode()
