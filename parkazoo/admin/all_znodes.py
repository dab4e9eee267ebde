"""Every znode of an ensemble looked at, by requests that keep a pace."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kazoo.exceptions import NoNodeError

from parkazoo.admin.clients import AdminClient, LostError, NoRightError, UnreadableError
from parkazoo.admin.write_counts import Znode
from parkazoo.protocol.placement import is_of_zookeeper, join
from parkazoo.types import ZnodeStat

MOST_PER_SECOND = 500
MOST_WITHOUT_ANSWER = 50
MOST_ZNODES = 100_000  # two looks at so many take 400 s


class Pace:
    """Lets requests pass one by one, at most `per_second`.

    :param is_over: whether none may pass any more.
    """

    def __init__(
        self,
        is_over: Callable[[], bool] = lambda: False,
        per_second: float = MOST_PER_SECOND,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._is_over = is_over
        self._every_s = 1 / per_second
        self.clock = clock
        self._sleep = sleep
        self._next_s = clock()

    def wait(self, count: int = 1) -> None:
        """
        :param count: of requests that pass together.
        :raises UnreadableError: it is over.
        """
        if self._is_over():
            raise UnreadableError("it is not asked any more")
        now_s = self.clock()
        if self._next_s > now_s:
            self._sleep(self._next_s - now_s)
        self._next_s = max(self._next_s, now_s) + count * self._every_s


class Looked(NamedTuple):
    """:param znodes: by their path on the ensemble. :param hidden: so many more the identity may not read."""

    znodes: Mapping[str, Znode]
    hidden: int

    def why_not_all(self) -> str:
        """Returns why some were not seen; empty if all were."""
        return f"the identity may not read {self.hidden:,} znodes, nor what is below" if self.hidden else ""


def look_at_all(client: AdminClient, pace: Pace) -> Looked:
    """Looks at each znode but ZooKeeper's own, level by level.

    One request each: it lists the children.

    No znode stands for others: which of a hundred children have children is not seen from three of them.

    :raises UnreadableError: there are more than `MOST_ZNODES`, or the ensemble ceases to answer.
    """
    znodes: dict[str, Znode] = {}
    hidden = 0
    level = ["/"]
    while level:
        deeper: list[str] = []
        for path, answer in ask_each(client, "get_children", level, pace, None, True):  # no watch, but the stat
            if isinstance(answer, Exception):
                hidden += isinstance(answer, NoRightError)
                continue
            children, stat = answer
            znodes[path] = Znode(pace.clock(), stat.czxid, stat.created, stat.version, stat.cversion)
            deeper += [below for name in children if not is_of_zookeeper(below := join(path, name))]
            if len(znodes) + len(deeper) > MOST_ZNODES:
                raise UnreadableError(
                    f"{client} has more than {MOST_ZNODES:,} znodes: looks at all of them would take too long. "
                    "Leave --sample out: ZooKeeper 3.6 tells of each change"
                )
        level = deeper
    return Looked(znodes, hidden)


def stats_of(client: AdminClient, paths: Sequence[str], pace: Pace) -> Iterator[tuple[str, ZnodeStat | None]]:
    """Yields the stat of each znode; None: it is gone, or may not be read."""
    for path, answer in ask_each(client, "exists", paths, pace):
        yield path, None if isinstance(answer, Exception) else answer


def ask_each(
    client: AdminClient, method: str, paths: Sequence[str], pace: Pace, *arguments: object
) -> Iterator[tuple[str, Any]]:
    """Yields each path with its answer, or with NoNodeError or NoRightError."""
    waiting: deque[tuple[str, Any]] = deque()

    def answer() -> tuple[str, Any]:
        path, result = waiting.popleft()
        try:
            try:
                return path, client.wait(path, result)
            except LostError:
                return path, client.patiently(lambda: client.wait(path, ask(path)))
        except (NoNodeError, NoRightError) as error:
            return path, error

    def ask(path: str) -> Any:
        pace.wait()
        return getattr(client.zk, f"{method}_async")(path, *arguments)

    for path in paths:
        waiting.append((path, ask(path)))
        while waiting and (len(waiting) >= MOST_WITHOUT_ANSWER or waiting[0][1].ready()):
            yield answer()
    while waiting:
        yield answer()
