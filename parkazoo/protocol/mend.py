"""How fsck mends what it has found.

Repairs are steps of the protocol that any client may take at any time, with the same conditions. None makes a loss
look right, except the repair of LOST_CHILDREN, which a user has to ask for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial

from kazoo.exceptions import BadVersionError, NoAuthError, NodeExistsError, NoNodeError

from parkazoo.errors import ClusterMapError
from parkazoo.kazoo_private import CheckVersion, Create, Delete, Exists, GetACL, GetChildren, SetACL, SetData
from parkazoo.protocol.context import Context
from parkazoo.protocol.directory import AGAIN, help_delete, take_mark, try_promote
from parkazoo.protocol.epochs import Form
from parkazoo.protocol.fence import bump_fence
from parkazoo.protocol.findings import (
    ABANDONED_MARKERS,
    DIFFERING_ACLS,
    EMPTY_MIRRORS,
    FOREIGN,
    LOST_CHILDREN,
    MISSING,
    MISSING_PINS,
    ORPHANS,
    STALE_DONE,
    UNFINISHED_DELETES,
    Finding,
    Kind,
    is_mark,
    is_stale,
)
from parkazoo.protocol.moving import move_of
from parkazoo.protocol.ops.creates import names_mirror
from parkazoo.protocol.past import ask_fresh
from parkazoo.protocol.placement import DONE, ROOT, Directory, split
from parkazoo.protocol.records import delete_marker
from parkazoo.protocol.rights import is_masked, pin_acl
from parkazoo.protocol.steps import Operation, ask, commit
from parkazoo.protocol.where.lookup import locate

ATTEMPTS = 8  # at a repair that clients get in the way of


def mend(context: Context, finding: Finding) -> Operation[str]:
    """Mend a finding of a kind in MENDS, beside clients that go on working.

    :returns: why it is still there; empty if it is not.
    """
    try:
        return (yield from MENDS[finding.kind](context, finding))
    except NoAuthError:
        return "no right to mend it: give an identity that has it in auth (--auth)"
    except ClusterMapError as error:
        return str(error)


def _mend_empty_mirror(context: Context, finding: Finding) -> Operation[str]:
    d = _directory(finding)
    if context.form is not Form.PLAIN:  # made again, it may be elsewhere
        if (yield from locate(context, d.path, is_fresh=True)) is not None:
            return ""
        d = d._replace(home=context.places.known(d.path).home)
    for _ in range(ATTEMPTS):
        fence = yield from bump_fence(d)  # a promotion that has begun must look again
        (stat,) = yield from ask_fresh(d.home.ensemble, Exists(d.home.path, None))
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


def _mend_missing_pin(context: Context, finding: Finding) -> Operation[str]:
    d = _directory(finding)
    try:
        if not (yield from _promote(context, d)):
            return _leaving(context, d) or _busy()
    except NoNodeError:
        return "its directory has been deleted meanwhile: run fsck again"
    return (yield from _mend_acls(context, finding))  # the mirror was made with either of the two


def _promote(context: Context, d: Directory) -> Operation[bool]:
    """Make the mirror where it is not; False if the pin names another ensemble, or clients get in the way."""
    for _ in range(ATTEMPTS):
        made = yield from try_promote(context, d, None, None, False, partial(names_mirror, context, d))
        if made is not AGAIN:
            return True
    return False


def _accept_loss(context: Context, finding: Finding) -> Operation[str]:
    """A new mirror, empty: the user who asked for this knows that the old one is lost."""
    with suppress(NoNodeError):  # deleted meanwhile
        if not (yield from _promote(context, _directory(finding))):
            return _busy()
    return ""


def _mend_delete(context: Context, finding: Finding) -> Operation[str]:
    """Finish it if its mirror is gone; else it has had no effect yet, and is called off.

    A deleter that wakes up after that finds its mark gone, and begins again. This bumps the fence first, so that a
    deleter that slept cannot delete the mirror for a mark that is gone.
    """
    d = _directory(finding)
    for _ in range(ATTEMPTS):
        try:
            (marks,) = yield from ask_fresh(d.home.ensemble, GetChildren(d.pin, None))
        except NoNodeError:
            return ""
        old = finding.marks.intersection(marks)
        if not old:
            return ""
        if strange := [mark for mark in marks if not is_mark(mark) and not move_of(mark)]:
            return f"{d.mark(strange[0])} is in the way: {FOREIGN.remedy}"
        yield from bump_fence(d)
        if (yield from ask(d.mirror.ensemble, Exists(d.mirror.path, None))) is None:
            yield from help_delete(context, d, marks)
        else:
            for mark in sorted(old):
                yield from take_mark(d, mark)
    return _busy()


def _mend_acls(context: Context, finding: Finding) -> Operation[str]:
    """Goes on as set_acls does after its first step, but keeps what another client sets after we read the home."""
    d = _directory(finding)
    for _ in range(ATTEMPTS):
        yield from bump_fence(d)  # a promotion that read another ACL must not land after this
        mirror = yield from ask(d.mirror.ensemble, Exists(d.mirror.path, None))
        try:
            pin, (acl, _) = yield from ask_fresh(d.home.ensemble, Exists(d.pin, None), GetACL(d.home.path))
        except NoNodeError:
            return ""
        if is_masked(acl):
            raise NoAuthError
        with suppress(BadVersionError, NoNodeError):
            if mirror is not None:
                yield from ask(d.mirror.ensemble, SetACL(d.mirror.path, acl, mirror.aversion))
            if pin is not None:
                yield from ask(d.home.ensemble, SetACL(d.pin, pin_acl(acl), pin.aversion))
            return ""
    return _busy()


def _mend_done(context: Context, finding: Finding) -> Operation[str]:
    """Our clock said that it is old; now the servers' has to say so too."""
    record = yield from ask(finding.ensemble, Exists(finding.path, None))
    now = yield from ask(finding.ensemble, SetData(DONE, b"", -1))
    if record is None:
        return ""
    if not is_stale(record.ctime, now.mtime):
        return "by the servers' clock it is not old: set this machine's clock right"
    with suppress(NoNodeError):
        yield from ask(finding.ensemble, Delete(finding.path, -1))
    return ""


def _mend_marker(context: Context, finding: Finding) -> Operation[str]:
    return (yield from delete_marker(finding))


def _mend_structure(context: Context, finding: Finding) -> Operation[str]:
    acl, _ = yield from ask(finding.ensemble, GetACL(ROOT))
    for path in (split(finding.path)[0], finding.path):
        with suppress(NodeExistsError):
            yield from ask(finding.ensemble, Create(path, b"", acl, 0))
    return ""


def _directory(finding: Finding) -> Directory:
    assert finding.directory is not None
    return finding.directory


def _leaving(context: Context, d: Directory) -> str:
    """Why no pin is made that names the mirror's ensemble; empty if one may be."""
    if d.mirror.ensemble not in context.places.leaving:
        return ""
    name = context.names[d.mirror.ensemble]
    return (
        f"ensemble {name} is leaving, and no new pin may name it: `parkazoo map weight {name}=1`, this again, and "
        f"`parkazoo map move {d.path}` takes the children elsewhere"
    )


def _busy() -> str:
    return "clients are at work there, or something misplaced is in the way: see to that, and run fsck again"


MENDS: Mapping[Kind, Callable[[Context, Finding], Operation[str]]] = {
    EMPTY_MIRRORS: _mend_empty_mirror,
    MISSING_PINS: _mend_missing_pin,
    UNFINISHED_DELETES: _mend_delete,
    DIFFERING_ACLS: _mend_acls,
    STALE_DONE: _mend_done,
    ABANDONED_MARKERS: _mend_marker,
    MISSING: _mend_structure,
    LOST_CHILDREN: _accept_loss,
}
