"""What fsck asks about each znode where pins decide on which ensemble it is.

A directory is nowhere else than its pin says, and a pin never changes. So one look at a pin proves where the
children are, and a mirror is wrong if a pin that names another place is seen between two looks at the very same
mirror.
"""

from __future__ import annotations

from collections.abc import Container
from functools import partial

from kazoo.exceptions import NoAuthError, NoNodeError

from parkazoo.errors import ClusterMapError
from parkazoo.kazoo_private import Exists, GetChildren, GetData, Sync
from parkazoo.protocol.audit import NOTHING, Audit, AwayError, Unvisited, foreign, judge_alone, merge
from parkazoo.protocol.audit_directory import audit_pinned, audit_without_pin, is_there, mirrored_by
from parkazoo.protocol.audit_ensemble import Looks
from parkazoo.protocol.context import Context
from parkazoo.protocol.findings import DIFFERING_PROOFS, MISPLACED, UNFINISHED_MOVES, UNKNOWN_ENSEMBLES, Finding
from parkazoo.protocol.moving import guard, is_old_mark, term_of
from parkazoo.protocol.past import ask_fresh
from parkazoo.protocol.pin import Pin, decode_pin
from parkazoo.protocol.placement import (
    CERTAIN,
    MIRRORS,
    OURS,
    PIN,
    PINNED,
    PROOF,
    Directory,
    Place,
    above,
    generation_of,
    join,
    mirror_path,
)
from parkazoo.protocol.steps import Operation, ask
from parkazoo.protocol.where.lookup import locate
from parkazoo.protocol.where.places import NATIVE, directory


def _audit_znode(context: Context, parent: Place, parent_path: str, name: str) -> Operation[Audit]:
    """A znode of the user's, below `parent`."""
    place, path = Place(parent.ensemble, join(parent.path, name)), join(parent_path, name)
    d = directory(path, place, NATIVE)
    hidden = Audit()
    try:
        names = yield from ask(place.ensemble, GetChildren(place.path, None))
    except NoNodeError:
        return NOTHING
    except NoAuthError:  # all may see a pin and a proof
        hidden, names = Audit(hidden=[place]), []
    pin = yield from _read_pin(d)
    if pin is None:
        if PROOF in names and PIN not in names and (yield from _has_lone_proof(d)):
            return Audit([Finding(DIFFERING_PROOFS, place.ensemble, path, "a proof without a pin")])
        return merge(hidden, _native(context, d, names))
    on = pin.on or context.names[context.places.first.of_children(path)]
    if pin.is_native:
        if names and PROOF not in names and (yield from _has_lone_pin(d)):
            return Audit(
                [Finding(DIFFERING_PROOFS, place.ensemble, path, "a pin that says native, without a proof")]
            )
        return merge(hidden, _native(context, d, names))
    if on not in context.names:
        return merge(hidden, Audit([Finding(UNKNOWN_ENSEMBLES, place.ensemble, path, f"on {on} by its pin")]))
    about = f"beside a pin that names {on}"
    strange = [join(place.path, each) for each in names if each not in OURS]
    found = [Finding(MISPLACED, place.ensemble, each, about) for each in strange]
    if PROOF in names:
        found.append(Finding(DIFFERING_PROOFS, place.ensemble, path, f"a proof {about}"))
    pinned = directory(path, place, context.names.index(on), generation=pin.generation)
    seen = yield from judge_alone(place, audit_pinned(pinned, context.moving))
    return merge(Audit(found), seen if seen.hidden else merge(hidden, seen))


def _native(context: Context, d: Directory, names: list[str]) -> Audit:
    own = [name for name in names if name not in OURS]
    return Audit(unvisited=[Unvisited(partial(_audit_znode, context, d.home, d.path), own)])


def _read_pin(d: Directory) -> Operation[Pin | None]:
    try:
        data, _ = yield from ask(d.home.ensemble, GetData(d.pin, None))
    except (NoAuthError, NoNodeError):
        return None
    return decode_pin(data) or Pin(0, 0)


def _has_lone_proof(d: Directory) -> Operation[bool]:
    """Both are made and deleted at once, so one look at both is enough, if no server is behind."""
    (names,) = yield from ask_fresh(d.home.ensemble, GetChildren(d.home.path, None))
    return PROOF in names and PIN not in names


def _has_lone_pin(d: Directory) -> Operation[bool]:
    """Whether the pin says native, in a life in which there is no proof."""
    try:
        pin, names, again = yield from ask_fresh(
            d.home.ensemble, GetData(d.pin, None), GetChildren(d.home.path, None), GetData(d.pin, None)
        )
    except NoNodeError:
        return False
    found = decode_pin(pin[0])
    return bool(found and found.is_native and pin[1].czxid == again[1].czxid and PROOF not in names)


def _audit_mirror(context: Context, ensemble: int, name: str) -> Operation[Audit]:
    """A child of ``/parkazoo/mirrors``."""
    place, path = Place(ensemble, join(MIRRORS, name)), mirrored_by(name)
    if path is None:
        return Audit(foreign(Place(ensemble, MIRRORS), [name]))
    seen = NOTHING
    try:
        if (yield from _is_of_move(context, place, path)):
            return seen
    except AwayError:
        return Audit(undecided=[place])
    if generation_of(name):
        seen = Audit(moved=[place])
    try:
        seen = merge(seen, (yield from judge_alone(place, _audit_same_mirror(context, place, path))))
        names = yield from ask(ensemble, GetChildren(place.path, None))
    except NoNodeError:
        return seen
    except NoAuthError:
        return merge(seen, Audit(hidden=[place]))
    return merge(seen, Audit(unvisited=[Unvisited(partial(_audit_znode, context, place, path), names)]))


def _is_of_move(context: Context, place: Place, path: str) -> Operation[bool]:
    """Whether a move needs it that is under way: its copy, before the switch, or the place before, behind that."""
    move, on, moving = generation_of(place.path), context.names[place.ensemble], context.moving
    is_at_work = bool(move) and (yield from is_there(place.ensemble, term_of(move)))  # its command
    if not is_at_work:
        if moving is None or moving.directory != path:
            return False
        if (on, move) not in ((moving.target, moving.name), (moving.source, moving.generation)):
            return False
    found = yield from locate(context.unheld(), path, is_fresh=True)
    return is_at_work if found is None else found.mirror != place


def audit_moved(context: Context, ensemble: int, seen: Container[Place]) -> Operation[Audit]:
    """Mirrors that moves have made, but those seen: their children may have been seen neither here nor before."""
    try:
        names = yield from ask(ensemble, GetChildren(MIRRORS, None))
    except (NoAuthError, NoNodeError):  # which the first look has found
        return NOTHING
    new = [name for name in names if generation_of(name) and Place(ensemble, join(MIRRORS, name)) not in seen]
    return Audit(unvisited=[Unvisited(partial(_audit_mirror, context, ensemble), new)])


def _audit_same_mirror(context: Context, place: Place, path: str) -> Operation[Audit]:
    before = yield from ask(place.ensemble, Exists(place.path, None))
    findings = yield from _audit_its_directory(context, place, path)
    if not findings:
        return NOTHING
    (after,) = yield from ask_fresh(place.ensemble, Exists(place.path, None))
    is_same = before is not None and after is not None and before.czxid == after.czxid
    return Audit(findings) if is_same else NOTHING


def _audit_its_directory(context: Context, place: Place, path: str) -> Operation[list[Finding]]:
    """The finding about a mirror, if it has been the same all the time."""
    generation = generation_of(place.path)
    if generation and (yield from is_there(place.ensemble, guard(generation))):
        return [Finding(UNFINISHED_MOVES, place.ensemble, path, "its copy is still there")]
    yield from _sync_above(context, path)
    context = context.unheld()
    try:
        found = yield from locate(context, path, is_fresh=True)
        if found is None and (yield from _is_damaged_above(context, path)):
            return []
    except ClusterMapError:  # a pin names an unknown ensemble, its own or one above: that is found at its home
        return []
    if found is None or found.certainty < PINNED:
        home = (context.places.known(path) if found is None else found).home
        d = directory(path, home, place.ensemble, generation=generation_of(place.path))
        return (yield from audit_without_pin(d))
    if found.mirror == place or (yield from _has_old_place(found)):
        return []
    if generation and (yield from is_there(found.mirror.ensemble, found.mirror.path)):
        return [Finding(UNFINISHED_MOVES, place.ensemble, path, "its copy is still there")]
    on = "below it" if found.is_native else f"on {context.names[found.mirror.ensemble]}"
    if not found.is_native and found.mirror.ensemble == place.ensemble:
        on = f"below {found.mirror.path}"
    return [Finding(MISPLACED, *place, f"the children of {path} are {on} by its pin")]


def _has_old_place(d: Directory) -> Operation[bool]:
    """Whether a mark of a move below the pin says so: that is found there."""
    try:
        marks = yield from ask(d.home.ensemble, GetChildren(d.pin, None))
    except NoNodeError:
        return False
    return any(map(is_old_mark, marks))


def _is_damaged_above(context: Context, path: str) -> Operation[bool]:
    """Whether a directory above has a mirror where no pin says so: then no client finds it or what lies below."""
    for directory_above in above(path):
        if context.known(directory_above).certainty == CERTAIN:
            return False
        found = yield from locate(context, directory_above, is_fresh=True)
        generation = "" if found is None else found.generation
        place = found.mirror if found is not None and found.certainty == PINNED else None
        for mirror in dict.fromkeys(mirror_path(directory_above, each) for each in ("", generation)):
            answers = yield tuple((ensemble, Exists(mirror, None)) for ensemble in range(len(context.names)))
            for ensemble, stat in enumerate(answers):
                if stat is not None and place != Place(ensemble, mirror):
                    return True
    return False


def _sync_above(context: Context, path: str) -> Operation[None]:
    """No server may be behind, by which a directory is not found."""
    ensembles = {context.places.known(each).mirror.ensemble for each in above(path)}
    yield tuple((ensemble, Sync("/")) for ensemble in sorted(ensembles))


BY_PINS = Looks(_audit_znode, _audit_mirror)
