"""What fsck asks about one directory, its pin and its mirror, whatever says on which ensemble they are."""

from __future__ import annotations

from contextlib import suppress

from kazoo.exceptions import NoAuthError, NoNodeError

from parkazoo.kazoo_private import Exists, GetData, normpath
from parkazoo.protocol.audit import NOTHING, Audit, Suspect, foreign
from parkazoo.protocol.findings import (
    EMPTY_MIRRORS,
    LOST_CHILDREN,
    MISPLACED,
    MISSING_MIRRORS,
    MISSING_PINS,
    ORPHANS,
    UNFINISHED_PROMOTIONS,
    Finding,
    is_mark,
)
from parkazoo.protocol.moving import Moving, mark_of, move_of, old_mark_of
from parkazoo.protocol.past import ask_fresh
from parkazoo.protocol.pin import decode_pin
from parkazoo.protocol.placement import (
    GENERATION,
    MIRRORS,
    Directory,
    Place,
    generation_of,
    is_reserved,
    join,
    mirror_path,
    unescape,
)
from parkazoo.protocol.snapshot import Snapshot, judge, observe
from parkazoo.protocol.steps import Operation, ask


def is_there(ensemble: int, path: str) -> Operation[bool]:
    try:
        return (yield from ask(ensemble, Exists(path, None))) is not None
    except NoAuthError:  # since ZooKeeper 3.9, of what may not be read
        return True


def audit_pinned(d: Directory, moving: Moving | None = None) -> Operation[Audit]:
    """A directory whose pin names the ensemble of `d`'s mirror.

    :param moving: what the map says of a directory that moves: its marks are in order.
    """
    snapshot = yield from observe(d, is_fresh=False)
    if snapshot is not None and (snapshot.marks or snapshot.differing or not snapshot.has_mirror):
        snapshot = yield from observe(d)
    if snapshot is None:
        return NOTHING
    if moving is not None and moving.directory == d.path:
        own = {mark_of(moving.name), old_mark_of(moving.name)}
        snapshot = snapshot._replace(marks=snapshot.marks - own)
    strange = [mark for mark in snapshot.marks if not is_mark(mark) and not move_of(mark)]
    seen = Audit(foreign(Place(d.home.ensemble, d.pin), strange), hidden=[d.home] if snapshot.is_hidden else [])
    if not snapshot.has_mirror and not snapshot.marks:
        seen = seen._replace(findings=(yield from _explain_no_mirror(d, snapshot)))
    if snapshot.differing or len(strange) < len(snapshot.marks):
        return seen._replace(suspects=[Suspect(d, snapshot)])
    return seen


def _explain_no_mirror(d: Directory, before: Snapshot) -> Operation[list[Finding]]:
    """A pin without marks had no mirror: what the pin says of the fence tells why.

    A promotion that lands raises the fence's version above the one remembered. The version goes back, or the fence
    is another one, if its ensemble has lost what it had when the pin was made.
    """
    try:
        data, _ = yield from ask(d.home.ensemble, GetData(d.pin, None))
    except NoNodeError:
        return []
    fence, mirror = yield from ask_fresh(d.mirror.ensemble, Exists(d.fence, None), Exists(d.mirror.path, None))
    if mirror is not None:
        return []
    pin = decode_pin(data)
    if pin is None or (fence and fence.ctime == pin.ctime and fence.version > pin.version):
        return [Finding(MISSING_MIRRORS, d.home.ensemble, d.path)]
    if fence and fence.ctime == pin.ctime and fence.version == pin.version:
        return [Finding(UNFINISHED_PROMOTIONS, d.home.ensemble, d.path)]
    if (yield from observe(d)) != before:
        return []  # it is in use
    return [Finding(LOST_CHILDREN, d.mirror.ensemble, d.path, "", d)]


def recheck(suspect: Suspect) -> Operation[Audit]:
    """Look again at what looked wrong a while ago."""
    now = yield from observe(suspect.directory)
    return Audit(judge(suspect.directory, suspect.snapshot, now))


def mirrored_by(name: str) -> str | None:
    """The directory whose mirror has this name; None if no mirror is called so."""
    path, generation = unescape(name), generation_of(name)
    is_one = mirror_path(path, generation) == join(MIRRORS, name) and not is_reserved(path)
    with suppress(ValueError):
        if is_one and path[:1] == "/" and normpath(path) == path and GENERATION.fullmatch(generation or "0" * 32):
            return path
    return None


def audit_without_pin(d: Directory) -> Operation[list[Finding]]:
    """The mirror was there and its pin was not. Was that at one moment?"""
    before = yield from ask(d.mirror.ensemble, Exists(d.mirror.path, None))
    if before is None:
        return []
    home = d.home.ensemble
    yield from ask_fresh(home)
    if (yield from is_there(home, d.pin)):
        return []
    try:
        stat = yield from ask(home, Exists(d.home.path, None))
        has_home = stat is not None and not stat.ephemeralOwner
    except NoAuthError:
        has_home = True
    (after,) = yield from ask_fresh(d.mirror.ensemble, Exists(d.mirror.path, None))
    if after is None or after.czxid != before.czxid:
        return []
    if d.generation and (has_home or after.numChildren):  # of which life it is, nobody says
        return [Finding(MISPLACED, *d.mirror, f"no pin names it, so it holds no children of {d.path}")]
    if has_home:
        return [Finding(MISSING_PINS, home, d.path, "", d)]
    if after.numChildren:
        told = f"{after.numChildren} child{'ren' if after.numChildren > 1 else ''} of {d.path}"
        return [Finding(ORPHANS, d.mirror.ensemble, d.mirror.path, told, d)]
    return [Finding(EMPTY_MIRRORS, d.mirror.ensemble, d.mirror.path, f"of {d.path}", d)]
