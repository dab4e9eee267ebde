"""A reply that a test reads."""

from __future__ import annotations

from tests.explore.znodes import Answer


class Result:
    """A reply that remembers. It must be set once.

    :ivar is_abandoned: its caller has given up.
    """

    is_abandoned = False

    def __init__(self) -> None:
        self.told: list[Answer] = []

    def set(self, value: Answer = None) -> None:
        self.told.append(value)

    def set_exception(self, exception: Exception) -> None:
        self.told.append(exception)

    @property
    def value(self) -> Answer:
        (value,) = self.told
        return value


class BodyResult(Result):
    """One that remembers the bytes of an answer, too."""

    def set_body(self, body: bytes) -> None:
        self.told.append(body)
