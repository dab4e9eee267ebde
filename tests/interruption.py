"""Exceptions of signal handlers, raised at each point of a call."""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable, Container
from functools import cache
from inspect import CO_GENERATOR
from itertools import pairwise
from types import CodeType, FrameType
from typing import Any


class Interruption(BaseException):
    """What a signal handler raises."""


@cache
def markers(code: CodeType) -> set[int]:
    """The offsets of the instructions that do nothing: Python 3.14 has one after a branch that is not taken, even
    in the middle of a `try`, whose exception table leaves it out."""
    return {each.offset for each in dis.get_instructions(code) if each.opname == "NOT_TAKEN"}


def any_instruction(frame: FrameType, event: str) -> bool:
    return event == "opcode" and frame.f_lasti not in markers(frame.f_code)


@cache
def after_calls(code: CodeType) -> set[int]:
    """The offsets of the instructions that follow a call."""
    return {each.offset for last, each in pairwise(dis.get_instructions(code)) if last.opname.startswith("CALL")}


def where_signals_come(frame: FrameType, event: str) -> bool:
    """CPython makes a signal handler's call when a function begins, and when one has returned."""
    return event == "call" or (event == "opcode" and frame.f_lasti in after_calls(frame.f_code))


def where_signals_come_but_to_generators(frame: FrameType, event: str) -> bool:
    """A trace function that raises as a generator goes on leaves out its `finally`. A signal does not."""
    return not frame.f_code.co_flags & CO_GENERATOR and where_signals_come(frame, event)


Where = Callable[[FrameType, str], bool]


def raise_interruption() -> None:
    raise Interruption


def interrupted(
    call: Callable[[], Any],
    point: int,
    files: Container[str],
    where: Where,
    handler: Callable[[], None] = raise_interruption,
) -> bool:
    """Make a call, and at that point of these files one of a signal handler; whether it came to that."""
    left = point

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal left
        if frame.f_code.co_filename not in files:
            return None
        frame.f_trace_opcodes = True
        if where(frame, event):
            left -= 1
            if left == 0:
                handler()
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except Interruption:
        pass
    finally:
        sys.settrace(before)
    return left <= 0


def each_interruption(
    prepare: Callable[[], Callable[[], Any]],
    check: Callable[[], None],
    files: Container[str],
    where: Where = any_instruction,
) -> int:
    """Interrupt what `prepare` returns at each of its points; how many there are."""
    interrupted(prepare(), sys.maxsize, files, where)  # Python 3.12 traces instructions from the second time on
    check()
    point = 1
    while interrupted(prepare(), point, files, where):
        check()
        point += 1
    return point - 1


def each_handler(
    prepare: Callable[[], Callable[[], Any]],
    handler: Callable[[], None],
    check: Callable[[], None],
    files: Container[str],
    where: Where = any_instruction,
) -> int:
    """Call `handler` at each point of what `prepare` returns, as a signal's; how many there are."""
    interrupted(prepare(), sys.maxsize, files, where)
    check()
    point = 1
    while interrupted(prepare(), point, files, where, handler):
        check()
        point += 1
    return point - 1
