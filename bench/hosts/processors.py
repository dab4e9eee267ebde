"""How much of the machine's processors an emulated host gets, by a control group of all its processes."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from bench.hosts.namespaces import network_of, run
from bench.lab import NotPossible

ROOT = Path("/sys/fs/cgroup")
PERIOD_US = 100_000


def limit(emulation: str, host: str, processors: float) -> None:
    """
    :raises NotPossible: there are no control groups of processors here that root may make.
    """
    try:
        group = _group(network_of(emulation, host))
        group.mkdir(exist_ok=True)
        quota_us = max(1000, int(processors * PERIOD_US))
        if group.parent == ROOT:
            (group / "cpu.max").write_text(f"{quota_us} {PERIOD_US}")
        else:
            (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (group / "cpu.cfs_quota_us").write_text(str(quota_us))
        _move(emulation, host, group)
    except OSError as error:
        raise NotPossible(f"processors cannot be limited here: {error}") from None


def lift(emulation: str, host: str) -> None:
    with suppress(OSError):
        group = _group(network_of(emulation, host))
        if group.exists():
            _move(emulation, host, group.parent)
            group.rmdir()


def remove_all(emulation: str) -> None:
    """Of hosts that are no more."""
    for parent in (ROOT, ROOT / "cpu"):
        for group in parent.glob(network_of(emulation, "*")):
            with suppress(OSError):
                group.rmdir()


def _group(name: str) -> Path:
    """Where it is, or is to be: cgroup v1 has a hierarchy for processors alone."""
    v1 = ROOT / "cpu"
    if (v1 / "cpu.cfs_quota_us").exists() or (v1 / "cgroup.procs").exists():
        return v1 / name
    if "cpu" not in (ROOT / "cgroup.subtree_control").read_text().split():
        (ROOT / "cgroup.subtree_control").write_text("+cpu")
    return ROOT / name


def _move(emulation: str, host: str, group: Path) -> None:
    """All of the host's processes. Those that they start later follow them."""
    before: set[str] = set()
    while new := {*run("ip", "netns", "pids", network_of(emulation, host)).split()} - before:
        for pid in new:
            with suppress(ProcessLookupError):
                (group / "cgroup.procs").write_text(pid)
        before |= new
