"""How a client makes copies of its ephemerals in a directory that is about to move: only their owner can.

It makes them before it says the map that holds its operations, so the command finds them when it compares copy and
original. From then on the client has ephemerals on both ensembles. What cannot be copied stays, and so does the
directory: the command calls the move off.

A client that may have ephemerals of unknown names looks at each child of a directory, if it is not too large.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from parkazoo.engine.ports import MemberPort, OnAnswer, RequestPort, Runtime
from parkazoo.engine.rewatching import AT_ONCE
from parkazoo.kazoo_private import CheckVersion, Create, GetACL, GetChildren, GetData, Transaction
from parkazoo.protocol.moving import MOST_LOOKED_AT
from parkazoo.protocol.ops.creates import EPHEMERAL
from parkazoo.protocol.placement import OURS, join
from parkazoo.types.znodes import ZnodeStat


class Owning:
    """Copies the ephemerals of one session. All of it is on the loop.

    :param member: of the ensemble where they are. :param paths: theirs, physical.
    :param folder: where there may be others, too; empty: nowhere.
    :param to: where they are copied. :param path_of: the path of a copy.
    :param opening: the znode without which no copy is made any more.
    :param when_over: is called when each is made, or cannot be.
    """

    def __init__(
        self,
        runtime: Runtime,
        member: MemberPort,
        paths: Iterable[str],
        folder: str,
        to: RequestPort,
        path_of: Callable[[str], str],
        opening: str,
        when_over: Callable[[], None],
    ) -> None:
        self._runtime = runtime
        self._member = member
        self._to = to
        self._path_of = path_of
        self._opening = CheckVersion(opening, -1)
        self._when_over = when_over
        self._rest = deque(paths)
        self._under_way = 1
        if folder:
            member.submit(GetChildren(folder, None), OnAnswer(self._soon(partial(self._have_listed, folder))))
        else:
            self._begin()

    def _have_listed(self, folder: str, names: Any) -> None:
        if not isinstance(names, Exception) and len(names) <= MOST_LOOKED_AT:
            found = (join(folder, name) for name in names if name not in OURS)
            self._rest = deque(dict.fromkeys([*self._rest, *found]))
        self._begin()

    def _begin(self) -> None:
        while self._rest and self._under_way < AT_ONCE:
            self._begin_one()
        self._have_done(None)

    def _begin_one(self) -> None:
        path = self._rest.popleft()
        self._under_way += 1
        self._member.submit(GetData(path, None), OnAnswer(self._soon(partial(self._have_read, path))))

    def _soon(self, call: Callable[[Any], None]) -> Callable[[Any], None]:
        return lambda answer: self._runtime.call(partial(call, answer))

    def _have_read(self, path: str, znode: Any) -> None:
        if isinstance(znode, Exception) or not self._owns(znode[1]):
            self._have_done(None)
        else:
            self._member.submit(GetACL(path), OnAnswer(self._soon(partial(self._copy, path, znode[0]))))

    def _copy(self, path: str, data: bytes, rights: Any) -> None:
        if isinstance(rights, Exception):
            self._have_done(None)
            return
        create = Create(self._path_of(path), data, rights[0], EPHEMERAL)
        self._to.submit(Transaction([self._opening, create]), OnAnswer(self._soon(self._have_done)))

    def _owns(self, stat: ZnodeStat) -> bool:
        return bool(stat.ephemeralOwner == self._member.session_id)

    def _have_done(self, answer: object) -> None:
        if self._rest:
            self._begin_one()
        self._under_way -= 1
        if not self._under_way:
            self._when_over()
