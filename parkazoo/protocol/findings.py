"""What can be wrong in the trees, and where: what fsck finds."""

from __future__ import annotations

import re
from typing import NamedTuple

from parkazoo.protocol.placement import Directory

STALE_AFTER_MS = 24 * 3600 * 1000  # no deleter waits that long for its answer
MARK = re.compile(r"[0-9a-f]{32}\.(?:-?[0-9]+|transaction)")


class Kind(NamedTuple):
    """What can be wrong.

    :param remedy: what the user can do, if it cannot be mended safely; empty if it can.
    :param is_note: whether it is only worth knowing: nothing is wrong.
    """

    name: str
    about: str
    remedy: str = ""
    is_note: bool = False


ORPHANS = Kind(
    "orphans",
    "mirrors with children, whose directory does not exist",
    "create the directory again, and `parkazoo fsck --repair` joins its children to it; or delete the mirror "
    "and what is below it, with a client of its ensemble",
)
EMPTY_MIRRORS = Kind("empty-mirrors", "empty mirrors, whose directory does not exist")
MISSING_PINS = Kind("missing-pins", "directories that have a mirror and no pin")
UNFINISHED_DELETES = Kind("unfinished-deletes", "deletes that were begun and not finished")
UNFINISHED_MOVES = Kind(
    "unfinished-moves",
    "moves of directories whose command has ended before its time",
    "`parkazoo map move` with the path goes on; with --abort too, it takes back what has not switched",
)
STALE_DONE = Kind("stale-done-records", "records of finished deletes that their deleters have not read")
ABANDONED_MARKERS = Kind("abandoned-markers", "markers of deferred writes whose client is gone")
DIFFERING_ACLS = Kind("differing-acls", "directories whose mirror or pin has another ACL than their home")
MISSING = Kind("missing-structure", "missing parts of /parkazoo")
FOREIGN = Kind(
    "foreign",
    "znodes in ParKazoo's places that are not ParKazoo's",
    "delete them, with a client of their ensemble, unless you know what they are for",
)
MISPLACED = Kind(
    "misplaced",
    "znodes where no ParKazooClient looks for them",
    "copy them with a ParKazooClient to the paths that they should have; delete them with a client of the "
    "ensemble that they are on",
)
LOST_MIRRORS = Kind(
    "lost-mirrors",
    "ensembles that have lost their mirrors, and with them the children of directories",
    "bring back its data; `parkazoo map init` with the arguments of the map says what is lost, and gives it up "
    "with --replace",
)
LOST_CHILDREN = Kind(
    "lost-children",
    "directories whose children were lost when their ensemble was emptied or went back to a backup",
    "bring back the ensemble's data; or create the children again, or delete the directory; or let it count as "
    "empty with `parkazoo fsck --repair --accept-loss` and the ensemble's name",
)
UNKNOWN_ENSEMBLES = Kind(
    "unknown-ensembles",
    "directories whose pin says that their children are on an ensemble that the map does not have",
    "delete nothing: the map was made without that ensemble; stop the clients, and bring back the old map "
    "(docs/operations/fsck.md)",
)
DIFFERING_PLACES = Kind(
    "differing-places",
    "directories whose children are on one ensemble by their pin and on another by the map",
    "delete nothing: the map was made with its ensembles in another order; stop the clients, and bring back the "
    "old map (docs/operations/fsck.md)",
)
DIFFERING_PROOFS = Kind(
    "differing-proofs",
    "directories whose pin and proof disagree on whether the children are below them",
    "stop the clients; if the pin says native, make `.parkazoo.native` beside it; if it names an ensemble, delete "
    "`.parkazoo.native`; if there is no pin, delete it too, once nobody else has made it meanwhile",
)
UNFINISHED_PROMOTIONS = Kind(
    "unfinished-promotions",
    "directories whose first child never came: a pin without a mirror",
    "nothing: the next first child finishes it",
    is_note=True,
)
MISSING_MIRRORS = Kind(
    "missing-mirrors",
    "directories that count as empty: a pin without a mirror",
    "nothing, if a first child never came or a delete was called off; but if someone has deleted the mirror by "
    "hand, its children are lost",
    is_note=True,
)
KINDS = (
    LOST_MIRRORS,
    LOST_CHILDREN,
    UNKNOWN_ENSEMBLES,
    DIFFERING_PLACES,
    DIFFERING_PROOFS,
    ORPHANS,
    EMPTY_MIRRORS,
    MISSING_PINS,
    UNFINISHED_DELETES,
    UNFINISHED_MOVES,
    DIFFERING_ACLS,
    STALE_DONE,
    ABANDONED_MARKERS,
    MISSING,
    FOREIGN,
    MISPLACED,
    UNFINISHED_PROMOTIONS,
    MISSING_MIRRORS,
)


class Finding(NamedTuple):
    """Something wrong, and where.

    :param path: the user's path of a directory, or else the znode's physical path on the ensemble.
    """

    kind: Kind
    ensemble: int
    path: str
    detail: str = ""
    directory: Directory | None = None
    marks: frozenset[str] = frozenset()


def is_mark(name: str) -> bool:
    """Whether a child of a pin is the mark of a delete."""
    return MARK.fullmatch(name) is not None


def is_stale(ctime_ms: int, now_ms: int) -> bool:
    """Whether a record of a finished delete is so old that its deleter will not read it any more."""
    return ctime_ms <= now_ms - STALE_AFTER_MS
