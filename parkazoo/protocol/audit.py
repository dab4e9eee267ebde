"""What fsck asks about each znode, and what it concludes: pure, and right while clients go on working.

No client sees several ensembles at one moment, so looks at two of them prove nothing:

- A mirror lives within the life of its pin, and the pin within the life of its home. So a mirror is wrong if its
  pin or home is missing at a moment *between* two looks at the very same mirror (its czxid), each no older than
  the one before (sync).
- Deletes and set_acls under way leave marks and ACLs that differ for a while. So fsck looks at a directory twice,
  with time in between. Only what has not moved at all was left by a client that is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, TypeVar

from kazoo.exceptions import NoAuthError, NoNodeError

from parkazoo.kazoo_private import Exists, GetChildren, GetData, Sync, normpath
from parkazoo.protocol.context import Context
from parkazoo.protocol.findings import (
    DIFFERING_PLACES,
    EMPTY_MIRRORS,
    FOREIGN,
    LOST_CHILDREN,
    LOST_MIRRORS,
    MISPLACED,
    MISSING,
    MISSING_MIRRORS,
    MISSING_PINS,
    ORPHANS,
    UNFINISHED_PROMOTIONS,
    UNKNOWN_ENSEMBLES,
    Finding,
    is_mark,
)
from parkazoo.protocol.pin import decode_pin
from parkazoo.protocol.placement import (
    CLIENTS,
    DEFERRED,
    DONE,
    ENSEMBLE,
    FENCE_COUNT,
    FENCES,
    MAP,
    MARKER,
    MIRRORS,
    PIN,
    PROBE,
    ROOT,
    Directory,
    Place,
    escape,
    is_reserved,
    join,
    split,
    unescape,
)
from parkazoo.protocol.records import look_at_done, look_at_marker
from parkazoo.protocol.registration import registration_path
from parkazoo.protocol.snapshot import Snapshot, judge, observe
from parkazoo.protocol.steps import Operation, ask, ask_synced

T = TypeVar("T")


class Suspect(NamedTuple):
    """A directory that looked wrong, and has to look the same a while later."""

    directory: Directory
    snapshot: Snapshot


class Unvisited(NamedTuple):
    """Names to look at next, and how to look at one."""

    look: Callable[[str], Operation[Audit]]
    names: list[str]


class Audit(NamedTuple):
    """The result of a look.

    :param hidden: znodes that this identity has no right to look at.
    :param undecided: znodes of which nothing can be said, because an ensemble that is away would have to be asked.
    """

    findings: Sequence[Finding] = ()
    suspects: Sequence[Suspect] = ()
    hidden: Sequence[Place] = ()
    unvisited: Sequence[Unvisited] = ()
    undecided: Sequence[Place] = ()


class AwayError(Exception):
    """An ensemble that is away would have to be asked."""


class Looks(NamedTuple):
    """How to look at a znode of the user's, and at a mirror: that depends on what says where children are."""

    znode: Callable[[Any, Place, str, str], Operation[Audit]]
    mirror: Callable[[Any, int, str], Operation[Audit]]


NOTHING = Audit()
Look = Callable[[int, int, str], Operation[list[Finding]]]


def merge(*audits: Audit) -> Audit:
    return Audit(*(tuple(each for part in parts for each in part) for parts in zip(*audits, strict=True)))


def without(away: Collection[int], operation: Operation[T]) -> Operation[T]:
    """Run an operation that sends nothing to these ensembles: where it would, it gets an AwayError."""
    try:
        steps = next(operation)
        while True:
            if any(ensemble in away for ensemble, _ in steps):
                steps = operation.throw(AwayError())
            else:
                steps = operation.send((yield steps))
    except StopIteration as stop:
        result: T = stop.value
        return result
    finally:
        operation.close()


def judge_alone(place: Place, operation: Operation[Audit]) -> Operation[Audit]:
    """Return what an operation finds at `place`; if it needs an ensemble that is away, that it is undecided."""
    try:
        return (yield from operation)
    except AwayError:
        return Audit(undecided=[place])


# ---- /parkazoo ---------------------------------------------------------------------------------


def audit_ensemble(context: Context, ensemble: int, now_ms: int, looks: Looks) -> Operation[Audit]:
    """Where everything on an ensemble begins: ``/`` and ``/parkazoo``.

    :param now_ms: the time, in milliseconds since 1970.
    """
    yield from ask(ensemble, Sync("/"))
    carrying = context.places.first.ensembles
    carries = carrying > 1 and ensemble < carrying
    folders = (CLIENTS, MIRRORS, FENCES, DONE) if carries else (CLIENTS,)
    inert = (MAP, ENSEMBLE)
    parts = [(yield from _audit_root(context, ensemble, looks))]
    try:
        names = yield from ask(ensemble, GetChildren(ROOT, None))
    except NoAuthError:
        return merge(*parts, Audit(hidden=[Place(ensemble, ROOT)]))
    for path in folders:
        if split(path)[1] not in names:
            parts.append(Audit([Finding(LOST_MIRRORS if path == MIRRORS else MISSING, ensemble, path)]))
        parts.append((yield from _audit_folder(context, Place(ensemble, path), now_ms, looks)))
    parts.append((yield from _audit_folder(context, Place(ensemble, DEFERRED), now_ms, looks)))
    own = {split(path)[1] for path in (*folders, *inert, DEFERRED)}
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
    """``/parkazoo/clients``, ``deferred``, ``mirrors``, ``fences`` or ``done``."""
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
        return Audit(foreign(place, (yield from ask(place.ensemble, GetChildren(place.path, None)))))
    except NoNodeError:
        return NOTHING
    except NoAuthError:
        return Audit(hidden=[place])


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


def foreign(folder: Place, names: Iterable[str]) -> list[Finding]:
    return [Finding(FOREIGN, folder.ensemble, join(folder.path, name)) for name in names]


def misplaced(context: Context, parent: Place, directory: str, name: str) -> Finding:
    should = context.known(join(directory, name)).home
    detail = f"should be on {context.names[should.ensemble]}, with what is below it"
    return Finding(MISPLACED, parent.ensemble, join(parent.path, name), detail)


# ---- znodes ------------------------------------------------------------------------------------


def audit_znode(context: Context, parent: Place, directory: str, name: str) -> Operation[Audit]:
    """A znode of the user's, at its place.

    :param parent: the znode above it.
    :param directory: the user's path of that.
    """
    place, path = Place(parent.ensemble, join(parent.path, name)), join(directory, name)
    try:
        names = yield from ask(place.ensemble, GetChildren(place.path, None))
    except NoNodeError:
        return NOTHING
    except NoAuthError:
        return (yield from _audit_unlisted(context, place, path))
    if not names:
        return NOTHING
    d = context.known(path)
    if d.is_native:
        return (yield from _audit_native(context, place, path, names))
    lost = Audit([misplaced(context, place, path, each) for each in names if each != PIN])
    if PIN not in names:
        return lost
    return merge(lost, (yield from judge_alone(place, _audit_directory(context, d))))


def _audit_native(context: Context, place: Place, path: str, names: list[str]) -> Operation[Audit]:
    """The children of `path` live below `place`."""
    strange: list[Finding] = []
    if PIN in names:
        names.remove(PIN)
        d = Directory(path, place, place, True)
        strange = (yield from _audit_place(context, d)) or foreign(place, [PIN])
    return Audit(strange, unvisited=[Unvisited(partial(audit_znode, context, place, path), names)])


def _audit_unlisted(context: Context, place: Place, path: str) -> Operation[Audit]:
    """A znode whose children we may not list. Every identity may see its pin, if it has one."""
    hidden = Audit(hidden=[place])
    d = context.known(path)
    if d.is_native or not (yield from is_there(place.ensemble, d.pin)):
        return hidden
    seen = yield from judge_alone(place, _audit_directory(context, d))
    return seen if seen.hidden else merge(hidden, seen)


def is_there(ensemble: int, path: str) -> Operation[bool]:
    try:
        return (yield from ask(ensemble, Exists(path, None))) is not None
    except NoAuthError:  # since ZooKeeper 3.9, of what may not be read
        return True


# ---- directories with a pin --------------------------------------------------------------------


def _audit_place(context: Context, d: Directory) -> Operation[list[Finding]]:
    """Whether the pin names another ensemble than the map; it never changes, so one look proves it."""
    try:
        data, _ = yield from ask(d.home.ensemble, GetData(d.pin, None))
    except (NoAuthError, NoNodeError):
        return []
    pin, should = decode_pin(data), context.names[d.mirror.ensemble]
    if pin is None or pin.is_native or pin.on == should:
        return []
    kind = DIFFERING_PLACES if pin.on in context.names else UNKNOWN_ENSEMBLES
    return [Finding(kind, d.home.ensemble, d.path, f"on {pin.on} by its pin, on {should} by the map")]


def _audit_directory(context: Context, d: Directory) -> Operation[Audit]:
    """If the pin names another ensemble, it says nothing of a mirror here: no repair may follow from that."""
    if misled := (yield from _audit_place(context, d)):
        return Audit(misled)
    return (yield from audit_pinned(d))


def audit_pinned(d: Directory) -> Operation[Audit]:
    """A directory whose pin names the ensemble of `d`'s mirror."""
    snapshot = yield from observe(d, is_fresh=False)
    if snapshot is not None and (snapshot.marks or snapshot.differing or not snapshot.has_mirror):
        snapshot = yield from observe(d)
    if snapshot is None:
        return NOTHING
    strange = [mark for mark in snapshot.marks if not is_mark(mark)]
    seen = Audit(foreign(Place(d.home.ensemble, d.pin), strange), hidden=[d.home] if snapshot.is_hidden else [])
    if not snapshot.has_mirror and not snapshot.marks:
        seen = seen._replace(findings=(yield from _explain_no_mirror(d, snapshot)))
    if snapshot.differing or any(map(is_mark, snapshot.marks)):
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
    fence, mirror = yield from ask_synced(d.mirror.ensemble, Exists(d.fence, None), Exists(d.mirror.path, None))
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


# ---- mirrors -----------------------------------------------------------------------------------


def audit_mirror(context: Context, ensemble: int, name: str) -> Operation[Audit]:
    """A child of ``/parkazoo/mirrors``."""
    place = Place(ensemble, join(MIRRORS, name))
    path = mirrored_by(name)
    if path is None:
        return Audit(foreign(Place(ensemble, MIRRORS), [name]))
    d = context.known(path)
    if d.is_native or d.mirror != place:
        should = context.names[d.mirror.ensemble]
        return Audit([Finding(MISPLACED, *place, f"the children of {path} should be on {should}")])
    seen = NOTHING
    try:
        seen = yield from judge_alone(place, _audit_its_pin(d))
        names = yield from ask(ensemble, GetChildren(place.path, None))
    except NoNodeError:
        return seen
    except NoAuthError:
        return merge(seen, Audit(hidden=[place]))
    return merge(seen, (yield from _audit_native(context, place, path, names)))


def _audit_its_pin(d: Directory) -> Operation[Audit]:
    """Of a mirror that was there."""
    is_pinned = yield from is_there(d.home.ensemble, d.pin)
    return NOTHING if is_pinned else Audit((yield from audit_without_pin(d)))


def mirrored_by(name: str) -> str | None:
    """The directory whose mirror has this name; None if no mirror is called so."""
    path = unescape(name)
    with suppress(ValueError):
        if path[:1] == "/" and normpath(path) == path and escape(path) == name and not is_reserved(path):
            return path
    return None


def audit_without_pin(d: Directory) -> Operation[list[Finding]]:
    """The mirror was there and its pin was not. Was that at one moment?"""
    before = yield from ask(d.mirror.ensemble, Exists(d.mirror.path, None))
    if before is None:
        return []
    home = d.home.ensemble
    yield from ask(home, Sync("/"))
    if (yield from is_there(home, d.pin)):
        return []
    try:
        stat = yield from ask(home, Exists(d.home.path, None))
        has_home = stat is not None and not stat.ephemeralOwner
    except NoAuthError:
        has_home = True
    (after,) = yield from ask_synced(d.mirror.ensemble, Exists(d.mirror.path, None))
    if after is None or after.czxid != before.czxid:
        return []
    if has_home:
        return [Finding(MISSING_PINS, home, d.path, "", d)]
    if after.numChildren:
        told = f"{after.numChildren} child{'ren' if after.numChildren > 1 else ''} of {d.path}"
        return [Finding(ORPHANS, d.mirror.ensemble, d.mirror.path, told, d)]
    return [Finding(EMPTY_MIRRORS, d.mirror.ensemble, d.mirror.path, f"of {d.path}", d)]


BY_PATH = Looks(audit_znode, audit_mirror)


def is_essential(path: str) -> bool:
    """Whether fsck cannot do without the znode at this physical path: ``/`` and ParKazoo's own."""
    return path == "/" or (f"{path}/".startswith(f"{ROOT}/") and not path.startswith(f"{MIRRORS}/"))
