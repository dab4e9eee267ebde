"""The ACLs of one ensemble below ``/parkazoo``, which obey the servers' rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from kazoo.security import ACL, ANYONE_ID_UNSAFE, Id, Permissions

from parkazoo.admin.clients import NoRightError
from parkazoo.admin.ensemble_acls import ChangedACL, FoundACL
from parkazoo.protocol.placement import split


class Znodes:
    """:ivar acls: by path, each with its version. :ivar changed: called after each change, with its path."""

    def __init__(
        self, acls: Mapping[str, Sequence[ACL]], changed: Callable[[str], None] = lambda path: None
    ) -> None:
        self.acls = {path: FoundACL(tuple(acl), 0) for path, acl in acls.items()}
        self.changed = changed

    def set(self, path: str, acl: Sequence[ACL]) -> None:
        before = self.acls.get(path)
        self.acls[path] = FoundACL(tuple(acl), before.aversion + 1 if before else 0)
        self.changed(path)

    def acl(self, path: str) -> list[ACL]:
        return list(self.acls[path].acl)


class ACLTree:
    """What a client with some identities is answered.

    :param before_set: called before each change is tried, with its path: other clients may do something then.
    :ivar sets: how often a change was tried.
    """

    def __init__(
        self,
        name: str,
        znodes: Znodes,
        identities: Iterable[Id],
        before_set: Callable[[str], None] = lambda path: None,
    ) -> None:
        self.name = name
        self.znodes = znodes
        self.before_set = before_set
        self.sets = 0
        self._identities = {*identities, ANYONE_ID_UNSAFE}

    def catch_up(self) -> None:
        pass

    def children(self, path: str) -> list[str]:
        return [split(each)[1] for each in self.znodes.acls if split(each)[0] == path]

    def read_acls(self, paths: Sequence[str]) -> list[FoundACL | NoRightError | None]:
        return [self._read(path) for path in paths]

    def _read(self, path: str) -> FoundACL | NoRightError | None:
        found = self.znodes.acls.get(path)
        if found is None or self._has(found, Permissions.ADMIN):
            return found
        if not self._has(found, Permissions.READ):
            return NoRightError(path)
        return FoundACL([ACL(perms, _hidden(who)) for perms, who in found.acl], found.aversion)

    def set_acls(self, changes: Sequence[ChangedACL]) -> list[bool]:
        return [self._set(each) for each in changes]

    def _set(self, change: ChangedACL) -> bool:
        self.sets += 1
        self.before_set(change.path)
        found = self.znodes.acls.get(change.path)
        if found is None:
            return False
        if not self._has(found, Permissions.ADMIN):
            raise NoRightError(change.path)
        if found.aversion != change.aversion:
            return False
        self.znodes.set(change.path, change.acl)
        return True

    def make(self, path: str, acl: Sequence[ACL]) -> None:
        if path not in self.znodes.acls:
            self.znodes.set(path, acl)

    def _has(self, found: FoundACL, right: int) -> bool:
        return any(perms & right and who in self._identities for perms, who in found.acl)


def _hidden(who: Id) -> Id:
    return Id(who.scheme, f"{who.id.partition(':')[0]}:x") if who.scheme == "digest" else who
