"""kazoo's calls that write: the same arguments, checks and answers, with types and on a shorter way."""

from __future__ import annotations

from typing import Any, Literal, overload

from parkazoo.compat.creation import Creation, checked_acl, ensure_path, prefixed
from parkazoo.compat.reads import Reads, check_bool, check_path
from parkazoo.kazoo_private import (
    Auth,
    Create,
    Create2,
    Delete,
    Reconfig,
    SetACL,
    SetData,
)
from parkazoo.protocol.operations import EPHEMERAL, SEQUENCE
from parkazoo.recipe.delete import TreeDelete
from parkazoo.recipe.transaction import RetriableTransaction
from parkazoo.types import ACL, ACLs, AsyncResult, ZnodeStat


class KazooCalls(Reads):
    """The calls of a client on znodes, and transactions.

    Each call has a twin that ends in ``_async``: it takes the same arguments, returns at once, and its result gets
    what the call would return or raise. Before the session is open calls wait for it. All raise

    * TypeError: an argument is of a wrong type; ValueError: a path has `.` or `..` between slashes.
    * ConnectionClosedError, SessionExpiredError, AuthFailedError: there is no session, and there will be none.
    * ConnectionLoss: the connection broke before the answer came. A write may have been done or not; what an
      interrupted create or delete leaves behind for other clients, the next one in that directory mends.
    * CrossEnsembleError: a transaction over several ensembles.
    * RequestTooLargeError: the request is larger than the servers take, by default about 1 MB. It is not a
      ConnectionLoss, so ``client.retry`` raises it too.
    * NoAuthError: an ACL forbids it; ZookeeperError: what else servers refuse.
    """

    # ---- writes --------------------------------------------------------------------------------

    @overload
    def create(
        self,
        path: str,
        value: bytes | None = b"",
        acl: ACLs | None = None,
        ephemeral: bool = False,
        sequence: bool = False,
        makepath: bool = False,
        include_data: Literal[False] = False,
    ) -> str: ...
    @overload
    def create(
        self,
        path: str,
        value: bytes | None = b"",
        acl: ACLs | None = None,
        ephemeral: bool = False,
        sequence: bool = False,
        makepath: bool = False,
        *,
        include_data: Literal[True],
    ) -> tuple[str, ZnodeStat]: ...
    @overload
    def create(
        self,
        path: str,
        value: bytes | None = b"",
        acl: ACLs | None = None,
        ephemeral: bool = False,
        sequence: bool = False,
        makepath: bool = False,
        include_data: bool = False,
    ) -> str | tuple[str, ZnodeStat]: ...
    def create(
        self,
        path: str,
        value: bytes | None = b"",
        acl: ACLs | None = None,
        ephemeral: bool = False,
        sequence: bool = False,
        makepath: bool = False,
        include_data: bool = False,
    ) -> Any:
        """Make a znode. After a ConnectionLoss it may be there; an ephemeral one then ends with the session.

        :param acl: the client's `default_acl` if none is given; without that, anyone may do anything.
        :param ephemeral: it is deleted when this session ends. It can have no children.
        :param sequence: append a number of ten digits, which grows with each child of the parent.
        :param makepath: make what is missing above it.
        :param include_data: return the znode's stat too.
        :returns: the path, with the number if there is one.
        :raises NodeExistsError: there is one.
        :raises NoNodeError: the parent is missing.
        :raises NoChildrenForEphemeralsError: the parent is ephemeral.
        """
        return self.create_async(
            path,
            value,
            acl=acl or self.default_acl,
            ephemeral=ephemeral,
            sequence=sequence,
            makepath=makepath,
            include_data=include_data,
        ).get()

    @overload
    def create_async(
        self,
        path: str,
        value: bytes | None = b"",
        acl: ACLs | None = None,
        ephemeral: bool = False,
        sequence: bool = False,
        makepath: bool = False,
        include_data: Literal[False] = False,
    ) -> AsyncResult[str]: ...
    @overload
    def create_async(
        self,
        path: str,
        value: bytes | None = b"",
        acl: ACLs | None = None,
        ephemeral: bool = False,
        sequence: bool = False,
        makepath: bool = False,
        *,
        include_data: Literal[True],
    ) -> AsyncResult[tuple[str, ZnodeStat]]: ...
    @overload
    def create_async(
        self,
        path: str,
        value: bytes | None = b"",
        acl: ACLs | None = None,
        ephemeral: bool = False,
        sequence: bool = False,
        makepath: bool = False,
        include_data: bool = False,
    ) -> AsyncResult[str | tuple[str, ZnodeStat]]: ...
    def create_async(
        self,
        path: str,
        value: bytes | None = b"",
        acl: ACLs | None = None,
        ephemeral: bool = False,
        sequence: bool = False,
        makepath: bool = False,
        include_data: bool = False,
    ) -> Any:
        """See :meth:`create`. The result also gets the ValueError of a path with `.` or `..` between slashes."""
        check_path(path)
        acl = checked_acl(self.default_acl or None if acl is None else acl)
        if value is not None and not isinstance(value, bytes):
            raise TypeError("Invalid type for 'value' (must be a byte string)")
        check_bool("ephemeral", ephemeral)
        check_bool("sequence", sequence)
        check_bool("makepath", makepath)
        check_bool("include_data", include_data)
        result = self.handler.async_result()
        try:
            physical = prefixed(self.chroot, path, sequence)
        except ValueError as error:
            result.set_exception(error)
            return result
        flags = (EPHEMERAL if ephemeral else 0) | (SEQUENCE if sequence else 0)
        request = (Create2 if include_data else Create)(physical, value, acl, flags)
        Creation(self, request, result, makes_above=makepath).begin()
        return result

    def ensure_path(self, path: str, acl: ACLs | None = None) -> str | bool:
        """Make a znode without a value, and all that is missing above it.

        :param acl: of what is made; see :meth:`create`.
        :returns: the path if it has been made, True if it was there.
        """
        return self.ensure_path_async(path, acl).get()

    def ensure_path_async(self, path: str, acl: ACLs | None = None) -> AsyncResult[str | bool]:
        """See :meth:`ensure_path`."""
        check_path(path)
        result: AsyncResult[str | bool] = self.handler.async_result()
        ensure_path(self, prefixed(self.chroot, path), acl).pass_on(result)
        return result

    def set(self, path: str, value: bytes | None, version: int = -1) -> ZnodeStat:
        """Set the value of a znode.

        :param version: the version that it must have; -1 for any.
        :raises NoNodeError: there is none.
        :raises BadVersionError: it has another version.
        """
        return self.set_async(path, value, version).get()

    def set_async(self, path: str, value: bytes | None, version: int = -1) -> AsyncResult[ZnodeStat]:
        """See :meth:`set`."""
        if not isinstance(path, str):
            raise TypeError("Invalid type for 'path' (string expected)")
        if value is not None and not isinstance(value, bytes):
            raise TypeError("Invalid type for 'value' (must be a byte string)")
        if not isinstance(version, int):
            raise TypeError("Invalid type for 'version' (int expected)")
        result: AsyncResult[ZnodeStat] = self.handler.async_result()
        self._call(SetData(prefixed(self.chroot, path), value, version), result)
        return result

    def set_acls(self, path: str, acls: ACLs, version: int = -1) -> ZnodeStat:
        """Set the ACLs of a znode.

        :param version: the version that its ACLs must have (`aversion` of its stat); -1 for any.
        :raises NoNodeError: there is none.
        :raises BadVersionError: they have another version.
        :raises InvalidACLError: the server takes no such ACLs.
        """
        return self.set_acls_async(path, acls, version).get()

    def set_acls_async(self, path: str, acls: ACLs, version: int = -1) -> AsyncResult[ZnodeStat]:
        """See :meth:`set_acls`."""
        check_path(path)
        if isinstance(acls, ACL) or not isinstance(acls, (tuple, list)):
            raise TypeError("Invalid type for 'acl' (acl must be a tuple/list of ACL's)")
        if not isinstance(version, int):
            raise TypeError("Invalid type for 'version' (int expected)")
        result: AsyncResult[ZnodeStat] = self.handler.async_result()
        self._call(SetACL(prefixed(self.chroot, path), acls, version), result)
        return result

    def delete(self, path: str, version: int = -1, recursive: bool = False) -> bool | None:
        """Delete a znode. After a ConnectionLoss it may be gone; after a recursive delete, so may any below it.

        :param version: the version that it must have; -1 for any. A recursive delete takes any.
        :param recursive: delete all below it first; what is missing is no error then.
        :returns: True; None after a recursive delete that found the znode.
        :raises NoNodeError: there is none.
        :raises BadVersionError: it has another version.
        :raises NotEmptyError: it has children.
        """
        check_bool("recursive", recursive)
        if recursive:
            return TreeDelete(self, path).run()
        return self.delete_async(path, version).get()

    def delete_async(self, path: str, version: int = -1) -> AsyncResult[bool]:
        """See :meth:`delete`; not recursive."""
        check_path(path)
        if not isinstance(version, int):
            raise TypeError("Invalid type for 'version' (int expected)")
        result: AsyncResult[bool] = self.handler.async_result()
        self._call(Delete(prefixed(self.chroot, path), version), result)
        return result

    def transaction(self) -> RetriableTransaction:
        """A transaction as kazoo's, but on one ensemble; after a failure it can be committed again."""
        return RetriableTransaction(self)

    # ---- about the servers ---------------------------------------------------------------------

    def add_auth(self, scheme: str, credential: str) -> bool:
        """Send credentials to every ensemble, now and whenever a connection is made.

        :param scheme: ``"digest"``, or what else the servers know.
        :param credential: for digest, ``"user:password"``.
        :returns: True.
        :raises AuthFailedError: an ensemble refuses them; the client is closed then.
        """
        return self.add_auth_async(scheme, credential).get()

    def add_auth_async(self, scheme: str, credential: str) -> AsyncResult[bool]:
        """See :meth:`add_auth`."""
        if not isinstance(scheme, str):
            raise TypeError("Invalid type for 'scheme' (string expected)")
        if not isinstance(credential, str):
            raise TypeError("Invalid type for 'credential' (string expected)")
        self.auth_data.add((scheme, credential))
        result: AsyncResult[bool] = self.handler.async_result()
        self._call(Auth(0, scheme, credential), result)
        return result

    def reconfig(
        self, joining: str | None, leaving: str | None, new_members: str | None, from_config: int = -1
    ) -> tuple[bytes, ZnodeStat]:
        """Change the servers of the bootstrap ensemble; those of others by ``client.members``.

        :param joining: servers to add, or None.
        :param leaving: ids of servers to remove, or None.
        :param new_members: all servers from now on, instead of the two.
        :param from_config: the version that the configuration must have; -1 for any.
        :returns: the new configuration, and its stat.
        :raises BadVersionError: it has another version.
        :raises ReconfigInProcessError: another change is under way.
        :raises NewConfigNoQuorumError: too few of the new servers are there.
        :raises UnimplementedError: the servers do not allow it.
        """
        return self.reconfig_async(joining, leaving, new_members, from_config).get()

    def reconfig_async(
        self, joining: str | None, leaving: str | None, new_members: str | None, from_config: int
    ) -> AsyncResult[tuple[bytes, ZnodeStat]]:
        """See :meth:`reconfig`."""
        for name, servers in (("joining", joining), ("leaving", leaving), ("new_members", new_members)):
            if servers and not isinstance(servers, str):
                raise TypeError(f"Invalid type for '{name}' (string expected)")
        if not isinstance(from_config, int):
            raise TypeError("Invalid type for 'from_config' (int expected)")
        result: AsyncResult[tuple[bytes, ZnodeStat]] = self.handler.async_result()
        self._call(Reconfig(joining, leaving, new_members, from_config), result)
        return result
