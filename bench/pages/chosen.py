"""Which of the committed results count: of each scenario the newest that were measured well."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bench.pages.raw import Raw
from bench.scenarios.catalogue import SCENARIOS
from bench.scenarios.evaluation import SIZES, Parts, stem
from bench.scenarios.repetitions import fold
from bench.scenarios.results import MEASURED

MOST_TOO_SHORT = 0.25  # of a document's loads; one that has more was not measured well


def choose(raws: Sequence[Raw]) -> dict[str, Raw]:
    """Of each scenario, or part of one, the newest results that were measured well; if none were, the best.

    A scenario's results are left out when each of its parts was measured after them.

    :param raws: any; those of no scenario are left out, and those of the sizes that are for something else.
    """
    of: dict[tuple[str, str], list[Raw]] = {}
    for raw in raws:
        document = raw.document
        if (
            document.get("scenario") in SCENARIOS
            and document["about"]["size"] in SIZES[1:]
            and any(document.get(each) for each in MEASURED)
        ):
            of.setdefault((document["scenario"], document.get("part", "")), []).append(raw)
    best = {piece: max(of[piece], key=_rank) for piece in sorted(of, key=_place)}
    return {stem(*piece): raw for piece, raw in best.items() if not _is_measured_again(piece, best)}


def _place(piece: tuple[str, str]) -> tuple[int, int, str]:
    scenario, part = piece
    parts = _parts_of(scenario)
    return [*SCENARIOS].index(scenario), parts.index(part) if part in parts else -1, part


def _parts_of(scenario: str) -> list[str]:
    whole = SCENARIOS[scenario].SIZES[SIZES[-1]]
    return [*whole] if isinstance(whole, Parts) else []


def _is_measured_again(piece: tuple[str, str], best: Mapping[tuple[str, str], Raw]) -> bool:
    (scenario, part), parts = piece, _parts_of(piece[0])
    later = {of for (name, of), raw in best.items() if name == scenario and raw.date > best[piece].date}
    return bool(parts) and not part and {*parts} <= later


def _rank(raw: Raw) -> tuple[float, str]:
    runs = fold(raw.document["runs"])
    too_short = sum(bool(run.get("is_too_short")) for run in runs) / max(len(runs), 1)
    return (0.0 if too_short <= MOST_TOO_SHORT else -too_short), raw.date


def folded(raws: Sequence[Raw]) -> dict[str, dict[str, Any]]:
    """The chosen documents, with folded runs."""
    return {name: {**raw.document, "runs": fold(raw.document["runs"])} for name, raw in choose(raws).items()}
