"""Many reads of an ensemble: in few requests where its servers know such, as they do since ZooKeeper 3.6."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from kazoo.exceptions import NoAuthError, NoNodeError, UnimplementedError

from parkazoo.admin.clients import AdminClient, LostError, NoRightError, UnreadableError
from parkazoo.admin.moving.multi_read import MultiRead
from parkazoo.kazoo_private import GetACL, GetChildren, GetData
from parkazoo.types import AsyncResult

READS_AT_ONCE = 4  # requests
Read = GetData | GetChildren | GetACL


class _SentReads(NamedTuple):
    """:param is_one: whether all were sent as one request."""

    asked: Sequence[Read]
    results: Sequence[AsyncResult[Any]]
    is_one: bool


def send(client: AdminClient, request: object) -> AsyncResult[Any]:
    """Sends a request that kazoo's client has no method for."""
    result: AsyncResult[Any] = client.zk.handler.async_result()
    client.zk._call(request, result)
    return result


def ask_all(client: AdminClient, requests: Iterable[Sequence[Read]]) -> Iterator[tuple[str, Any]]:
    """Yields each path with its answer, NoNodeError or NoAuthError. Lost connections are waited for.

    :param requests: the reads of each request, made when it is to be sent.
    :raises UnreadableError: the ensemble ceases to answer.
    """
    waiting: deque[_SentReads] = deque()

    def take() -> Iterator[tuple[str, Any]]:
        sent = waiting.popleft()
        try:
            answers = _answers(client, sent)
        except LostError:
            answers = client.patiently(lambda: _ask_again(client, sent.asked))
        for request, answer in zip(sent.asked, answers, strict=True):
            if isinstance(answer, Exception) and not isinstance(answer, (NoNodeError, NoAuthError)):
                raise UnreadableError(f"{request.path} on {client}: {answer!r}")
            yield request.path, answer

    for asked in requests:
        waiting.append(_send(client, asked))
        if len(waiting) >= READS_AT_ONCE:
            yield from take()
    while waiting:
        yield from take()


def _ask_again(client: AdminClient, asked: Sequence[Read]) -> list[Any]:
    client.catch_up()  # it may be another session
    return _answers(client, _send(client, asked))


def _send(client: AdminClient, asked: Sequence[Read]) -> _SentReads:
    together = tuple(each for each in asked if not isinstance(each, GetACL))
    if together and client.has_multi_read:
        return _SentReads(asked, [send(client, MultiRead(together))], is_one=True)
    return _SentReads(asked, [send(client, each) for each in asked], is_one=False)


def _answers(client: AdminClient, sent: _SentReads) -> list[Any]:
    """
    :raises LostError: the connection was lost.
    """
    if not sent.is_one:
        return [
            _answer(client, request.path, result) for request, result in zip(sent.asked, sent.results, strict=True)
        ]
    try:
        answers: list[Any] = client.wait(sent.asked[0].path, sent.results[0])
    except UnreadableError as error:
        if not isinstance(error.__cause__, UnimplementedError):
            raise
        client.has_multi_read = False  # such a server ends the session, too
        return client.patiently(lambda: _ask_again(client, sent.asked))
    return answers


def _answer(client: AdminClient, path: str, result: AsyncResult[Any]) -> Any:
    try:
        return client.wait(path, result)
    except NoNodeError as error:
        return error
    except NoRightError:
        return NoAuthError()
