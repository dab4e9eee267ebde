"""Changes that the caller must have asked for by a word of their own."""

from __future__ import annotations

from parkazoo.errors import ClusterMapError


class UnconfirmedError(ClusterMapError):
    """A change that no command takes back, or that takes servers away, was not asked for. Nothing is changed.

    :ivar about: what would happen.
    :ivar word: the argument that asks for it.
    """

    def __init__(self, about: str, word: str) -> None:
        super().__init__(f"{about}. If that is meant, give {word}=True")
        self.about = about
        self.word = word
