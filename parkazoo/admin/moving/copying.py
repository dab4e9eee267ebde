"""A copy of the children of a directory, from its beginning to its seal."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import NamedTuple

from kazoo.exceptions import NoAuthError, NoNodeError
from kazoo.security import ACL, ANYONE_ID_UNSAFE, OPEN_ACL_UNSAFE, Permissions

from parkazoo.admin.clients import LostError, for_each
from parkazoo.admin.many_reads import send
from parkazoo.admin.moving.carried import TOP, CopyPlan, SeenZnode, Tree, ZnodeChange, above, plan
from parkazoo.admin.moving.place import NOTHING, TreePlace, look, look_at, read
from parkazoo.admin.moving.term_writes import ChangedError, TakenOverError, TermWrites
from parkazoo.errors import ClusterMapError
from parkazoo.kazoo_private import CheckVersion, Create, Delete, SetACL, SetData, Transaction
from parkazoo.protocol.moving import guard, opening, term_of
from parkazoo.protocol.ops.creates import EPHEMERAL
from parkazoo.protocol.rights import own_acl
from parkazoo.protocol.steps import failure

SEALED = b"sealed"
PASSES = 6
FEW = 100  # changes, which the hold has time for
Progress = Callable[[int, int], None]


class NotExactError(ClusterMapError):
    """The copy cannot become equal to the original now."""


class Both(NamedTuple):
    """What the last looks have seen.

    :param lives: of each znode that was copied since, when its original was made: its czxid.
    :param written: the originals of those that were copied for sure.
    """

    original: Tree = NOTHING
    copy: Tree = NOTHING
    lives: Mapping[str, int] = MappingProxyType({})
    written: Tree = NOTHING


UNSEEN = Both()


class Done(NamedTuple):
    """What was done to a copy: so many znodes."""

    made: int = 0
    changed: int = 0
    deleted: int = 0


class MovingCopy:
    """A copy that one session at a time may change, in a term of its own.

    A set_acls checks no guard, so one could come late, from an earlier term, to a znode that was made anew. It
    cannot when its session has ended: so a term's znode is an ephemeral, and nobody takes over before it is gone.

    :param move: its name.
    :param term: the version of the guard that holds for this object's writes.
    """

    def __init__(self, place: TreePlace, move: str, term: int) -> None:
        self.place = place
        self.move = move
        self.term = term
        self._checks = [CheckVersion(guard(move), term), CheckVersion(term_of(move), 0)]

    @classmethod
    def begin(cls, place: TreePlace, move: str, acl: Sequence[ACL], work: bytes = b"") -> MovingCopy:
        """Makes the guard, the opening and the place itself.

        :param move: a name that nobody has used.
        :param acl: of the place. :param work: what the term says, to all.
        :raises LostError: it may have begun: begin another.
        """
        own, seen = _acls(place)
        answers = place.client.wait(
            place.path,
            send(
                place.client,
                Transaction(
                    [
                        Create(guard(move), b"", own, 0),
                        Create(opening(move), b"", seen, 0),  # owners check it
                        Create(term_of(move), work, seen, EPHEMERAL),
                        Create(place.path, b"", acl, 0),
                    ]
                ),
            ),
        )
        _raise_failure(place, answers)
        return cls(place, move, 0)

    @classmethod
    def take_over(cls, place: TreePlace, move: str, work: bytes = b"") -> MovingCopy | None:
        """Goes on with a copy, in a new term; None: there is no guard any more.

        :param work: as for `begin`.
        :raises TakenOverError: another session's term has not ended.
        """
        client = place.client
        stat = client.call("exists", term_of(move))
        own = client.zk.client_id[0]
        steps: list[SetData | Create] = [SetData(guard(move), b"", -1)]
        if stat is None:
            steps.append(Create(term_of(move), work, _acls(place)[1], EPHEMERAL))
        elif stat.ephemeralOwner != own:
            raise TakenOverError(f"another command moves {place.path}: its session is {stat.ephemeralOwner:#x}")
        answers = client.wait(guard(move), send(client, Transaction(steps)))
        if isinstance(answers[0], NoNodeError):
            return None
        _raise_failure(place, answers)
        return cls(place, move, answers[0].version)

    def bring(
        self,
        original: TreePlace,
        before: Both = UNSEEN,
        *,
        per_second: float = math.inf,
        progress: Progress = lambda done, total: None,
    ) -> Both:
        """Copies what is there, while others change it. Called again it makes only the difference.

        :param per_second: writes at most.
        :param progress: called with the number of znodes that are done, of so many.
        :param before: what an earlier call has returned.
        :returns: what `make_exact` needs to be fast, and to tell one life of a znode from the next.
        :raises NotExactError: the copy is of an earlier life of the directory.
        :raises TakenOverError: it is another command's copy, or was taken back.
        """
        last = math.inf
        for _ in range(PASSES):
            before = self._look(original, before)
            planned = plan(before.original, before.copy, before.lives, is_last=False)
            if planned.why_not:
                raise NotExactError(planned.why_not)
            is_done = self._carry_out(planned, original, before.original, per_second, progress)
            before = _with_made(before, planned, is_done)
            if is_done and (len(planned) < FEW or len(planned) > last / 2):  # as much changes in each pass
                break
            last = len(planned)
        if not is_done:
            raise NotExactError(f"{self.place.client} did not answer, {PASSES} times in the middle of the copy")
        return before

    def make_exact(self, original: TreePlace, before: Both) -> Done:
        """Makes the copy equal. Nobody changes the original, but for ephemerals that end with their sessions.

        :param before: what `bring` has returned; looks are slower without it.
        :raises NotExactError: that is not possible now.
        :raises TakenOverError: it is another command's copy, or was taken back.
        """
        self._remove(opening(self.move))
        done = Done()
        before = self._look(original, before)
        for _ in range(PASSES):
            planned = plan(before.original, before.copy, before.lives, is_last=True)
            if planned.why_not:
                raise NotExactError(planned.why_not)
            if not planned:
                return done
            made = sum(change.there is None for change in planned.changes)
            done = Done(
                done.made + made,
                done.changed + len(planned.changes) - made,
                done.deleted + len(planned.deletes),
            )
            is_done = self._carry_out(planned, original, before.original)
            before = _with_made(before, planned, is_done)
            # Nobody else has changed anything; what is not known is what a lost connection has left undone.
            before = self._look(original, before, _concerned(planned) if is_done else None)
        raise NotExactError("the original changes all the time")

    def seal(self) -> bool:
        """Nobody changes the copy any more; False: somebody else has sealed it, or taken it back.

        :raises LostError: it may be sealed: see `is_sealed`.
        :raises TakenOverError: it is another command's copy.
        """
        client, path = self.place.client, guard(self.move)
        steps: list[CheckVersion | SetData | Delete] = [
            *self._checks,
            SetData(self.place.path, SEALED, -1),
            Delete(term_of(self.move), -1),
            Delete(path, -1),
        ]
        answers = client.wait(path, send(client, Transaction(steps)))
        index, error = failure(answers)
        if index == 0 and isinstance(error, NoNodeError):
            return False
        if error is not None:
            raise TakenOverError(f"{path} on {client}: {error!r}")
        return True

    def _look(self, original: TreePlace, before: Both, at: Collection[str] | None = None) -> Both:
        """
        :param at: only these paths.
        :raises TakenOverError: there is no copy.
        """

        def look_again(place: TreePlace, seen: Tree, written: Tree) -> dict[str, SeenZnode]:
            return look(place, seen, written) if at is None else look_at(place, at, seen, written)

        original.is_over = self.place.is_over = is_over = threading.Event()  # ^C need not wait for a long look
        looks = (original, before.original, NOTHING), (self.place, before.copy, before.written)
        seen, copy = for_each(looks, lambda each: look_again(*each), is_over)
        if TOP not in copy:
            raise TakenOverError(f"{self.place.path} on {self.place.client} was taken back")
        return before._replace(original=seen, copy=copy)

    def _remove(self, path: str) -> None:
        with suppress(NoNodeError):
            self.place.client.call("delete", path)

    def _carry_out(
        self,
        planned: CopyPlan,
        original: TreePlace,
        seen: Tree,
        per_second: float = math.inf,
        progress: Progress = lambda done, total: None,
    ) -> bool:
        """Whether all of it was done, but for znodes of the original that are gone. Otherwise look again."""
        total, so_far = len(planned), 0

        def tell(done: int) -> None:
            nonlocal so_far
            so_far += done
            progress(so_far, total)

        writes = TermWrites(self.place, self._checks, per_second, tell)
        try:
            self._write_all(writes, planned, original, seen)
        except (ChangedError, LostError):
            return False
        return True

    def _write_all(self, writes: TermWrites, planned: CopyPlan, original: TreePlace, seen: Tree) -> None:
        for path in planned.deletes:
            writes.add(Delete(self.place.at(path), -1))
            writes.end_znode()
        for change, found in _with_data(planned.changes, original, seen):
            if found:
                self._write(writes, change, *found)
            writes.end_znode()
        writes.finish()

    def _write(self, writes: TermWrites, change: ZnodeChange, data: bytes | None) -> None:
        """
        :param data: what there is now; if it is newer than the look, the next one finds its version.
        """
        path, acl, sets = self.place.at(change.path), change.original.acl, change.sets
        if change.there is None:
            writes.add(Create(path, b"" if sets else data, acl, 0))
        for left in reversed(range(sets)):
            writes.add(SetData(path, b"" if left else data, -1))
        passing = f"{path}/parkazoo-{self.move}"
        for _ in range(change.pairs):
            writes.add(Create(passing, b"", OPEN_ACL_UNSAFE, 0), Delete(passing, -1))
        for aversion in change.acl_sets:
            writes.set_acl(SetACL(path, acl, aversion))


def _acls(place: TreePlace) -> tuple[Sequence[ACL], Sequence[ACL]]:
    """Of what is the command's own: hidden, and to be read by all."""
    own = own_acl(place.client.zk.auth_data)
    return own, [ACL(Permissions.READ, ANYONE_ID_UNSAFE), *own]


def is_sealed(place: TreePlace) -> bool:
    place.client.patiently(place.client.catch_up)
    return any(data == SEALED for _, (data, _) in read(place, [TOP], NOTHING))


def _concerned(planned: CopyPlan) -> set[str]:
    """All that writes may have changed."""
    paths = {*planned.deletes, *(change.path for change in planned.changes)}
    return paths | above(paths)


def _with_made(before: Both, planned: CopyPlan, is_done: bool) -> Both:
    """
    :param is_done: whether each znode was made, or its original is gone.
    """
    made = {change.path: change.original for change in planned.changes if change.there is None}
    lives = {path: znode.czxid for path, znode in made.items()}
    return before._replace(
        lives={**before.lives, **lives}, written={**before.written, **made} if is_done else NOTHING
    )


def _with_data(
    changes: Sequence[ZnodeChange], original: TreePlace, seen: Tree
) -> Iterator[tuple[ZnodeChange, tuple[bytes | None] | tuple[()]]]:
    """Each change with the data that it needs; with nothing if the znode is gone."""
    needed = [change.path for change in changes if change.needs_data]
    answers = read(original, needed, seen)
    answer = next(answers, None)
    for change in changes:
        if not change.needs_data:
            yield change, (None,)
        elif answer is None or answer[0] != change.path:
            yield change, ()
        else:
            yield change, (answer[1][0],)
            answer = next(answers, None)


def _raise_failure(place: TreePlace, answers: Sequence[object]) -> None:
    """
    :raises TakenOverError: another command was faster.
    """
    _, error = failure(answers)
    if isinstance(error, NoAuthError):
        raise place.client.no_right(place.path)
    if error is not None:
        raise TakenOverError(f"{place.path} on {place.client}: {error!r}")
