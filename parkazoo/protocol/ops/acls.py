"""set_acls: the ACL of a znode, and of what carries it for the children: fence, mirror and pin."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from kazoo.exceptions import NoAuthError, NoNodeError
from kazoo.security import ACL

from parkazoo.kazoo_private import GetACL, SetACL
from parkazoo.protocol.context import Context
from parkazoo.protocol.epochs import Form
from parkazoo.protocol.fence import bump_fence
from parkazoo.protocol.ops.creates import promote_secret
from parkazoo.protocol.ops.whole_stat import complete_stat, with_mirror
from parkazoo.protocol.placement import CERTAIN, Directory
from parkazoo.protocol.rights import is_masked, is_secret, pin_acl
from parkazoo.protocol.steps import Operation, ask
from parkazoo.protocol.where.lookup import as_pinned, at
from parkazoo.protocol.where.places import directory
from parkazoo.types.znodes import ZnodeStat


def set_acls(context: Context, request: SetACL) -> Operation[ZnodeStat]:
    """Home, and what carries the home's ACL for the children: fence, mirror and pin."""
    path = request.path
    (stat, *_), d = yield from at(context, request)
    if isinstance(stat, Exception):
        raise stat
    if stat.ephemeralOwner or (d.certainty == CERTAIN and d.is_native):
        return (yield from complete_stat(context, d, stat))
    is_guarded = d.certainty < CERTAIN and context.form >= Form.GUARDED
    if is_guarded and not stat.numChildren:
        # A first child that another client makes at home, by the old ACL, is there now or comes to nothing.
        yield from bump_fence(directory(path, d.home, d.home.ensemble))
    pinned = None
    if is_guarded or stat.numChildren:
        with suppress(NoNodeError):
            pinned = yield from as_pinned(context, d)
    if pinned is None:
        if stat.numChildren:
            return (yield from complete_stat(context, d, stat))
        if is_secret(request.acls) and (not stat.cversion or context.form < Form.GROWN):  # else it will be native
            yield from promote_secret(context, path, request.acls, stat.aversion)
        return stat
    if pinned.is_native:
        return (yield from complete_stat(context, pinned, stat))
    return with_mirror(stat, (yield from set_acl_of_mirror(pinned, request.acls, stat.aversion)))


def set_acl_of_mirror(d: Directory, acl: Sequence[ACL], version: int) -> Operation[ZnodeStat | None]:
    """Fence, mirror and pin, when the home has got this ACL, and this aversion.

    Then the home again, until no other client has set it in between.

    :returns: the mirror's stat; None if there is none.
    """
    home, mirror = d.home, None
    while True:
        yield from bump_fence(d)  # a promotion that read the old ACL must not land after this
        refusal = None
        try:
            mirror = yield from ask(d.mirror.ensemble, SetACL(d.mirror.path, acl, -1))
        except NoNodeError:
            pass
        except NoAuthError as error:  # no matter if another client has set it after us
            refusal = error
        answers = yield (
            (home.ensemble, SetACL(d.pin, pin_acl(acl), -1)),
            (home.ensemble, GetACL(home.path)),
        )
        if isinstance(answers[0], Exception) and not isinstance(answers[0], (NoNodeError, NoAuthError)):
            raise answers[0]
        if isinstance(answers[1], (NoNodeError, NoAuthError)):
            break  # gone, or out of our hands: the client that changed it mends the mirror
        if isinstance(answers[1], Exception):
            raise answers[1]
        acl, now = answers[1]
        if now.aversion == version and refusal is not None:
            raise refusal
        if now.aversion == version or is_masked(acl):
            break
        version = now.aversion
    return mirror
