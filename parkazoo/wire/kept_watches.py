"""What the next connection of a session has a server know of the watches that outlast the last one.

The server compares each with a zxid: it tells what came later, and keeps the watches of all else. Until it has
answered, the zxid stays as it was, whatever later answers and connections show: so nothing is left out, and a
change may be told again.
"""

from __future__ import annotations

from collections.abc import Iterable

from parkazoo.protocol.newer_requests import SetWatches, write_text
from parkazoo.wire.sizes import NOTED_BYTES

MOST_BYTES = NOTED_BYTES - 64  # of a request, as far as its paths can be parted
DATA, MISSING, CHILDREN = range(3)


class KeptWatches:
    """Only the loop uses it.

    :ivar missing: the paths whose watches on data wait for the znode to be made.
    """

    def __init__(self) -> None:
        self.missing: set[str] = set()
        self._zxid: int | None = None  # since then nothing was told; None: all that was left is on the server
        self._unanswered = 0

    def lose(self, zxid: int) -> None:
        """The connection is lost. :param zxid: of its last answer: what came before was told."""
        if self._zxid is None:
            self._zxid = zxid

    def forget(self) -> None:
        """There are none."""
        self._zxid = None

    def requests(self, data: Iterable[str], children: Iterable[str]) -> list[SetWatches]:
        """Returns the requests that go before any other; :meth:`answered` takes each answer.

        :param data: the paths of watches on data and existence. :param children: of watches on children.
        """
        zxid = self._zxid
        if zxid is None:
            return []
        kinds = [*((MISSING if path in self.missing else DATA, path) for path in data)]
        kinds += [(CHILDREN, path) for path in children]
        pieces: list[tuple[list[str], ...]] = []
        size = MOST_BYTES
        for kind, path in kinds:
            more = len(write_text(path))
            if size + more > MOST_BYTES:
                pieces.append(([], [], []))
                size = 0
            pieces[-1][kind].append(path)
            size += more
        self._unanswered = len(pieces)
        if not pieces:
            self._zxid = None
        return [SetWatches(zxid, *map(tuple, piece)) for piece in pieces]

    def answered(self) -> None:
        """The server has done one."""
        self._unanswered -= 1
        if not self._unanswered:
            self._zxid = None
