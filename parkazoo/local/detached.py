"""Clusters that stay when the process that started them ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import signal
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from parkazoo.local.addresses import HOST, ServerPorts
from parkazoo.local.cluster import START_TIMEOUT_S, LocalCluster
from parkazoo.local.cluster_error import AlreadyRunningError, LocalClusterError
from parkazoo.local.folder import LOCK, State, is_locked, remember_pids, shape_of, verify_shape
from parkazoo.local.four_letter_words import WORD_TIMEOUT_S, four_letter_word, role_of
from parkazoo.local.servers import (
    STOP_TIMEOUT_S,
    LocalEnsemble,
    LocalServer,
    Machine,
    find_servers,
    start_all,
    stop_all,
    wait_if_quorum,
)
from parkazoo.local.supervisor import connected
from parkazoo.local.waiting import wait_until


class LocalServerStatus(NamedTuple):
    """A server of a cluster that runs by itself.

    `role`: as in Role. `state`: ``serving``, ``no quorum``, ``no answer`` or ``down``, also if a server that is
    none of this cluster answers at the address.
    """

    ensemble: str
    name: str
    address: str
    pid: int
    role: str
    state: str


def status(data: Path) -> list[LocalServerStatus]:
    """Returns the servers of the cluster that runs in the folder `data`.

    :raises LocalClusterError: none runs there, or it is not ready yet.
    """
    state = _running(data)
    supervisor = (data / LOCK).read_text()

    def of_server(ensemble: str, index: int) -> LocalServerStatus:
        pid = state.pids[ensemble][index]
        address = f"{HOST}:{state.ports[ensemble][index][0]}"
        role = role_of(address).name
        if role and not (_lives(pid, supervisor) or _runs_in(data / ensemble / str(index + 1), address)):
            return LocalServerStatus(ensemble, f"{ensemble}{index + 1}", address, pid, "", "down")
        return LocalServerStatus(ensemble, f"{ensemble}{index + 1}", address, pid, role, _condition(address, role))

    with ThreadPoolExecutor(16) as pool:
        rows = [
            pool.submit(of_server, ensemble, index)
            for ensemble, pids in state.pids.items()
            for index in range(len(pids))
        ]
        return [row.result() for row in rows]


def _running(data: Path) -> State:
    """:raises LocalClusterError: no cluster runs there, or it is not ready yet."""
    state = State.read(data) if is_locked(data) else None
    if state is None:
        raise _not_running(data)
    if not state.pids:
        raise LocalClusterError(f"the local cluster in {data} is just starting: try again")
    return state


def _not_running(data: Path) -> LocalClusterError:
    return LocalClusterError(
        f"no local cluster is running in {data}: start one with `parkazoo local up --data {data}`, or "
        "give --data FOLDER if it runs elsewhere"
    )


def _lives(pid: int, supervisor: str) -> bool:
    """Whether it is a process of the cluster's: all are in one group."""
    try:
        return str(os.getpgid(pid)) == supervisor
    except OSError:
        return False


def _runs_in(folder: Path, address: str) -> bool:
    """Whether the server that answers was started in this folder: its owner may have started it again."""
    found = re.search(r"^user\.dir=(.+)$", four_letter_word(address, "envi"), re.MULTILINE)
    return found is not None and Path(found[1]).resolve() == folder.resolve()


def _condition(address: str, role: str) -> str:
    if role:
        return "serving"
    try:
        with socket.create_connection((HOST, int(address.rpartition(":")[2])), WORD_TIMEOUT_S):
            pass
    except OSError:
        return "down"
    return "no quorum" if four_letter_word(address, "ruok") else "no answer"


def start_detached(
    data: Path,
    ensembles: int | None,
    servers: int | None,
    progress: Callable[[str], None],
    *,
    make_map: bool = True,
) -> bool:
    """Starts a cluster in the folder `data` that stays when this process ends.

    If it runs already, this does nothing; if another process is starting it, this waits for that.

    :param ensembles: their number; None: as many as the cluster in the folder had before, 3 if there was none.
    :param servers: the number of servers of each ensemble; None as for `ensembles`.
    :param progress: and `make_map`, as for LocalCluster.
    :returns: whether this call has started it.
    :raises LocalClusterError: it cannot be started, or the running one has another shape.
    """
    lived = shape_of(data) or (3, 3)
    ensembles, servers = ensembles or lived[0], servers or lived[1]
    cluster = LocalCluster(ensembles, servers, data, make_map=make_map, progress=progress)
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            cluster.start()
        except AlreadyRunningError:  # noqa: PERF203 - few turns
            progress("waiting for the cluster that another process starts or stops")
            if not wait_until(lambda: _is_ready(data) or not is_locked(data), deadline - time.monotonic()):
                raise
            if _is_ready(data):
                break
        else:
            cluster.detach()
            return True
    state = State.read(data)
    assert state is not None
    verify_shape(data, state, ensembles, servers)
    progress("looking at those that run already")
    wait_until(lambda: all(row.state in ("serving", "down") for row in status(data)), STOP_TIMEOUT_S)
    return False


def _is_ready(data: Path) -> bool:
    """Whether the cluster that runs in the folder `data` is up. It may have lost servers since."""
    if not is_locked(data):
        return False
    try:
        os.kill(int((data / LOCK).read_text()), 0)
    except (ValueError, ProcessLookupError):  # it is just starting, or has just been killed
        return False
    state = State.read(data)
    return state is not None and bool(state.pids)


def stop_named(data: Path, name: str) -> None:
    """Stops an ensemble (``"b"``) or a server (``"b2"``) of the cluster that runs in `data`, and waits.

    :raises LocalClusterError: there is none.
    """
    with _attached(data) as ensembles:
        stop_all(find_servers(ensembles, name))


def start_named(data: Path, name: str) -> None:
    """Starts an ensemble, or a server, that does not run, as `LocalCluster.start`.

    :raises LocalClusterError: there is none, or it does not serve.
    """
    with _attached(data) as ensembles:
        servers = find_servers(ensembles, name)
        with _turn(data):
            start_all(servers)
            remember_pids(data, {each.name: each.pid for each in servers if each.is_running})
        wait_if_quorum(ensembles, servers)


@contextlib.contextmanager
def _attached(data: Path) -> Iterator[list[LocalEnsemble]]:
    """The ensembles of a cluster that was left running."""
    state = _running(data)
    with connected(data) as owner:
        ensembles = []
        for name, pids in state.pids.items():
            servers = []
            for number, (ports, pid) in enumerate(zip(state.ports[name], pids, strict=True), 1):
                argv = owner.ask("command", pid)
                folder = data / name / str(number)
                server = LocalServer(f"{name}{number}", folder, ServerPorts(*ports), argv, Machine(), owner)
                server.adopt(pid)
                servers.append(server)
            ensembles.append(LocalEnsemble(name, servers))
        yield ensembles


@contextlib.contextmanager
def _turn(data: Path) -> Iterator[None]:
    """One command at a time: two would start a server twice."""
    with (data / "turn").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def stop_detached(data: Path) -> None:
    """Stops the cluster that runs in the folder `data`, and waits.

    :raises LocalClusterError: none runs there, or it does not end.
    """
    if not is_locked(data):
        raise _not_running(data)
    supervisor = (data / LOCK).read_text()
    if not supervisor:
        raise LocalClusterError(f"the local cluster in {data} is just starting: try again")
    with contextlib.suppress(ProcessLookupError):
        os.kill(int(supervisor), signal.SIGTERM)
    if not wait_until(lambda: not is_locked(data), 2 * STOP_TIMEOUT_S):
        raise LocalClusterError(f"the local cluster in {data} (pid {supervisor}) does not end")
