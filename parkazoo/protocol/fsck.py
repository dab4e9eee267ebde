"""What fsck asks about each znode, what it concludes, how it mends: pure, and safe while clients go on working.

Several ensembles are never seen at one moment, so nothing is concluded from two looks at two of them:

- A mirror lives within the life of its pin, and that within the life of its home. So a mirror is wrong if its pin
  or home is missing at a moment *between* two looks at the very same mirror (its czxid), each no older than the
  one before (sync).
- Deletes and set_acls under way leave marks and ACLs that differ for a while. So a directory is looked at twice,
  with time in between, and only what has not moved at all is left over from a client that is no more.

Repairs are steps of the protocol that any client may take at any time, conditional as they are there. None makes
a loss look right, but that of LOST_CHILDREN, which is for those who have asked for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from kazoo.exceptions import BadVersionError, NoAuthError, NodeExistsError, NoNodeError

from parkazoo.errors import ClusterMapError
from parkazoo.kazoo_private import (
    CheckVersion,
    Create,
    Delete,
    Exists,
    GetACL,
    GetChildren,
    GetData,
    SetACL,
    SetData,
    Sync,
    normpath,
)
from parkazoo.protocol import directory as protocol
from parkazoo.protocol.placement import (
    DONE,
    ENSEMBLE,
    FENCE_COUNT,
    FENCES,
    MAP,
    MIRRORS,
    PIN,
    ROOT,
    Place,
    escape,
    is_reserved,
    join,
    split,
    unescape,
)
from parkazoo.protocol.steps import Operation, ask, commit
from parkazoo.protocol.tree import Directory, Tree

STALE_AFTER_MS = 24 * 3600 * 1000  # nobody waits that long for the answer to a delete
ATTEMPTS = 8  # at a repair that clients get in the way of
MARK = re.compile(r"[0-9a-f]{32}\.(?:-?[0-9]+|transaction)")
PROBE = "parkazoo-probe-"  # ephemerals of a `map init` under way


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
STALE_DONE = Kind("stale-done-records", "records of finished deletes that nobody came for")
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
    "bring back its data; `parkazoo map init` with the arguments of the map tells what is lost, and gives it up "
    "with --replace",
)
LOST_CHILDREN = Kind(
    "lost-children",
    "directories whose children were lost when their ensemble was emptied or went back to a backup",
    "bring back the ensemble's data; or create the children again, or delete the directory; or let it count as "
    "empty with `parkazoo fsck --repair --accept-loss` and the ensemble's name",
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
    "nothing, if a first child never came or a delete was called off; but if somebody has deleted the mirror by "
    "hand, its children are lost",
    is_note=True,
)
KINDS = (
    LOST_MIRRORS,
    LOST_CHILDREN,
    ORPHANS,
    EMPTY_MIRRORS,
    MISSING_PINS,
    UNFINISHED_DELETES,
    DIFFERING_ACLS,
    STALE_DONE,
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


class Sight(NamedTuple):
    """A directory with a pin, as it looked.

    :param versions: czxid and aversion of home, mirror and pin, so far as they may be seen.
    :param differing: of "mirror" and "pin", those whose ACL is not what the home's asks for.
    :param is_hidden: whether we may not see enough to tell.
    """

    marks: frozenset[str]
    has_mirror: bool
    versions: tuple[tuple[int, int] | None, ...]
    differing: tuple[str, ...]
    is_hidden: bool


class Doubt(NamedTuple):
    """A directory that looked wrong, and has to look the same a while later."""

    directory: Directory
    sight: Sight


class Below(NamedTuple):
    """Names to look at next, and how to look at one."""

    look: Callable[[str], Operation[Seen]]
    names: list[str]


class Seen(NamedTuple):
    """What came of a look. `hidden` are znodes that could not be looked at, for want of a right."""

    findings: Sequence[Finding] = ()
    doubts: Sequence[Doubt] = ()
    hidden: Sequence[Place] = ()
    below: Sequence[Below] = ()


NOTHING = Seen()


def _merge(*seen: Seen) -> Seen:
    return Seen(*(tuple(each for part in parts for each in part) for parts in zip(*seen, strict=True)))


# ---- /parkazoo ---------------------------------------------------------------------------------


def look_at_ensemble(tree: Tree, ensemble: int, now_ms: int) -> Operation[Seen]:
    """Where everything on an ensemble begins: ``/`` and ``/parkazoo``.

    :param now_ms: the time, in milliseconds since 1970.
    """
    yield from ask(ensemble, Sync("/"))
    placement = tree.placement
    carries = placement.ensembles > 1 and ensemble < placement.ensembles
    folders = (MIRRORS, FENCES, DONE) if carries else ()
    inert = (MAP, ENSEMBLE) if ensemble == placement.bootstrap else (ENSEMBLE,)
    parts = [(yield from _look_at_root(tree, ensemble))]
    try:
        names = yield from ask(ensemble, GetChildren(ROOT, None))
    except NoAuthError:
        return _merge(*parts, Seen(hidden=[Place(ensemble, ROOT)]))
    for path in folders:
        if split(path)[1] not in names:
            parts.append(Seen([Finding(LOST_MIRRORS if path == MIRRORS else MISSING, ensemble, path)]))
        parts.append((yield from _look_at_folder(tree, Place(ensemble, path), now_ms)))
    own = {split(path)[1] for path in (*folders, *inert)}
    strange = [name for name in names if name not in own and not name.startswith(PROBE)]
    parts.append(Seen(_foreign(Place(ensemble, ROOT), strange)))
    parts.append(Seen(below=[Below(partial(_look_at_inert, Place(ensemble, ROOT)), [split(p)[1] for p in inert])]))
    return _merge(*parts)


def _look_at_root(tree: Tree, ensemble: int) -> Operation[Seen]:
    root = Place(ensemble, "/")
    try:
        names = yield from ask(ensemble, GetChildren("/", None))
    except NoAuthError:
        return Seen(hidden=[root])
    names = [name for name in names if name not in ("zookeeper", ROOT[1:]) and not name.startswith(PROBE)]
    if ensemble == tree.placement.of_children("/"):
        return Seen(below=[Below(partial(look, tree, root, "/"), names)])
    return Seen([_misplaced(tree, root, "/", name) for name in names])


def _look_at_folder(tree: Tree, folder: Place, now_ms: int) -> Operation[Seen]:
    """``/parkazoo/mirrors``, ``fences`` or ``done``."""
    try:
        names = yield from ask(folder.ensemble, GetChildren(folder.path, None))
    except NoNodeError:
        names = []
    except NoAuthError:
        return Seen(hidden=[folder])
    if folder.path == MIRRORS:
        return Seen(below=[Below(partial(look_at_mirror, tree, folder.ensemble), names)])
    if folder.path == DONE:
        strange = [name for name in names if not MARK.fullmatch(name)]
        own = [name for name in names if MARK.fullmatch(name)]
        return Seen(_foreign(folder, strange), below=[Below(partial(_look_at_done, folder.ensemble, now_ms), own)])
    fences = {str(number) for number in range(FENCE_COUNT)}
    missing = [Finding(MISSING, folder.ensemble, join(FENCES, name)) for name in sorted(fences.difference(names))]
    strange = [name for name in names if name not in fences]
    own = [name for name in names if name in fences]
    return Seen([*missing, *_foreign(folder, strange)], below=[Below(partial(_look_at_inert, folder), own)])


def _look_at_inert(folder: Place, name: str) -> Operation[Seen]:
    """A znode that has no children."""
    place = Place(folder.ensemble, join(folder.path, name))
    try:
        return Seen(_foreign(place, (yield from ask(place.ensemble, GetChildren(place.path, None)))))
    except NoNodeError:
        return NOTHING
    except NoAuthError:
        return Seen(hidden=[place])


def _look_at_done(ensemble: int, now_ms: int, name: str) -> Operation[Seen]:
    path = join(DONE, name)
    try:
        stat = yield from ask(ensemble, Exists(path, None))
    except NoAuthError:
        return Seen(hidden=[Place(ensemble, path)])
    if stat is None or stat.ctime > now_ms - STALE_AFTER_MS:
        return NOTHING
    return Seen([Finding(STALE_DONE, ensemble, path)])


def _foreign(folder: Place, names: Iterable[str]) -> list[Finding]:
    return [Finding(FOREIGN, folder.ensemble, join(folder.path, name)) for name in names]


def _misplaced(tree: Tree, parent: Place, directory: str, name: str) -> Finding:
    should = tree.placement.home(join(directory, name))
    detail = f"should be on {tree.names[should.ensemble]}, with what is below it"
    return Finding(MISPLACED, parent.ensemble, join(parent.path, name), detail)


# ---- znodes ------------------------------------------------------------------------------------


def look(tree: Tree, parent: Place, directory: str, name: str) -> Operation[Seen]:
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
        return (yield from _look_unlisted(tree, place, path))
    if not names:
        return NOTHING
    d = tree.directory(path)
    if d is None:
        return _native(tree, place, path, names)
    lost = Seen([_misplaced(tree, place, path, each) for each in names if each != PIN])
    return _merge(lost, (yield from _look_at_directory(d))) if PIN in names else lost


def _native(tree: Tree, place: Place, path: str, names: list[str]) -> Seen:
    """The children of `path` live below `place`."""
    strange = _foreign(place, [PIN]) if PIN in names else ()
    if strange:
        names.remove(PIN)
    return Seen(strange, below=[Below(partial(look, tree, place, path), names)])


def _look_unlisted(tree: Tree, place: Place, path: str) -> Operation[Seen]:
    """A znode whose children we may not list. Its pin, if it has one, everybody may see."""
    hidden = Seen(hidden=[place])
    d = tree.directory(path)
    if d is None or not (yield from _is_there(place.ensemble, d.pin)):
        return hidden
    seen = yield from _look_at_directory(d)
    return seen if seen.hidden else _merge(hidden, seen)


def _is_there(ensemble: int, path: str) -> Operation[bool]:
    try:
        return (yield from ask(ensemble, Exists(path, None))) is not None
    except NoAuthError:  # since ZooKeeper 3.9, of what may not be read
        return True


# ---- directories with a pin --------------------------------------------------------------------


def _look_at_directory(d: Directory) -> Operation[Seen]:
    sight = yield from see(d, is_fresh=False)
    if sight is not None and (sight.marks or sight.differing or not sight.has_mirror):
        sight = yield from see(d)
    if sight is None:
        return NOTHING
    strange = [mark for mark in sight.marks if not MARK.fullmatch(mark)]
    seen = Seen(_foreign(Place(d.home.ensemble, d.pin), strange), hidden=[d.home] if sight.is_hidden else [])
    if not sight.has_mirror and not sight.marks:
        seen = seen._replace(findings=(yield from _why_no_mirror(d, sight)))
    if sight.differing or any(map(MARK.fullmatch, sight.marks)):
        return seen._replace(doubts=[Doubt(d, sight)])
    return seen


def _why_no_mirror(d: Directory, before: Sight) -> Operation[list[Finding]]:
    """A pin without marks had no mirror: what the pin remembers of the fence tells why.

    A promotion that lands raises the fence's version above the one remembered. The version goes back, or the fence
    is another one, if its ensemble has lost what it had when the pin was made.
    """
    try:
        data, _ = yield from ask(d.home.ensemble, GetData(d.pin, None))
    except NoNodeError:
        return []
    fence, mirror = yield from _ask_together(
        d.mirror.ensemble, Sync("/"), Exists(d.fence, None), Exists(d.mirror.path, None)
    )
    if mirror is not None:
        return []
    memory = protocol.pin_memory(data)
    if memory is None or (fence and fence.ctime == memory.ctime and fence.version > memory.version):
        return [Finding(MISSING_MIRRORS, d.home.ensemble, d.path)]
    if fence and fence.ctime == memory.ctime and fence.version == memory.version:
        return [Finding(UNFINISHED_PROMOTIONS, d.home.ensemble, d.path)]
    if (yield from see(d)) != before:
        return []  # it is in use
    return [Finding(LOST_CHILDREN, d.mirror.ensemble, d.path, "", d)]


def see(d: Directory, *, is_fresh: bool = True) -> Operation[Sight | None]:
    """A directory as it is; None if it has no pin.

    :param is_fresh: whether all must be newer than this call. Else a server that lags may answer.
    """
    home, mirror = d.home.ensemble, d.mirror.ensemble
    sync = ((home, Sync("/")), (mirror, Sync("/"))) if is_fresh else ()
    answers = yield (
        *sync,
        (home, GetChildren(d.pin, None)),
        (home, GetACL(d.home.path)),
        (home, GetACL(d.pin)),
        (mirror, GetACL(d.mirror.path)),
    )
    for answer in answers:
        if isinstance(answer, Exception) and not isinstance(answer, (NoNodeError, NoAuthError)):
            raise answer
    marks, *acls = answers[len(sync) :]
    if isinstance(marks, NoNodeError):
        return None
    return _sight([] if isinstance(marks, NoAuthError) else marks, isinstance(marks, NoAuthError), *acls)


def _sight(marks: Iterable[str], has_hidden_marks: bool, home: Any, pin: Any, mirror: Any) -> Sight:
    """From the answers: each an ACL and a stat, or the error."""
    has_mirror = not isinstance(mirror, NoNodeError)
    is_hidden = has_hidden_marks or any(isinstance(each, NoAuthError) for each in (home, pin, mirror))
    differing = []
    if not isinstance(home, Exception):
        # One identity asks, so what a server hides it hides of equal ACLs alike.
        if not isinstance(mirror, Exception) and set(mirror[0]) != set(home[0]):
            differing.append("mirror")
        if not isinstance(pin, Exception) and set(pin[0]) != set(protocol.pin_acl(home[0])):
            differing.append("pin")
        is_hidden = is_hidden or (not differing and protocol.is_masked(home[0]))
    versions = tuple(
        None if isinstance(each, Exception) else (each[1].czxid, each[1].aversion) for each in (home, mirror, pin)
    )
    return Sight(frozenset(marks), has_mirror, versions, tuple(differing), is_hidden)


def settle(doubt: Doubt) -> Operation[Seen]:
    """Look again at what looked wrong a while ago."""
    now = yield from see(doubt.directory)
    return Seen(judge(doubt.directory, doubt.sight, now))


def judge(d: Directory, before: Sight, now: Sight | None) -> list[Finding]:
    """What two looks at a directory, with time in between, prove."""
    findings: list[Finding] = []
    if now is None:
        return findings
    marks = frozenset(filter(MARK.fullmatch, before.marks & now.marks))
    if marks:
        detail = f"{len(marks)} begun" if len(marks) > 1 else ""
        findings.append(Finding(UNFINISHED_DELETES, d.home.ensemble, d.path, detail, d, marks))
    # Whoever has set the ACL in between mends the mirror.
    if now.differing and now.differing == before.differing and now.versions == before.versions:
        findings.append(Finding(DIFFERING_ACLS, d.mirror.ensemble, d.path, " and ".join(now.differing), d))
    return findings


# ---- mirrors -----------------------------------------------------------------------------------


def look_at_mirror(tree: Tree, ensemble: int, name: str) -> Operation[Seen]:
    """A child of ``/parkazoo/mirrors``."""
    place = Place(ensemble, join(MIRRORS, name))
    path = _mirrored(name)
    if path is None:
        return Seen(_foreign(Place(ensemble, MIRRORS), [name]))
    d = tree.directory(path)
    if d is None or d.mirror != place:
        should = tree.names[tree.placement.of_children(path)]
        return Seen([Finding(MISPLACED, *place, f"the children of {path} should be on {should}")])
    findings: list[Finding] = []
    try:
        if not (yield from _is_there(d.home.ensemble, d.pin)):
            findings = yield from _prove(d)
        names = yield from ask(ensemble, GetChildren(place.path, None))
    except NoNodeError:
        return Seen(findings)
    except NoAuthError:
        return Seen(findings, hidden=[place])
    return _merge(Seen(findings), _native(tree, place, path, names))


def _mirrored(name: str) -> str | None:
    """The directory whose mirror has this name; None if no mirror is called so."""
    path = unescape(name)
    with suppress(ValueError):
        if path[:1] == "/" and normpath(path) == path and escape(path) == name and not is_reserved(path):
            return path
    return None


def _prove(d: Directory) -> Operation[list[Finding]]:
    """The mirror was there and its pin was not. Was that at one moment?"""
    before = yield from ask(d.mirror.ensemble, Exists(d.mirror.path, None))
    if before is None:
        return []
    home = d.home.ensemble
    yield from ask(home, Sync("/"))
    if (yield from _is_there(home, d.pin)):
        return []
    try:
        stat = yield from ask(home, Exists(d.home.path, None))
        has_home = stat is not None and not stat.ephemeralOwner
    except NoAuthError:
        has_home = True
    (after,) = yield from _ask_together(d.mirror.ensemble, Sync("/"), Exists(d.mirror.path, None))
    if after is None or after.czxid != before.czxid:
        return []
    if has_home:
        return [Finding(MISSING_PINS, home, d.path, "", d)]
    if after.numChildren:
        told = f"{after.numChildren} child{'ren' if after.numChildren > 1 else ''} of {d.path}"
        return [Finding(ORPHANS, d.mirror.ensemble, d.mirror.path, told, d)]
    return [Finding(EMPTY_MIRRORS, d.mirror.ensemble, d.mirror.path, f"of {d.path}", d)]


def _ask_together(ensemble: int, *requests: Any) -> Operation[list[Any]]:
    """A sync and what is to be read after it: the answers, without the sync's."""
    answers = yield tuple((ensemble, request) for request in requests)
    for answer in answers:
        if isinstance(answer, Exception):
            raise answer
    return answers[1:]


def is_own(path: str) -> bool:
    """Whether fsck cannot do without the znode at this physical path: ``/`` and ParKazoo's own."""
    return path == "/" or (f"{path}/".startswith(f"{ROOT}/") and not path.startswith(f"{MIRRORS}/"))


# ---- mend --------------------------------------------------------------------------------------


def mend(finding: Finding) -> Operation[str]:
    """Mend what was found, of a kind in MENDS, beside clients that go on working.

    :returns: why it is still there; empty if it is not.
    """
    try:
        return (yield from MENDS[finding.kind](finding))
    except NoAuthError:
        return "no right to mend it: give an identity that has it in auth (--auth)"
    except ClusterMapError as error:
        return str(error)


def _mend_empty_mirror(finding: Finding) -> Operation[str]:
    d = _directory(finding)
    for _ in range(ATTEMPTS):
        fence = yield from protocol.bump_fence(d)  # a promotion that has begun must look again
        (stat,) = yield from _ask_together(d.home.ensemble, Sync("/"), Exists(d.home.path, None))
        if stat is not None and not stat.ephemeralOwner:
            return ""  # it has been made again: then the mirror lacks a pin
        _, index, error = yield from commit(
            d.mirror.ensemble, [CheckVersion(d.fence, fence), Delete(d.mirror.path, -1)]
        )
        if error is None or (index == 1 and isinstance(error, NoNodeError)):
            return ""
        if isinstance(error, NoAuthError):
            raise error
        if index == 1:
            return ORPHANS.remedy  # it has got children
    return _busy()


def _mend_missing_pin(finding: Finding) -> Operation[str]:
    d = _directory(finding)
    try:
        yield from protocol.promote(d)
    except NoNodeError:
        return "its directory has been deleted meanwhile: run fsck again"
    return (yield from _mend_acls(finding))  # nobody knows with which one the mirror was made


def _accept_loss(finding: Finding) -> Operation[str]:
    """A new mirror, empty: whoever asked for this knows that the old one is lost."""
    with suppress(NoNodeError):  # deleted meanwhile
        yield from protocol.promote(_directory(finding))
    return ""


def _mend_delete(finding: Finding) -> Operation[str]:
    """Finish it if its mirror is gone; else it has had no effect yet, and is called off.

    A deleter that wakes up after that finds its mark gone, and begins again. The fence is bumped first, so that
    one that slept cannot delete the mirror for a mark that is no more.
    """
    d = _directory(finding)
    for _ in range(ATTEMPTS):
        try:
            (marks,) = yield from _ask_together(d.home.ensemble, Sync("/"), GetChildren(d.pin, None))
        except NoNodeError:
            return ""
        old = finding.marks.intersection(marks)
        if not old:
            return ""
        if strange := [mark for mark in marks if not MARK.fullmatch(mark)]:
            return f"{d.mark(strange[0])} is in the way: {FOREIGN.remedy}"
        yield from protocol.bump_fence(d)
        if (yield from ask(d.mirror.ensemble, Exists(d.mirror.path, None))) is None:
            yield from protocol.help_delete(d, marks)
        else:
            for mark in sorted(old):
                yield from protocol.take_mark(d, mark)
    return _busy()


def _mend_acls(finding: Finding) -> Operation[str]:
    """As a set_acls goes on after its first step; but what another sets after we read the home is not set back."""
    d = _directory(finding)
    for _ in range(ATTEMPTS):
        yield from protocol.bump_fence(d)  # a promotion that read another ACL must not land after this
        mirror = yield from ask(d.mirror.ensemble, Exists(d.mirror.path, None))
        try:
            pin, (acl, _) = yield from _ask_together(
                d.home.ensemble, Sync("/"), Exists(d.pin, None), GetACL(d.home.path)
            )
        except NoNodeError:
            return ""
        if protocol.is_masked(acl):
            raise NoAuthError
        with suppress(BadVersionError, NoNodeError):
            if mirror is not None:
                yield from ask(d.mirror.ensemble, SetACL(d.mirror.path, acl, mirror.aversion))
            if pin is not None:
                yield from ask(d.home.ensemble, SetACL(d.pin, protocol.pin_acl(acl), pin.aversion))
            return ""
    return _busy()


def _mend_done(finding: Finding) -> Operation[str]:
    """Our clock said that it is old; now the servers' has to say so too."""
    record = yield from ask(finding.ensemble, Exists(finding.path, None))
    now = yield from ask(finding.ensemble, SetData(DONE, b"", -1))
    if record is None:
        return ""
    if record.ctime > now.mtime - STALE_AFTER_MS:
        return "by the servers' clock it is not old: set this machine's clock right"
    with suppress(NoNodeError):
        yield from ask(finding.ensemble, Delete(finding.path, -1))
    return ""


def _mend_structure(finding: Finding) -> Operation[str]:
    acl, _ = yield from ask(finding.ensemble, GetACL(ROOT))
    for path in (split(finding.path)[0], finding.path):
        with suppress(NodeExistsError):
            yield from ask(finding.ensemble, Create(path, b"", acl, 0))
    return ""


def _directory(finding: Finding) -> Directory:
    assert finding.directory is not None
    return finding.directory


def _busy() -> str:
    return "clients are at work there, or something misplaced is in the way: see to that, and run fsck again"


MENDS: Mapping[Kind, Callable[[Finding], Operation[str]]] = {
    EMPTY_MIRRORS: _mend_empty_mirror,
    MISSING_PINS: _mend_missing_pin,
    UNFINISHED_DELETES: _mend_delete,
    DIFFERING_ACLS: _mend_acls,
    STALE_DONE: _mend_done,
    MISSING: _mend_structure,
    LOST_CHILDREN: _accept_loss,
}
