"""All scenarios, by name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Protocol

from bench.lab import Lab, LabError
from bench.report.section import Section
from bench.scenarios import (
    chaos,
    cuts,
    elections,
    ensembles_added,
    failures,
    networks,
    raft,
    scaling,
    thesis,
    topologies,
)
from bench.scenarios.evaluation import Evaluation


class Scenario(Protocol):
    """A module of this package."""

    NAME: str
    TITLE: str

    def measure(self, evaluation: Evaluation) -> None:
        """
        :raises LabError: something of the lab does not work.
        """

    def show(self, document: Mapping[str, Any]) -> Section: ...


_MODULES: tuple[Scenario, ...] = (
    thesis,
    scaling,
    ensembles_added,
    networks,
    topologies,
    failures,
    cuts,
    chaos,
    elections,
    raft,
)
SCENARIOS = {each.NAME: each for each in _MODULES}


def verify_topology(topology: Path, names: Collection[str], size: str, *, can_limit: bool) -> None:
    """See that a topology that the user has named will be used.

    :param names: of the scenarios that are to be measured.
    :param can_limit: whether the lab can do anything to a host's network.
    :raises LabError: it will not be. The message says why.
    """
    if topologies.NAME not in names:
        raise LabError(f"a topology is for the scenario {topologies.NAME}, which is not asked for")
    if not can_limit:
        raise LabError("a topology takes emulated hosts: neither loopback nor real hosts can change their links")
    topologies.verify_topology(topology, size)


def run_scenario(
    name: str,
    lab: Lab,
    folder: Path,
    size: str = "medium",
    seed: int = 1,
    tell: Callable[[str], None] = lambda _: None,
    topology: Path | None = None,
) -> Path:
    """Measure a scenario.

    :param size: of evaluation.SIZES.
    :param topology: a file, for scenario topologies; None: the example of conf/.
    :returns: the file of its results, ``folder/NAME.json``. The requests themselves are in ``folder/raw``.
    :raises LabError: something of the lab does not work. What was measured before is in the file.
    """
    evaluation = Evaluation(lab, name, folder, size, seed, tell, topology)
    try:
        SCENARIOS[name].measure(evaluation)
    except LabError as error:
        evaluation.not_measured("what was to come after this", error)
        raise
    finally:
        path = evaluation.save()
    return path
