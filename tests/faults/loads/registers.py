"""Every operation of a client, by several at once on the same znodes; each must be linearizable.

The load records every request of kazoo's methods when it is issued and when it is answered, so a recursive delete
or an ensure_path is judged by its requests. A request without an answer (a lost connection, an expired session, a
killed process) may have happened at any time since, or never. The checker is tests/faults/linearizable.py.

The clients use the znodes of a group, a small tree below the load's root, for some seconds and then leave them, so
that requests of unknown outcome never pile up. The clock decides which group it is, so clients need not agree on
it.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from kazoo.exceptions import (
    BadVersionError,
    ConnectionClosedError,
    ConnectionLoss,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    OperationTimeoutError,
    SessionExpiredError,
)
from kazoo.security import OPEN_ACL_UNSAFE

from parkazoo import AnswerLostError, ParKazooClient
from parkazoo.kazoo_private import (
    CheckVersion,
    Create,
    Delete,
    Exists,
    GetACL,
    GetChildren,
    GetChildren2,
    GetData,
    RolledBackError,
    RuntimeInconsistency,
    SetACL,
    SetData,
    Sync,
    Transaction,
)
from parkazoo.protocol.presence import Presence
from tests.faults.linearizable import OK, Call
from tests.faults.load import InterruptedCallError, Worker

PERIODS_S = (2.0, 5.0, 12.0)  # for how long the znodes of a group are used, by its kind
PATHS = ("d", "e", "d/a", "d/b", "d/a/x")
SIBLINGS = (("d", "e"), ("d/a", "d/b"))
PAUSE_S = 0.06
PIPELINED = 5
REFUSALS = (NoNodeError, NodeExistsError, BadVersionError, NotEmptyError)
UNKNOWN = (AnswerLostError, ConnectionClosedError, ConnectionLoss, OperationTimeoutError, SessionExpiredError)


# ---- what is recorded ------------------------------------------------------------------------


class Recorder:
    """Stands before a client's requests and records those below `root`, and their answers.

    :param record: as :meth:`Worker.record`.
    """

    def __init__(self, client: Any, root: str, record: Callable[..., None]) -> None:
        self._root = root
        self._record = record
        self._call = client._call
        self._numbers = itertools.count()
        client._call = self

    def __call__(self, request: Any, reply: Any) -> Any:
        call = self._describe(request)
        if call is None or reply is None:
            return self._call(request, reply)
        number = next(self._numbers)
        self._record("call", number=number, call=call)
        return self._call(request, _Answered(reply, lambda answer: self._answer(number, request, answer)))

    def record_once(self, client: Any, request: Any) -> None:
        """Create, set or delete by ``client.once``; of a set the version that it sets must be given.

        The requests that it takes are not recorded, as several may be needed for one write.
        """
        number = next(self._numbers)
        self._record("call", number=number, call=self._describe(request))
        try:
            self._do_once(client, request)
        except Exception as error:
            self._answer(number, request, error)
            raise
        done = request.version + 1 if isinstance(request, SetData) else OK
        self._record("answer", number=number, result=done)

    def _do_once(self, client: Any, request: Any) -> None:
        if isinstance(request, Create):
            client.once(client.create, request.path, request.data)
        elif isinstance(request, SetData):
            client.once(client.set, request.path, request.data, request.version)
        else:
            client.once(client.delete, request.path, request.version)

    def _answer(self, number: int, request: Any, answer: Any) -> None:
        if isinstance(answer, UNKNOWN):
            self._record("answer", number=number, unknown=type(answer).__name__)
        else:
            self._record("answer", number=number, result=_result(request, answer))

    def _describe(self, request: Any) -> Call | None:
        """As in linearizable.Operation, and ``("sync", path)``; None for what is not recorded."""
        if isinstance(request, Transaction):
            calls = [self._describe(each) for each in request.operations]
            return ("transaction", tuple(calls))
        if isinstance(request, Presence):
            return None  # it has no version that could be judged
        path = getattr(request, "path", "")
        if not path.startswith(self._root + "/") and (path != self._root or isinstance(request, Exists)):
            return None  # kazoo's ensure_path looks as far up as the root
        path = path[len(self._root) + 1 :]
        if isinstance(request, Create):
            return "create", path, request.data.decode()
        if isinstance(request, SetData):
            return "set", path, request.data.decode(), request.version
        if isinstance(request, Delete):
            return "delete", path, request.version
        if isinstance(request, CheckVersion):
            return "check", path, request.version
        for kinds, name in (
            ((Exists, GetACL), "exists"),
            (GetData, "get"),
            ((GetChildren, GetChildren2), "children"),
            (SetACL, "set_acls"),
            (Sync, "sync"),
        ):
            if isinstance(request, kinds):
                return name, path
        raise TypeError(f"{request} is not recorded")


class _Answered:
    """A reply that the recorder sees before the caller."""

    def __init__(self, reply: Any, look: Callable[[Any], None]) -> None:
        self._reply = reply
        self._look = look

    def set(self, value: Any = None) -> None:
        self._look(value)
        self._reply.set(value)

    def set_exception(self, exception: Exception) -> None:
        self._look(exception)
        self._reply.set_exception(exception)


def _result(request: Any, answer: Any) -> Any:
    if isinstance(answer, Exception):
        return type(answer).__name__
    if isinstance(request, Transaction):
        for index, each in enumerate(answer):
            if isinstance(each, Exception) and not isinstance(each, (RolledBackError, RuntimeInconsistency)):
                return "failed", index, type(each).__name__
        return [_result(each, result) for each, result in zip(request.operations, answer, strict=True)]
    if isinstance(request, SetData):
        return answer.version
    if isinstance(request, Exists):
        return "NoNodeError" if answer is None else answer.version
    if isinstance(request, GetACL):
        return answer[1].version
    if isinstance(request, GetData):
        return answer[0].decode(), answer[1].version
    if isinstance(request, (GetChildren, GetChildren2)):
        return sorted(answer[0] if isinstance(request, GetChildren2) else answer)
    return OK


# ---- what is done ----------------------------------------------------------------------------


class User:
    """Does what its dice say, and leaves all answers to the recorder.

    :param client: ParKazoo's or kazoo's, which has no `once`.
    """

    def __init__(self, worker: Worker, client: Any, recorder: Recorder) -> None:
        self._worker = worker
        self._recorder = recorder
        self._root = worker.root
        self._dice = worker.dice
        self._client = client
        # Not a generator: an interruption would end that.
        self._values = map(f"{worker.number}.{worker.life}.%d".__mod__, itertools.count())
        self._group = ""
        self._actions = (
            *(self._write,) * 8,
            *(self._read_after_sync,) * 5,
            *(self._read_after_write,) * 2,
            *(self._pipeline,) * 2,
            *(self._once,) * (3 if isinstance(client, ParKazooClient) else 0),
            self._ensure,
            self._delete_all,
            self._transaction,
        )

    def act_interrupted(self) -> None:
        """As :meth:`act`, with a time limit now and then."""
        with suppress(InterruptedCallError), self._worker.limited():
            self.act()

    def act(self) -> None:
        kind = self._dice.randrange(len(PERIODS_S))
        self._group = f"{self._root}/{kind}.{int(time.monotonic() // PERIODS_S[kind])}."
        with suppress(*REFUSALS, *UNKNOWN):
            self._dice.choice(self._actions)()

    def _path(self) -> str:
        return self._group + self._dice.choice(PATHS)

    def _version(self) -> int:
        return self._dice.choice((-1, -1, 0, 1, 2))

    def _write(self) -> None:
        self._issue_write(self._path()).get()

    def _once(self) -> None:
        path = self._path()
        request = self._dice.choice(
            (
                Create(path, next(self._values).encode(), OPEN_ACL_UNSAFE, 0),
                SetData(path, next(self._values).encode(), self._dice.choice((0, 1, 2))),
                Delete(path, self._version()),
            )
        )
        self._recorder.record_once(self._client, request)

    def _issue_write(self, path: str) -> Any:
        client, version = self._client, self._version()
        return self._dice.choice(
            (
                *(lambda: client.create_async(path, next(self._values).encode()),) * 5,
                *(lambda: client.set_async(path, next(self._values).encode(), version),) * 5,
                *(lambda: client.delete_async(path, version),) * 3,
                lambda: client.create_async(path, next(self._values).encode(), makepath=True),
                lambda: client.set_acls_async(path, OPEN_ACL_UNSAFE),  # another could stay half set: "Known gaps"
            )
        )()

    def _issue_read(self, path: str) -> Any:
        client = self._client
        return self._dice.choice(
            (
                lambda: client.get_async(path),
                lambda: client.exists_async(path),
                lambda: client.get_children_async(path),
                lambda: client.get_children_async(path, include_data=True),
                lambda: client.get_acls_async(path),
            )
        )()

    def _read_after_sync(self) -> None:
        path = self._path()
        self._client.sync(path)
        self._issue_read(path).get()

    def _read_after_write(self) -> None:
        path, beside = self._dice.choice((*SIBLINGS, *(siblings[::-1] for siblings in SIBLINGS)))
        self._client.set(self._group + beside, next(self._values).encode())
        self._dice.choice((self._client.get, self._client.exists))(self._group + path)

    def _pipeline(self) -> None:
        issued = []
        for _ in range(PIPELINED):
            path = self._path()
            if self._dice.random() < 0.5:
                issued.append(self._issue_write(path))
            else:
                issued += [self._client.sync_async(path), self._issue_read(path)]
        for each in issued:
            with suppress(*REFUSALS):
                each.get()

    def _ensure(self) -> None:
        self._client.ensure_path(self._path())

    def _delete_all(self) -> None:
        self._client.delete(self._path(), recursive=True)

    def _transaction(self) -> None:
        transaction = self._client.transaction()
        for name in self._dice.choice(SIBLINGS):
            path, version = self._group + name, self._version()
            what = self._dice.randrange(4)
            if what == 0:
                transaction.create(path, next(self._values).encode())
            elif what == 1:
                transaction.set_data(path, next(self._values).encode(), version)
            elif what == 2:
                transaction.delete(path, version)
            else:
                transaction.check(path, version)
        transaction.commit()


class Registers:
    name = "registers"
    about = "acknowledged writes are there; writes and synced reads of each znode are linearizable"
    processes = 4

    def prepare(self, client: ParKazooClient, root: str) -> None:
        """Nothing is needed: the first client makes a group's znodes."""

    def work(self, worker: Worker) -> None:
        client = worker.connect()
        user = User(worker, client, Recorder(client, worker.root, worker.record))
        while not worker.is_over():
            user.act_interrupted()
            worker.pause(worker.dice.random() * PAUSE_S)
        client.stop()
        client.close()

    def finish(self, client: ParKazooClient, root: str, record: Callable[..., None]) -> None:
        Recorder(client, root, record)
        client.sync(root)
        level = [f"{root}/{name}" for name in client.get_children(root)]
        while level:
            asked = [(client.sync_async(p), client.get_async(p), client.get_children_async(p)) for p in level]
            level = [f"{p}/{name}" for p, (*_, names) in zip(level, asked, strict=True) for name in _get(names)]


def _get(answer: Any) -> list[str]:
    with suppress(NoNodeError):
        return list(answer.get())
    return []


LOAD = Registers()
