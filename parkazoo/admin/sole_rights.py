"""Znodes to which one identity has rights that no other has: without it nobody may use them so."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

from kazoo.exceptions import NoNodeError
from kazoo.security import Id

from parkazoo.admin.all_znodes import Pace, ask_each
from parkazoo.admin.clients import AdminClient
from parkazoo.admin.strays import OTHERS, SHOWN
from parkazoo.protocol.placement import MIRRORS, OURS, join, logical, shown
from parkazoo.protocol.shared_identity import has_sole_right

BATCH = 1000  # znodes between two looks at the list of paths


class SoleRights(NamedTuple):
    """What is known of the znodes of an ensemble.

    :param paths: of those to which the identity alone has some right, as clients name them.
    :param unseen: so many may not be looked at, nor what is below them.
    """

    paths: frozenset[str]
    unseen: int


def find_sole_rights(client: AdminClient, identity: Id, progress: Callable[[str, int], None]) -> SoleRights:
    """Looks at the ACL of each znode of an ensemble but ZooKeeper's and ParKazoo's own. It only reads.

    :param progress: called with the ensemble's name and the znodes so far.
    :raises UnreadableError: the ensemble ceases to answer.
    """
    pace = Pace(per_second=math.inf)
    paths: set[str] = set()
    looked_at = unseen = 0
    left = ["/", MIRRORS]
    while left:
        batch = left[-BATCH:]
        del left[-BATCH:]
        parents = []
        for path, answer in ask_each(client, "get_acls", batch, pace):
            if isinstance(answer, Exception):
                unseen += not isinstance(answer, NoNodeError)
                continue
            acl, stat = answer
            if path != MIRRORS and has_sole_right(acl, identity):
                paths.add(logical(path))
            if stat.numChildren:
                parents.append(path)
        for path, answer in ask_each(client, "get_children", parents, pace):
            if isinstance(answer, Exception):
                unseen += not isinstance(answer, NoNodeError)
                continue
            left += [each for name in answer if name not in OURS and (each := join(path, name)) not in OTHERS]
        looked_at += len(batch)
        progress(client.name, looked_at)
    return SoleRights(frozenset(paths), unseen)


def describe_sole_rights(found: Iterable[SoleRights], identity: str) -> str:
    """Returns which znodes would be out of reach; empty if none.

    :param found: by ensemble. :param identity: without its digest.
    """
    paths = sorted({path for each in found for path in each.paths})
    if not paths:
        return ""
    many = "1 znode" if len(paths) == 1 else f"{len(paths):,} znodes"
    listed = "".join(f"\n  {shown(each)}" for each in paths[:SHOWN])
    more = f"\n  and {len(paths) - SHOWN:,} more" if len(paths) > SHOWN else ""
    return f"{identity} alone has some right to {many}; first give it to others with set_acls:{listed}{more}"
