"""What fsck asks about an ensemble: where everything on it begins, and the folders of ``/parkazoo``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from kazoo.exceptions import NoAuthError, NoNodeError

from parkazoo.kazoo_private import Exists, GetChildren, Sync
from parkazoo.protocol.audit import NOTHING, Audit, Unvisited, foreign, merge, misplaced
from parkazoo.protocol.context import Context
from parkazoo.protocol.findings import FOREIGN, LOST_MIRRORS, MISSING, Finding, is_mark
from parkazoo.protocol.moving import MOVES, term_of
from parkazoo.protocol.past import ask_fresh
from parkazoo.protocol.placement import (
    CLIENTS,
    DEFERRED,
    DONE,
    ENSEMBLE,
    FENCE_COUNT,
    FENCES,
    HISTORY,
    MAP,
    MARKER,
    MIRRORS,
    PROBE,
    ROOT,
    Place,
    generation_of,
    join,
    split,
)
from parkazoo.protocol.records import look_at_done, look_at_marker
from parkazoo.protocol.registration import registration_path
from parkazoo.protocol.steps import Operation, ask
from parkazoo.protocol.went_back import is_notice

Look = Callable[[int, int, str], Operation[list[Finding]]]


class Looks(NamedTuple):
    """How to look at a znode of the user's, and at a mirror: that depends on what says where children are."""

    znode: Callable[[Context, Place, str, str], Operation[Audit]]
    mirror: Callable[[Context, int, str], Operation[Audit]]


def audit_ensemble(context: Context, ensemble: int, now_ms: int, looks: Looks) -> Operation[Audit]:
    """Where everything on an ensemble begins: ``/`` and ``/parkazoo``.

    :param now_ms: the time, in milliseconds since 1970.
    """
    yield from ask(ensemble, Sync("/"))
    carrying = context.places.first.ensembles
    carries = carrying > 1 and ensemble < carrying
    folders = (CLIENTS, MIRRORS, FENCES, DONE) if carries else (CLIENTS,)
    inert = [MAP, ENSEMBLE]
    parts = [(yield from _audit_root(context, ensemble, looks))]
    try:
        names = yield from ask(ensemble, GetChildren(ROOT, None))
    except NoAuthError:
        return merge(*parts, Audit(hidden=[Place(ensemble, ROOT)]))
    if ensemble == context.places.bootstrap and split(HISTORY)[1] in names:
        inert.append(HISTORY)
    for path in folders:
        if split(path)[1] not in names:
            parts.append(Audit([Finding(LOST_MIRRORS if path == MIRRORS else MISSING, ensemble, path)]))
        parts.append((yield from _audit_folder(context, Place(ensemble, path), now_ms, looks)))
    others = (DEFERRED, MOVES)
    for path in others:
        audit = yield from _audit_folder(context, Place(ensemble, path), now_ms, looks)
        parts.append(audit)
    own = {split(path)[1] for path in (*folders, *inert, *others)}
    strange = [name for name in names if name not in own and not name.startswith((MARKER, PROBE))]
    parts.append(Audit(foreign(Place(ensemble, ROOT), strange)))
    childless = partial(_audit_childless, Place(ensemble, ROOT))
    parts.append(Audit(unvisited=[Unvisited(childless, [split(path)[1] for path in inert])]))
    return merge(*parts)


def _audit_root(context: Context, ensemble: int, looks: Looks) -> Operation[Audit]:
    root = Place(ensemble, "/")
    try:
        names = yield from ask(ensemble, GetChildren("/", None))
    except NoAuthError:
        return Audit(hidden=[root])
    names = [name for name in names if name not in ("zookeeper", ROOT[1:]) and not name.startswith(PROBE)]
    if ensemble == context.known("/").mirror.ensemble:
        return Audit(unvisited=[Unvisited(partial(looks.znode, context, root, "/"), names)])
    return Audit([misplaced(context, root, "/", name) for name in names])


def _audit_folder(context: Context, folder: Place, now_ms: int, looks: Looks) -> Operation[Audit]:
    """``/parkazoo/clients``, ``deferred``, ``moves``, ``mirrors``, ``fences`` or ``done``."""
    try:
        names = yield from ask(folder.ensemble, GetChildren(folder.path, None))
    except NoNodeError:
        names = []
    except NoAuthError:
        return Audit(hidden=[folder])
    if folder.path == MIRRORS:
        return Audit(unvisited=[Unvisited(partial(looks.mirror, context, folder.ensemble), names)])
    if folder.path == DEFERRED:
        return Audit(unvisited=[Unvisited(partial(_audit_record, look_at_marker, folder, now_ms), names)])
    if folder.path == MOVES:
        return Audit(unvisited=[Unvisited(partial(_audit_of_move, folder), names)])
    if folder.path == CLIENTS:
        return Audit(unvisited=[Unvisited(partial(_audit_registration, folder.ensemble), names)])
    if folder.path == DONE:
        strange = [name for name in names if not is_mark(name)]
        own = [name for name in names if is_mark(name)]
        look = partial(_audit_record, look_at_done, folder, now_ms)
        return Audit(foreign(folder, strange), unvisited=[Unvisited(look, own)])
    fences = {str(number) for number in range(FENCE_COUNT)}
    missing = [Finding(MISSING, folder.ensemble, join(FENCES, name)) for name in sorted(fences.difference(names))]
    strange = [name for name in names if name not in fences]
    own = [name for name in names if name in fences]
    return Audit(
        [*missing, *foreign(folder, strange)], unvisited=[Unvisited(partial(_audit_childless, folder), own)]
    )


def _audit_childless(folder: Place, name: str) -> Operation[Audit]:
    """A znode that has no children."""
    place = Place(folder.ensemble, join(folder.path, name))
    try:
        names = yield from ask(place.ensemble, GetChildren(place.path, None))
    except NoNodeError:
        return NOTHING
    except NoAuthError:
        return Audit(hidden=[place])
    if place.path == ENSEMBLE:  # `map check` reports the notices
        names = [each for each in names if not is_notice(each)]
    return Audit(foreign(place, names))


def _audit_of_move(folder: Place, name: str) -> Operation[Audit]:
    """It is made with the copy, and goes before the copy."""
    move, path = name.partition(".")[0], join(folder.path, name)
    if path == term_of(move):  # an ephemeral
        return NOTHING
    (mirrors,) = yield from ask_fresh(folder.ensemble, GetChildren(MIRRORS, None))
    if any(generation_of(each) == move for each in mirrors):
        return NOTHING
    (stat,) = yield from ask_fresh(folder.ensemble, Exists(path, None))
    return Audit() if stat is None else Audit(foreign(folder, [name]))


def _audit_registration(ensemble: int, name: str) -> Operation[Audit]:
    path = join(CLIENTS, name)
    try:
        stat = yield from ask(ensemble, Exists(path, None))
    except NoAuthError:
        return Audit(hidden=[Place(ensemble, path)])
    if stat is None or registration_path(stat.ephemeralOwner) == path:
        return NOTHING
    return Audit([Finding(FOREIGN, ensemble, path)])


def _audit_record(look: Look, folder: Place, now_ms: int, name: str) -> Operation[Audit]:
    try:
        return Audit((yield from look(folder.ensemble, now_ms, name)))
    except NoAuthError:
        return Audit(hidden=[Place(folder.ensemble, join(folder.path, name))])


def is_essential(path: str) -> bool:
    """Whether fsck cannot do without the znode at this physical path: ``/`` and ParKazoo's own."""
    return path == "/" or (f"{path}/".startswith(f"{ROOT}/") and not path.startswith(f"{MIRRORS}/"))
