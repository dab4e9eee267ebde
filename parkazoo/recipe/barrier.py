"""kazoo's barriers, with waits that end: after a lost connection they look again, and stop() ends them."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from kazoo.exceptions import (
    ConnectionClosedError,
    KazooException,
    NodeExistsError,
    NoNodeError,
    RolledBackError,
    RuntimeInconsistency,
)
from kazoo.protocol.states import EventType
from kazoo.recipe.barrier import Barrier as KazooBarrier
from kazoo.recipe.barrier import DoubleBarrier as KazooDoubleBarrier
from kazoo.retry import ForceRetryError

from parkazoo.recipe.swept import in_folder
from parkazoo.recipe.waits import Waiter

READY = "ready"


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
        return bool(waiter.until(lambda: waiter.watch(self.client.exists, self.path) is None))


class DoubleBarrier(KazooDoubleBarrier):
    """Replaces kazoo's DoubleBarrier: same methods, same znodes.

    kazoo's `enter` and `leave` wait for one event, which a lost connection takes away. Here each looks again. A
    member that enters late must still see that all were in, so the last to leave deletes ``ready``; in kazoo the
    first one does.

    A round is ``ready`` and the members that are older than it, by the zxids of their creates: siblings share an
    ensemble. If all members of a round are killed, their ``ready`` stays. It is older than any later member, so it
    lets nobody enter, and the next round makes it anew. `parkazoo map move` gives new zxids: the directory is not
    to move while members enter or leave.
    """

    _before: int | None = None  # the zxid of the `ready` that was there when we began to enter; 0: none was
    _made_in = 0  # the number of the session that made our znode
    _round: dict[str, int] | None = (
        None  # what was there when we began to leave: names, and zxids of their creates
    )

    def enter(self) -> None:
        """Waits until `num_clients` members have entered.

        As in kazoo, `participating` is False if the barrier could not be entered, for example for lack of a right.

        :raises ConnectionClosedError: the client was stopped.
        """
        waiter = Waiter(self.client)
        self.participating = False
        self._before = None
        try:
            waiter.until(partial(in_folder, self._forget_folder, self._enter, waiter))
        except ConnectionClosedError:
            raise
        except KazooException:
            self._best_effort_cleanup()
        else:
            self.participating = True

    def leave(self) -> None:
        """Waits until all members have left.

        :raises ConnectionClosedError: the client was stopped.
        """
        waiter = Waiter(self.client)
        self._round = None
        try:
            if self.participating:
                waiter.until(partial(self._leave, waiter))
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

    def _enter(self, waiter: Waiter) -> bool:
        """Enters, and returns whether all members have entered."""
        if EventType.CREATED in waiter.told:  # of a `ready` that was not there when we were, in whichever session
            return True
        session = self.client.session_number
        if not self.assured_path:
            self.client.ensure_path(self.path)
            self.assured_path = True
        if self._made_in not in (0, session):  # what is left of an earlier session goes without notice
            with suppress(NoNodeError):
                self.client.delete(self.create_path)
        self._made_in = session
        with suppress(NodeExistsError):
            self.client.create(self.create_path, self._identifier.encode("utf-8"), ephemeral=True)
        has_entered = self._has_entered(waiter)
        if has_entered and self.client.session_number != session:
            raise ForceRetryError
        return has_entered

    def _has_entered(self, waiter: Waiter) -> bool:
        """Returns whether this member is in a round. If so, `ready` is younger than this member."""
        ready = waiter.watch(self.client.exists, f"{self.path}/{READY}")
        own = None if ready is None else self.client.exists(self.create_path)
        if ready is not None and own is not None and own.czxid < ready.czxid:
            return True
        zxid = 0 if ready is None else ready.czxid
        if self._before is None:
            self._before = zxid
        # Who has lost its session since it began to enter was counted with the znode that it had then.
        was_counted = zxid > self._before
        if not was_counted and len({*self.client.get_children(self.path)} - {READY}) < self.num_clients:
            return False
        self._make_ready(is_there=ready is not None)
        return True

    def _make_ready(self, is_there: bool) -> None:
        """Makes `ready`; makes it anew if it exists, so that it is younger than this member.

        It uses one transaction: between a delete and a create others would see none, and wait for one.
        """
        path = f"{self.path}/{READY}"
        if not is_there:
            self.client.ensure_path(path)
            return
        renewal = self.client.transaction()
        renewal.delete(path)
        renewal.create(path)
        for result in renewal.commit():
            if isinstance(result, Exception) and not isinstance(result, (RolledBackError, RuntimeInconsistency)):
                raise result  # NoNodeError: it was just deleted, so we look again

    def _leave(self, waiter: Waiter) -> bool:
        """Returns whether all have left. The first member waits for the others, and they wait for it."""
        try:
            names = self.client.get_children(self.path)
        except NoNodeError:
            return True
        if self._round is None:
            stats = [(name, self.client.exists_async(f"{self.path}/{name}")) for name in names]
            found = ((name, stat.get()) for name, stat in stats)
            zxids = {name: stat.czxid for name, stat in found if stat is not None}
            # A younger one waits for the next round: if we waited for it, and it for us, nobody would go on.
            self._round = {name: zxid for name, zxid in zxids.items() if zxid <= zxids.get(READY, zxid)}
        members = sorted({*names} - {READY})
        is_first = members[:1] == [self.node_name]
        if not is_first and self.node_name in members:
            self._delete(self.node_name)
        others = [name for name in members if name != self.node_name]
        if any(self._is_of_round(name, waiter) for name in (reversed(others) if is_first else others)):
            return False
        if self._is_of_round(READY):
            self._delete(READY)
        if is_first:
            self._delete(self.node_name)
        return True

    def _is_of_round(self, name: str, waiter: Waiter | None = None) -> bool:
        """Returns whether a znode exists and is of the round that this member leaves, not of the next one."""
        path = f"{self.path}/{name}"
        stat = waiter.watch(self.client.exists, path) if waiter else self.client.exists(path)
        return stat is not None and stat.czxid == (self._round or {}).get(name)

    def _delete(self, name: str) -> None:
        with suppress(NoNodeError):
            self.client.delete(f"{self.path}/{name}")

    def _best_effort_cleanup(self) -> None:
        with suppress(KazooException):
            super()._best_effort_cleanup()
