"""kazoo's calls that write: the same arguments, checks and answers, with types and on a shorter way."""

from __future__ import annotations

from typing import Any, Literal, overload

from parkazoo.compat.creation import Creation, Unfinished, ensure_path
from parkazoo.compat.reads import Reads
from parkazoo.kazoo_private import Reconfig
from parkazoo.protocol import asking
from parkazoo.protocol.asking import check_bool, check_path, prefixed, set_data
from parkazoo.protocol.ops.creates import Creation as AnyCreate
from parkazoo.recipe.delete import TreeDelete
from parkazoo.recipe.transaction import RetriableTransaction
from parkazoo.types import ACLs, AsyncResult, ZnodeStat


class KazooCalls(Reads):
    """Has the calls of a client that write znodes, and transactions.

    Each call has a twin that ends in ``_async``: it takes the same arguments and returns at once; its result gets
    the value or the error of the call. Before the session is open, calls wait for it. All raise

    * TypeError: an argument is of a wrong type; ValueError: a path has `.` or `..` between slashes.
    * ConnectionClosedError, SessionExpiredError, AuthFailedError: there is no session, and there will be none.
    * ConnectionLoss: the connection broke before the answer. A write may have been done or not. The next operation
      in that directory, of any client, finishes an interrupted create or delete.
    * CrossEnsembleError: a transaction over several ensembles.
    * RequestTooLargeError: the request is larger than the servers take, by default about 1 MB. It is not a
      ConnectionLoss, so ``client.retry`` raises it too.
    * NoAuthError: an ACL forbids it; ZookeeperError: the servers refuse it for another reason.
    """

    _unfinished: Unfinished

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
        """Creates a znode. After a ConnectionLoss it may exist; an ephemeral one then ends with the session.

        :param acl: by default the client's `default_acl`; without that, anyone may do anything.
        :param ephemeral: delete the znode when this session ends. It can have no children.
        :param sequence: append a number of ten digits, which grows with each child of the parent.
        :param makepath: create all missing levels above it.
        :param include_data: also return the znode's stat.
        :returns: the path, with the sequence number.
        :raises NodeExistsError: the znode exists.
        :raises NoNodeError: the parent does not exist.
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
        acl = self.default_acl or None if acl is None else acl
        result = self.handler.async_result()
        try:
            request = asking.create(self.chroot, path, value, acl, ephemeral, sequence, makepath, include_data)
        except ValueError as error:
            result.set_exception(error)
            return result
        self._begin_create(request, result, makepath)
        return result

    def _begin_create(self, request: AnyCreate, result: AsyncResult[Any], makepath: bool) -> None:
        """:param makepath: it may take several requests, and `stop` waits for all of them."""
        reply = self._unfinished.reply(result) if makepath else result
        Creation(self, request, reply, makes_above=makepath).begin()

    def ensure_path(self, path: str, acl: ACLs | None = None) -> str | bool:
        """Creates a znode without a value, and all missing levels above it.

        :param acl: of each znode that it creates; see :meth:`create`.
        :returns: the path if the znode was created, True if it existed.
        """
        return self.ensure_path_async(path, acl).get()

    def ensure_path_async(self, path: str, acl: ACLs | None = None) -> AsyncResult[str | bool]:
        """See :meth:`ensure_path`."""
        check_path(path)
        result: AsyncResult[str | bool] = self.handler.async_result()
        ensure_path(self, prefixed(self.chroot, path), acl, result).pass_on(self._unfinished.reply(result))
        return result

    def set(self, path: str, value: bytes | None, version: int = -1) -> ZnodeStat:
        """Sets the value of a znode. After a ConnectionLoss it may have been set.

        :param version: the version that the znode must have; -1 for any.
        :raises NoNodeError: the znode does not exist.
        :raises BadVersionError: it has another version.
        """
        return self.set_async(path, value, version).get()

    def set_async(self, path: str, value: bytes | None, version: int = -1) -> AsyncResult[ZnodeStat]:
        """See :meth:`set`."""
        request = set_data(self.chroot, path, value, version)
        result: AsyncResult[ZnodeStat] = self.handler.async_result()
        self._call(request, result)
        return result

    def set_acls(self, path: str, acls: ACLs, version: int = -1) -> ZnodeStat:
        """Sets the ACLs of a znode. After a ConnectionLoss they may have been set.

        :param version: the version that the ACLs must have (`aversion` of the stat); -1 for any.
        :raises NoNodeError: the znode does not exist.
        :raises BadVersionError: the ACLs have another version.
        :raises InvalidACLError: the server does not accept these ACLs.
        """
        return self.set_acls_async(path, acls, version).get()

    def set_acls_async(self, path: str, acls: ACLs, version: int = -1) -> AsyncResult[ZnodeStat]:
        """See :meth:`set_acls`."""
        request = asking.set_acls(self.chroot, path, acls, version)
        result: AsyncResult[ZnodeStat] = self.handler.async_result()
        self._call(request, result)
        return result

    def delete(self, path: str, version: int = -1, recursive: bool = False) -> bool | None:
        """Deletes a znode. After a ConnectionLoss it may be deleted; after a recursive delete, so may any znode
        below it.

        :param version: the version that the znode must have; -1 for any. A recursive delete ignores it.
        :param recursive: delete all znodes below it first; then a missing znode is no error.
        :returns: True; None after a recursive delete that found the znode.
        :raises NoNodeError: the znode does not exist.
        :raises BadVersionError: it has another version.
        :raises NotEmptyError: it has children.
        """
        check_bool("recursive", recursive)
        if recursive:
            nothing: bool | None = TreeDelete(self, path).run()
            return nothing
        return self.delete_async(path, version).get()

    def delete_async(self, path: str, version: int = -1) -> AsyncResult[bool]:
        """See :meth:`delete`; not recursive."""
        request = asking.delete(self.chroot, path, version)
        result: AsyncResult[bool] = self.handler.async_result()
        self._call(request, result)
        return result

    def transaction(self) -> RetriableTransaction:
        """Returns a transaction, as kazoo's, but of one ensemble; after a failure it can be committed again."""
        return RetriableTransaction(self)

    # ---- about the servers ---------------------------------------------------------------------

    def add_auth(self, scheme: str, credential: str) -> bool:
        """Sends credentials to every ensemble, now and on each new connection.

        :param scheme: ``"digest"``, or another one that the servers know.
        :param credential: for digest, ``"user:password"``.
        :returns: True.
        :raises AuthFailedError: an ensemble refuses them; the client is closed then.
        """
        return self.add_auth_async(scheme, credential).get()

    def add_auth_async(self, scheme: str, credential: str) -> AsyncResult[bool]:
        """See :meth:`add_auth`."""
        request = asking.add_auth(scheme, credential)
        self.auth_data.add((scheme, credential))
        result: AsyncResult[bool] = self.handler.async_result()
        self._call(request, result)
        return result

    def reconfig(
        self, joining: str | None, leaving: str | None, new_members: str | None, from_config: int = -1
    ) -> tuple[bytes, ZnodeStat]:
        """Changes the servers of the bootstrap ensemble. For another ensemble use ``client.members``.

        :param joining: servers to add, or None.
        :param leaving: ids of servers to remove, or None.
        :param new_members: all servers from now on, instead of the two.
        :param from_config: the version that the configuration must have; -1 for any.
        :returns: the new configuration, and its stat.
        :raises BadVersionError: the configuration has another version.
        :raises ReconfigInProcessError: another change is under way.
        :raises NewConfigNoQuorumError: too few of the new servers are up.
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
