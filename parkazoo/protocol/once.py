"""A write that is done once, however often its connection is lost (docs/design/once.md).

It is a transaction that also sets a marker: an ephemeral of this client, on the same ensemble, with the version
that it has. After a lost connection the client tries to set that version alone. If that succeeds, the transaction
has not been done, nor will be: should it come late, it finds another version. If it fails, the marker says who was
first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple
from weakref import ref

from kazoo.exceptions import (
    BadVersionError,
    ConnectionClosedError,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    SessionExpiredError,
)
from kazoo.security import ACL

from parkazoo.errors import AnswerLostError, RequestTooLargeError
from parkazoo.kazoo_private import Create, Exists, GetChildren, GetData, SetData
from parkazoo.protocol.context import Context
from parkazoo.protocol.ops.brief import read
from parkazoo.protocol.ops.children import get_children
from parkazoo.protocol.ops.creates import EPHEMERAL, SEQUENCE, promote_secret
from parkazoo.protocol.ops.multi import Guarded
from parkazoo.protocol.ops.transaction import transaction
from parkazoo.protocol.placement import MARKER, ROOT, join, split
from parkazoo.protocol.registration import format_session
from parkazoo.protocol.rights import is_secret
from parkazoo.protocol.steps import Operation, WriteRequest, ask, failure
from parkazoo.protocol.where.lookup import at

MAY_BE_DONE = "the session has ended before the answer came: it may have been done, or not"
NOT_ON_THE_WIRE = -15
DIGITS = 10  # of a sequence number


class SentTransaction(NamedTuple):
    """A transaction that was sent, and may have been done.

    :param path: of the marker. :param version: that the transaction has raised if it was done.
    """

    ensemble: int
    session: int
    path: str
    version: int

    def data(self, *, is_done: bool) -> bytes:
        """What the marker holds behind it, or behind the question."""
        return f"{self.version} {'done' if is_done else 'not done'}".encode()


class Marker:
    """Markers of one name, one for each ensemble and session. One write at a time uses them.

    :param number: that no other marker of the client has. :param acl: of the znodes.
    :ivar attempt: whose answer has not come.
    """

    def __init__(self, number: int, acl: Sequence[ACL]) -> None:
        self._number = number
        self._acl = acl
        self._versions: dict[int, tuple[int, int]] = {}  # by ensemble: the session, and the version of its marker
        self._in_doubt: dict[int, SentTransaction] = {}  # by ensemble: of a write whose caller has left
        self._user: Callable[[], Once | None] = _nobody
        self.attempt: SentTransaction | None = None

    @property
    def is_free(self) -> bool:
        """Whether its last write can send nothing more: it is over, or nothing refers to it."""
        user = self._user()
        return user is None or user.is_over

    def use(self, user: Once) -> None:
        """Serve another write. Only a free marker may."""
        if self.attempt is not None:
            self._in_doubt[self.attempt.ensemble] = self.attempt
            self.attempt = None
        self._user = ref(user)

    def guard(self, context: Context, ensemble: int, is_gone: bool) -> Operation[SetData]:
        """The last step of a multi which goes to that ensemble now.

        :param is_gone: the marker was not there.
        """
        if is_gone:
            self._versions.pop(ensemble, None)
        session = context.owners.session_on(ensemble)
        while not session:  # it is not joined yet, or not any more
            if (yield from ask(ensemble, Exists(ROOT, None))) is None:  # it has left: nothing can be done there
                return SetData(ROOT, b"", -1)
            session = context.owners.session_on(ensemble)
        path = f"{ROOT}/{MARKER}{format_session(session)}-{self._number}"
        if (doubt := self._in_doubt.get(ensemble)) is not None:
            if doubt.session == session:
                yield from self._settle_doubt(doubt)
            del self._in_doubt[ensemble]
        known, version = self._versions.get(ensemble, (0, 0))
        if known != session:
            version = yield from self._make(ensemble, path)
            self._versions[ensemble] = session, version
        self.attempt = attempt = SentTransaction(ensemble, session, path, version)
        return SetData(path, attempt.data(is_done=True), version)

    def _make(self, ensemble: int, path: str) -> Operation[int]:
        try:
            yield from ask(ensemble, Create(path, b"", self._acl, EPHEMERAL))
        except NoAuthError:
            raise NoAuthError(f"{ROOT}: a write that is to be done once needs the right to create there") from None
        except NodeExistsError:  # the answer to its create was lost
            stat = yield from ask(ensemble, Exists(path, None))
            if stat is not None:
                return stat.version
        return 0

    def find_out(self, context: Context) -> Operation[int | None]:
        """The zxid of the transaction that was sent last; None if it has not been done, nor will be.

        :raises SessionExpiredError: that cannot be found out any more.
        """
        attempt = self.attempt
        if attempt is None:
            return None
        if context.owners.session_on(attempt.ensemble) not in (attempt.session, 0):
            raise SessionExpiredError
        try:
            zxid = yield from self._settle(attempt)
        except NoNodeError:
            raise SessionExpiredError from None
        if zxid is None:
            self.attempt = None
        return zxid

    def _settle_doubt(self, doubt: SentTransaction) -> Operation[None]:
        """Keep an earlier write's transaction from being done later than this."""
        try:
            yield from self._settle(doubt)
        except NoNodeError:  # it can never be done: its marker is gone
            self._versions.pop(doubt.ensemble, None)

    def _settle(self, attempt: SentTransaction) -> Operation[int | None]:
        """The zxid of a transaction that was sent; None if it has not been done, nor will be.

        :raises NoNodeError: the marker is gone.
        """
        ensemble, session, path, version = attempt
        try:
            stat = yield from ask(ensemble, SetData(path, attempt.data(is_done=False), version))
            is_done = False
        except BadVersionError:
            data, stat = yield from ask(ensemble, GetData(path, None))
            is_done = data == attempt.data(is_done=True)
        self._versions[ensemble] = session, stat.version
        return stat.mzxid if is_done else None

    def answered(self, *, is_done: bool) -> None:
        """The answer to the last attempt has come."""
        if self.attempt is not None and is_done:
            ensemble, session, _, version = self.attempt
            self._versions[ensemble] = session, max(version + 1, self._versions[ensemble][1])
        self.attempt = None


def _nobody() -> None:
    return None


class Once:
    """A request for a transaction that is done once; the same again, until there is an answer.

    A signal handler's exception may take its caller away at any point, while the operation goes on. So the marker
    belongs to the request, not to the caller.

    :param marker: a free one, which serves this request from now on.
    :ivar is_exact: the results are the transaction's own answers: no stat is newer.
    :ivar is_under_way: it was issued, and has no answer. :ivar is_left: it will not be issued again.
    :ivar too_large: why it is not sent again.
    """

    __slots__ = ("__weakref__", "is_exact", "is_left", "is_under_way", "marker", "operations", "too_large")
    type = NOT_ON_THE_WIRE

    def __init__(self, operations: Sequence[WriteRequest], marker: Marker) -> None:
        self.operations = operations
        self.marker = marker
        self.is_exact = True
        self.is_under_way = self.is_left = False
        self.too_large: RequestTooLargeError | None = None
        marker.use(self)

    @property
    def is_over(self) -> bool:
        """Whether it can send nothing more."""
        return self.is_left and not self.is_under_way


class Markers:
    """The markers of one client. Nobody gives one back: each write looks for a free one.

    So writes do not wait for each other, and an interruption of a caller does no harm, wherever it happens.
    """

    def __init__(self) -> None:
        self._markers: list[Marker] = []

    def request(self, operations: Sequence[WriteRequest], acl: Sequence[ACL]) -> Once:
        """Gives these operations a marker.

        :param acl: of the marker's znodes, if it is new.
        """
        marker = next((each for each in self._markers if each.is_free), None)
        if marker is None:
            marker = Marker(len(self._markers) + 1, acl)
            self._markers.append(marker)
        return Once(operations, marker)


def once(context: Context, request: Once) -> Operation[list[Any]]:
    """As a transaction, unless that has been done.

    :raises SessionExpiredError: it may have been done; the session in which it was sent has ended.
    :raises RequestTooLargeError: it has not been done, nor will be.
    :raises AnswerLostError: it has been done, but what it was answered is not to be found any more.
    """
    marker, operations = request.marker, request.operations
    zxid = yield from marker.find_out(context)
    results: list[Any] = []
    if zxid is None and request.too_large is None:
        try:
            results = yield from transaction(context, Guarded(operations, partial(marker.guard, context)))
        except RequestTooLargeError as error:
            request.too_large = error  # the next request may lose its connection, too
            zxid = yield from marker.find_out(context)
    if zxid is not None:
        assert marker.attempt is not None  # as it has been done
        results = yield from _find_results(context, operations, zxid, marker.attempt.ensemble)
        request.is_exact = all(getattr(result, "mzxid", zxid) == zxid for result in results)
    elif request.too_large is not None:
        raise request.too_large
    marker.answered(is_done=failure(results)[1] is None)
    return results


def _find_results(
    context: Context, operations: Sequence[WriteRequest], zxid: int, ensemble: int
) -> Operation[list[Any]]:
    """What a transaction of that zxid was answered, on an ensemble."""
    results: list[Any] = []
    for operation in reversed(operations):  # as the last one made is found first
        result: Any = True
        if isinstance(operation, SetData):
            result = yield from read(context, Exists(operation.path, None))
        elif isinstance(operation, Create) and operation.flags & SEQUENCE:
            result = yield from _find_made(context, operation.path, zxid, ensemble, results)
        elif isinstance(operation, Create):
            result = operation.path
            if not operation.flags and is_secret(operation.acl):
                yield from promote_secret(context, operation.path, operation.acl, 0)
        if result is None:
            raise AnswerLostError(
                f"{operation.path}: it was written, and was deleted again, or its directory has moved; the answer "
                "to the write is lost"
            )
        results.append(result)
    return results[::-1]


def _find_made(
    context: Context, path: str, zxid: int, ensemble: int, others: Sequence[object]
) -> Operation[str | None]:
    """What a transaction has made last with a sequence number, but for others. The newest are asked first.

    Where the directory has moved since, another znode may have that czxid.
    """
    parent, prefix = split(path)
    try:
        names = yield from get_children(context, GetChildren(parent, None))
    except NoNodeError:
        return None
    numbered = (name for name in names if name[:-DIGITS] == prefix and name[-DIGITS:].lstrip("-").isdigit())
    for name in sorted(numbered, key=lambda name: int(name[-DIGITS:]), reverse=True):
        made = join(parent, name)
        if made not in others:
            (stat, *_), d = yield from at(context, Exists(made, None))
            if isinstance(stat, Exception):
                raise stat
            if stat is not None and stat.czxid == zxid and d.home.ensemble == ensemble:
                return made
    return None


def told(request: Once, error: Exception, unchroot: Callable[[str], str]) -> Exception:
    """An error in the user's terms.

    :param unchroot: gives the user's name for a path.
    """
    is_end = isinstance(error, (ConnectionClosedError, SessionExpiredError))
    if not is_end or request.marker.attempt is None:  # it was not sent
        return error
    return in_doubt(type(error), paths(request.operations, unchroot))


def in_doubt(kind: type[Exception], paths: str) -> Exception:
    """The error of a write that may have been done."""
    error = kind(f"{paths}: {MAY_BE_DONE}")
    error.may_be_done = True  # type: ignore[attr-defined]  # may_be_done() looks at it
    return error


def may_be_done(error: Exception) -> bool:
    """Whether a write by ``once`` may have been done although it raised this error."""
    return bool(getattr(error, "may_be_done", False))


def named(request: Once, results: Sequence[Any], unchroot: Callable[[str], str]) -> list[Any]:
    """The results, with the user's paths of created znodes."""

    def name(path: str, made: str) -> str:
        return unchroot(path) + split(made)[1][len(split(path)[1]) :]

    return [
        name(operation.path, result) if isinstance(result, str) else result
        for operation, result in zip(request.operations, results, strict=True)
    ]


def only_result(operations: Sequence[WriteRequest], results: Sequence[Any], unchroot: Callable[[str], str]) -> Any:
    """The result of the only operation.

    :raises Exception: its error, which is not about a parent, say.
    """
    (result,) = results
    if isinstance(result, Exception):
        raise type(result)(paths(operations, unchroot))
    return result


def paths(operations: Sequence[WriteRequest], unchroot: Callable[[str], str]) -> str:
    return ", ".join(dict.fromkeys(unchroot(operation.path) for operation in operations))
