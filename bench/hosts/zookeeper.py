"""ZooKeeper servers on hosts: one on each, ensemble by ensemble, in the order of the inventory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bench.disk_wait import LIBRARY
from bench.hosts.archives import DISK
from bench.hosts.fleet import Fleet, FleetError, cleanup
from bench.hosts.inventory import SERVER, Host, Inventory
from bench.hosts.remote import Remote
from bench.lab import ZOO_CFG, Ensembles, LabError, Server, Shape, Told
from parkazoo.local.settings import LOGBACK

DISK_WAIT = f"../{DISK}/{LIBRARY}"  # as a server sees it from its folder
SERVING_TIMEOUT_S = 240.0  # fifty of them on one machine take their time
GROWN_TIMEOUT_S = 600.0  # on a full ensemble each request of the command waits as long as the load's


def place(shape: Shape, inventory: Inventory) -> Ensembles:
    """
    :raises LabError: there are too few hosts.
    """
    hosts = inventory.having(SERVER)
    if len(hosts) < shape.size:
        raise LabError(
            f"{shape} needs {shape.size} hosts with the role server; {inventory.path.name} has {len(hosts)}"
        )
    names = [(f"{ensemble}{number + 1}", ensemble) for ensemble in shape.names for number in range(shape.servers)]
    servers = [
        Server(name, ensemble, host.name, host.inside, host.zookeeper_port)
        for (name, ensemble), host in zip(names, hosts, strict=False)
    ]
    return Ensembles(shape, servers)


def start(
    fleet: Fleet,
    shape: Shape,
    settings: Mapping[str, str] | None = None,
    variables: Mapping[str, str] | None = None,
) -> Ensembles:
    """Start new, empty servers, and wait until all serve. On failure, those that were started are stopped.

    :param settings: of the servers, over ZOO_CFG.
    :param variables: of their environment.
    :raises LabError: with the reason.
    """
    ensembles = place(shape, fleet.inventory)
    hosts = {host.name: host for host in fleet.inventory.hosts}
    files = {server.host: _files(server, ensembles, hosts, settings or {}) for server in ensembles.servers}
    about = {
        server.host: {**_about(server, hosts[server.host], shape), "variables": dict(variables or {})}
        for server in ensembles.servers
    }
    launch(fleet, ensembles, about, files)
    return ensembles


def launch(
    fleet: Fleet,
    ensembles: Ensembles,
    about: Mapping[str, Mapping[str, Any]],
    files: Mapping[str, Mapping[str, str]],
) -> None:
    """Start these servers, and wait until all serve. On failure, those that were started are stopped.

    :param about: of each host, as agent.create_server takes it; and so `files`.
    :raises LabError: with the reason.
    """
    used = [host for host in fleet.inventory.hosts if host.name in about]

    def create(remote: Remote) -> None:
        name = remote.host.name
        remote.ask("create_server", about[name], files[name])

    started: Iterable[Host] = used
    try:
        try:
            fleet.each(f"starting {ensembles.shape}", create, used)
        except FleetError as error:  # what runs on the others is not ours
            started = [host for host in used if host.name in error.done]
            raise
        wait_serving(fleet, used)
    except BaseException as error:
        with cleanup(lambda: fleet.each("stopping what was started", _stop, started)):
            raise error


def wait_serving(fleet: Fleet, hosts: Iterable[Host]) -> None:
    """
    :raises FleetError: a server ends, or does not serve after four minutes.
    """
    fleet.each(
        "waiting until they serve",
        lambda remote: remote.ask("wait_serving", SERVING_TIMEOUT_S, timeout_s=2 * SERVING_TIMEOUT_S),
        hosts,
    )


def make_map(fleet: Fleet, ensembles: Ensembles, mapped: int | None = None) -> None:
    """
    :param mapped: so many ensembles are in it; None: all.
    :raises LabError: it cannot be made.
    """
    hosts = ensembles.hosts_of(ensembles.shape.names[:mapped])
    fleet.ask(fleet.inventory.orchestrator.name, "make_map", hosts)


def grow_map(fleet: Fleet, ensembles: Ensembles, names: Sequence[str]) -> None:
    """
    :raises LabError: it cannot grow.
    """
    arguments = ensembles.hosts(), ensembles.hosts_of(names)
    fleet.on(
        fleet.inventory.orchestrator.name,
        lambda remote: remote.ask("grow_map", *arguments, timeout_s=GROWN_TIMEOUT_S),
    )


def move(fleet: Fleet, command: str, *arguments: Any) -> Told:
    """
    :param command: of bench/moves_told.py, with its arguments.
    """
    found: Told = fleet.on(
        fleet.inventory.orchestrator.name,
        lambda remote: remote.ask("move_directories", command, *arguments, timeout_s=GROWN_TIMEOUT_S),
    )
    return found


def stop(fleet: Fleet) -> int:
    """:returns: how many servers there were."""
    return sum(fleet.each("stopping", _stop, fleet.inventory.having(SERVER)).values())


def _stop(remote: Remote) -> bool:
    return bool(remote.ask("stop_server"))


def find(fleet: Fleet) -> dict[str, dict[str, Any]]:
    """What agent.find_server says, of each host that has a server, in the order of their names."""
    found = fleet.each(
        "looking at servers", lambda remote: remote.ask("find_server"), fleet.inventory.having(SERVER)
    )
    there = {host: about for host, about in found.items() if about}
    return dict(
        sorted(there.items(), key=lambda item: (item[1]["ensemble"], len(item[1]["name"]), item[1]["name"]))
    )


def running(fleet: Fleet) -> Ensembles:
    """
    :raises LabError: none run, or not all.
    """
    about = {host: each for host, each in find(fleet).items() if each["is_running"]}
    shapes = {each["shape"] for each in about.values()}
    if not shapes:
        raise LabError("no server runs: fab ensembles.start")
    shape = Shape.parse(max(shapes))
    if len(shapes) > 1 or len(about) != shape.size:
        raise LabError(
            f"{len(about)} servers of {' and '.join(sorted(shapes))} run: fab ensembles.stop, then start"
        )
    return Ensembles(
        shape,
        [
            Server(each["name"], each["ensemble"], host, each["address"], each["ports"][0])
            for host, each in about.items()
        ],
    )


def describe(server: Server, host: Host, shape: Shape) -> dict[str, Any]:
    """What a host notes of its server, whatever runs it."""
    return {
        "name": server.name,
        "ensemble": server.ensemble,
        "shape": str(shape),
        "address": server.address,
        "ports": host.ports,
    }


def _about(server: Server, host: Host, shape: Shape) -> dict[str, Any]:
    return {
        **describe(server, host, shape),
        "jvm_flags": [*host.jvm_flags, "-Djava.awt.headless=true", "-Dlogback.configurationFile=logback.xml"],
    }


def _files(
    server: Server, ensembles: Ensembles, hosts: Mapping[str, Host], settings: Mapping[str, str]
) -> dict[str, str]:
    members = ensembles.of(server.ensemble)
    return {
        "zoo.cfg": _zoo_cfg([hosts[each.host] for each in members], settings),
        "data/myid": f"{members.index(server) + 1}\n",
        "logback.xml": LOGBACK,
    }


def _zoo_cfg(members: Sequence[Host], settings: Mapping[str, str]) -> str:
    lines = {**ZOO_CFG, **settings, "dataDir": "./data", "standaloneEnabled": "false"}
    for number, host in enumerate(members, 1):
        client, quorum, election = host.ports
        lines[f"server.{number}"] = f"{host.inside}:{quorum}:{election};{host.inside}:{client}"
    return "".join(f"{key}={value}\n" for key, value in lines.items())
