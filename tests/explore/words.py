"""Requests and answers in words, for people: ``Create pin of /d3``, ``NoNodeError``."""

from __future__ import annotations

from collections.abc import Iterator

from kazoo.protocol.states import WatchedEvent, ZnodeStat
from kazoo.security import ACL

from parkazoo.kazoo_private import CheckVersion, Delete, SetACL, SetData, Transaction
from parkazoo.protocol.past import CATCH_UP
from parkazoo.protocol.placement import DONE, FENCES, MIRRORS, PIN, unescape
from tests.explore.znodes import Answer, Request

VERSIONED = (CheckVersion, Delete, SetACL, SetData)


def in_words(request: Request) -> str:
    """A request, with what is at its physical path instead of that path."""
    if request == CATCH_UP:
        return "catch up"
    kind = type(request).__name__
    if isinstance(request, Transaction):
        return f"[{', '.join(in_words(each) for each in request.operations)}]"
    if not hasattr(request, "path"):
        return kind
    version = request.version if isinstance(request, VERSIONED) else -1
    return f"{kind} {place_in_words(request.path)}{f' version {version}' if version != -1 else ''}"


def place_in_words(path: str) -> str:
    """A physical path: ``mirror of /d3``, ``pin of /d3``, ``fence 17``."""
    if path.startswith(MIRRORS + "/"):
        name, _, below = path[len(MIRRORS) + 1 :].partition("/")
        return f"{unescape(name)}/{below}" if below else f"mirror of {unescape(name)}"
    if path.startswith(FENCES + "/"):
        return f"fence {path[len(FENCES) + 1 :]}"
    if path.startswith(DONE + "/"):
        return f"done {path[len(DONE) + 1 :]}"
    home, found, mark = path.partition(f"/{PIN}")
    if found:
        return f"mark {mark[1:]} of {home}" if mark else f"pin of {home}"
    return path


def answer_in_words(answer: Answer) -> str:
    if isinstance(answer, Exception):
        return type(answer).__name__
    if isinstance(answer, ZnodeStat):
        return f"stat(version {answer.version}, {answer.numChildren} children)"
    if isinstance(answer, ACL):
        return f"{answer.id.id} may {answer.perms}"
    if isinstance(answer, WatchedEvent):
        return f"{answer.type} {place_in_words(str(answer.path))}"
    if isinstance(answer, (list, tuple)):
        return f"[{', '.join(_each(answer))}]"
    return repr(answer)


def _each(answers: list[Answer] | tuple[Answer, ...]) -> Iterator[str]:
    return map(answer_in_words, answers)
