"""The requests of an asyncio DistributedDict."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from typing import Any, TypeVar

from kazoo.exceptions import BadVersionError, NoAuthError, NodeExistsError, NoNodeError

from parkazoo.aio.async_ensembles import AsyncEnsembles
from parkazoo.aio.recipe.async_once import AsyncOnce
from parkazoo.aio.recipe.sight import steadily
from parkazoo.protocol.placement import join
from parkazoo.protocol.steps import IMPOSSIBLE
from parkazoo.structures.entry_asks import Ask, CommitOnce, Ensure, ListAll, Look, Make, ReadOne, ReadSome, Steps
from parkazoo.structures.entry_directories import EntryDirectories
from parkazoo.structures.keys import EMPTY
from parkazoo.structures.local_copy import Entry
from parkazoo.structures.reading import EntryReader
from parkazoo.types import ZnodeStat
from parkazoo.types.handlers import Log

T = TypeVar("T")


class KeptClient(AsyncEnsembles):
    """The client of a dictionary, as that sees it."""

    logger: Log
    _ends: dict[Callable[[None], None], None]  # called with None when no further state comes


class DictEntries:
    """Drives the reader and the writer of a dictionary, over lost connections.

    :param tell: called with the key and the entry before, after each change.
    """

    def __init__(
        self,
        client: KeptClient,
        once: AsyncOnce,
        directories: EntryDirectories,
        tell: Callable[[str, Entry | None], None],
    ) -> None:
        self.client = client
        self.path = directories.path
        self.directories = directories.all
        self.place = directories.place
        self.reader = EntryReader(directories, tell, nullcontext(), client.logger)
        self.copy = self.reader.copy
        self._once = once

    async def run(self, steps: Steps[T]) -> T:
        """Returns the result of a reader's or a writer's call. Raises its errors, and the client's."""
        try:
            ask = next(steps)
            while True:
                answer, error = await self._outcome(ask)
                ask = steps.send(answer) if error is None else steps.throw(error)
        except StopIteration as end:
            result: T = end.value
            return result

    async def _outcome(self, ask: Ask) -> tuple[Any, BaseException | None]:
        """Returns the answer, or the error."""
        try:
            return await self._answer(ask), None
        except BaseException as error:
            return None, error

    async def _answer(self, ask: Ask) -> Any:
        client = self.client
        match ask:
            case CommitOnce(transaction):
                return await self._once.commit_exactly(transaction.operations)
            case ReadOne(path, is_certain):
                return await steadily(client, partial(self._get, path, is_certain))
            case ReadSome(paths):
                return await steadily(client, partial(self._get_some, paths))
            case ListAll(directories, is_certain):
                return await steadily(client, partial(self._list, directories, is_certain))
            case Look(paths):
                return await steadily(client, partial(self._look, paths))
            case Ensure(path):
                return await steadily(client, partial(client.ensure_path, path))
            case Make(path, data):
                with suppress(NodeExistsError):
                    await steadily(client, partial(client.create, path, data, makepath=True))
                return None

    async def _get(self, path: str, is_certain: bool) -> tuple[bytes, ZnodeStat]:
        if is_certain:
            await self._write([path])
        return await self.client.get(path)

    async def _get_some(self, paths: Sequence[str]) -> list[tuple[bytes, ZnodeStat] | Exception]:
        return await _answers([self.client.get_async(path) for path in paths], NoNodeError, NoAuthError)

    async def _list(
        self, directories: Sequence[str], is_certain: bool
    ) -> list[tuple[list[str], ZnodeStat] | None]:
        if is_certain:
            await self._write(join(directory, EMPTY) for directory in directories)
        asked = [self.client.get_children_async(each, include_data=True) for each in directories]
        return [None if isinstance(each, Exception) else each for each in await _answers(asked, NoNodeError)]

    async def _look(self, paths: Sequence[str]) -> list[bool]:
        return [stat is not None for stat in await _answers([self.client.exists_async(path) for path in paths])]

    async def _write(self, paths: Iterable[str]) -> None:
        """Sends a write that is refused to the ensemble of each path, so that a later read there is not older."""
        refused = [self.client.set_async(path, b"", IMPOSSIBLE) for path in paths]
        await _answers(refused, BadVersionError, NoNodeError, NoAuthError)


async def _answers(issued: Sequence[asyncio.Future[T]], *expected: type[Exception]) -> list[T | Exception]:
    """Returns all answers, the expected errors among them; raises another one."""
    answers: list[T | Exception] = []
    for each in await asyncio.gather(*issued, return_exceptions=True):
        if isinstance(each, BaseException) and not isinstance(each, expected):
            raise each
        answers.append(each)
    return answers
