"""All tables that a page can ask for, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from bench.pages import (
    client_ratios,
    fault_runs,
    gateway_tables,
    quorum_tables,
    report_tables,
    scale_tables,
    scenario_tables,
)
from bench.pages.raw import Raw
from bench.report.section import Table

GENERATORS: dict[str, Callable[[Sequence[Raw], Mapping[str, str]], Table]] = {
    "ratios": client_ratios.ratios,
    "crowds": client_ratios.crowds,
    "measured": client_ratios.measured,
    "gateway": gateway_tables.gateway,
    "conclusions": scenario_tables.conclusions,
    "scenario": scenario_tables.scenario,
    "recipe-calls": scenario_tables.recipe_calls,
    "zatt": report_tables.zatt,
    "zatt-rows": report_tables.zatt_rows,
    "nil-external": report_tables.nil_external,
    "raft-report": quorum_tables.raft_report,
    "etcd-slides": quorum_tables.etcd_slides,
    "fault-runs": fault_runs.fault_runs,
    "scale-costs": scale_tables.costs,
    "scale-loads": scale_tables.loads,
    "scale-comebacks": scale_tables.comebacks,
    "scale-fates": scale_tables.fates,
}
