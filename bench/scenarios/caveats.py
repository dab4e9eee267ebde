"""What figures do not say, because of the lab that they are from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench.report.text import MARK, TOO_SHORT
from bench.statistics import WINDOW_MEDIANS

ONE_MACHINE = (
    "Clients and all servers share the processors of one machine. Where these are the limit, "
    "more servers are slower, not faster."
)
NO_DISK = "Servers do not wait for a disk: they share one, and would measure that."
DISK = (
    "Where servers wait for a disk, each waits for one of its own, as long for each fsync, however much is "
    "written. Elsewhere they wait for none."
)
LIMITED = (
    "The limit is the emulated network card of each server, of the leader above all, and ensembles share nothing. "
    "That shows how load is spread; it says nothing of the throughput of real hardware."
)


def caveats_of(document: Mapping[str, Any]) -> list[str]:
    """Those that hold for every scenario in the same lab."""
    caveats = []
    if document["about"]["is_one_machine"]:
        caveats += [ONE_MACHINE, DISK if document.get("disk_wait_s") else NO_DISK]
    if document.get("rate_bytes_s"):
        caveats.append(LIMITED)
    runs = document["runs"]
    if short := sum(run.get("is_too_short", False) for run in runs):
        caveats.append(
            f"In {short} of {len(runs)} runs the window of measuring is shorter than {WINDOW_MEDIANS} times the "
            f'median latency. They have no figures: "{TOO_SHORT}" stands in their place, and they are not drawn. '
            "Where requests come at a rate that is not achieved, latency rises as long as the load lasts, so that "
            "no window is long enough."
        )
    if limited := sum(bool(run["limits"]) for run in runs):
        caveats.append(
            f"In {limited} of {len(runs)} runs, marked with{MARK}, processors or the load generator were busy to "
            "the limit: their figures may not be the servers' own."
        )
    if failed := [run["errors"] for run in runs if run["failed"]]:
        names = ", ".join(sorted({name for errors in failed for name in errors}))
        caveats.append(f"In {len(failed)} of {len(runs)} runs requests failed, with {names}.")
    caveats += [f"Not measured: {each['what']}: {each['why']}." for each in unique(document["not_measured"])]
    return caveats


def unique(entries: list[dict[str, str]]) -> list[dict[str, str]]:
    return list({str(entry): entry for entry in entries}.values())
