"""The home of a directory that moves: its pin, the marks below that, and the switch to another place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple, TypeVar

from kazoo.exceptions import NoAuthError, NoNodeError
from kazoo.security import ACL, READ_ACL_UNSAFE

from parkazoo.admin.clients import AdminClient, NoRightError
from parkazoo.admin.moving.place import send
from parkazoo.kazoo_private import CheckVersion, Create, Delete, Transaction
from parkazoo.protocol.moving import is_move_mark, is_old_mark, mark_of, old_mark_of
from parkazoo.protocol.placement import FENCES, PIN, join
from parkazoo.protocol.rights import is_masked
from parkazoo.protocol.steps import IMPOSSIBLE, WriteRequest, failure

T = TypeVar("T")


class SeenPin(NamedTuple):
    """
    :param marks: the names of its children.
    """

    data: bytes
    acl: Sequence[ACL]
    marks: Sequence[str]

    @property
    def moves(self) -> list[str]:
        """The names of the moves that may still happen."""
        return [mark.partition(".")[0] for mark in self.marks if is_move_mark(mark)]

    @property
    def moved(self) -> list[str]:
        """The names of the moves that have left an old place."""
        return [mark.partition(".")[0] for mark in self.marks if is_old_mark(mark)]

    @property
    def deletes(self) -> list[str]:
        return [mark for mark in self.marks if not is_move_mark(mark) and not is_old_mark(mark)]


class MovingHome:
    """
    :param client: of the ensemble of the home. :param path: of the home there.
    """

    def __init__(self, client: AdminClient, path: str) -> None:
        self.client = client
        self.path = path
        self.pin = join(path, PIN)

    def __str__(self) -> str:
        return f"{self.path} on {self.client}"

    def look(self) -> SeenPin | None:
        """The pin, not older than this call; None: there is none."""
        return self._fresh(self._look)

    def _look(self) -> SeenPin:
        data, acl, marks = (self.client.call(each, self.pin) for each in ("get", "get_acls", "get_children"))
        return SeenPin(data[0] or b"", acl[0], marks)

    def data(self) -> bytes | None:
        """Of the pin, not older than this call; None: there is none."""
        return self._fresh(lambda: self.client.call("get", self.pin)[0] or b"")

    def old(self, move: str) -> bytes | None:
        """The pin before a move that has left an old place; None: its mark is gone."""
        return self._fresh(lambda: self.client.call("get", self.mark(old_mark_of(move)))[0] or b"")

    def _fresh(self, read: Callable[[], T]) -> T | None:
        def catch_up_and_read() -> T | None:
            self.client.catch_up()
            try:
                return read()
            except NoNodeError:
                return None

        return self.client.patiently(catch_up_and_read)

    def mark(self, name: str) -> str:
        return f"{self.pin}/{name}"

    def leave_mark(self, move: str) -> bool:
        """Whether there is a pin to leave it below. From now on anybody may call the move off."""
        try:
            return self.client.make(self.mark(mark_of(move)), b"", READ_ACL_UNSAFE)
        except NoNodeError:
            return False

    def take_mark(self, name: str) -> None:
        """Behind it there is no such mark. That of a move calls it off, unless it has happened."""

        def take() -> None:
            with suppress(NoNodeError):
                self.client.call("delete", self.mark(name))

        self.client.patiently(take)

    def switch(self, move: str, pin: bytes, before: SeenPin) -> None:
        """The children are at the other place from now on, if the mark is there; the pin says whether it was.

        :param pin: what it says then. :param before: the pin until now.
        """
        self._send(self._switch(move, pin, before))

    def _switch(self, move: str, pin: bytes, before: SeenPin) -> list[WriteRequest]:
        return [
            Delete(self.mark(mark_of(move)), -1),
            Delete(self.pin, -1),
            Create(self.pin, pin, before.acl, 0),
            Create(self.mark(old_mark_of(move)), before.data, READ_ACL_UNSAFE, 0),
        ]

    def verify_rights(self, move: str, before: SeenPin) -> None:
        """Tries all that is to come, in a transaction that cannot succeed.

        :raises NoRightError: the identity may not do it, or does not see the whole ACL of the pin.
        """
        if is_masked(before.acl):
            raise NoRightError(
                f"the servers hide the digests in the ACL of {self.pin} on {self.client}: it takes an identity "
                "with ADMIN there (--auth)"
            )
        mark = Create(self.mark(mark_of(move)), b"", READ_ACL_UNSAFE, 0)
        steps = [mark, *self._switch(move, before.data, before), CheckVersion(FENCES, IMPOSSIBLE)]
        _, error = failure(self.client.patiently(lambda: self._send(steps)))
        if isinstance(error, NoAuthError):
            raise self.client.no_right(self.path)

    def _send(self, steps: Sequence[WriteRequest]) -> Sequence[object]:
        answers: Sequence[object] = self.client.wait(self.pin, send(self.client, Transaction(steps)))
        return answers
