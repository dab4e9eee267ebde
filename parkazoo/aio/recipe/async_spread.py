"""Spread for asyncio: one flat directory over several ensembles."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TypeVar

from kazoo.exceptions import NodeExistsError, NoNodeError

from parkazoo.aio.async_calls import plain
from parkazoo.aio.tending import Tending, look
from parkazoo.protocol.placement import split
from parkazoo.recipe.bucket_names import Buckets, OneWatch
from parkazoo.recipe.swept import SWEEPS
from parkazoo.types import ACLs, ZnodeStat
from parkazoo.types.znodes import Watch

T = TypeVar("T")


class AsyncSpread(Buckets):
    """Spreads the children of one directory over its buckets: see :class:`parkazoo.recipe.buckets.Spread`, whose
    directories and methods these are.
    """

    def __init__(self, client: Tending, path: str, buckets: int) -> None:
        super().__init__(path, buckets)
        self.client = client
        self._is_verified = False
        self._left: dict[Watch, OneWatch] = {}  # by the user's watches

    async def create(
        self,
        name: str,
        value: bytes = b"",
        acl: ACLs | None = None,
        ephemeral: bool = False,
        sequence: bool = False,
    ) -> str:
        """Creates a child and returns its path, as ``client.create``.

        :raises ValueError: the directory has another number of buckets; or `sequence` is True: sequence numbers
            need one order of all children, which only one ensemble has.
        """
        self._refuse_sequence(sequence)
        path = self.path_of(name)
        for _ in range(SWEEPS):
            with suppress(NoNodeError):
                return await self._create(path, value, acl, ephemeral)
            self._is_verified = False
        return await self._create(path, value, acl, ephemeral)

    async def _create(self, path: str, value: bytes, acl: ACLs | None, ephemeral: bool) -> str:
        """Creates the child, with a missing bucket and a missing directory, the directory with its data."""
        await self.verify(is_to_make=True)
        with suppress(NoNodeError):
            return await self.client.create(path, value, acl, ephemeral=ephemeral)
        with suppress(NodeExistsError):
            await self.client.create(split(path)[0], acl=acl)
        return await self.client.create(path, value, acl, ephemeral=ephemeral)

    async def get(self, name: str, watch: Watch | None = None) -> tuple[bytes, ZnodeStat]:
        """Returns data and stat of a child, as ``client.get``."""
        return await self.client.get(await self._verified(name), watch)

    async def set(self, name: str, value: bytes, version: int = -1) -> ZnodeStat:
        """Sets the data of a child, as ``client.set``."""
        return await self.client.set(await self._verified(name), value, version)

    async def exists(self, name: str, watch: Watch | None = None) -> ZnodeStat | None:
        """Returns the stat of a child, or None, as ``client.exists``."""
        return await self.client.exists(await self._verified(name), watch)

    async def delete(self, name: str, version: int = -1) -> bool:
        """Deletes a child, as ``client.delete``."""
        return bool(await self.client.delete(await self._verified(name), version))

    async def get_children(self, watch: Watch | None = None) -> list[str]:
        """Returns the names of all children, in no order; none if the directory does not exist. If it fails, or is
        cancelled, it leaves no watch.

        :param watch: a plain function, called once: when a child is created or deleted in any bucket, with the
            directory's path; or with the event NONE when the connection is lost.
        """
        await self.verify()
        if watch is None:
            return await self._list(None, [])
        plain(watch)
        once = OneWatch(watch, self)
        issued: list[asyncio.Future[object]] = []
        try:
            names = await self._list(once, issued)
        except BaseException:
            once.has_been_called = True
            raise
        finally:
            if once.has_been_called:
                self._withdraw(once)
                for each in issued:
                    if not each.done():
                        each.add_done_callback(lambda _: self._withdraw(once))
        earlier = self._left.pop(watch, None)
        if not once.has_been_called:
            self._left[watch] = once
        if earlier is not None:  # kazoo too calls a function once, however often it was left
            self._withdraw(earlier)
        return names

    async def _list(self, once: OneWatch | None, issued: list[asyncio.Future[object]]) -> list[str]:
        """:param issued: for all requests."""

        async def ask(
            ask: Callable[[str, Watch | None], asyncio.Future[T]], paths: Iterable[str]
        ) -> list[tuple[str, asyncio.Future[T]]]:
            answers = [(path, ask(path, once)) for path in paths]
            for _, each in answers:
                each.add_done_callback(look)
                issued.append(each)  # type: ignore[arg-type]  # only asked whether it is done
            await asyncio.wait([each for _, each in answers])
            return answers

        names: list[str] = []
        paths = self._all_buckets()
        while paths:
            missing = []
            listings: list[tuple[str, asyncio.Future[list[str]]]] = await ask(
                self.client.get_children_async, paths
            )
            for path, listing in listings:
                if isinstance(listing.exception(), NoNodeError):
                    missing.append(path)
                else:
                    names += listing.result()
            if once is None or not missing:
                break
            # A bucket comes with its first child. If it has come just now, it is listed again.
            coming = await ask(self.client.exists_async, missing)
            paths = [path for path, stat in coming if stat.result() is not None]
        return names

    def called(self, once: OneWatch, watch: Watch) -> None:
        """Removes a watch that is about to be called from the other buckets."""
        if self._left.get(watch) is once:
            del self._left[watch]
        self._withdraw(once)

    def _withdraw(self, once: OneWatch) -> None:
        for path in self._all_buckets():
            self.client.forget_watch(path, once)

    async def count(self) -> int:
        """Returns the number of children; as :meth:`get_children`, not of one moment."""
        await self.verify()
        stats = await asyncio.gather(*map(self.client.exists_async, self._all_buckets()))
        return sum(stat.numChildren for stat in stats if stat is not None)

    async def _verified(self, name: str) -> str:
        path = self.path_of(name)
        await self.verify()
        return path

    async def verify(self, is_to_make: bool = False) -> None:
        """Whether the directory has so many buckets; without one there is nothing to verify, unless it is made.

        :raises ValueError: it has another number of them.
        """
        if self._is_verified:
            return
        if is_to_make:
            with suppress(NodeExistsError):
                await self.client.create(self.path, self.data, makepath=True)
        try:
            found, _ = await self.client.get(self.path)
        except NoNodeError:
            return
        if found != self.data:
            raise ValueError(self.describe_other(found))
        self._is_verified = True
