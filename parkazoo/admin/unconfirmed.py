"""Changes that the caller must have asked for by a word of their own."""

from __future__ import annotations

from parkazoo.errors import ClusterMapError


class UnconfirmedError(ClusterMapError):
    """Reports a change that no command undoes, or that takes servers away, and that the caller has not confirmed.
    Nothing is changed.

    :ivar about: the effect of the change.
    :ivar word: the argument that confirms it.
    """

    def __init__(self, about: str, word: str) -> None:
        super().__init__(f"{about}. If that is meant, give {word}=True")
        self.about = about
        self.word = word
