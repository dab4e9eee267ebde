"""Plots of what each host did while a load ran, under its requests/s."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.lab import Shape
from bench.report.charts import COLOURS, add_legend, label, make_panels
from bench.report.section import Plot
from bench.sampler import Below
from bench.scenarios.host_record import Did, read_hosts

ROLES = ("server", "client")
ANY = "all hosts"  # where one machine is all of them
HEIGHT = 9.0  # inches
BESIDE_S = 2.0  # before and after a load, so that lines go from edge to edge
THIN: dict[str, Any] = {"linewidth": 0.7, "alpha": 0.8}
# Panels: what is on the axis, the columns of bench.sampler that are added, and the unit. Counts become rates.
RATES = {
    "processors": (("cpu_s",), 1.0),
    "network, kB/s": (("received_bytes", "sent_bytes"), 1e3),
    "disk, kB/s": (("disk_bytes",), 1e3),
}
MEMORY = "memory, MB"


def make_host_plots(document: Mapping[str, Any], folder: Path, name: str) -> list[Plot]:
    """Of each shape of a scenario the run that answered most; none if nobody has looked.

    :param folder: where its raw results are.
    :param name: how those of the plots begin.
    """
    if "hosts" not in document:
        return []
    hosts = read_hosts(folder / document["hosts"]["raw"])
    runs = [run for run in document["runs"] if "begun_s" in run]
    most = {run["shape"]: run for run in sorted(runs, key=lambda run: float(run["rates"]["all"]))}
    shapes = [shape for shape in dict.fromkeys(run["shape"] for run in runs) if hosts]
    return [_plot(document, most[shape], hosts, f"{name}-hosts-{shape}") for shape in shapes]


def _plot(document: Mapping[str, Any], run: Mapping[str, Any], hosts: Mapping[str, Did], name: str) -> Plot:
    figure, panels = make_panels(1, HEIGHT, rows=2 + len(RATES))
    answered, *others = panels
    bucket_s, end_s = (
        run["over_time"]["bucket_s"],
        run["begun_s"] + run["plan"]["warm_up_s"] + run["plan"]["measure_s"],
    )
    counts = np.sum([each["answered"] for each in run["over_time"]["ensembles"]], axis=0) / bucket_s
    answered.plot((np.arange(len(counts)) + 0.5) * bucket_s, counts, color=COLOURS[2], marker=".")
    label(answered, "", "", "requests/s")
    for role, names in roles_of(document, run["shape"]).items():
        colour = COLOURS[(*ROLES, ANY).index(role)]
        for number, host in enumerate(each for each in names if each in hosts):
            did = hosts[host]
            chosen = (did.time_s >= run["begun_s"] - BESIDE_S) & (did.time_s <= end_s + BESIDE_S)
            time_s = did.time_s[chosen] - run["begun_s"]
            line = {"color": colour, "label": None if number else role, **THIN}
            for panel, (columns, unit) in zip(others, RATES.values(), strict=False):
                rates = rates_of(time_s, sum(did.counted[each][chosen] for each in columns))
                panel.plot((time_s[1:] + time_s[:-1]) / 2, rates / unit, **line)
            others[-1].plot(time_s, did.counted["memory_bytes"][chosen] / 1e6, **line)
    for panel, measured in zip(others, (*RATES, MEMORY), strict=True):
        label(panel, "", "", measured)
    for panel in panels:
        panel.set_xlim(0, end_s - run["begun_s"])
        panel.set_ylim(bottom=0)
    panels[-1].set_xlabel("seconds of the load", fontsize=9)
    add_legend(figure, others[0])
    about = _about(document, run)
    return Plot(name, about, figure)


def _about(document: Mapping[str, Any], run: Mapping[str, Any]) -> str:
    share = document["hosts"]["cost_share"]
    is_emulated = document["about"]["lab"]["kind"] == "emulated"
    disk = "for the disk, which is memory here, what its files grow by" if is_emulated else "the disk"
    return (
        f"What each host did while {run['system']} on {run['shape']} answered most requests/s: the processors and "
        f"the memory of its processes, the bytes of its network card both ways, {disk}. To look each second took "
        f"{share:.2%} of a processor for a host"
    )


def roles_of(document: Mapping[str, Any], shape: str) -> dict[str, Sequence[str]]:
    """The hosts that a shape uses, by their roles: servers are on the first ones."""
    roles = document["about"]["lab"].get("hosts")
    if not roles:
        return {ANY: [Below.HOST]}
    found = {role: [host for host, its in roles.items() if role in its] for role in ROLES}
    return {**found, "server": found["server"][: Shape.parse(shape).size]}


def rates_of(time_s: Any, counts: Any) -> Any:
    """Between each sample and the next; what becomes less, as files that are deleted, is 0."""
    return np.maximum(np.diff(counts), 0) / np.maximum(np.diff(time_s), 1e-3)
