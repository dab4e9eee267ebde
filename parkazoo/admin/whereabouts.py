"""Where znodes are by a map of form GROWN: the pins are read, from the top down."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import Any, NamedTuple

from kazoo.exceptions import NoNodeError

from parkazoo.admin.clients import TIMEOUT_S, AdminClient, Auth, NoRightError, connect_to
from parkazoo.admin.read import connect_by_newest
from parkazoo.admin.strays import OTHERS, READS_AT_ONCE
from parkazoo.errors import ClusterMapError
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.epochs import EACH
from parkazoo.protocol.pin import decode_pin
from parkazoo.protocol.placement import OURS, Directory, Place, is_of_zookeeper, join, split
from parkazoo.protocol.where.places import NATIVE, directory

DIRECTORIES_SHOWN = 20


class By(Enum):
    """Who has decided where a directory's children are."""

    MAP = "the map, for ever"
    PIN = "its pin"
    ADOPTION = "the children, which were there before a pin"
    NOBODY = "nobody yet"


class Whereabouts(NamedTuple):
    """Where a znode and its children are; or would be, as far as that is decided by nobody.

    :param cluster_map: by which it was looked for.
    :param is_there: whether the znode exists.
    """

    cluster_map: ClusterMap
    d: Directory
    by: By
    is_there: bool


class Elsewhere(NamedTuple):
    """Directories that were decided before a rule, and are not where it puts new ones.

    :param number: of them. :param shown: some of them, with the names of the ensembles that hold their children.
    :param hidden: how many znodes could not be looked at: for want of a right, or of their ensemble.
    """

    number: int
    shown: tuple[tuple[str, str], ...]
    hidden: int


def find_whereabouts(
    cluster_map: ClusterMap, path: str, *, auth: Auth = (), timeout_s: float = TIMEOUT_S, **client_options: Any
) -> Whereabouts:
    """Where a znode is, by a map of form GROWN. Arguments as for `init_map`; nothing is written.

    :raises ClusterMapError: an ensemble that has to be asked cannot be reached.
    """
    options = {**client_options, "auth_data": list(auth)}
    with connect_by_newest(cluster_map, options, timeout_s) as (newest, connections):
        return trace(newest, connections.clients, path)


def trace(cluster_map: ClusterMap, clients: Mapping[str, AdminClient], path: str) -> Whereabouts:
    """Where a znode is, as these clients see it.

    :param clients: by name, of the ensembles that can be reached.
    :raises ClusterMapError: another one has to be asked.
    """
    return _Pins(cluster_map, clients).find(path)


def find_elsewhere(
    cluster_map: ClusterMap, prefix: str, *, auth: Auth = (), timeout_s: float = TIMEOUT_S, **client_options: Any
) -> Elsewhere:
    """Finds the directories at and below a rule's prefix that are not where the newest epoch puts new ones.

    It reads each znode there and writes nothing. Arguments as for `init_map`.
    """
    guess, names = cluster_map.make_guess().of_children, cluster_map.names
    number, shown, hidden = 0, list[tuple[str, str]](), 0
    options = {**client_options, "auth_data": list(auth)}
    with connect_to(cluster_map.ensembles, options, timeout_s) as (clients, _):
        for d in _Pins(cluster_map, clients).below(prefix):
            if isinstance(d, str):
                hidden += 1
            elif d.mirror.ensemble != guess(d.path):
                number += 1
                if len(shown) < DIRECTORIES_SHOWN:
                    shown.append((d.path, names[d.mirror.ensemble]))
    return Elsewhere(number, tuple(shown), hidden)


def at_and_below(
    cluster_map: ClusterMap, clients: Mapping[str, AdminClient], path: str
) -> Iterator[Directory | str]:
    """The directories at and below a path whose children have a place; the paths alone of what cannot be seen.

    :param clients: by name, of the ensembles that can be reached.
    """
    return _Pins(cluster_map, clients).below_top(path, with_top=True)


class _Pins:
    """Reads them.

    :param clients: by name, of the ensembles that can be reached.
    """

    def __init__(self, cluster_map: ClusterMap, clients: Mapping[str, AdminClient]) -> None:
        self._map = cluster_map
        self._clients = clients
        self._first = cluster_map.make_placement()
        self._guess = cluster_map.make_guess().of_children

    def find(self, path: str) -> Whereabouts:
        if is_of_zookeeper(path):
            home = Place(self._first.bootstrap, path)
            is_there = self._client(home.ensemble).is_there(path)
            return Whereabouts(self._map, directory(path, home, NATIVE), By.MAP, is_there)
        top = Place(self._first.of_children("/"), "/")
        found = Whereabouts(self._map, directory("/", top, NATIVE), By.MAP, True)
        so_far = "/"
        for name in path.split("/")[1:] if path != "/" else ():
            so_far = join(so_far, name)
            found = self._child(found, so_far)
        return found

    def _child(self, above: Whereabouts, path: str) -> Whereabouts:
        ensemble, parent = above.d.mirror
        home = Place(ensemble, join(parent, split(path)[1]))
        d = directory(path, home, NATIVE)
        if above.by is not By.NOBODY:
            client = self._client(ensemble)
            pin = client.read(d.pin)
            if pin is not None:
                return Whereabouts(self._map, self._pinned(d, pin), By.PIN, True)
            stat = client.call("exists", home.path)
            if stat is not None and stat.cversion:
                return Whereabouts(self._map, d, By.ADOPTION, True)
        else:
            stat = None
        d = directory(path, home, self._guess(path))
        return Whereabouts(self._map, d, By.NOBODY, stat is not None)

    def _pinned(self, d: Directory, data: bytes) -> Directory:
        pin = decode_pin(data)
        if pin is not None and pin.is_native:
            return d
        if pin is None:  # somebody else's: the directory is where it was before the map grew
            return directory(d.path, d.home, self._first.of_children(d.path))
        if pin.on not in self._map.names:
            raise ClusterMapError(
                f"the children of {d.path} are on an ensemble {pin.on}, which the map does not name: see "
                "`parkazoo fsck`"
            )
        return directory(d.path, d.home, self._map.names.index(pin.on), generation=pin.generation)

    def _client(self, ensemble: int) -> AdminClient:
        name = self._map.names[ensemble]
        if name not in self._clients:
            raise ClusterMapError(
                f"ensemble {name} ({self._map.ensembles.get(name, 'it has left')}) has to be asked, and cannot be "
                "reached"
            )
        return self._clients[name]

    # ---- many --------------------------------------------------------------------------------------

    def below(self, prefix: str) -> Iterator[Directory | str]:
        """The decisions at and below a rule's prefix; the paths alone of znodes that cannot be looked at."""
        is_each = prefix.endswith(EACH)
        return self.below_top((prefix.removesuffix(EACH) or "/") if is_each else prefix, with_top=not is_each)

    def below_top(self, top: str, *, with_top: bool) -> Iterator[Directory | str]:
        """As :meth:`below`, for a path."""
        try:
            found = self.find(top)
        except ClusterMapError:
            yield top
            return
        if not found.is_there or found.by is By.NOBODY:
            return
        if with_top:
            yield found.d
        to_list = [found.d]
        while to_list:
            batch = to_list[-READS_AT_ONCE:]
            del to_list[-READS_AT_ONCE:]
            homes: list[tuple[str, Place]] = []
            for each, names in zip(batch, self._ask("get_children", (d.mirror for d in batch)), strict=True):
                if isinstance(names, ClusterMapError):
                    yield each.path
                elif names is not None:
                    ensemble, parent = each.mirror
                    homes += [
                        (join(each.path, name), Place(ensemble, join(parent, name)))
                        for name in names
                        if name not in OURS and (each.path != "/" or f"/{name}" not in OTHERS)
                    ]
            for start in range(0, len(homes), READS_AT_ONCE):
                for d in self._decided(homes[start : start + READS_AT_ONCE]):
                    yield d
                    if isinstance(d, Directory):
                        to_list.append(d)

    def _decided(self, homes: list[tuple[str, Place]]) -> Iterator[Directory | str]:
        found = [directory(path, home, NATIVE) for path, home in homes]
        pins = self._ask("get", (Place(d.home.ensemble, d.pin) for d in found))
        stats = self._ask("exists", (d.home for d in found))
        for d, pin, stat in zip(found, pins, stats, strict=True):
            if isinstance(pin, ClusterMapError) or isinstance(stat, ClusterMapError):
                yield d.path
            elif pin is not None:
                try:
                    yield self._pinned(d, pin[0] or b"")
                except ClusterMapError:  # fsck tells more
                    yield d.path
            elif stat is not None and stat.cversion:
                yield d

    def _ask(self, method: str, places: Iterable[Place]) -> list[Any]:
        """The answers, in their order: None for a missing znode, an error for one that may not be read."""
        names = self._map.names
        asked = [
            (place.path, client, client and getattr(client.zk, f"{method}_async")(place.path))
            for place in places
            for client in [self._clients.get(names[place.ensemble])]
        ]
        return [_answer(client, path, answer) for path, client, answer in asked]


def _answer(client: AdminClient | None, path: str, answer: Any) -> Any:
    if client is None:
        return ClusterMapError("its ensemble is not reached")
    try:
        return client.wait(path, answer)
    except NoNodeError:
        return None
    except NoRightError as error:
        return error
