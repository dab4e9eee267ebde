"""The ACLs of one ensemble, read and set many at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

from kazoo.exceptions import BadVersionError, InvalidACLError, NoNodeError
from kazoo.security import ACL

from parkazoo.admin.clients import AdminClient, LostError, NoRightError
from parkazoo.errors import ClusterMapError

ACLS_AT_ONCE = 32  # requests without an answer: clients are at work there, and more would hold them up


class FoundACL(NamedTuple):
    """:param aversion: of the ACL."""

    acl: Sequence[ACL]
    aversion: int


class ChangedACL(NamedTuple):
    """:param aversion: of the ACL in whose place this one comes."""

    path: str
    acl: Sequence[ACL]
    aversion: int


class Tree(Protocol):
    """What a rotation asks of an ensemble."""

    @property
    def name(self) -> str: ...

    def catch_up(self) -> None:
        """Has the answers from now on be no older than this call."""

    def children(self, path: str) -> list[str]:
        """The children of a znode; none if it is not there."""

    def read_acls(self, paths: Sequence[str]) -> list[FoundACL | NoRightError | None]:
        """The ACL of each; None if there is no such znode."""

    def set_acls(self, changes: Sequence[ChangedACL]) -> list[bool]:
        """Whether each was set for certain. Otherwise its ACL has another version, it is gone, or nobody knows."""

    def make(self, path: str, acl: Sequence[ACL]) -> None:
        """Makes an empty znode, if it is not there."""


class RemoteTree:
    """An ensemble, by its client.

    :param begin: called before each change.
    """

    def __init__(self, client: AdminClient, begin: Callable[[], None]) -> None:
        self._client = client
        self._begin = begin
        self.name = client.name

    def catch_up(self) -> None:
        self._client.patiently(self._client.catch_up)

    def children(self, path: str) -> list[str]:
        return self._client.children(path)

    def read_acls(self, paths: Sequence[str]) -> list[FoundACL | NoRightError | None]:
        return self._client.patiently(partial(self._read_acls, paths))

    def _read_acls(self, paths: Sequence[str]) -> list[FoundACL | NoRightError | None]:
        asked = [(path, self._client.zk.get_acls_async(path)) for path in paths]
        return [self._found(path, answer) for path, answer in asked]

    def _found(self, path: str, answer: Any) -> FoundACL | NoRightError | None:
        try:
            acl, stat = self._client.wait(path, answer)
        except NoNodeError:
            return None
        except NoRightError as error:
            return error
        return FoundACL(acl, stat.aversion)

    def set_acls(self, changes: Sequence[ChangedACL]) -> list[bool]:
        self._begin()
        asked = [
            (path, self._client.zk.set_acls_async(path, list(acl), aversion)) for path, acl, aversion in changes
        ]
        return [self._is_set(path, answer) for path, answer in asked]

    def _is_set(self, path: str, answer: Any) -> bool:
        try:
            self._client.wait(path, answer)
        except (BadVersionError, NoNodeError, LostError):
            return False
        except ClusterMapError:
            if isinstance(answer.exception, InvalidACLError):
                raise ClusterMapError(f"{self._client} takes no such identity in an ACL of {path}") from None
            raise
        return True

    def make(self, path: str, acl: Sequence[ACL]) -> None:
        self._client.patiently(partial(self._client.make, path, b"", acl))


class Rehearsal:
    """An ensemble in front of which changes are remembered, and not made."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._remembered: dict[str, FoundACL] = {}
        self.name = tree.name

    def catch_up(self) -> None:
        self._tree.catch_up()

    def children(self, path: str) -> list[str]:
        return self._tree.children(path)

    def read_acls(self, paths: Sequence[str]) -> list[FoundACL | NoRightError | None]:
        found = zip(paths, self._tree.read_acls(paths), strict=True)
        return [self._remembered.get(path, each) for path, each in found]

    def set_acls(self, changes: Sequence[ChangedACL]) -> list[bool]:
        self._remembered.update((path, FoundACL(acl, aversion)) for path, acl, aversion in changes)
        return [True for _ in changes]

    def make(self, path: str, acl: Sequence[ACL]) -> None:
        pass
