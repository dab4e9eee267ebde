"""All znodes below a place, as one look finds them."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Any

from kazoo.exceptions import NoAuthError
from kazoo.security import ACL

from parkazoo.admin.all_znodes import Pace
from parkazoo.admin.clients import AdminClient
from parkazoo.admin.many_reads import Read, ask_all
from parkazoo.admin.moving.carried import TOP, SeenZnode, Tree, above, digest_of, parent_of
from parkazoo.admin.registrations import read_registered
from parkazoo.admin.transfer.in_order import creates_of
from parkazoo.errors import ClusterMapError
from parkazoo.kazoo_private import GetACL, GetChildren, GetData
from parkazoo.protocol.placement import shown
from parkazoo.protocol.registration import CLIENT, format_session, parse_session
from parkazoo.protocol.rights import is_masked
from parkazoo.types import ZnodeStat

MOST_READS = 1000  # in one request
MOST_BYTES = 1 << 20  # expected in one answer, with the paths of the request
UNKNOWN_BYTES = 1 << 16  # of a znode that was not seen before
MOST_NAMES = 10_000
READS_FOR_WRITE = 10  # which take servers as long as a write, about
SHARE_S = 0.0025  # of a second's reads in one request: others wait for it
ACLS_KEPT = 4096
MOST_WRITTEN = 500_000
LEAST_BYTES = 10_000
NOTHING: Tree = MappingProxyType({})
Got = tuple[bytes | None, ZnodeStat]


class ImmovableError(ClusterMapError):
    """A znode cannot be copied; the message names it, and why."""


class OverError(Exception):
    """Ends what another thread does at a place."""


class TreePlace:
    """Where the children of a directory are, or a copy of them.

    :param client: of the ensemble.
    :param path: of the mirror, or of a native directory.
    :param left_out: names directly below that belong to the place and not to the directory.
    :param go_on: called before each request of many; by an error it ends them all.
    :param per_second: writes at most, elsewhere; reads here at most as many as take as long.
    :ivar most_reads: in one request.
    :ivar is_over: set by another thread when what goes on here is to end.
    """

    def __init__(
        self,
        client: AdminClient,
        path: str,
        left_out: frozenset[str] = frozenset(),
        go_on: Callable[[], None] = lambda: None,
        per_second: float = math.inf,
    ) -> None:
        self.client = client
        self.path = path
        self.left_out = left_out
        self.go_on = go_on
        reads_s = per_second * READS_FOR_WRITE
        self.most_reads = int(max(1, min(MOST_READS, reads_s * SHARE_S)))
        self._pace = Pace(per_second=reads_s)
        self.is_over = threading.Event()

    @cached_property
    def most_bytes(self) -> int:
        """For one transaction: half of what servers take by default, or less if these take less."""
        most = MOST_WRITTEN
        while most > LEAST_BYTES and self.client.takes(2 * most) is False:
            most //= 2
        return most

    def wait(self, reads: int) -> None:
        """Before so many."""
        self.go_on()
        if self.is_over.is_set():
            raise OverError
        self._pace.wait(reads)

    def at(self, path: str) -> str:
        return self.path + path


def look(place: TreePlace, before: Tree = NOTHING, written: Tree = NOTHING) -> dict[str, SeenZnode]:
    """Everything at and below a place, not older than this call; empty if there is no such place.

    Each znode is of one moment, all together only if nobody changes them meanwhile.

    :param before: an earlier look at the same place. What has not changed since makes this one faster.
    :param written: znodes that were made here since, with these ACLs: a request for each of these is spared.
    :raises ImmovableError: the servers hide the ACL of a znode.
    :raises NoRightError: there is one that the identity may not read.
    """
    return _with_acls(place, walk(place, before), before, written)


def look_at(place: TreePlace, paths: Iterable[str], before: Tree, written: Tree = NOTHING) -> dict[str, SeenZnode]:
    """As :func:`look`, but only these znodes are looked at; all others are as before."""
    place.client.patiently(place.client.catch_up)
    asked = dict.fromkeys(sorted(paths))
    seen = _with_acls(place, _seen_all(place, read(place, [*asked], before), before), before, written)
    gone = asked.keys() - seen.keys()
    rest = {path: znode for path, znode in before.items() if path not in asked}
    return seen | {path: znode for path, znode in rest.items() if not gone or gone.isdisjoint(above([path]))}


def _with_acls(
    place: TreePlace, znodes: dict[str, SeenZnode], before: Tree, written: Tree
) -> dict[str, SeenZnode]:
    unknown = []
    for path, znode in znodes.items():
        known, made = before.get(path), written.get(path)
        if known is znode:
            continue
        if known is not None and (known.czxid, known.aversion) == (znode.czxid, znode.aversion):
            znodes[path] = znode._replace(acl=known.acl)
        elif made is not None and made.aversion == znode.aversion and not znode.owner:
            znodes[path] = znode._replace(acl=made.acl)
        else:
            unknown.append(path)
    requests = ([GetACL(place.at(path)) for path in paths] for paths in _parts(place, unknown, lambda path: 1))
    missing = {*unknown}
    for path, (found, stat) in _ask_all(place, requests):
        acl = tuple(found)
        if is_masked(acl):
            raise ImmovableError(
                f"the servers hide the digests in the ACL of {shown(place.at(path))} on {place.client}: it takes "
                "an identity with ADMIN there (--auth)"
            )
        if stat.czxid == znodes[path].czxid:  # else it went, and another came
            znodes[path] = znodes[path]._replace(aversion=stat.aversion, acl=_interned(acl))
            missing.remove(path)
    for path in [*znodes] if missing else ():  # those went in the middle of the look, with all below them
        if path in missing or (path != TOP and parent_of(path) in missing):
            missing.add(path)
            del znodes[path]
    return znodes


@lru_cache(ACLS_KEPT)
def _interned(acl: tuple[ACL, ...]) -> tuple[ACL, ...]:
    """The same object for equal ones: they are compared often."""
    return acl


def walk(place: TreePlace, before: Tree = NOTHING) -> dict[str, SeenZnode]:
    """As :func:`look`; ACLs are those of what has not changed."""
    place.client.patiently(place.client.catch_up)
    znodes: dict[str, SeenZnode] = {}
    level = [TOP]
    while level:
        found = _seen_all(place, read(place, level, before), before)
        znodes |= found
        parents = {path: znode.stat.numChildren for path, znode in found.items() if znode.stat.numChildren}
        level = []
        listings = (
            [GetChildren(place.at(path), None) for path in paths]
            for paths in _parts(place, [*parents], parents.__getitem__)
        )
        for path, names in _ask_all(place, listings):
            level += [f"{path}/{name}" for name in names if path != TOP or name not in place.left_out]
    return znodes


def read(place: TreePlace, paths: Sequence[str], sizes: Tree) -> Iterator[tuple[str, Got]]:
    """Data and stat of each znode that is there.

    :param sizes: an earlier look.
    """

    def size(path: str) -> int:
        known = sizes.get(path)
        return len(place.path) + len(path) + (UNKNOWN_BYTES if known is None else known.size)

    parts = _parts(place, paths, size, MOST_BYTES)
    yield from _ask_all(place, ([GetData(place.at(path), None) for path in part] for part in parts))


def _seen_all(place: TreePlace, found: Iterable[tuple[str, Got]], before: Tree) -> dict[str, SeenZnode]:
    """What has not changed as it was seen before; without ACLs what has."""
    znodes, owned = dict[str, SeenZnode](), list[str]()
    for path, (data, stat) in found:
        known = before.get(path)
        if known is not None and known.stat == stat:
            znodes[path] = known
            continue
        znodes[path] = _seen(place, path, data, stat, known)
        if stat.ephemeralOwner:
            owned.append(path)
    if owned:
        owners = _owners(place.client, {znodes[path].owner for path in owned})
        for path in owned:
            znodes[path] = znodes[path]._replace(owner=owners[znodes[path].owner])
    return znodes


def _seen(place: TreePlace, path: str, data: bytes | None, stat: ZnodeStat, known: SeenZnode | None) -> SeenZnode:
    """With the session for the owner."""
    is_same = known is not None and (known.czxid, known.mzxid) == (stat.czxid, stat.mzxid)
    return SeenZnode(
        stat.czxid,
        stat.mzxid,
        stat.version,
        stat.aversion,
        creates_of(stat),
        stat.ephemeralOwner,
        stat.dataLength,
        known.digest if known is not None and is_same else digest_of(data),
        stat=stat,
    )


def _owners(client: AdminClient, sessions: Iterable[int]) -> dict[int, int]:
    """The client that each session belongs to; the session itself if nobody says so."""
    names = {format_session(session): session for session in sessions}
    owners = {session: session for session in names.values()}
    for name, said in client.patiently(lambda: read_registered(client, [*names])):
        found = parse_session(said.get(CLIENT))
        if found is not None:
            owners[names[name]] = found
    return owners


def _parts(
    place: TreePlace, paths: Sequence[str], size: Callable[[str], int], most: int = MOST_NAMES
) -> Iterator[list[str]]:
    """The paths in groups for one request each."""
    part: list[str] = []
    total = 0
    for path in paths:
        if part and (len(part) >= place.most_reads or total + size(path) > most):
            yield part
            part, total = [], 0
        part.append(path)
        total += size(path)
    if part:
        yield part


def _ask_all(place: TreePlace, requests: Iterable[Sequence[Read]]) -> Iterator[tuple[str, Any]]:
    """Each path below the place with its answer; none for those that are gone. Lost connections are waited for."""
    prefix = len(place.path)

    def in_turn() -> Iterator[Sequence[Read]]:
        for asked in requests:
            place.wait(len(asked))
            yield asked

    for path, answer in ask_all(place.client, in_turn()):
        if isinstance(answer, NoAuthError):
            raise place.client.no_right(path)
        if not isinstance(answer, Exception):
            yield path[prefix:], answer
