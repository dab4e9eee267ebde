"""Answers and results as values, which can be compared and hashed."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from kazoo.protocol.states import ZnodeStat

from parkazoo.kazoo_private import (
    Create,
    Create2,
    Exists,
    GetACL,
    GetChildren2,
    GetData,
    SetACL,
    SetData,
    Transaction,
)
from parkazoo.protocol.placement import logical
from tests.explore.znodes import Answer, Request


def freeze(answer: Answer) -> Hashable:
    """Without zxids, an error as its name."""
    if answer is None or isinstance(answer, (str, bool)):
        return answer
    if isinstance(answer, Exception):
        return type(answer).__name__
    if isinstance(answer, ZnodeStat):
        return ("stat", answer.version, answer.cversion, answer.aversion, answer.dataLength, answer.numChildren)
    if isinstance(answer, (list, tuple)):
        return tuple([freeze(each) for each in answer])
    return answer


def freeze_exactly(answer: Answer) -> Hashable:
    """Zxids included."""
    if isinstance(answer, Exception):
        return type(answer).__name__
    if isinstance(answer, (list, tuple)):
        return tuple([freeze_exactly(each) for each in answer])
    return answer


def stats_in(answer: Answer) -> Iterator[ZnodeStat]:
    if isinstance(answer, ZnodeStat):
        yield answer
    elif isinstance(answer, (list, tuple)):
        for each in answer:
            yield from stats_in(each)


def result_of(request: Request, answer: Answer) -> Hashable:
    """An operation's result as its user has it."""
    if isinstance(request, (Create, Create2)):  # the client calls it by the user's name
        if isinstance(answer, tuple):
            answer = (logical(answer[0]), answer[1])
        elif isinstance(answer, str):
            answer = logical(answer)
    return freeze(answer)


def of_one_moment(request: Request, result: Hashable) -> Hashable:
    """What of a result is compared. A directory's stat is put together from two moments, so less of it."""
    if isinstance(request, (Exists, SetData, SetACL)):
        return _version_and_length(result)
    if isinstance(request, (GetData, GetACL)) and isinstance(result, tuple):
        return result[0], _version_and_length(result[1])
    if isinstance(request, Transaction) and isinstance(result, tuple):
        failed = [each for each in result if isinstance(each, str) and each.endswith("Error")]
        if failed:  # at which operation was seen at one moment, and proved at another
            return tuple(each for each in failed if each != "RolledBackError")
        return tuple([of_one_moment(*each) for each in zip(request.operations, result, strict=True)])
    if isinstance(request, GetChildren2) and isinstance(result, tuple):
        names: Hashable = result[0]
        return names
    return result


def _version_and_length(stat: Hashable) -> Hashable:
    if not isinstance(stat, tuple):
        return stat
    _, version, _, aversion, length, _ = stat
    return (version, aversion, length)
