"""A cluster's folder: who has it, and what it remembers."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from parkazoo.local.addresses import ServerPorts
from parkazoo.local.cluster_error import AlreadyRunningError, LocalClusterError

STATE = "cluster.json"
LOCK = "lock"


def lock_folder(folder: Path) -> int:
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


def is_locked(folder: Path) -> bool:
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


class State(NamedTuple):
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
    def read(cls, folder: Path) -> State | None:
        try:
            return cls(**json.loads((folder / STATE).read_text()))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError):
            raise LocalClusterError(f"{folder / STATE} is damaged: use another folder") from None


def remember_pids(folder: Path, pids: Mapping[str, int]) -> None:
    """:param pids: by server, of all that were started again."""
    if state := State.read(folder):
        found = {
            name: [pids.get(f"{name}{number}", pid) for number, pid in enumerate(before, 1)]
            for name, before in state.pids.items()
        }
        state._replace(pids=found).write(folder)


def shape_of(folder: Path) -> tuple[int, int] | None:
    """How many ensembles of how many servers the cluster of this folder has; None: there has been none."""
    state = State.read(folder)
    return (len(state.ports), len(next(iter(state.ports.values())))) if state and state.has_served else None


def recall(folder: Path, names: str, size: int) -> dict[str, list[ServerPorts]]:
    """The ports of the cluster that has lived in this folder; one that never served is cleared away.

    :raises LocalClusterError: if its shape is another.
    """
    state = State.read(folder)
    if state is None:
        return {}
    if not state.has_served:
        for name in state.ports:
            shutil.rmtree(folder / name, ignore_errors=True)
        return {}
    verify_shape(folder, state, len(names), size)
    return {name: [ServerPorts(*each) for each in ports] for name, ports in state.ports.items()}


def verify_shape(folder: Path, state: State, ensembles: int, size: int) -> None:
    found = len(state.ports), len(next(iter(state.ports.values())))
    if found != (ensembles, size):
        raise LocalClusterError(
            f"{folder} holds a cluster of {found[0]} ensembles of {found[1]}, not of {ensembles} of {size}: "
            f"ask for that (--ensembles {found[0]} --servers {found[1]}), or use another folder (--data FOLDER). "
            "To add an ensemble, start it on its own (--data FOLDER --ensembles 1 --plain), and give its servers "
            "to `parkazoo map grow`"
        )
