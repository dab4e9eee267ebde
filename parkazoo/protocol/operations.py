"""One generator for each client call."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from kazoo.exceptions import (
    BadVersionError,
    NoAuthError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    NotReadOnlyCallError,
    UnimplementedError,
)
from kazoo.security import ACL

from parkazoo.kazoo_private import (
    Create,
    Create2,
    Exists,
    GetACL,
    GetChildren,
    GetChildren2,
    Reconfig,
    SetACL,
    SetData,
    Sync,
)
from parkazoo.protocol.context import Context
from parkazoo.protocol.directory import (
    UNPROMOTED,
    bump_fence,
    delete_directory,
    help_delete,
    promote,
    promote_secret,
    verify_may_delete_in,
)
from parkazoo.protocol.order import children
from parkazoo.protocol.placement import PIN, ROOT, Directory, join, split
from parkazoo.protocol.rights import (
    is_masked,
    is_secret,
    pin_acl,
)
from parkazoo.protocol.stats import complete_stat, with_mirror, with_owner
from parkazoo.protocol.steps import ExistsForWatch, Operation, Request, Step, ask, placed
from parkazoo.protocol.watches import DirectoryWatch

EPHEMERAL, SEQUENCE = 1, 2  # in a create's flags
# These errors come from the ensemble itself: it has refused a create or delete of one request.
REFUSALS = (
    BadVersionError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
)
WITH_STAT = (Exists, SetData)  # their answers are stats; those of GetData and GetACL are pairs


# ---- what is read ----------------------------------------------------------------------------


def at_home(d: Directory, request: Request) -> Step:
    """The request to the znode that holds data, ACL and versions."""
    home = d.home
    return home.ensemble, placed(request, home.path)


def is_complete(d: Directory, request: Request, answer: Any) -> bool:
    """Whether a home's answer, with a stat or None, is complete."""
    stat = answer if isinstance(request, WITH_STAT) else answer[1]
    if stat is None or not (stat.numChildren or stat.ephemeralOwner):
        return True
    return not stat.ephemeralOwner and d.is_native and d.path != "/"


def complete_answer(context: Context, request: Request, answer: Any) -> Operation[Any]:
    """A home's answer, its stat made complete by :func:`complete_stat`."""
    if answer is None:
        return None
    exists = exists_for(request)
    if isinstance(request, WITH_STAT):
        return (yield from complete_stat(context, request.path, answer, exists))
    return answer[0], (yield from complete_stat(context, request.path, answer[1], exists))


def exists_for(request: Request) -> type[Exists]:
    """What asks for the mirror's stat."""
    return ExistsForWatch if getattr(request, "watcher", None) else Exists


def read(context: Context, request: Request) -> Operation[Any]:
    """GetData, GetACL, Exists: asks for the mirror's stat at the same time if a mirror is known."""
    path, resolver = request.path, context.resolver
    d = resolver.known(path)
    if not resolver.is_promoted(path):
        return (yield from complete_answer(context, request, (yield from context.ask(path, *at_home(d, request)))))
    steps = at_home(d, request), (d.mirror.ensemble, exists_for(request)(d.mirror.path, None))
    answer, mirror = yield from context.read(path, *steps)
    if isinstance(answer, Exception):
        raise answer
    if mirror is None:
        resolver.forget(path)
    elif isinstance(mirror, NoAuthError):
        mirror = None
    elif isinstance(mirror, Exception):
        raise mirror
    if answer is None:
        return None
    if isinstance(request, WITH_STAT):
        return with_mirror(answer, mirror)
    return answer[0], with_mirror(answer[1], mirror)


def set_data(context: Context, request: Request) -> Operation[Any]:
    d = context.resolver.known(request.path)
    return (yield from complete_answer(context, request, (yield from ask(*at_home(d, request)))))


def get_children(context: Context, request: Request) -> Operation[Any]:
    """GetChildren and GetChildren2. The last request leaves the watch, because with it the call has succeeded."""
    path, has_stat = request.path, isinstance(request, GetChildren2)
    d = context.resolver.known(path)
    home = d.home
    if d.is_native:
        answer = yield from context.ask(path, *at_home(d, request))
        names, stat = answer if has_stat else (answer, None)
        if path == "/":
            names = [name for name in names if name != ROOT[1:]]
        return (names, (yield from complete_stat(context, path, stat))) if has_stat else names
    # If it is known, no claim is left, and a delete may have forgotten it since.
    is_known = context.resolver.is_promoted(path)
    watch: DirectoryWatch | None = None
    has_succeeded = False
    try:
        while True:
            if has_stat:
                _, stat = yield from context.ask(path, home.ensemble, GetChildren2(home.path, None))
            try:
                answer = yield from context.ask(path, d.mirror.ensemble, placed(request, d.mirror.path))
            except NoNodeError:
                if request.watcher and watch is None:
                    watch = context.watch(children(path), request.watcher)
                    watch.places.update((d.home, d.mirror))
                stat = yield from _no_children(context, d, watch)
                if stat is not None:
                    has_succeeded = True
                    if not has_stat:
                        return []
                    return [], (yield from with_owner(context, home.ensemble, with_mirror(stat, None)))
            else:
                if not is_known:
                    context.resolver.remember_promoted(path)
                return (answer[0], with_mirror(stat, answer[1])) if has_stat else answer
    finally:
        if watch:
            context.settle(watch, has_succeeded)


def _no_children(context: Context, d: Directory, watch: DirectoryWatch | None) -> Operation[Any]:
    """The listing of a directory whose mirror is not there: the home's stat; None to look again.

    Empty is right even if a child was made meanwhile: the directory was empty when its mirror was found missing,
    or when its home was created, if that was later.
    """
    names, stat = yield from context.ask(d.path, d.home.ensemble, GetChildren2(d.home.path, watch))
    if watch:
        watch.home_czxid = stat.czxid
    if PIN not in names:
        return stat
    try:
        marks = yield from ask(d.home.ensemble, GetChildren(d.pin, None))
    except NoNodeError:
        return None
    if marks:
        try:
            yield from help_delete(d, marks)
            return None
        except (NoAuthError, NotReadOnlyCallError):
            pass  # we may not finish the delete; the directory is empty
    if watch and (yield from ask(d.mirror.ensemble, Exists(d.mirror.path, watch))) is not None:
        return None
    return stat


def look_again(context: Context, watch: DirectoryWatch) -> Operation[str | None]:
    """The pin or the mirror of a watched directory came: the event to report, or None after watching on.

    A mirror without a child is not reported: it may have been made for a transaction that then failed.
    """
    d = context.known(watch.path)
    try:
        _, stat = yield from ask(d.home.ensemble, GetChildren2(d.home.path, watch))
    except NoNodeError:
        return "DELETED"
    if stat.czxid != watch.home_czxid:  # deleted, and made again since
        return "DELETED"
    mirror = None
    while mirror is None:
        with suppress(NoNodeError):
            _, mirror = yield from ask(d.mirror.ensemble, GetChildren2(d.mirror.path, watch))
        if mirror is None and (yield from ask(d.mirror.ensemble, Exists(d.mirror.path, watch))) is None:
            return None
    return "CHILD" if mirror.cversion else None


def sync(context: Context, request: Request) -> Operation[str]:
    """Both the ensemble of the znode and that of its children catch up with their leaders."""
    path: str = request.path
    d = yield from context.resolver.find(path)
    ensembles = {d.home.ensemble, d.mirror.ensemble}
    answers = yield tuple((ensemble, Sync("/")) for ensemble in sorted(ensembles))
    for answer in answers:
        if isinstance(answer, Exception):
            raise answer
    return path


# ---- what is written -------------------------------------------------------------------------


def create(context: Context, request: Request) -> Operation[Any]:
    """Create and Create2."""
    path, resolver = request.path, context.resolver
    parent, name = split(path)
    d = resolver.known(parent)
    is_first = not d.is_native and resolver.is_childless(parent)  # probably
    # If it is known, nothing is claimed, and a delete may forget it meanwhile.
    is_known = d.is_native or resolver.is_promoted(parent)
    resolver.forget(path)
    with context.past.begin((path,), d.mirror.ensemble, REFUSALS if d.is_native else (NodeExistsError,)) as change:
        if is_first:
            result = NoNodeError()
        else:
            (result,) = yield ((d.mirror.ensemble, placed(request, join(d.mirror.path, name))),)
        if isinstance(result, NoNodeError) and not d.is_native:
            result = yield from _create_first(context, request, is_first)
        elif isinstance(result, Exception):
            raise result
        if not is_known:
            resolver.remember_promoted(parent)
        if request.flags & SEQUENCE:
            path = join(parent, split(result[0] if isinstance(request, Create2) else result)[1])
            change.paths = (path,)
    resolver.forget_all(path)
    if not request.flags & EPHEMERAL:
        if is_secret(request.acl):
            yield from promote_secret(context, path, request.acl, 0)
        else:
            resolver.remember_childless(path)
    if isinstance(request, Create2):
        return result[0], (yield from complete_stat(context, request.path, result[1]))
    return result


def _create_first(context: Context, request: Request, is_guess: bool) -> Operation[Any]:
    """Create a child, and with it the mirror of its parent, which has not been there.

    :param is_guess: whether that is only probable.
    """
    parent, name = split(request.path)
    while True:
        d = yield from context.resolver.find(parent)
        context.resolver.forget(parent)
        physical = placed(request, join(d.mirror.path, name))
        try:
            # kazoo cannot read a Create2 inside a multi's answer
            child = physical if isinstance(physical, Create) else None
            made = yield from promote(context, d, child, may_be_there=is_guess)
        except UNPROMOTED:
            if not is_guess:  # else another may have promoted or deleted it since; and a bad ACL comes first
                raise
        else:
            if made is not None:
                return join(d.mirror.path, split(made)[1])  # a multi's results are the user's paths already
        is_guess = False
        with suppress(NoNodeError):
            return (yield from ask(d.mirror.ensemble, physical))


def delete(context: Context, request: Request) -> Operation[Any]:
    path, resolver = request.path, context.resolver
    d = resolver.known(path)
    resolver.forget(path)
    failures = REFUSALS if d.is_native else (NoNodeError, BadVersionError)
    with context.past.begin((path,), d.home.ensemble, failures):
        (result,) = yield (at_home(d, request),)
        try:
            if isinstance(result, NotEmptyError) and not d.is_native:
                d = yield from resolver.find(path)
                result = yield from delete_directory(context, d, request.version)
            elif isinstance(result, Exception):
                raise result
        except NoNodeError:
            yield from verify_may_delete_in(context, split(path)[0])
            raise
    resolver.forget_all(path)
    return result


def set_acls(context: Context, request: Request) -> Operation[Any]:
    """Home, fence, mirror and pin."""
    path = request.path
    d = yield from context.resolver.find(path)
    stat = yield from ask(*at_home(d, request))
    if d.is_native or not stat.numChildren:
        if is_secret(request.acls) and not stat.ephemeralOwner:
            yield from promote_secret(context, path, request.acls, stat.aversion)
        return (yield from complete_stat(context, path, stat))
    return with_mirror(stat, (yield from set_acl_of_mirror(d, request.acls, stat.aversion)))


def set_acl_of_mirror(d: Directory, acl: Sequence[ACL], version: int) -> Operation[Any]:
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


# ---- what needs no place ------------------------------------------------------------------------


def ask_bootstrap(context: Context, request: Request) -> Operation[Any]:
    """Reconfig, and requests that programs have made themselves: the bootstrap ensemble answers.

    :raises UnimplementedError: nobody knows which of several ensembles such a request is for.
    """
    if request.type != Reconfig.type and len(context.names) > 1:
        raise UnimplementedError(
            f"{type(request).__name__}: ParKazoo does not know this request, nor the ensemble that it is for. "
            "Send it by client.members[name], with the physical path that `parkazoo where` shows"
        )
    return (yield from ask(context.resolver.bootstrap, request))


def add_auth(context: Context, request: Request) -> Operation[Any]:
    """Auth: every ensemble must take the credential."""
    answers = yield tuple((ensemble, request) for ensemble in range(len(context.names)))
    for answer in answers:
        if isinstance(answer, Exception):
            raise answer
    return True
