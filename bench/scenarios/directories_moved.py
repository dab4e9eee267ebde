"""Moves: old directories go from one ensemble to others while clients work."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from bench.lab import Ensembles, LabError, Told
from bench.load.plan import Plan
from bench.load.requests import name_directories
from bench.report.section import Section
from bench.scenarios import moves_sizes, moves_tables
from bench.scenarios.evaluation import VALUE_BYTES, Evaluation, LoadError, sleep_until
from bench.scenarios.moves_figures import BUCKET_S, balance_figures, copied_s, find_moves, move_figures
from bench.scenarios.moves_sizes import WRITTEN, Balancing, Moving

NAME = "moves"
TITLE = "Moves: old directories go to other ensembles while clients work"
SIZES = moves_sizes.SIZES
PREPARED_S = 0.1  # of the loads that only make znodes


def measure(evaluation: Evaluation) -> None:
    for size in evaluation.chosen(SIZES):
        for _ in evaluation.rounds():
            with suppress(LoadError):
                if isinstance(size, Balancing):
                    _balance(evaluation, size)
                else:
                    _move(evaluation, size)


def _plan(evaluation: Evaluation, ensembles: Ensembles, of: Balancing | Moving, **load: Any) -> Plan:
    """By its count of ensembles the load leaves alone where its directories are."""
    windows = {"warm_up_s": of.warm_up_s, "measure_s": of.measure_s}
    return evaluation.plan(ensembles, "parkazoo", ensembles=1, **windows, **load)


def _make_old(evaluation: Evaluation, plan: Plan, directories: int, znodes: int) -> None:
    """Make the first directories of a load by kazoo, with so many znodes in each.

    :raises LabError: that fails.
    """
    evaluation.tell(f"making {directories:,} directories of {znodes:,} znodes")
    made = Plan("kazoo", plan.hosts, plan.root, f"{plan.name}-old", directories=directories, leaves=max(znodes, 1))
    evaluation.prepare(replace(made, write="set", size=VALUE_BYTES, warm_up_s=0.0, measure_s=PREPARED_S))


# ---- many directories, by map rebalance --------------------------------------------------------------


def _balance(evaluation: Evaluation, size: Balancing) -> None:
    with evaluation.ensembles(size.shape, mapped=1) as ensembles:
        hosts = len(evaluation.lab.clients)
        plan = _plan(
            evaluation,
            ensembles,
            size,
            read_share=0.2,
            write="set",
            leaves=WRITTEN,
            directories=size.directories,
            is_pinned=True,
            threads=max(size.clients // hosts, 1),
            in_flight=max(size.directories // size.clients, 1),
        )
        _make_old(evaluation, plan, size.large, size.znodes)
        evaluation.warm_up(plan)
        with evaluation.limited(ensembles.servers, size.rate_bytes_s) as rate_bytes_s:
            if rate_bytes_s:
                evaluation.document["rate_bytes_s"] = rate_bytes_s
            _measure_balance(evaluation, size, ensembles, plan, rate_bytes_s)


def _measure_balance(
    evaluation: Evaluation, size: Balancing, ensembles: Ensembles, plan: Plan, rate_bytes_s: float | None
) -> None:
    commands: list[Told] = []

    def spread(begun_s: float) -> None:
        sleep_until(begun_s + plan.warm_up_s + size.before_s)
        began_s = time.time()
        evaluation.lab.grow(ensembles, ensembles.shape.names[1:])
        commands.append({"began_s": began_s, "ended_s": time.time()})
        evaluation.tell(f"  {ensembles.shape.ensembles} ensembles, after {time.time() - began_s:.1f} s")
        told = evaluation.lab.rebalance(ensembles, size.counted_s)
        commands.append(told)
        evaluation.tell(f"  rebalanced in {told['ended_s'] - told['began_s']:.1f} s")
        if told["why"]:
            raise LabError(told["why"])
        if time.time() > begun_s + plan.total_s():
            evaluation.not_measured("writes/s afterwards", "`map rebalance` took too long")

    run = evaluation.run(ensembles, plan, {"part": size.part}, spread, BUCKET_S)
    run.update(commands=commands, rate_bytes_s=rate_bytes_s)
    run.update(balance_figures(evaluation.raw(run), commands, name_directories(plan)))
    evaluation.save()


# ---- one directory, by map move ----------------------------------------------------------------------


def _move(evaluation: Evaluation, size: Moving) -> None:
    with evaluation.ensembles(size.shape, mapped=1) as ensembles:
        plan = _plan(evaluation, ensembles, size, **_of_one_host(evaluation, size.load))
        _make_old(evaluation, plan, 1, size.znodes)
        evaluation.lab.grow(ensembles, ensembles.shape.names[1:])
        first = evaluation.lab.move(ensembles, name_directories(plan)[0], ensembles.shape.names[1])
        if first["why"]:
            raise LabError(first["why"])
        evaluation.warm_up(replace(plan, idle=0))
        _measure_moves(evaluation, size, ensembles, plan)


def _of_one_host(evaluation: Evaluation, load: Mapping[str, Any]) -> dict[str, Any]:
    """The sizes are for two client hosts."""
    factor = max(2 // len(evaluation.lab.clients), 1)
    return {**load, "threads": load["threads"] * factor, "idle": load.get("idle", 0) * factor}


def _measure_moves(evaluation: Evaluation, size: Moving, ensembles: Ensembles, plan: Plan) -> None:
    path = name_directories(plan)[0]
    commands: list[Told] = []
    to, other = ensembles.shape.names[:2]

    def move(begun_s: float) -> None:
        nonlocal to, other
        first_s = begun_s + plan.warm_up_s + size.before_s
        for number, per_second in enumerate(size.rates):
            sleep_until(first_s + number * size.each_s)
            if number and time.time() > begun_s + plan.total_s() - size.each_s / 2:
                evaluation.not_measured(f"{len(size.rates) - number} moves", "those before took too long")
                break
            told = evaluation.lab.move(ensembles, path, to, per_second)
            if not told["why"]:
                to, other = other, to
            commands.append({**told, "per_second": per_second})
            evaluation.tell(f"  {_in_words(told)}")

    run = evaluation.run(ensembles, plan, {"part": size.part}, move, BUCKET_S)
    run["commands"] = commands
    run.update(move_figures(evaluation.raw(run), commands))
    evaluation.save()


def _in_words(told: Told) -> str:
    took = f"{told['ended_s'] - told['began_s']:.1f} s"
    if told["why"]:
        return f"not moved, after {took}: {told['why']}"
    (move,) = find_moves(told)
    held = ", ".join(f"{1000 * (ended_s - began_s):.0f} ms" for began_s, ended_s in move["holds"])
    return f"moved to {move['target']} in {took}, held for {held}; {copied_s(told) or 0:,.0f} znodes/s"


def show(document: Mapping[str, Any]) -> Section:
    return Section(NAME, TITLE, **moves_tables.parts_of(document, NAME))
