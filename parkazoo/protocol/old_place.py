"""The place that a move has left behind: who deletes the directory deletes it first.

It is there and dead as long as its mark is below the pin. In a later life of the directory it may be the place of
the children again. So what is deleted there is deleted in multis that fail in a later life. That begins with a
promotion, which raises the fence there; and the fence was read while the mark was there. Children of the home
itself are deleted together with a check of the mark, which is on the same ensemble.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress

from kazoo.exceptions import NoNodeError, NotEmptyError

from parkazoo.kazoo_private import CheckVersion, Delete, GetChildren, GetData
from parkazoo.protocol.context import Context
from parkazoo.protocol.fence import make_fence
from parkazoo.protocol.moving import is_move_mark, is_old_mark
from parkazoo.protocol.placement import OURS, Directory, Place, join
from parkazoo.protocol.steps import Operation, WriteRequest, ask, commit
from parkazoo.protocol.where.lookup import named_by

AT_ONCE = 100  # deletes in a multi


def clear_moves(context: Context, d: Directory, marks: Iterable[str]) -> Operation[list[str]]:
    """Delete the marks of moves: one under way is called off, of one that has ended the old place is deleted.

    :param marks: as read below the pin.
    :returns: the others, of deletes.
    """
    others = []
    for mark in marks:
        if is_old_mark(mark):
            while not (yield from _delete_old_place(context, d, d.mark(mark))):
                pass
        elif not is_move_mark(mark):
            others.append(mark)
            continue
        with suppress(NoNodeError):
            yield from ask(d.home.ensemble, Delete(d.mark(mark), -1))
    return others


def _delete_old_place(context: Context, d: Directory, mark: str) -> Operation[bool]:
    """False: something has changed: begin again."""
    home = d.home.ensemble
    try:
        data, _ = yield from ask(home, GetData(mark, None))
        old = yield from named_by(context, d, data)
        is_there = CheckVersion(mark, -1)
        same_life = is_there if old.is_native else CheckVersion(old.fence, (yield from make_fence(old)).version)
        _, _, error = yield from commit(home, [is_there])  # a write: a read may show a life that is over
        if error is not None:
            raise error
    except NoNodeError:  # somebody has done it
        return True
    if old.is_native:
        return (yield from _delete_below(old.home, same_life, OURS))
    if not (yield from _delete_below(old.mirror, same_life)):
        return False
    _, index, error = yield from commit(old.mirror.ensemble, [same_life, Delete(old.mirror.path, -1)])
    if error is None or (index == 1 and isinstance(error, NoNodeError)):
        return True
    if index == 0 or isinstance(error, NotEmptyError):
        return False
    raise error


def _delete_below(place: Place, condition: WriteRequest, left_out: Iterable[str] = ()) -> Operation[bool]:
    """Delete all that is below a znode, but for some children. False: the condition does not hold any more."""
    try:
        names = yield from ask(place.ensemble, GetChildren(place.path, None))
    except NoNodeError:
        return True
    children = [join(place.path, name) for name in sorted({*names}.difference(left_out))]
    for first in range(0, len(children), AT_ONCE):
        if not (yield from _delete_all(place.ensemble, condition, children[first : first + AT_ONCE])):
            return False
    return True


def _delete_all(ensemble: int, condition: WriteRequest, paths: Sequence[str]) -> Operation[bool]:
    rest = list(paths)
    while rest:
        _, index, error = yield from commit(ensemble, [condition, *(Delete(path, -1) for path in rest)])
        if error is None:
            return True
        if not index:
            return False
        if isinstance(error, NotEmptyError):
            if not (yield from _delete_below(Place(ensemble, rest[index - 1]), condition)):
                return False
        elif isinstance(error, NoNodeError):
            del rest[index - 1]
        else:
            raise error
    return True
