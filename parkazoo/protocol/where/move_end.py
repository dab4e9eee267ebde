"""How a client finds out that a move has ended, and where the children are then."""

from __future__ import annotations

from contextlib import suppress

from kazoo.exceptions import NoAuthError, NoNodeError

from parkazoo.kazoo_private import Delete, Exists
from parkazoo.protocol.context import Context
from parkazoo.protocol.moving import Moving, mark_of
from parkazoo.protocol.placement import PINNED, Directory
from parkazoo.protocol.steps import Operation, ask
from parkazoo.protocol.where.lookup import locate


def look_at_mark(
    context: Context, moving: Moving, before: Directory | None, is_impatient: bool
) -> Operation[tuple[bool, Directory | None]]:
    """Look whether the mark is still there. If not, what the pin says holds from now on.

    The mark cannot come again, and the pin is read when it is gone; so nothing is of the past that counts.

    :param before: the directory, if its mark was seen.
    :param is_impatient: whether to delete the mark: that calls the move off, if it has not happened.
    :returns: whether the move has ended; and the directory, None if it is not there. Memory will not do: an
        operation may forget the directory at any time.
    """
    mark, path = mark_of(moving.name), moving.directory
    if before is not None and not is_impatient and (yield from _is_there(before, mark)):  # perhaps in the past
        return False, before
    context = context.unheld()
    found = yield from locate(context, path, is_fresh=True)
    if found is not None and found.certainty == PINNED:
        if is_impatient:
            with suppress(NoAuthError, NoNodeError):  # then another one may
                yield from ask(found.home.ensemble, Delete(found.mark(mark), -1))
        if (yield from _is_there(found, mark)):
            return False, found
    return True, (yield from locate(context, path, is_fresh=True))


def _is_there(d: Directory, mark: str) -> Operation[bool]:
    return (yield from ask(d.home.ensemble, Exists(d.mark(mark), None))) is not None
