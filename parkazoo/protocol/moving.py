"""A directory whose children move to another ensemble: what the map says of it, and the znodes of a move.

    "move": {"directory": "/app/jobs", "move": "1f0c...", "from": ["a", ""], "to": "b", "phase": "hold",
             "clients": 250}

A move has a name, 32 hexadecimal digits that are never used twice. It is the generation of the mirror that it
makes. ``from`` is where the children are before: the ensemble, and the mirror's generation, or "native" if they
are children of their home. The phase "hold" ends with the mark of the move, a child of the pin: whoever deletes it
has decided. Behind a switch the phase is "moved", and an old mark keeps the data of the pin before. If there is
``clients``, so many had a session on the source: those whom the next map does not concern read it in turns.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import NamedTuple

from parkazoo.errors import ClusterMapError
from parkazoo.protocol.checked_json import quoted, typed, verify_keys
from parkazoo.protocol.placement import GENERATION, ROOT, Place, is_of_zookeeper, is_reserved, mirror_path

MOVES = ROOT + "/moves"  # on the ensemble that gets the children
NATIVE = "native"  # in place of a generation
HOLD, MOVED = "hold", "moved"
MARK, OLD = ".move", ".old"  # end the names of a move's marks
MANY = "clients"
KEYS_OF_MOVE = frozenset({"directory", "move", "from", "to", "phase", MANY})
IN_MOVE = " in 'move'"
MOST_LOOKED_AT = 1000  # children, by an owner that may not know its ephemerals: operations are held meanwhile


class Moving(NamedTuple):
    """A directory that moves.

    :param name: of this move; the generation of the copy.
    :param source: the name of the ensemble that has had the children.
    :param generation: of their mirror there; NATIVE: they are below their home.
    :param target: the name of the ensemble that gets them.
    :param has_switched: the children are there.
    :param clients: how many have a session on the source, when the move begins; 0: that is not known.
    """

    directory: str
    name: str
    source: str
    generation: str
    target: str
    has_switched: bool = False
    clients: int = 0

    def verify(self, ensembles: Container[str]) -> None:
        """:raises ClusterMapError: it can be none, among these ensembles."""
        path = self.directory
        names = path.split("/")[1:]
        if path[:1] != "/" or not {"", ".", ".."}.isdisjoint(names) or is_of_zookeeper(path) or is_reserved(path):
            raise ClusterMapError(f"{quoted(path)} is no directory that can move")
        if not GENERATION.fullmatch(self.name) or self.generation == self.name:
            raise ClusterMapError(f"{quoted(self.name)} is no name for a move: 32 hexadecimal digits")
        if self.generation not in ("", NATIVE) and not GENERATION.fullmatch(self.generation):
            raise ClusterMapError(f"{quoted(self.generation)} is no generation of a mirror")
        for name in (self.source, self.target):
            if name not in ensembles:
                raise ClusterMapError(f"{path} moves, and there is no ensemble {quoted(name)} for that")

    def places(self, names: Sequence[str], home: Place) -> tuple[Place, Place]:
        """Where the children are before, and where they go.

        :param names: of the ensembles, by index. :param home: of the directory.
        """
        if self.generation == NATIVE:
            old = home
        else:
            old = Place(names.index(self.source), mirror_path(self.directory, self.generation))
        return old, Place(names.index(self.target), mirror_path(self.directory, self.name))

    def to_document(self) -> dict[str, object]:
        document: dict[str, object] = {
            "directory": self.directory,
            "move": self.name,
            "from": [self.source, self.generation],
            "to": self.target,
            "phase": MOVED if self.has_switched else HOLD,
        }
        return {**document, MANY: self.clients} if self.clients else document


def read_move(document: dict[str, object]) -> Moving:
    """:raises ClusterMapError: it is damaged, or made by a later ParKazoo."""
    clients = typed(document, MANY, int, IN_MOVE) if MANY in document else 0
    if MANY in document and clients < 1:
        raise ClusterMapError(f"it is damaged ({MANY!r}{IN_MOVE} is {clients})")
    verify_keys({MANY: 0, **document}, KEYS_OF_MOVE, IN_MOVE)
    before, phase = typed(document, "from", list, IN_MOVE), typed(document, "phase", str, IN_MOVE)
    if [type(each) for each in before] != [str, str]:
        raise ClusterMapError(f"it is damaged ('from'{IN_MOVE} is {quoted(before)})")
    if phase not in (HOLD, MOVED):
        raise ClusterMapError(f"it is damaged ('phase'{IN_MOVE} is {quoted(phase)})")
    directory, name, target = (typed(document, key, str, IN_MOVE) for key in ("directory", "move", "to"))
    source, generation = before
    return Moving(directory, name, source, generation, target, phase == MOVED, clients)


def guard(move: str) -> str:
    """Every write of the command to the copy checks its version; without it the copy is sealed, or taken back."""
    return f"{MOVES}/{move}"


def opening(move: str) -> str:
    """While it is there, owners make copies of their ephemerals."""
    return f"{MOVES}/{move}.open"


def term_of(move: str) -> str:
    """An ephemeral of the command that may write to the copy."""
    return f"{MOVES}/{move}.term"


def mark_of(move: str) -> str:
    """The name of a move's mark: while it is below the pin, the move may still happen."""
    return move + MARK


def old_mark_of(move: str) -> str:
    """The name of the mark that keeps the data of the pin before; that place is still there, and dead."""
    return move + OLD


def is_move_mark(mark: str) -> bool:
    return mark.endswith(MARK)


def is_old_mark(mark: str) -> bool:
    return mark.endswith(OLD)


def move_of(mark: str) -> str:
    """The name of the move that has left a mark; empty if none has."""
    move, _, kind = mark.partition(".")
    return move if GENERATION.fullmatch(move) and f".{kind}" in (MARK, OLD) else ""


def under_way(marks: Iterable[str]) -> list[str]:
    """The marks of deletes and moves that have not ended."""
    return [mark for mark in marks if not is_old_mark(mark)]
