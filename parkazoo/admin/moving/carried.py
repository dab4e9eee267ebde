"""What a move carries of znodes, what differs between an original and its copy, and how to end that. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from types import MappingProxyType
from typing import NamedTuple

from kazoo.security import ACL

from parkazoo.protocol.moving import MOST_LOOKED_AT
from parkazoo.protocol.placement import shown
from parkazoo.protocol.registration import format_session
from parkazoo.types import ZnodeStat

DIGEST_BYTES = 16
NO_LIVES: Mapping[str, int] = MappingProxyType({})
TOP = ""  # the path of the place itself
NO_STAT = ZnodeStat(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)


class SeenZnode(NamedTuple):
    """What a look has seen of a znode.

    :param creates: children ever made: the next sequence number.
    :param owner: the client that owns an ephemeral; 0 for other znodes.
    :param size: bytes of data.
    :param stat: as the server has sent it.
    """

    czxid: int
    mzxid: int
    version: int
    aversion: int
    creates: int
    owner: int
    size: int
    digest: bytes
    acl: tuple[ACL, ...] = ()
    stat: ZnodeStat = NO_STAT


Tree = Mapping[str, SeenZnode]  # by the path below the place, such as "/job-7/part"


class ZnodeChange(NamedTuple):
    """A znode of the copy to be made, or to be brought up to its original.

    :param there: as the copy has it; None: it is to be made.
    :param pairs: of a create and a delete of a child, which raise the counter.
    """

    path: str
    original: SeenZnode
    there: SeenZnode | None
    pairs: int

    @property
    def sets(self) -> int:
        """Writes of the data that raise its version. The place's own data is not carried."""
        if self.path == TOP:
            return 0
        return self.original.version - (0 if self.there is None else self.there.version)

    @property
    def acl_sets(self) -> range:
        """The aversions at which the ACL is to be set."""
        if self.path == TOP:
            there = self.original if self.there is None else self.there
            return range(there.aversion, there.aversion + (there.acl != self.original.acl))
        return range(0 if self.there is None else self.there.aversion, self.original.aversion)

    @property
    def needs_data(self) -> bool:
        return self.there is None or self.sets > 0

    @property
    def is_needed(self) -> bool:
        return self.needs_data or bool(self.pairs or self.acl_sets)


class CopyPlan(NamedTuple):
    """How to make a copy equal to its original.

    :param deletes: paths, each behind those below it. :param changes: each behind that of its parent.
    :param why_not: why that is impossible; empty: it is not.
    """

    deletes: list[str]
    changes: list[ZnodeChange]
    why_not: str = ""

    def __len__(self) -> int:
        return len(self.deletes) + len(self.changes)


def writes_to_copy(original: Tree) -> int:
    """How many writes make a copy: versions are raised one by one, counters by a create and a delete each."""
    children = Counter(parent_of(path) for path in original if path != TOP)
    made = sum(1 + znode.version + znode.aversion for path, znode in original.items() if path != TOP)
    return made + sum(2 * max(0, znode.creates - children[path]) for path, znode in original.items())


def digest_of(data: bytes | None) -> bytes:
    return b"" if data is None else blake2b(data, digest_size=DIGEST_BYTES).digest()


def parent_of(path: str) -> str:
    return path.rpartition("/")[0]


def above(paths: Iterable[str]) -> set[str]:
    """All above these, up to the place itself."""
    found: set[str] = set()
    for path in paths:
        while path != TOP and (path := parent_of(path)) not in found:
            found.add(path)
    return found


def differences(original: Tree, copy: Tree) -> dict[str, str]:
    """What is not the same, by path, in words: "data", "version and ACL", "not copied". Of the place itself only
    its ACL and counter count."""
    found = {}
    for path in sorted({*original, *copy}):
        ours, theirs = original.get(path), copy.get(path)
        if ours is None or theirs is None:
            found[path] = "not in the original" if ours is None else "not copied"
            continue
        differs = {
            "data": ours.digest != theirs.digest and path != TOP,
            "version": ours.version != theirs.version and path != TOP,
            "ACL": ours.acl != theirs.acl,
            "aversion": ours.aversion != theirs.aversion and path != TOP,
            "counter": ours.creates != theirs.creates,
            "owner": ours.owner != theirs.owner,
        }
        if any(differs.values()):
            found[path] = " and ".join(what for what, is_so in differs.items() if is_so)
    return found


def plan(original: Tree, copy: Tree, lives: Mapping[str, int] = NO_LIVES, *, is_last: bool) -> CopyPlan:
    """What to do to the copy. A znode that cannot be raised to its original, because it is of an earlier life, is
    deleted with all below it and made anew.

    Counters leave room for ephemerals that their owners have still to copy.

    :param lives: the czxid that the original had when a znode was copied, as far as that is known.
    :param is_last: nobody has changed the original since before it was looked at: the copy must become equal.
    """
    different = [path for path, znode in original.items() if not _is_same(path, znode, copy.get(path), lives)]
    affected = sorted({*different, *above(different)}, key=_depth)
    anew = _earlier_lives(affected, original, copy, lives, is_last)
    if anew:
        affected = sorted({*affected, *(path for path in anew if path in original)}, key=_depth)
    made = Counter(parent_of(path) for path in affected if path != TOP and (path in anew or path not in copy))
    changes, without_owner = [], []
    for path in affected:
        znode, there = original[path], copy.get(path) if path not in anew else None
        if znode.owner and there is None:
            without_owner.append(path)
            continue
        so_far = made[path] + (0 if there is None else there.creates)
        change = ZnodeChange(path, znode, there, max(0, znode.creates - so_far))
        if change.is_needed:
            changes.append(change)
    deletes = [path for path in copy.keys() - original.keys() if path != TOP]
    deletes += [path for path in anew if path in original]
    return CopyPlan(
        sorted(deletes, key=_depth, reverse=True),
        changes,
        _why_not(original, copy, made[TOP] if is_last else 0, without_owner if is_last else []),
    )


def _is_same(path: str, ours: SeenZnode, theirs: SeenZnode | None, lives: Mapping[str, int]) -> bool:
    """Whether nothing is to do for a znode but for those below it."""
    if theirs is None or ours.creates != theirs.creates or ours.acl != theirs.acl:
        return False
    return path == TOP or (
        ours.version == theirs.version
        and ours.digest == theirs.digest
        and ours.aversion == theirs.aversion
        and ours.owner == theirs.owner
        and lives.get(path, ours.czxid) == ours.czxid
    )


def _earlier_lives(
    affected: Sequence[str], original: Tree, copy: Tree, lives: Mapping[str, int], is_last: bool
) -> set[str]:
    """
    :param affected: the znodes that are not the same, with all above them, top down.
    """
    anew: set[str] = set()
    made: Counter[str] = Counter()
    for path in reversed(affected):
        there = copy.get(path)
        if path != TOP and there is not None:
            is_other = lives.get(path, original[path].czxid) != original[path].czxid
            if not is_other and not _is_beyond(there, original[path], made[path] if is_last else 0):
                continue
            anew.add(path)
        made[parent_of(path)] += 1
    for path in sorted(copy, key=_depth) if anew else ():
        if path != TOP and parent_of(path) in anew:
            anew.add(path)
    return anew


def _is_beyond(there: SeenZnode, original: SeenZnode, made: int) -> bool:
    """Whether a copy cannot be raised to its original: versions and counters never go down.

    :param made: children that are to be made below it.
    """
    return (
        there.owner != original.owner
        or (there.version, there.digest != original.digest) > (original.version, False)
        or (there.aversion, there.acl != original.acl) > (original.aversion, False)
        or there.creates + made > original.creates
    )


def _why_not(original: Tree, copy: Tree, made: int, without_owner: list[str]) -> str:
    if without_owner:
        return (
            f"{len(without_owner):,} ephemerals have no copy of their owner, the first is "
            f"{shown(without_owner[0])} of client {format_session(original[without_owner[0]].owner)}. A client "
            "that has resumed its session, or lost the answer to a create, copies them from "
            f"up to {MOST_LOOKED_AT:,} children"
        )
    if copy[TOP].creates + made > (original[TOP].creates if TOP in original else 0):
        return "the copy counts more children than were ever made: it is of an earlier life of the directory"
    return ""


def _depth(path: str) -> tuple[int, str]:
    return path.count("/"), path
