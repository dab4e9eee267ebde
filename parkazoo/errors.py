"""What ParKazoo raises beside kazoo's own exceptions. All of it is a KazooException."""

from __future__ import annotations

from collections.abc import Sequence

from kazoo.exceptions import ConfigurationError, KazooException


class ClusterMapError(ConfigurationError):
    """The cluster map is missing, damaged, of a newer format, or does not fit the ensembles it names."""


class ForkError(KazooException):
    """The child process uses a client that was started before the fork: its session is the parent's."""


class AnswerLostError(KazooException):
    """A write by ``client.once`` has been done, but what it was answered is lost: the znode is gone again."""


class RequestTooLargeError(KazooException):
    """A request may be larger than the servers take (jute.maxbuffer): one has ended the connection over it.

    It is no ConnectionLoss: sent again, the request would end the next connection. As after a ConnectionLoss, it
    may have been done or not. A write by ``client.once`` was not done.
    """


TRANSACTION = (
    "a transaction must stay on one ensemble, but this one touches several",
    "keep what changes together under one parent (siblings share an ensemble), put it into the data of one znode, "
    "split the transaction, for kazoo's LockingQueue use client.LockingQueue, or have directories that are made "
    "from now on kept together (`parkazoo map rule add`, on a map of form grown)",
)
GUARD = (
    "writes of one client.deferred() with a guard must be on the guard's ensemble, but this one is not",
    "give each ensemble's writes their own client.deferred(), with a guard there, or have directories that are "
    "made from now on kept together (`parkazoo map rule add`, on a map of form grown)",
)


class CrossEnsembleError(KazooException):
    """A transaction names znodes that live on more than one ensemble, or a deferred write is on another than its
    guard. Nothing was sent.

    :param operations: ``(operation, path, ensemble)``, in order.
    :param about: what is refused, and the ways out.
    """

    def __init__(self, operations: Sequence[tuple[str, str, str]], about: tuple[str, str] = TRANSACTION) -> None:
        what, ways_out = about
        self.operations = tuple(operations)
        width = max(len(path) for _, path, _ in self.operations)
        lines = "\n".join(f"  {name:<8} {path:<{width}}  on {where}" for name, path, where in self.operations)
        super().__init__(f"{what}:\n{lines}\nNothing was sent. Ways out: {ways_out}.")


class OutcomeUnknown(KazooException):
    """Nobody knows whether entries of a DistributedDict were written: the session has ended before the answer
    came.

    :ivar keys: of these entries. They were written together, or none was.
    """

    def __init__(self, message: str, keys: Sequence[str] = ()) -> None:
        self.keys = tuple(keys)
        super().__init__(message)


class PartlyDoneError(KazooException):
    """An update or clear of a DistributedDict went in several transactions, and one has failed.

    The error of that is the ``__cause__``.

    :ivar done: keys of what is done. :ivar unknown: keys of which no one knows. :ivar left: of what was not done.
    """

    def __init__(
        self, message: str, done: Sequence[str] = (), unknown: Sequence[str] = (), left: Sequence[str] = ()
    ) -> None:
        self.done, self.unknown, self.left = tuple(done), tuple(unknown), tuple(left)
        super().__init__(message)


class DeferredError(KazooException):
    """Deferred writes were not done, or no more are taken.

    :ivar failed: paths of those that were refused, each with its error.
    :ivar dropped: of those that were never done, since one in front of them was refused or the session was over.
    :ivar unknown: of those of which no one knows: before their answer the client was stopped, or the lane's marker
        deleted.
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
