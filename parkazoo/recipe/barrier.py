"""kazoo's barriers, with waits that end: after a lost connection they look again, and stop() ends them."""

from __future__ import annotations

import uuid
from contextlib import suppress
from functools import partial

from kazoo.exceptions import (
    BadVersionError,
    ConnectionClosedError,
    KazooException,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
)
from kazoo.protocol.states import EventType
from kazoo.recipe.barrier import Barrier as KazooBarrier
from kazoo.recipe.barrier import DoubleBarrier as KazooDoubleBarrier
from kazoo.retry import ForceRetryError

from parkazoo.protocol.steps import failure
from parkazoo.recipe.barrier_rounds import READY, Ready, joined, read_ready
from parkazoo.recipe.swept import in_folder
from parkazoo.recipe.waits import Waiter


class Barrier(KazooBarrier):
    """Replaces kazoo's Barrier: same methods, same znode.

    kazoo's `wait` misses a removal while the connection is lost, and waits for ever.
    """

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until the barrier is removed, also over a lost connection.

        :param timeout: seconds.
        :returns: whether it is removed.
        :raises ConnectionClosedError: the client was stopped.
        """
        waiter = Waiter(self.client, timeout)
        is_removed = bool(waiter.until(lambda: waiter.watch(self.client.exists, self.path) is None))
        if is_removed:
            self.client.hear_others()
        return is_removed


class DoubleBarrier(KazooDoubleBarrier):
    """Replaces kazoo's DoubleBarrier: same methods, same znodes.

    kazoo's `enter` and `leave` wait for one event, which a lost connection takes away. Here each looks again. A
    member that enters late must still see that all were in, so the last to leave deletes ``ready``; in kazoo the
    first one does.

    A round is the members that the data of ``ready`` names: who makes it names all that are there. A name is of
    one `enter`. If all members of a round are killed, their ``ready`` stays. It names no later member, so it lets
    nobody enter, until there are enough for the next round, whose names are added. kazoo's members read no data.
    """

    _made_in = 0  # the number of the session that made our znode; 0: none has
    _has_seen_none = False  # whether there was no `ready` when we were there
    _left: Ready | None = None  # as it was when we began to leave
    _names: frozenset[str] = frozenset()  # of the round that we have entered; none if kazoo has made it
    _round: frozenset[str] | None = None  # the members that leave with us, when we have looked

    def enter(self) -> None:
        """Waits until `num_clients` members have entered.

        As in kazoo, `participating` is False if the barrier could not be entered, for example for lack of a right.

        :raises ConnectionClosedError: the client was stopped.
        """
        waiter = Waiter(self.client)
        self.participating = False
        self._has_seen_none = False
        self._names = frozenset()
        try:
            if self._made_in:
                waiter.retry(self._renew_name)
            waiter.until(partial(in_folder, self._forget_folder, self._enter, waiter))
        except ConnectionClosedError:
            raise
        except KazooException:
            self._best_effort_cleanup()
        else:
            self.participating = True
            self.client.hear_others()

    def leave(self) -> None:
        """Waits until all members have left.

        :raises ConnectionClosedError: the client was stopped.
        """
        waiter = Waiter(self.client)
        self._round = None
        try:
            if self.participating:
                waiter.until(partial(self._leave, waiter))
                self._take_name()
                self.client.hear_others()
            else:  # it has not entered
                self._best_effort_cleanup()
        except ConnectionClosedError:
            raise
        except KazooException:
            self._best_effort_cleanup()
        finally:
            self.participating = False

    def _forget_folder(self) -> None:
        self.assured_path = False

    def _renew_name(self) -> None:
        """Takes another name, unless an `enter` that was interrupted has left our znode."""
        if self._made_in != self.client.session_number or self.client.exists(self.create_path) is None:
            self._delete(self.node_name)
            self._take_name()

    def _take_name(self) -> None:
        self.node_name = uuid.uuid4().hex
        self.create_path = f"{self.path}/{self.node_name}"
        self._made_in = 0

    def _enter(self, waiter: Waiter) -> bool:
        """Enters, and returns whether all members have entered."""
        session = self.client.session_number
        if not self.assured_path:
            self.client.ensure_path(self.path)
            self.assured_path = True
        if self._made_in not in (0, session):  # what is left of an earlier session goes without notice
            self._delete(self.node_name)
        self._made_in = session
        with suppress(NodeExistsError):
            self.client.create(self.create_path, self._identifier.encode("utf-8"), ephemeral=True)
        while (has_entered := self._has_entered(waiter)) is None:
            pass
        if has_entered and self.client.session_number != session:
            raise ForceRetryError
        return has_entered

    def _has_entered(self, waiter: Waiter) -> bool | None:
        """Returns whether this member is in a round; None if ``ready`` has changed meanwhile.

        It is if ``ready`` names it, or has come while it was there, in whichever session: who made that may have
        looked before, or may be kazoo's.
        """
        ready = self._read_ready(waiter)
        if ready is not None and self.node_name in ready.names:
            self._names = ready.names
            return True
        was_there = EventType.CREATED in waiter.told or (ready is not None and self._has_seen_none)
        self._has_seen_none |= ready is None
        if was_there and ready is None:
            return True  # kazoo's members have begun to leave
        members = {*self.client.get_children(self.path)} - {READY}
        if len(members) < self.num_clients:
            if not was_there:
                return False
            if ready is not None and ready.names:  # others may wait for the next round
                members = {self.node_name}
        if not self._name_in_ready(ready, members):
            return None
        self._names = frozenset(members if ready is None else ready.names | members)
        return True

    def _read_ready(self, waiter: Waiter | None = None) -> Ready | None:
        """Returns None if there is none."""
        path = f"{self.path}/{READY}"
        stat = waiter.watch(self.client.exists, path) if waiter else self.client.exists(path)
        if stat is None:
            return None
        try:
            data, stat = self.client.get(path)
        except NoNodeError:
            return None
        except NoAuthError:
            data = b""
        return read_ready(data, stat.version)

    def _name_in_ready(self, ready: Ready | None, members: set[str]) -> bool:
        """Adds members to ``ready``, or makes it; returns False if it has changed since it was read."""
        path = f"{self.path}/{READY}"
        try:
            if ready is None:
                self.client.create(path, joined(members))
            else:
                self._set_ready(path, joined(ready.names | members), ready.version)
        except (NodeExistsError, BadVersionError):
            return False
        except NoNodeError:
            if ready is None:  # the folder is gone
                raise
            return False
        return True

    def _set_ready(self, path: str, data: bytes, version: int) -> None:
        try:
            self.client.set(path, data, version)
        except NoAuthError:  # of a member with another identity; but who may make and delete here may replace it
            replacement = self.client.transaction()
            replacement.delete(path, version)
            replacement.create(path, data)
            _, error = failure(replacement.commit())
            if error is not None:
                raise error from None

    def _leave(self, waiter: Waiter) -> bool:
        """Returns whether all have left. The first member waits for the others, and they wait for it."""
        try:
            names = self.client.get_children(self.path)
        except NoNodeError:
            return True
        members = sorted({*names} - {READY})
        if self._round is None:
            # Others wait for the next round: if we waited for one, and it for us, nobody would go on.
            self._left = ready = self._read_ready() if READY in names else None
            is_ours = ready is not None and self.node_name in ready.names
            self._round = ready.names if ready is not None and is_ours else self._names or frozenset(members)
        is_first = members[:1] == [self.node_name]
        if not is_first and self.node_name in members:
            self._delete(self.node_name)
        others = [name for name in members if name != self.node_name and name in self._round]
        if any(self._is_there(name, waiter) for name in (reversed(others) if is_first else others)):
            return False
        self._delete_ready()
        if is_first:
            self._delete(self.node_name)
        return True

    def _is_there(self, name: str, waiter: Waiter) -> bool:
        return waiter.watch(self.client.exists, f"{self.path}/{name}") is not None

    def _delete_ready(self) -> None:
        """Unless it is of the next round too: who is named there has yet to see it."""
        if self._left is not None and self._read_ready() == self._left:
            with suppress(BadVersionError):
                self._delete(READY, self._left.version)

    def _delete(self, name: str, version: int = -1) -> None:
        with suppress(NoNodeError):
            self.client.delete(f"{self.path}/{name}", version)

    def _best_effort_cleanup(self) -> None:
        with suppress(KazooException):
            super()._best_effort_cleanup()
