"""All scenarios, by name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from bench.etcd_server import PACKAGE, PROGRAM
from bench.lab import SHAPE, Lab, LabError
from bench.report.section import Section
from bench.scenarios import (
    cuts,
    directories_moved,
    dropped_packets,
    elections,
    ensembles_added,
    failures,
    networks,
    raft,
    scaling,
    second_system,
    thesis,
    thesis_sizes,
    topologies,
    writes_deferred,
)
from bench.scenarios.evaluation import Evaluation, Parts

CLIENTS = 2  # hosts, of an emulation


class Scenario(Protocol):
    """A module of this package."""

    NAME: str
    TITLE: str

    @property
    def SIZES(self) -> Mapping[str, Any]: ...

    def measure(self, evaluation: Evaluation) -> None:
        """
        :raises LabError: something of the lab does not work.
        """

    def show(self, document: Mapping[str, Any]) -> Section: ...


_MODULES: tuple[Scenario, ...] = (
    thesis,
    scaling,
    ensembles_added,
    directories_moved,
    networks,
    topologies,
    failures,
    cuts,
    dropped_packets,
    elections,
    raft,
    writes_deferred,
    second_system,
)
SCENARIOS = {each.NAME: each for each in _MODULES}
# Beside Java: of a scenario, programs with Debian's packages that have them.
PROGRAMS = {second_system.NAME: {PROGRAM: PACKAGE}}
USUAL = tuple(name for name in SCENARIOS if name not in PROGRAMS)


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


def most_servers(names: Collection[str], size: str) -> int:
    """That run at the same time: of the largest shape that a scenario's size names."""
    named = SHAPE.findall(" ".join(repr(SCENARIOS[name].SIZES[size]) for name in names))
    return max(int(ensembles) * int(servers) for ensembles, servers in named)


def title_of(name: str, part: str) -> str:
    title = SCENARIOS[name].TITLE
    return f"{title}: {part}" if part else title


def pieces(names: Sequence[str], size: str, part: str = "") -> list[tuple[str, str]]:
    """Each scenario with its part; with each of them, if its size has parts and none is named.

    :raises LabError: there is no such part.
    """
    of = {name: SCENARIOS[name].SIZES[size] for name in names}
    parts = {name: [*each] if isinstance(each, Parts) else [""] for name, each in of.items()}
    if not part:
        return [(name, each) for name in names for each in parts[name]]
    known = [each for name in names for each in parts[name] if each]
    if len(names) != 1 or part not in known:
        raise LabError(
            f"no part {part} of {', '.join(names)}, size {size}; there are {', '.join(known) or 'none'}"
        )
    return [(names[0], part)]


def most_clients(chosen: Sequence[tuple[str, str]], size: str) -> int:
    """Client hosts that these scenarios or parts want, as far as an emulation can have more than usual."""
    sizes = [SCENARIOS[name].SIZES[size] for name, _ in chosen]
    parts = [each[part] if part else each for each, (_, part) in zip(sizes, chosen, strict=True)]
    return max([CLIENTS, *(each.most_hosts() for each in parts if isinstance(each, thesis_sizes.Size))])


def run_scenario(
    name: str,
    lab: Lab,
    folder: Path,
    size: str = "medium",
    seed: int = 1,
    tell: Callable[[str], None] = lambda _: None,
    topology: Path | None = None,
    repeat: int | None = None,
    part: str = "",
) -> Path:
    """Measure a scenario.

    :param size: of evaluation.SIZES.
    :param part: of a size that has parts (`pieces` names them).
    :param topology: a file, for scenario topologies; None: the example of conf/.
    :param repeat: how often each run is repeated; None: as often as the scenario's size says.
    :returns: the file of its results, ``folder/NAME.json`` or ``folder/NAME-PART.json``. The requests themselves
        are in ``folder/raw``.
    :raises LabError: something of the lab does not work. What was measured before is in the file.
    """
    evaluation = Evaluation(lab, name, folder, size, seed, tell, topology, repeat, part)
    try:
        with evaluation.watched():
            SCENARIOS[name].measure(evaluation)
    except LabError as error:
        evaluation.not_measured("what was to come after this", error)
        raise
    finally:
        path = evaluation.save()
    return path
