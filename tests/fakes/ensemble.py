"""An ensemble in memory, behind a client of the commands; its connections may be lost."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from kazoo.exceptions import (
    ConnectionLoss,
    KazooException,
    RolledBackError,
    RuntimeInconsistency,
    UnimplementedError,
)
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.states import KeeperState
from kazoo.security import ACL, OPEN_ACL_UNSAFE

from parkazoo.admin.clients import AdminClient
from parkazoo.admin.moving.multi_read import MultiRead
from parkazoo.kazoo_private import (
    Create,
    Delete,
    Exists,
    GetACL,
    GetChildren,
    GetData,
    SetData,
    Sync,
    Transaction,
)
from parkazoo.protocol.past import CATCH_UP
from tests.explore.znodes import ANYONE, READS, Who, Write, Znode, Znodes


class FakeEnsemble:
    """
    :ivar lost: the share of requests whose connection is lost; half of them are done.
    :ivar most_bytes: its jute.maxbuffer.
    :ivar between: called before each request. :ivar before_write: called before each one that is no read.
    :ivar requests: all that came.
    """

    def __init__(self, chance: random.Random, *paths: str) -> None:
        self.znodes = Znodes({"/": Znode(b"", tuple(OPEN_ACL_UNSAFE), 0, 0, 0, 0)})
        self.chance = chance
        self.zxid = 0
        self.lost = 0.0
        self.most_bytes = 0xFFFFF
        self.has_multi_read = True
        self.between: Callable[[], None] = lambda: None
        self.before_write: Callable[[], None] = lambda: None
        self.requests: list[Any] = []
        for path in paths:
            self.write(Create(path, b"", OPEN_ACL_UNSAFE, 0))

    def end_session(self, session: int) -> None:
        for path in [path for path, znode in self.znodes.items() if znode.owner == session]:
            self.write(Delete(path, -1))

    def write(self, *requests: Any, who: Who = ANYONE, session: int = 1) -> list[Any]:
        """
        :raises KazooException: one of them was refused, and so all are.
        """
        self.zxid += 1
        attempt = Write(self.znodes, self.zxid, who, session)
        answers: list[Any] = []
        try:
            answers += [attempt.execute(request) for request in requests]
        except KazooException as error:
            error.index = len(answers)
            raise
        self.znodes = attempt.znodes
        return answers

    def answer(self, request: Any, who: Who, session: int) -> Any:
        self.requests.append(request)
        try:
            if isinstance(request, MultiRead):
                if not self.has_multi_read:
                    raise UnimplementedError
                return [self._read(each, who) for each in request.requests]
            if isinstance(request, Sync):
                return request.path
            if isinstance(request, READS):
                return self.znodes.read(request, who)
            if not isinstance(request, Transaction):
                return self.write(request, who=who, session=session)[0]
            return self._commit(request, who, session)
        except KazooException as error:
            return error

    def _read(self, request: Any, who: Who) -> Any:
        try:
            return self.znodes.read(request, who)
        except KazooException as error:
            return error

    def _commit(self, request: Transaction, who: Who, session: int) -> list[Any]:
        try:
            return self.write(*request.operations, who=who, session=session)
        except KazooException as error:
            after = len(request.operations) - error.index - 1
            return [*[RolledBackError()] * error.index, error, *[RuntimeInconsistency()] * after]


class FakeTransaction:
    """In place of kazoo's TransactionRequest."""

    def __init__(self, client: FakeClient) -> None:
        self._client = client
        self._operations: list[Create | SetData] = []

    def create(self, path: str, data: bytes, acl: Sequence[ACL]) -> None:
        self._operations.append(Create(path, data, acl, 0))

    def set_data(self, path: str, data: bytes, version: int) -> None:
        self._operations.append(SetData(path, data, version))

    def commit_async(self) -> Any:
        return self._client._issue(Transaction(self._operations))


class FakeClient:
    """In place of kazoo's.

    :param session: its number.
    :ivar before_write: called before each of its requests that is no read.
    """

    connected = True
    client_state = KeeperState.CONNECTED
    auth_data: frozenset[Any] = frozenset()

    is_elsewhere = False

    def __init__(self, ensemble: FakeEnsemble, session: int, who: Who) -> None:
        self.ensemble = ensemble
        self.client_id = session, b""
        self._session_id = session
        self.who = who
        self.before_write: Callable[[], None] = lambda: None
        self.handler = SequentialThreadingHandler()

    def _call(self, request: Any, result: Any) -> None:
        self.ensemble.between()
        if not isinstance(request, (*READS, MultiRead, Sync)) and request != CATCH_UP:
            self.ensemble.before_write()
            self.before_write()
        is_too_large = len(request.serialize()) > self.ensemble.most_bytes
        is_lost = is_too_large or self.ensemble.chance.random() < self.ensemble.lost
        if is_too_large or (is_lost and self.ensemble.chance.random() < 0.5):
            result.set_exception(ConnectionLoss())
            return
        answer = self.ensemble.answer(request, self.who, self.client_id[0])
        if is_lost or isinstance(answer, Exception):
            result.set_exception(ConnectionLoss() if is_lost else answer)
        else:
            result.set(answer)

    def _issue(self, request: Any) -> Any:
        result = self.handler.async_result()
        self._call(request, result)
        return result

    def get_async(self, path: str) -> Any:
        return self._issue(GetData(path, None))

    def exists_async(self, path: str) -> Any:
        return self._issue(Exists(path, None))

    def get_children_async(self, path: str) -> Any:
        return self._issue(GetChildren(path, None))

    def get_acls_async(self, path: str) -> Any:
        return self._issue(GetACL(path))

    def sync_async(self, path: str) -> Any:
        return self._issue(Sync(path))

    def create_async(self, path: str, data: bytes, acl: Sequence[ACL]) -> Any:
        return self._issue(Create(path, data, acl, 0))

    def set_async(self, path: str, data: bytes, version: int) -> Any:
        return self._issue(SetData(path, data, version))

    def transaction(self) -> FakeTransaction:
        return FakeTransaction(self)

    def delete_async(self, path: str, version: int = -1) -> Any:
        return self._issue(Delete(path, version))


class FakeAdminClient(AdminClient):
    def __init__(self, ensemble: FakeEnsemble, name: str, session: int = 1, who: Who = ANYONE) -> None:
        super().__init__(name, "127.0.0.1:1", {}, 5.0)
        self.zk = FakeClient(ensemble, session, who)

    def takes(self, size: int) -> bool | None:
        return bool(size <= self.zk.ensemble.most_bytes)
