"""What fsck asks about each znode where the path decides on which ensemble it is."""

from __future__ import annotations

from functools import partial

from kazoo.exceptions import NoAuthError, NoNodeError

from parkazoo.kazoo_private import GetChildren, GetData
from parkazoo.protocol.audit import NOTHING, Audit, Unvisited, foreign, judge_alone, merge, misplaced
from parkazoo.protocol.audit_directory import audit_pinned, audit_without_pin, is_there, mirrored_by
from parkazoo.protocol.audit_ensemble import Looks
from parkazoo.protocol.context import Context
from parkazoo.protocol.findings import DIFFERING_PLACES, MISPLACED, UNKNOWN_ENSEMBLES, Finding
from parkazoo.protocol.pin import decode_pin
from parkazoo.protocol.placement import MIRRORS, PIN, Directory, Place, join
from parkazoo.protocol.steps import Operation, ask


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


BY_PATH = Looks(audit_znode, audit_mirror)
