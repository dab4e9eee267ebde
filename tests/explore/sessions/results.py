"""What a client alone is answered while a directory moves: as by one ZooKeeper, in its order."""

from __future__ import annotations

from collections.abc import Sequence

from kazoo.exceptions import ConnectionLoss, SessionExpiredError
from kazoo.security import OPEN_ACL_UNSAFE

from parkazoo.errors import CrossEnsembleError
from parkazoo.kazoo_private import Create
from parkazoo.protocol.placement import logical
from parkazoo.types.znodes import ZnodeStat
from tests.explore.alone import must
from tests.explore.model import Model
from tests.explore.scenario import Violation
from tests.explore.sessions.world import Position
from tests.explore.words import answer_in_words, in_words
from tests.explore.znodes import Answer

LOST = (ConnectionLoss, SessionExpiredError)


def check_results(directories: Sequence[str], position: Position, *, counts: bool) -> None:
    """
    :param directories: with a znode w in each; empty for `/`.
    :param counts: whether pin and proof are not counted among the children ever made.
    :raises Violation: an answer is not as one ZooKeeper's.
    """
    ended = sorted(position.ended)
    if any(isinstance(each.result, LOST) for each in ended) or len(ended) < len(position.calls):
        return  # it may have happened or not
    model = Model(1)
    for path in (*filter(None, directories), *(f"{directory}/w" for directory in directories)):
        must(model.execute(0, Create(path, b"", OPEN_ACL_UNSAFE, 0)))
    for each in ended:
        request = position.calls[each.number]
        if isinstance(each.result, CrossEnsembleError):  # nothing of it was done
            continue
        expected = model.execute(0, request)
        if _seen(expected, counts) != _seen(each.result, counts):
            said, wanted = answer_in_words(each.result), answer_in_words(expected)
            raise Violation(f"one ZooKeeper answers {wanted} to {in_words(request)}, and not {said}")


def _seen(answer: Answer, counts: bool) -> object:
    """What of an answer is the same wherever the znodes are."""
    if isinstance(answer, Exception):
        return type(answer)
    if isinstance(answer, ZnodeStat):
        cversion = answer.cversion if counts else 0
        return answer.version, answer.aversion, answer.numChildren, answer.dataLength, cversion
    if isinstance(answer, tuple):
        return tuple(_seen(each, counts) for each in answer)
    if isinstance(answer, list) and all(isinstance(each, str) for each in answer):  # of children, or made
        return sorted(map(logical, answer))
    if isinstance(answer, list):
        return [_seen(each, counts) for each in answer]
    if isinstance(answer, str):
        path = logical(answer)
        return path if counts else path.rstrip("0123456789")
    return answer
