"""An ensemble comes back empty, as new machines behind the old names: every tool must report that."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss

from parkazoo import ClusterMapError, ParKazooClient
from parkazoo.admin import init_map
from parkazoo.fsck import check
from parkazoo.local import LocalCluster, LocalEnsemble
from parkazoo.protocol.placement import Placement
from tests.faults.load import Judgement

ABOUT = "an ensemble that comes back empty is not taken for the one that was there, and losses are named"
DIRECTORIES = 12
LOST_CHILDREN = "lost-children"
TIMEOUT_S = 60.0
SESSION_TIMEOUT_S = 4.0  # what its stop() waits for an ensemble that is away


def run(cluster: LocalCluster, hosts: Mapping[str, str], seed: int) -> Judgement:
    """Empty an ensemble that holds neither the map nor the top level. There are no faults then, and no clients.

    :param hosts: of each ensemble, as they stand in the map.
    """
    top = Placement(len(cluster.ensembles)).of_children("/")
    others = [each for number, each in enumerate(cluster.ensembles) if number not in (0, top)]
    victim = random.Random(f"{seed}/emptied").choice(others)
    bootstrap = hosts[cluster.ensembles[0].name]
    with _started(ParKazooClient(bootstrap, timeout=SESSION_TIMEOUT_S)) as client:
        childless = _make_tree(client, victim.name)
        _empty(victim)
        problems = [*_accepted("a client", lambda: client.join(victim.name), ConnectionLoss)]
    told: list[Any] = []
    problems += _accepted("a new client", lambda: _join(bootstrap, victim.name))
    problems += _accepted("map init", lambda: init_map(bootstrap, hosts, tell=told.append))
    problems += _accepted("fsck", lambda: check(bootstrap, repair=True))
    with _started(KazooClient(victim.hosts)) as there:
        if (names := there.get_children("/")) != ["zookeeper"]:
            problems.append(f"there is something on it: {names}")
    if told:
        problems.append("it was replaced without having been named")
    init_map(bootstrap, hosts, replace=[victim.name], tell=told.append)
    lost = {path for loss in told for path in loss.childless}
    problems += [f"the loss of the children of {path} was not reported" for path in childless if path not in lost]
    found = sum(each.found for kind, each in check(bootstrap).tallies.items() if kind.name == LOST_CHILDREN)
    if found < len(childless):
        problems.append(f"fsck finds {found} directories that lost their children, not {len(childless)}")
    return Judgement(problems, {"emptied": victim.name, "directories that lost their children": len(childless)})


def _make_tree(client: ParKazooClient, name: str) -> Sequence[str]:
    """Make directories that are on other ensembles. Returns those whose children are on that one."""
    assert client.cluster_map is not None
    placement = client.cluster_map.make_placement()
    number = client.cluster_map.names.index(name)
    root = next(root for root in (f"/emptied{n}" for n in range(100)) if placement.of_children(root) != number)
    paths = [f"{root}/{each}" for each in range(DIRECTORIES)]
    for path in paths:
        client.create(f"{path}/child", makepath=True)
    return [path for path in paths if placement.of_children(path) == number]


def _empty(ensemble: LocalEnsemble) -> None:
    for server in ensemble.servers:
        server.kill()
    for server in ensemble.servers:
        shutil.rmtree(server.data / "data" / "version-2")
        server.start()
    for server in ensemble.servers:
        server.wait_serving(TIMEOUT_S)


def _accepted(who: str, call: Any, error: type[Exception] = ClusterMapError) -> Iterator[str]:
    """What is wrong if `call` does not refuse the ensemble with that error."""
    try:
        call()
    except error:
        return
    yield f"{who} takes it for the ensemble that was there"


def _join(hosts: str, name: str) -> None:
    with _started(ParKazooClient(hosts)) as client:
        client.join(name)


@contextmanager
def _started(client: Any) -> Iterator[Any]:
    with closing(client):
        client.start(TIMEOUT_S)
        try:
            yield client
        finally:
            client.stop()
