"""docker/ is built, started, used from this machine, disturbed and removed: python -m tests.docker

Where no Docker engine runs, root has one started and stopped: see engine.py.
"""

from __future__ import annotations

import argparse
import json
import logging
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from kazoo.client import KazooClient
from kazoo.retry import KazooRetry

from parkazoo import ParKazooClient
from parkazoo.local import role_of
from parkazoo.protocol.cluster_map import ClusterMap
from tests import __main__ as suite
from tests.docker.engine import EngineError, engine
from tests.drills.page import commands
from tests.live.world import connected
from tests.where_is import where_is

FILE = Path(__file__).resolve().parent.parent.parent / "docker" / "compose.yml"
PROJECT = "parkazoo-trial"  # so that `down --volumes` does not end a user's cluster
ENSEMBLES = {name: tuple(f"{name}{number}" for number in (1, 2, 3)) for name in "abc"}
MOVED = "/app/jobs"
ADDED, ADDED_SERVERS = "d", ("d1", "d2", "d3")  # by the page's commands
PAGE = FILE.parent.parent / "docs" / "guide" / "docker.md"
SERVERS = tuple(server for servers in ENSEMBLES.values() for server in servers)
DIRECTORIES = tuple(f"/trial/{number}" for number in range(30))
TIMEOUT_S = 60.0
POLL_S = 0.1


class TrialError(Exception):
    """Something of docker/ is not as it should be."""


class Compose:
    """Docker Compose with our file."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = {**environment, "COMPOSE_PROJECT_NAME": PROJECT, "BUILDKIT_PROGRESS": "plain"}

    def use_profile(self, name: str) -> None:
        """For all commands from now on."""
        self._environment["COMPOSE_PROFILES"] = name

    def run(self, *arguments: str) -> None:
        """Run a command of Compose, which may print.

        :raises TrialError: if it fails.
        """
        print(f"{time.strftime('%T')} docker compose {' '.join(arguments)}", flush=True)
        began = time.monotonic()
        status = subprocess.run(
            ["docker", "compose", "--file", FILE, *arguments], env=self._environment, check=False
        ).returncode
        if status != 0:
            raise TrialError(f"docker compose {' '.join(arguments)} ended with status {status}")
        print(f"         took {time.monotonic() - began:.0f} s", flush=True)

    def ask(self, *arguments: str) -> str:
        """What a command of Compose prints; empty if it fails."""
        return self.docker("compose", "--file", str(FILE), *arguments)

    def docker(self, *arguments: str) -> str:
        """What a command of Docker prints; empty if it fails."""
        done = subprocess.run(
            ["docker", *arguments], env=self._environment, capture_output=True, text=True, check=False
        )
        return done.stdout.strip() if done.returncode == 0 else ""

    def up(self) -> None:
        self.run("up", "--detach", "--wait")

    def state(self, service: str) -> str:
        """As in ``"running healthy"``."""
        container = self.ask("ps", "--all", "--quiet", service)
        return self.docker("inspect", "--format", "{{.State.Status}} {{.State.Health.Status}}", container)

    def is_healthy(self, service: str) -> bool:
        return self.state(service) == "running healthy"


def check(what: str, is_so: bool) -> None:
    if not is_so:
        raise TrialError(f"it is not so that {what}")
    print(f"{time.strftime('%T')}   ok: {what}", flush=True)


def wait(what: str, is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not (now := is_so()) and time.monotonic() < deadline:
        time.sleep(POLL_S)
    check(what, now)


def try_all(compose: Compose, parts: list[str]) -> None:
    compose.run("build")
    compose.up()
    addresses = {server: compose.ask("port", server, "2181") for server in SERVERS}
    hosts = ",".join(addresses[server] for server in ENSEMBLES["a"])
    check("ports are open on loopback alone", all(each.startswith("127.0.0.1:") for each in addresses.values()))
    try_networks(compose)
    with connected(ParKazooClient(hosts)) as client:
        print(f'{time.strftime("%T")} ParKazooClient("{hosts}") on the host', flush=True)
        try_client(client)
        try_dead_leader(compose, client, addresses)
        try_health(compose)
        try_growth(compose, client)
    check(
        "parkazoo map check in the container finds nothing",
        "agree" in compose.ask("exec", "-T", "cli", "parkazoo", "map", "check"),
    )
    compose.run("down")
    compose.up()
    with connected(ParKazooClient(hosts)) as client:
        read = {client.get(path)[0] for path in DIRECTORIES}
        check("what was written is there after `down` and `up`", read == {b"without a leader"})
        try_removal(compose, client)
    compose.run("run", "--rm", "--no-TTY", "test", *parts)


def try_networks(compose: Compose) -> None:
    for ensemble, servers in ENSEMBLES.items():
        known = {each for each in SERVERS if compose.ask("exec", "-T", servers[0], "getent", "hosts", each)}
        check(f"{servers[0]} knows the servers of {ensemble} alone", known == set(servers))


def try_client(client: ParKazooClient) -> None:
    seen = threading.Event()
    for path in DIRECTORIES:
        client.create(f"{path}/child", makepath=True)
    names, placement = map_of(client).names, map_of(client).make_placement()
    counts = Counter(names[placement.of_children(path)] for path in DIRECTORIES)
    check(f"children are on all ensembles: {dict(sorted(counts.items()))}", len(counts) == len(ENSEMBLES))
    check("a listing across them is whole", len(client.get_children("/trial")) == len(DIRECTORIES))
    client.get(DIRECTORIES[0], watch=lambda _: seen.set())
    with client.Lock("/trial/lock"):
        client.set(DIRECTORIES[0], b"under the lock")
    check("a watch comes, a lock is had", seen.wait(TIMEOUT_S))
    client.delete("/trial/lock", recursive=True)


def try_dead_leader(compose: Compose, client: ParKazooClient, addresses: Mapping[str, str]) -> None:
    """The leader of the ensemble that holds DIRECTORIES dies."""
    path = DIRECTORIES[0]
    cluster_map = map_of(client)
    ensemble = cluster_map.names[cluster_map.make_placement().of(path)]
    (leader,) = (each for each in ENSEMBLES[ensemble] if role_of(addresses[each]).is_leader)
    compose.run("kill", leader)
    began = time.monotonic()
    again = KazooRetry(max_tries=-1, deadline=TIMEOUT_S)
    for each in DIRECTORIES:
        again(client.set, each, b"without a leader")
    print(f"         written again after {time.monotonic() - began:.1f} s", flush=True)
    others = [each for each in ENSEMBLES[ensemble] if each != leader]
    wait(
        f"{leader}, the leader, is dead, and another leads",
        lambda: any(role_of(addresses[each]).is_leader for each in others),
    )
    compose.up()
    check(f"{leader} is healthy again", compose.is_healthy(leader))
    place = where_is(cluster_map.make_placement(), path).home
    with connected(KazooClient(addresses[leader])) as plain:
        plain.sync(place.path)
        check(f"{leader} has what was written while it was dead", plain.get(place.path)[0] == b"without a leader")


def try_health(compose: Compose) -> None:
    """A server without a quorum runs and listens, but does not serve, and its health must say so."""
    alone, *others = ENSEMBLES["b"]
    compose.run("stop", *others)
    wait(f"{alone} runs without a quorum and is not healthy", lambda: compose.state(alone) == "running unhealthy")
    compose.run("start", *others)
    for each in (alone, *others):
        wait(f"{each} is healthy again", partial(compose.is_healthy, each))


def try_growth(compose: Compose, client: ParKazooClient) -> None:
    """An ensemble comes, and takes a directory, while a client of the host writes there."""
    (profile,) = re.findall(r"^    export COMPOSE_PROFILES=(\w+)$", PAGE.read_text(), re.MULTILINE)
    compose.use_profile(profile)
    compose.up()
    client.create(f"{MOVED}/7", makepath=True)
    with written_meanwhile(client, f"{MOVED}/7"):
        run_page(compose, "grow", "move")
    shown = compose.ask("exec", "-T", "cli", "parkazoo", "where", MOVED, "--json")
    check(f"the children of {MOVED} are on {ADDED}", json.loads(shown)["children"]["ensemble"] == ADDED)


def try_removal(compose: Compose, client: ParKazooClient) -> None:
    """The ensemble's directories leave it, and it leaves the map and the machine, while a client writes there."""
    with written_meanwhile(client, f"{MOVED}/7"):
        run_page(compose, "drain", "remove")
        compose.run("rm", "--stop", "--force", *ADDED_SERVERS)
    check(f"the client knows {[*map_of(client).ensembles]} alone", ADDED not in map_of(client).ensembles)
    check("a listing is whole without it", len(client.get_children("/trial")) == len(DIRECTORIES))


def run_page(compose: Compose, *names: str) -> None:
    """Run these of the page's `parkazoo map` in the container."""
    for command in commands(PAGE.read_text(), {}):
        if command[1] in names:
            compose.run("exec", "-T", "cli", "parkazoo", *command)


@contextmanager
def written_meanwhile(client: ParKazooClient, path: str) -> Iterator[None]:
    """Set the znode again and again until the block ends; each write must be done, once."""
    before = client.get(path)[1].version
    has_ended = threading.Event()

    def write() -> int:
        count = 0
        while not has_ended.wait(POLL_S):
            client.once(client.set, path, b"%d" % count)
            count += 1
        return count

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        try:
            yield
        finally:
            has_ended.set()
        count = writing.result()
    check(f"{count} writes meanwhile were done, each once", client.get(path)[1].version == before + count)


def map_of(client: ParKazooClient) -> ClusterMap:
    assert client.cluster_map is not None  # it has started
    return client.cluster_map


def remove(compose: Compose) -> None:
    compose.run("--profile", "test", "--profile", "grow", "down", "--volumes", "--rmi", "all", "--timeout", "5")
    mine = ("--quiet", "--filter", f"label=com.docker.compose.project={PROJECT}")
    left = [compose.docker(*what, *mine) for what in (("ps", "--all"), ("volume", "ls"), ("network", "ls"))]
    check("no container, volume or network is left", not any(left))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.docker", description=__doc__.partition("\n")[0])
    parser.add_argument(
        "parts",
        metavar="PART",
        nargs="*",
        default=["recipes"],
        help="of the test suite, to run inside; recipes by default",
    )
    options = parser.parse_args()
    if unknown := [name for name in options.parts if name not in suite.PARTS]:
        parser.error(f"there is no part {', '.join(unknown)}; there are {', '.join(suite.PARTS)}")
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)  # it has much to say about a server that is killed
    try:
        with engine() as environment:
            compose = Compose(environment)
            print(compose.docker("version"), compose.ask("version"), sep="\n", flush=True)
            try:
                try_all(compose, options.parts)
            except TrialError:
                compose.run("ps", "--all")
                compose.run("logs", "--tail", "20")
                raise
            finally:
                remove(compose)
    except (EngineError, TrialError) as error:
        print(f"FAILED: {error}")
        return 1
    print("all of it happened")
    return 0


if __name__ == "__main__":
    sys.exit(main())
