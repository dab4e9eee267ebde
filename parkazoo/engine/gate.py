"""Through which every operation enters, so that it can be told when none is about to begin by an older map."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from parkazoo.engine.early import Early
from parkazoo.engine.ports import Reply
from parkazoo.protocol.steps import Request


class Gate:
    """Passes on operations. While it is shut it keeps them, in their order.

    Each call inside has an entry in a set, whose methods need no lock. It is taken away also if a signal handler's
    exception comes before or behind it: else the gate would never be empty again.

    :param pass_on: issues an operation.
    :param refusal: see :class:`Early`.
    """

    def __init__(
        self,
        pass_on: Callable[[Request, Reply | None], None],
        make_lock: Callable[[], AbstractContextManager[object]],
        refusal: Callable[[], Exception | None],
    ) -> None:
        self._pass_on = pass_on
        self._make_lock = make_lock
        self._refusal = refusal
        self._kept: Early[Request] | None = None  # while it is shut
        self._inside: set[object] = set()

    def call(self, request: Request, reply: Reply | None) -> None:
        """Any thread may call."""
        entry = object()
        try:
            self._inside.add(entry)  # before it is looked at whether the gate is shut
            kept = self._kept
            if kept is None:
                self._pass_on(request, reply)
            else:
                kept.call(request, reply)
        finally:
            self._inside.discard(entry)

    @property
    def is_shut(self) -> bool:
        """Whether it keeps operations."""
        return self._kept is not None

    @property
    def is_empty(self) -> bool:
        """Whether no thread is inside. If that is true of a shut gate once, nothing from before comes any more."""
        return not self._inside

    def shut(self) -> None:
        self._kept = Early(self._make_lock(), self._refusal)

    def open(self) -> None:
        """Pass on the kept calls, as :meth:`Early.open` does, and all later ones."""
        if self._kept is not None:
            self._kept.open(self._pass_on)
            self._kept = None

    def fail(self) -> None:
        """Answer the kept calls with the refusal."""
        if self._kept is not None:
            self._kept.fail()
