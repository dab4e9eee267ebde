"""The end of a place: of a copy that is not wanted, or of what a move has left behind."""

from __future__ import annotations

import math

from kazoo.exceptions import NoNodeError

from parkazoo.admin.clients import AdminClient, LostError
from parkazoo.admin.many_reads import send
from parkazoo.admin.moving.carried import TOP
from parkazoo.admin.moving.place import TreePlace, walk
from parkazoo.admin.moving.term_writes import ChangedError, TakenOverError, TermWrites
from parkazoo.kazoo_private import CheckVersion, Create, Delete, Transaction
from parkazoo.protocol.moving import guard, opening, term_of
from parkazoo.protocol.ops.creates import EPHEMERAL
from parkazoo.protocol.rights import own_acl


def end_guard(client: AdminClient, move: str) -> bool:
    """The first step: nobody can write to the copy, or seal it, any more. False: it may be sealed."""
    return _remove(client, guard(move))


def show_abort(client: AdminClient, move: str) -> None:
    """Before the mark goes: a command that has sealed the copy, which ends guard and term, sees it by this."""
    term = term_of(move)
    create = Create(term, b"", own_acl(client.zk.auth_data), EPHEMERAL)
    client.patiently(lambda: client.wait(term, send(client, Transaction([create]))))


def end_show(client: AdminClient, move: str) -> None:
    """What `show_abort` has made; not what another command has."""
    path = term_of(move)

    def is_mine() -> bool:
        term = client.call("exists", path)
        return term is not None and term.ephemeralOwner == client.zk.client_id[0]

    if client.patiently(is_mine):
        _remove(client, path)


def remove_copy(place: TreePlace, move: str) -> None:
    """The last step, when no pin names the copy and none will: its guard is gone, and after that its mark."""
    _remove(place.client, opening(move))
    delete_place(place, None)
    _remove(place.client, term_of(move))  # so long it is seen that somebody is at it


def delete_place(place: TreePlace, check: tuple[str, int] | None, per_second: float = math.inf) -> bool:
    """Deletes a place with all below it; what it leaves out stays, and then itself too.

    :param check: a znode, such as a fence, and the version that it must have each time.
    :returns: False: it has another version.
    """
    checks = [] if check is None else [CheckVersion(*check)]
    while True:
        paths = [path for path in walk(place) if path != TOP or not place.left_out]
        if not paths:
            return True
        writes = TermWrites(place, checks, per_second)
        try:
            for path in sorted(paths, key=lambda path: path.count("/"), reverse=True):
                writes.add(Delete(place.at(path), -1))
            writes.finish()
        except TakenOverError:
            return False
        except (ChangedError, LostError):  # an ephemeral went with its session, or another command is at it too
            continue


def _remove(client: AdminClient, path: str) -> bool:
    """Whether it was there. An answer that was lost counts as no."""

    def remove() -> bool:
        try:
            client.call("delete", path)
        except NoNodeError:
            return False
        return True

    return client.patiently(remove)
