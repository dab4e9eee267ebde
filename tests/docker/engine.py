"""A Docker engine with Compose: the one of this machine, else one of its own that leaves nothing but packages.

Its own is Debian's, with its data in a temporary folder. It needs root and Debian's packages, and no registry of
images: the base image is made by debootstrap.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

BASE = "debian:bookworm-slim"
SUITE = "bookworm"
MIRROR = "http://deb.debian.org/debian"
# Compose 2, which `docker compose` and its --wait need, is in Debian since trixie; it runs on bookworm too.
COMPOSE_SUITE = "trixie"
CERTIFICATES = Path("/usr/local/share/ca-certificates")  # those that the administrator has added
FORWARD = Path("/proc/sys/net/ipv4/ip_forward")
CGROUPS = Path("/sys/fs/cgroup")
CGROUP = "parkazoo-docker"
BRIDGE = "docker0"
FOLDERS = tuple(map(Path, ("/opt/containerd", "/run/containerd", "/run/docker")))  # made whatever the settings
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 60.0
POLL_S = 0.2
LOG_LINES = 10


class EngineError(Exception):
    """There can be no Docker engine here. The message says why."""


@contextmanager
def engine() -> Iterator[dict[str, str]]:
    """The environment in which `docker` and `docker compose` work.

    :raises EngineError: if that cannot be had.
    """
    with ExitStack() as stack:
        # not in /tmp, which may be memory
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="parkazoo-docker-", dir="/var/tmp")))
        environment = dict(os.environ)
        has_engine = shutil.which("docker") is not None and _succeeds(["docker", "info"], environment)
        if not has_engine:
            if os.geteuid() != 0:
                raise EngineError("no Docker engine runs here, or you may not use it; root could start one")
            environment["DOCKER_HOST"] = stack.enter_context(_own_engine(folder))
        if not _succeeds(["docker", "compose", "version"], environment):
            environment["DOCKER_CONFIG"] = str(_add_compose(folder / "config"))
        if not has_engine:
            _import_base(folder / "base", environment)
        yield environment


@contextmanager
def _own_engine(folder: Path) -> Iterator[str]:
    """Start Debian's dockerd; yields its address."""
    _install("dockerd", "docker.io")
    address = f"unix://{folder}/docker.sock"
    settings = {
        "hosts": [address],
        "data-root": f"{folder}/data",
        "exec-root": f"{folder}/exec",
        "pidfile": f"{folder}/pid",
        "deprecated-key-path": f"{folder}/key.json",
        "exec-opts": ["native.cgroupdriver=cgroupfs"],
        "cgroup-parent": f"/{CGROUP}",
    }
    (folder / "daemon.json").write_text(json.dumps(settings))
    print(f"starting dockerd in {folder}", flush=True)
    with _as_before(folder), (folder / "dockerd.log").open("w") as log:
        daemon = subprocess.Popen(
            ["dockerd", "--config-file", folder / "daemon.json"],
            stdout=log,
            stderr=log,
            start_new_session=True,  # ^C is for us: containers are removed first
        )
        try:
            deadline = time.monotonic() + START_TIMEOUT_S
            while not _succeeds(["docker", "--host", address, "info"], dict(os.environ)):
                if daemon.poll() is not None or time.monotonic() > deadline:
                    last = (folder / "dockerd.log").read_text().splitlines()[-LOG_LINES:]
                    raise EngineError("dockerd does not start; it said last:\n" + "\n".join(last))
                time.sleep(POLL_S)
            yield address
        finally:
            daemon.terminate()
            try:
                daemon.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()


@contextmanager
def _as_before(folder: Path) -> Iterator[None]:
    """Take back what dockerd leaves behind outside of `folder`, and its mounts inside, once it has ended."""
    _install("iptables-save", "iptables")
    rules = _output("iptables-save")
    forward = FORWARD.read_text()
    had_bridge = _has_bridge()
    made = [each for each in FOLDERS if not each.exists()]
    try:
        yield
    finally:
        for table in ("filter", "nat"):  # a table that was not there before was empty
            if f"*{table}\n" not in rules:
                chains = {"filter": ("INPUT", "FORWARD", "OUTPUT"), "nat": ("PREROUTING", "OUTPUT", "POSTROUTING")}
                rules += "".join(
                    [f"*{table}\n", *(f":{each} ACCEPT [0:0]\n" for each in chains[table]), "COMMIT\n"]
                )
        subprocess.run(["iptables-restore"], input=rules, text=True, check=True)
        FORWARD.write_text(forward)
        if not had_bridge and _has_bridge():
            _output("ip", "link", "delete", BRIDGE)
        mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
        for mount in reversed([each for each in mounts if each.startswith(f"{folder}/")]):
            _output("umount", mount)
        for group in sorted(CGROUPS.glob(f"**/{CGROUP}/**/"), reverse=True):  # the inner ones first
            group.rmdir()
        for each in made:
            shutil.rmtree(each, ignore_errors=True)


def _has_bridge() -> bool:
    return Path("/sys/class/net", BRIDGE).exists()


def _add_compose(config: Path) -> Path:
    """Unpack Debian's package of Compose 2 into a folder of settings for `docker`; nothing is installed."""
    print(f"fetching Compose of Debian {COMPOSE_SUITE}", flush=True)
    for folder in ("lists/partial", "archives/partial"):
        (config / folder).mkdir(parents=True)
    keys = "/usr/share/keyrings/debian-archive-keyring.gpg"
    (config / "sources.list").write_text(f"deb [signed-by={keys}] {MIRROR} {COMPOSE_SUITE} main\n")
    apt = (
        "apt-get",
        "-qq",
        f"-oDir::Etc::sourcelist={config}/sources.list",
        "-oDir::Etc::sourceparts=-",
        f"-oDir::State::lists={config}/lists",
        f"-oDir::Cache={config}",
        "-oAPT::Sandbox::User=root",
    )
    _output(*apt, "update")
    _output(*apt, "download", "docker-compose", folder=config)
    (package,) = config.glob("docker-compose_*.deb")
    _output("dpkg-deb", "--extract", package, config / "unpacked")
    (plugin,) = config.glob("unpacked/**/cli-plugins/docker-compose")
    (config / "cli-plugins").mkdir()
    shutil.move(plugin, config / "cli-plugins")
    return config


def _import_base(root: Path, environment: dict[str, str]) -> None:
    """Make the base image as Docker's official one is in what matters here: few packages, no manual pages."""
    _install("debootstrap", "debootstrap")
    print(f"making {BASE} by debootstrap", flush=True)
    _output("debootstrap", "--variant=minbase", SUITE, root, MIRROR)
    (root / "etc/dpkg/dpkg.cfg.d/docker").write_text("path-exclude /usr/share/man/*\n")
    shutil.rmtree(root / "usr/share/man")
    for archive in (root / "var/cache/apt/archives").glob("*.deb"):
        archive.unlink()
    if CERTIFICATES.is_dir():  # a host that needed more of them needs them in there too
        shutil.copytree(CERTIFICATES, root / CERTIFICATES.relative_to("/"), dirs_exist_ok=True)
    with subprocess.Popen(["tar", "--directory", root, "--create", "."], stdout=subprocess.PIPE) as tar:
        subprocess.run(
            ["docker", "import", "--change", 'CMD ["bash"]', "-", BASE],
            stdin=tar.stdout,
            env=environment,
            check=True,
        )
    shutil.rmtree(root)


def _install(program: str, package: str) -> None:
    if shutil.which(program) is not None:
        return
    if shutil.which("apt-get") is None:
        raise EngineError(f"there is no {program}: install it")
    print(f"installing {package}", flush=True)
    quietly = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    command = ["apt-get", "install", "-qq", "--no-install-recommends", package]
    if not _succeeds(command, quietly):
        _output("apt-get", "update", "-qq")
        _output(*command)


def _succeeds(command: list[str], environment: dict[str, str]) -> bool:
    return subprocess.run(command, env=environment, capture_output=True, check=False).returncode == 0


def _output(*command: str | Path, folder: Path | None = None) -> str:
    """What a command prints.

    :raises EngineError: if it fails.
    """
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = (done.stderr or done.stdout).strip().splitlines()[-LOG_LINES:]
        raise EngineError(f"{' '.join(map(str, command))} failed:\n" + "\n".join(last))
    return done.stdout
