"""Where a znode lives: path to ensemble, logical path to physical path and back.

A logical path is the user's (chroot included), a physical path is the server's.
Both are absolute, normalised, without a trailing slash. The whole specification is in docs/design/protocol.md,
"Placement".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from hashlib import sha256
from typing import NamedTuple

from parkazoo.protocol.rendezvous import rendezvous

ROOT = "/parkazoo"
MAP = ROOT + "/map"
ENSEMBLE = ROOT + "/ensemble"
MIRRORS = ROOT + "/mirrors"
FENCES = ROOT + "/fences"
DONE = ROOT + "/done"
CLIENTS = ROOT + "/clients"
DEFERRED = ROOT + "/deferred"
HISTORY = ROOT + "/history"  # on the bootstrap ensemble: the last changes of the map
PIN = ".parkazoo"
PROOF = ".parkazoo.native"  # beside a pin that says that the children are below their home
MARKER = "once-"  # begins the names of the ephemerals in ROOT by which a write is done once
PROBE = "parkazoo-probe-"  # begins the names of the ephemerals of a `map init` under way
OURS = frozenset({PIN, PROOF})
OF_GENERATION = "%~"  # in the name of a mirror that a move has made, before its generation: no escaped path has it
GENERATION = re.compile("[0-9a-f]{32}")
FENCE_COUNT = 1024
PATHS_CACHED = 1 << 16
MOST_SHOWN = 500  # letters of a path
# How certain a client is of the place of a directory's children. An answer from there other than NoNode counts.
# NoNode counts if the place is CERTAIN; otherwise it has to be proved.
GUESS = 0  # nothing is known: a rule puts them there unless a pin decides otherwise
HINT = 1  # they were there, and no pin says that they stay
PINNED = 2  # a pin has named the place: it holds as long as the directory lives
CERTAIN = 3  # it is the only one for ever


class Place(NamedTuple):
    """A znode on one ensemble: an index into the members, and the physical path there."""

    ensemble: int
    path: str


def split(path: str) -> tuple[str, str]:
    """Parent and name. The parent of a top-level znode is ``/``; ``/`` has the parent ``/`` and an empty name."""
    parent, _, name = path.rpartition("/")
    return parent or "/", name


def join(parent: str, name: str) -> str:
    return parent + name if parent == "/" else f"{parent}/{name}"


def above(path: str) -> Iterator[str]:
    """The proper ancestors of a path."""
    while len(path) > 1:
        path = path.rpartition("/")[0] or "/"
        yield path


def hash_of(path: str) -> int:
    """The SHA-256 of the path's UTF-8, read as a big-endian integer."""
    return int.from_bytes(sha256(path.encode()).digest(), "big")


def escape(path: str) -> str:
    """A path as one name: percent-encodes ``%`` and ``/``."""
    return path.replace("%", "%25").replace("/", "%2F")


def unescape(name: str) -> str:
    """The path of an escaped one; for the name of a mirror, its directory."""
    return name.partition(OF_GENERATION)[0].replace("%2F", "/").replace("%25", "%")


def mirror_path(directory: str, generation: str = "") -> str:
    """Where the mirror of a directory is, on the ensemble that has it.

    :param generation: the name of the move that has made it; empty if none has.
    """
    return f"{MIRRORS}/{escape(directory)}{OF_GENERATION if generation else ''}{generation}"


def mirror_of(path: str) -> str:
    """The mirror below which a physical path is, or which it is; empty if there is none."""
    name = path.removeprefix(MIRRORS + "/").partition("/")[0] if path.startswith(MIRRORS + "/") else ""
    return name and f"{MIRRORS}/{name}"


def fence_of(directory: str) -> str:
    """The znode on the ensemble of a mirror whose version orders promotions against deletes."""
    return f"{FENCES}/{(hash_of(directory) >> 128) % FENCE_COUNT}"


def generation_of(mirror: str) -> str:
    """The generation in the name or path of a mirror."""
    return mirror.partition(OF_GENERATION)[2]


def is_reserved(path: str) -> bool:
    """Whether the path belongs to ParKazoo: never created, never seen, by a user."""
    if ROOT[1:] not in path:  # most are not
        return False
    return path == ROOT or path.startswith(ROOT + "/") or not OURS.isdisjoint(path.split("/"))


def is_of_zookeeper(path: str) -> bool:
    """Whether the path is ZooKeeper's own: it belongs to the bootstrap ensemble."""
    return path == "/zookeeper" or path.startswith("/zookeeper/")


def directory_of_pin(path: str) -> str:
    """For the path of a pin or a mark, the path of its home; any other path as it is."""
    home, pin, _ = (path + "/").partition(f"/{PIN}/")
    return home or "/" if pin else path


def logical(path: str) -> str:
    """The user's path of a physical one: of a home, of a mirror, or of anything below a mirror."""
    if not path.startswith(MIRRORS + "/"):
        return path
    mirror, _, rest = path[len(MIRRORS) + 1 :].partition("/")
    directory = unescape(mirror)
    return join(directory, rest) if rest else directory


def logical_directory(physical: str) -> str:
    """The user's path of a physical one; of ParKazoo's own, ``/parkazoo``."""
    if physical.startswith(MIRRORS + "/") and not is_reserved(named := logical(physical)):
        return named
    return ROOT if is_reserved(physical) else physical


def shown(path: str) -> str:
    """A path in an error's message: not all of one that is very long."""
    return path if len(path) <= MOST_SHOWN else f"{path[:MOST_SHOWN]}..."


class Directory(NamedTuple):
    """A znode, and the one that its children live below.

    :param home: holds its data, ACL and versions.
    :param mirror: its children live below this one, on another ensemble; of a native directory it is the home.
    :param certainty: of the place of its children: GUESS, HINT, PINNED or CERTAIN.
    :param is_decided: whether they have that place already, as far as is known: a pin or a mirror was seen, or
        none is needed. Then a create takes one request.
    """

    path: str
    home: Place
    mirror: Place
    is_native: bool
    certainty: int = CERTAIN
    is_decided: bool = True

    @property
    def pin(self) -> str:
        """The child of the home whose presence means that a mirror exists, or may exist."""
        return join(self.home.path, PIN)

    @property
    def proof(self) -> str:
        """The child of the home whose presence means that the children are below the home, by its pin."""
        return join(self.home.path, PROOF)

    @property
    def generation(self) -> str:
        """The name of the move that has made the mirror; empty if none has."""
        return "" if self.is_native else generation_of(self.mirror.path)

    @property
    def is_nowhere(self) -> bool:
        """Whether the mirror has a path that no znode has: it is not to be guessed."""
        return self.mirror.path.endswith(OF_GENERATION)

    @property
    def fence(self) -> str:
        """The znode on the mirror's ensemble whose version orders promotions against deletes."""
        return fence_of(self.path)

    def mark(self, name: str) -> str:
        """A child of the pin, which a delete leaves there."""
        return f"{self.pin}/{name}"


class Placement:
    """The placement of a tree over `ensembles` ensembles, pure and the same on every machine.

    Within the package only Places ask it.

    :param ensembles: N, the number of ensembles that carry znodes; they have the indexes 0 to N - 1.
    :param bootstrap: index of the ensemble that answers for ``/zookeeper``; N if it carries nothing else.
    :param choose: the index of the ensemble that holds the children of a directory; otherwise each has one share.
    """

    def __init__(self, ensembles: int, bootstrap: int = 0, choose: Callable[[str], int] | None = None) -> None:
        if ensembles < 1:
            raise ValueError("a placement needs an ensemble")
        self.ensembles = ensembles
        self.bootstrap = bootstrap
        self._choose = choose or rendezvous([1] * ensembles)
        self.of_children = lru_cache(PATHS_CACHED)(self._of_children)

    def _of_children(self, directory: str) -> int:
        """The ensemble that holds the children of `directory`: every child on the same one."""
        if is_of_zookeeper(directory):
            return self.bootstrap
        return self._choose(directory)

    def of(self, path: str) -> int:
        """The ensemble that holds `path` itself."""
        return self.bootstrap if path == "/zookeeper" else self.of_children(split(path)[0])

    def is_native(self, directory: str) -> bool:
        """Whether home and children of `directory` share an ensemble, so that it needs no mirror."""
        return self.of(directory) == self.of_children(directory)
