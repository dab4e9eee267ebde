"""Deferred writes, and the batches in which they go."""

from __future__ import annotations

from parkazoo.protocol.chain import LANDED, Landed
from parkazoo.protocol.placement import is_of_zookeeper
from parkazoo.protocol.steps import WriteRequest

MOST_WRITES = 64  # in a batch
MOST_BYTES = 512 * 1024  # in a batch, unless one write alone has more
OVERHEAD_BYTES = 100  # of a write in a batch, beside its path and value

PENDING, COMMITTED, FAILED, DROPPED, UNKNOWN = "pending", "committed", "failed", "dropped", "unknown"


def directory_of(path: str) -> str:
    """Returns the directory to whose lane a write belongs."""
    return path.rpartition("/")[0] or (path if is_of_zookeeper(path) else "/")


class Write:
    """Holds one deferred write and its outcome.

    :ivar request: kazoo's, with the whole path. :ivar error: the reason if it is FAILED, DROPPED or UNKNOWN.
    :ivar number: its place among all writes of one ``client.deferred()``.
    """

    __slots__ = ("error", "number", "request", "size", "state")

    def __init__(self, request: WriteRequest, size: int) -> None:
        self.request = request
        self.size = size
        self.number = -1
        self.state = PENDING
        self.error: Exception | None = None


class Batch:
    """Holds writes that go together in one multi.

    :ivar number: how many batches of the lane are in front of it.
    :ivar answer: None until there is one; an exception: the batch may have landed.
    """

    def __init__(self, writes: list[Write]) -> None:
        self.writes = writes
        self.number = -1
        self.answer: Landed | Exception | None = None

    @property
    def has_landed(self) -> bool:
        return self.answer == LANDED

    @property
    def may_have_landed(self) -> bool:
        return not isinstance(self.answer, Landed)

    @property
    def refusal(self) -> Landed | None:
        """Returns the answer if it names a write that was refused, or belongs to another ensemble."""
        answer = self.answer
        return answer if isinstance(answer, Landed) and answer.at >= 0 else None
