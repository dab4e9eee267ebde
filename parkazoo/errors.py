"""Exceptions of ParKazoo beside kazoo's own. All are KazooExceptions."""

from __future__ import annotations

from collections.abc import Sequence

from kazoo.exceptions import ConfigurationError, KazooException, SessionExpiredError


class ClusterMapError(ConfigurationError):
    """Reports a cluster map that is missing, damaged, of a newer format, or does not fit its ensembles."""


class ForkError(KazooException):
    """Reports, in a child process, that the client was started before the fork: its session is the parent's."""


class WentBackError(SessionExpiredError):
    """Reports an operation that had no answer when an ensemble came back with an older copy of its data.

    Writes that the ensemble had acknowledged may be gone. The client is LOST, and its session begins anew.

    :param about: the znode and the ensemble, if they are known.
    """

    def __init__(self, about: str = "the session ends") -> None:
        super().__init__(f"{about}: an ensemble has come back with an older copy of its data")


class AnswerLostError(KazooException):
    """Reports that ``client.once`` did a write but its answer was lost, and since then the znode was deleted
    or its directory has moved.
    """


class RequestTooLargeError(KazooException):
    """Reports a request that may exceed the servers' limit (jute.maxbuffer): a server ended the connection over
    it.

    It is no ConnectionLoss, because a retry would end the next connection too. The request may have been done
    or not; a write by ``client.once`` was not done.
    """


TRANSACTION = (
    "a transaction must stay on one ensemble, but this one touches several",
    "keep what changes together under one parent (siblings share an ensemble), put it into the data of one znode, "
    "split the transaction, for kazoo's LockingQueue use client.LockingQueue, or have directories that are made "
    "from now on kept together (`parkazoo map rule add`)",
)
GUARD = (
    "writes of one client.deferred() with a guard must be on the guard's ensemble, but this one is not",
    "give each ensemble's writes their own client.deferred(), with a guard there, or have directories that are "
    "made from now on kept together (`parkazoo map rule add`)",
)


class CrossEnsembleError(KazooException):
    """Reports a transaction over several ensembles, or a deferred write on another ensemble than its guard.
    Nothing was sent.

    :param operations: ``(operation, path, ensemble)``, in order.
    :param about: the refusal, and the ways out.
    """

    def __init__(self, operations: Sequence[tuple[str, str, str]], about: tuple[str, str] = TRANSACTION) -> None:
        what, ways_out = about
        self.operations = tuple(operations)
        width = max(len(path) for _, path, _ in self.operations)
        lines = "\n".join(f"  {name:<8} {path:<{width}}  on {where}" for name, path, where in self.operations)
        super().__init__(f"{what}:\n{lines}\nNothing was sent. Ways out: {ways_out}.")


class OutcomeUnknown(KazooException):
    """Reports that entries of a DistributedDict may have been written or not: the session ended before the answer.

    :ivar keys: of these entries. Either all were written or none.
    """

    def __init__(self, message: str, keys: Sequence[str] = ()) -> None:
        self.keys = tuple(keys)
        super().__init__(message)


class PartlyDoneError(KazooException):
    """Reports that an update or clear of a DistributedDict did some of its transactions before one failed.

    Its ``__cause__`` is the error of that transaction.

    :ivar done: keys that were written. :ivar unknown: keys that may have been written. :ivar left: keys that were
        not.
    """

    def __init__(
        self, message: str, done: Sequence[str] = (), unknown: Sequence[str] = (), left: Sequence[str] = ()
    ) -> None:
        self.done, self.unknown, self.left = tuple(done), tuple(unknown), tuple(left)
        super().__init__(message)


class DeferredError(KazooException):
    """Deferred writes were not done, or no more are taken.

    :ivar failed: paths of the refused writes, each with its error.
    :ivar dropped: of writes never done, since one in front of them was refused or the session was over.
    :ivar unknown: of writes of which no one knows: before their answer the client was stopped, or the lane's
        marker deleted.
    """

    def __init__(
        self,
        message: str,
        failed: Sequence[tuple[str, Exception]] = (),
        dropped: Sequence[tuple[str, Exception]] = (),
        unknown: Sequence[tuple[str, Exception]] = (),
    ) -> None:
        self.failed, self.dropped, self.unknown = tuple(failed), tuple(dropped), tuple(unknown)
        super().__init__(message)
