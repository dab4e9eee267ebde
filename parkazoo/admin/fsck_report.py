"""What fsck has found, counted, with the first places."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from parkazoo.protocol.findings import KINDS, Kind

PATHS_KEPT = 1000


class Found(NamedTuple):
    """A finding, for people.

    :param path: the user's path of a directory, or else the znode's physical path on `ensemble`.
    :param remains: why it is still there, or what to do; empty if it has been mended.
    """

    ensemble: str
    path: str
    detail: str
    remains: str


@dataclass
class Tally:
    """How often something was found and repaired, and the first places."""

    found: int = 0
    repaired: int = 0
    paths: list[Found] = field(default_factory=list)

    def add(self, found: Found) -> None:
        self.found += 1
        self.repaired += not found.remains
        if len(self.paths) < PATHS_KEPT:
            self.paths.append(found)


@dataclass
class Report:
    """What fsck has found.

    :param looked_at: how many znodes.
    :param hidden: what there was no right to look at; physical paths.
    :param is_blind: whether that is ``/``, or ParKazoo's own, and not only znodes of users.
    :param absent: ensembles that could not be asked, and why. Nothing is said of them.
    :param undecided: what could not be judged without them; physical paths.
    """

    cluster: str
    looked_at: int = 0
    seconds: float = 0.0
    tallies: dict[Kind, Tally] = field(default_factory=lambda: {kind: Tally() for kind in KINDS})
    hidden: Tally = field(default_factory=Tally)
    is_blind: bool = False
    absent: dict[str, str] = field(default_factory=dict)
    undecided: Tally = field(default_factory=Tally)

    @property
    def is_wrong(self) -> bool:
        """Whether something that was found has not been mended."""
        return any(not kind.is_note and tally.found > tally.repaired for kind, tally in self.tallies.items())

    @property
    def is_complete(self) -> bool:
        """Whether every znode could be looked at."""
        return not self.hidden.found and not self.absent

    @property
    def is_clean(self) -> bool:
        """Whether every znode was looked at, and nothing is wrong, or all of it has been mended."""
        return self.is_complete and not self.is_wrong

    @property
    def remaining(self) -> list[Found]:
        """The first places of each kind that has not been mended."""
        return [
            found
            for kind, tally in self.tallies.items()
            for found in tally.paths
            if found.remains and not kind.is_note
        ]

    def to_json(self) -> dict[str, Any]:
        """For ``json.dumps``: every kind with its counts and its first thousand places."""
        return {
            "cluster": self.cluster,
            "znodes": self.looked_at,
            "seconds": round(self.seconds, 3),
            "clean": self.is_clean,
            "complete": self.is_complete,
            "findings": {k.name: _tally_to_json(tally) for k, tally in self.tallies.items() if not k.is_note},
            "notes": {k.name: _tally_to_json(tally) for k, tally in self.tallies.items() if k.is_note},
            "hidden": _tally_to_json(self.hidden),
            "absent": self.absent,
            "undecided": _tally_to_json(self.undecided),
        }


def _tally_to_json(tally: Tally) -> dict[str, object]:
    return {"found": tally.found, "repaired": tally.repaired, "first": [each._asdict() for each in tally.paths]}
