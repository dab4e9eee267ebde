"""The process that owns local servers, so that none outlives the program that started them.

Run by path (``python -I -S supervisor_process.py OWNER_PID [FOLDER]``), with the standard library alone. It reads
requests, JSON lines of ``[number, method, *arguments]``, and answers each with ``[number, value, error]``. It
ends, and all its servers with it, when its input closes, when its owner is no longer its parent (a forked child
of the owner may hold the pipe open), or on SIGTERM; last, it removes FOLDER. After ``detach`` only SIGTERM
ends it, and it takes requests at the socket DOOR in the cluster's folder.

All servers are in its process group. A forked watchdog waits for the supervisor's own death, by SIGKILL too,
and then kills the group; SIGKILL also ends servers that are frozen. (PR_SET_PDEATHSIG would be Linux alone.)
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    import socket

DOOR = "door"
OWNER_CHECK_S = 0.5
STOPPED_TIMEOUT_S = 1.0
TERM_TIMEOUT_S = 10.0


class ServerProcesses:
    """Starts, signals and reaps servers. Single-threaded; each request is answered at once."""

    def __init__(self, owner: int) -> None:
        self.owner: int | None = owner
        self.door: socket.socket | None = None
        self.servers: dict[int, subprocess.Popen[bytes]] = {}
        self.frozen: set[int] = set()

    def spawn(self, argv: list[str], folder: str, log: str) -> int:
        with open(log, "ab") as output:  # noqa: PTH123 - pathlib would double the start-up time
            server = subprocess.Popen(
                argv, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
            )
        self.servers[server.pid] = server
        return server.pid

    def poll(self, pid: int) -> int | None:
        """The exit status, None while the server runs. A pid stays valid until this has returned the status."""
        return self.servers[pid].poll()

    def send(self, pid: int, number: int) -> None:
        """Send a signal; after SIGSTOP, return when the server has really stopped."""
        server = self.servers[pid]
        server.send_signal(number)  # does nothing if the server has ended
        if number == signal.SIGSTOP and pid not in self.frozen:
            self.wait_stopped(server)
            self.frozen.add(pid)
        elif number == signal.SIGCONT:
            self.frozen.discard(pid)

    @staticmethod
    def wait_stopped(server: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + STOPPED_TIMEOUT_S
        while server.returncode is None and time.monotonic() < deadline:
            pid, status = os.waitpid(server.pid, os.WUNTRACED | os.WNOHANG)
            if pid and os.WIFSTOPPED(status):
                return
            if pid:
                server.returncode = os.waitstatus_to_exitcode(status)
            time.sleep(0.001)

    def command(self, pid: int) -> object:
        """What a server was started with."""
        return self.servers[pid].args

    def detach(self, folder: str) -> None:
        """Have no owner from now on, but a socket in `folder`."""
        self.door = open_door(folder)
        self.owner = None

    def answer(self, line: bytes) -> bytes:
        number, name, *arguments = json.loads(line)
        try:
            value: object = getattr(self, name)(*arguments)
        except (OSError, LookupError) as error:  # LookupError: no such server
            return json.dumps([number, None, str(error)]).encode()
        return json.dumps([number, value, None]).encode()

    def serve(self) -> None:
        """Answer requests until the owner is gone, or for ever once detached."""
        rest = b""
        while self.owner is not None:
            if not select.select([0], [], [], OWNER_CHECK_S)[0]:
                if os.getppid() != self.owner:
                    return
                continue
            part = os.read(0, 1 << 16)
            if not part:
                return
            *lines, rest = (rest + part).split(b"\n")
            for line in lines:
                os.write(1, self.answer(line) + b"\n")
        let_go_of_pipes()
        assert self.door is not None
        self.serve_at(self.door)

    def serve_at(self, door: socket.socket) -> NoReturn:
        """Answer each connection."""
        rests: dict[socket.socket, bytes] = {}
        while True:
            for server in self.servers.values():
                server.poll()
            for ready in select.select([door, *rests], [], [], OWNER_CHECK_S)[0]:
                if ready is door:
                    rests[door.accept()[0]] = b""
                elif (rest := self.answer_at(ready, rests[ready])) is not None:
                    rests[ready] = rest
                else:
                    del rests[ready]
                    ready.close()

    def answer_at(self, connection: socket.socket, rest: bytes) -> bytes | None:
        """Answer the bytes so far; return the rest of them, None if the connection has ended."""
        try:
            part = connection.recv(1 << 16)
            *lines, rest = (rest + part).split(b"\n")
            for line in lines:
                connection.sendall(self.answer(line) + b"\n")
        except OSError:
            return None
        return rest if part else None

    def end(self, timeout_s: float) -> None:
        """SIGTERM and up to `timeout_s` seconds to comply, then SIGKILL."""
        if timeout_s:
            for server in self.servers.values():
                server.terminate()
                server.send_signal(signal.SIGCONT)
        deadline = time.monotonic() + timeout_s
        for server in self.servers.values():
            try:
                server.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:  # noqa: PERF203 - few turns
                server.kill()
                server.wait()


def open_door(folder: str) -> socket.socket:
    """Listen at the socket DOOR in a folder, whose path may be too long for a socket's."""
    import socket  # noqa: PLC0415 - takes time, and only who detaches needs it

    os.chdir(folder)
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(DOOR)  # noqa: PTH108 - pathlib would double the start-up time
        door = socket.socket(socket.AF_UNIX)
        before = os.umask(0o177)  # nobody else may ask
        door.bind(DOOR)
        os.umask(before)
        door.listen()
    finally:
        os.chdir("/")
    return door


def let_go_of_pipes() -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)


def terminated(*_: object) -> NoReturn:
    raise SystemExit(0)


def fork_watchdog(supervisor: int) -> int:
    """Fork the watchdog of this process group. It holds whatever lock the supervisor inherited, to the last."""
    death, life = os.pipe()  # `life` is closed in servers (close_fds), so it ends with the supervisor
    pid = os.fork()
    if pid:
        os.close(death)
        return pid
    os.close(life)
    let_go_of_pipes()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.read(death, 1)
    os.killpg(supervisor, signal.SIGKILL)
    os._exit(1)


def main() -> None:
    owner, *folders = sys.argv[1:]
    os.chdir("/")
    for ignored in (signal.SIGINT, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    watchdog = fork_watchdog(os.getpid())
    signal.signal(signal.SIGTERM, terminated)
    servers = ServerProcesses(int(owner))
    timeout_s = 0.0
    try:
        servers.serve()
    except SystemExit:
        timeout_s = TERM_TIMEOUT_S
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        servers.end(timeout_s)
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
        os.kill(watchdog, signal.SIGKILL)
        os.waitpid(watchdog, 0)


if __name__ == "__main__":
    main()
