"""The home of a directory that moves: its pin, the marks below that, and the switch to another place.

Below the pin that clients make of a native directory nobody may leave a mark. So it is made anew, with the ACL of
other pins, or made, with the proof, if the directory has none: that decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple, TypeVar

from kazoo.exceptions import NoAuthError, NoNodeError
from kazoo.security import ACL, READ_ACL_UNSAFE

from parkazoo.admin.clients import AdminClient, NoRightError
from parkazoo.admin.many_reads import send
from parkazoo.kazoo_private import CheckVersion, Create, Delete, Transaction
from parkazoo.protocol.moving import is_move_mark, is_old_mark, mark_of, old_mark_of
from parkazoo.protocol.pin import NATIVE_PIN, decode_pin
from parkazoo.protocol.placement import FENCES, PIN, PROOF, join
from parkazoo.protocol.rights import is_masked, pin_acl
from parkazoo.protocol.steps import IMPOSSIBLE, WriteRequest, failure

T = TypeVar("T")


class SeenPin(NamedTuple):
    """
    :param acl: that it ought to have. :param marks: the names of its children.
    """

    data: bytes
    acl: Sequence[ACL]
    marks: Sequence[str]

    @property
    def is_native(self) -> bool:
        return is_native(self.data)

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
        self._proof = join(path, PROOF)

    def __str__(self) -> str:
        return f"{self.path} on {self.client}"

    def look(self) -> SeenPin | None:
        """The pin, not older than this call; None: there is none."""
        return self._fresh(self._look)

    def _look(self) -> SeenPin:
        data, acl, marks = (self.client.call(each, self.pin) for each in ("get", "get_acls", "get_children"))
        pin = data[0] or b""
        return SeenPin(pin, self._acl_of_native() if is_native(pin) else acl[0], marks)

    def acl(self) -> Sequence[ACL]:
        """:raises NoRightError: the identity does not see all of it."""
        acl: Sequence[ACL] = self.client.call("get_acls", self.path)[0]
        self._verify_seen(self.path, acl)
        return acl

    def _acl_of_native(self) -> Sequence[ACL]:
        """Of its pin: nobody else keeps that as the home's."""
        return pin_acl(self.acl())

    def look_without_pin(self) -> SeenPin | None:
        """As if a native directory that has none had one; None: the directory is gone."""
        return self._fresh(lambda: SeenPin(NATIVE_PIN, self._acl_of_native(), ()))

    def let_marks_be_left(self) -> None:
        """Has a native directory a pin below which there may be marks; in vain if it has changed meanwhile."""
        with suppress(NoNodeError):
            pin = Create(self.pin, NATIVE_PIN, self._acl_of_native(), 0)
            if self.data() is None:
                self._change([pin, Create(self._proof, b"", READ_ACL_UNSAFE, 0)])
            elif self.client.call("get_acls", self.pin)[0] != pin.acl:
                self._change([CheckVersion(self._proof, -1), Delete(self.pin, -1), pin])

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

    def take_mark(self, name: str) -> bool:
        """Behind it there is no such mark: a move is called off, unless it has happened. Whether it was there."""

        def take() -> bool:
            try:
                self.client.call("delete", self.mark(name))
            except NoNodeError:
                return False
            return True

        return self.client.patiently(take)

    def switch(self, move: str, pin: bytes, before: SeenPin) -> None:
        """The children are at the other place from now on, if the mark is there; the pin says whether it was.

        :param pin: what it says then. :param before: the pin until now.
        """
        self._change(self._switch(move, pin, before))

    def _switch(self, move: str, pin: bytes, before: SeenPin) -> list[WriteRequest]:
        return [
            Delete(self.mark(mark_of(move)), -1),
            *([Delete(self._proof, -1)] if before.is_native else ()),
            Delete(self.pin, -1),
            Create(self.pin, pin, before.acl, 0),
            Create(self.mark(old_mark_of(move)), before.data, READ_ACL_UNSAFE, 0),
        ]

    def verify_rights(self, move: str, before: SeenPin) -> None:
        """Tries all that is to come, in a transaction that cannot succeed.

        :raises NoRightError: the identity may not do it, or does not see the whole ACL of the pin.
        """
        self._verify_seen(self.pin, before.acl)
        mark = Create(self.mark(mark_of(move)), b"", READ_ACL_UNSAFE, 0)
        steps = [mark, *self._switch(move, before.data, before), CheckVersion(FENCES, IMPOSSIBLE)]
        self.client.patiently(lambda: self._change(steps))

    def _verify_seen(self, path: str, acl: Sequence[ACL]) -> None:
        if is_masked(acl):
            raise NoRightError(
                f"the servers hide the digests in the ACL of {path} on {self.client}: it takes an identity with "
                "ADMIN there (--auth)"
            )

    def _change(self, steps: Sequence[WriteRequest]) -> None:
        """In one transaction, which may fail.

        :raises NoRightError: it does for want of a right.
        """
        _, error = failure(self.client.wait(self.pin, send(self.client, Transaction(steps))))
        if isinstance(error, NoAuthError):
            raise self.client.no_right(self.path)


def is_native(pin: bytes) -> bool:
    found = decode_pin(pin)
    return found is not None and found.is_native
