"""The requests of a DistributedDict, which wait for their answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from kazoo.exceptions import BadVersionError, NoAuthError, NodeExistsError, NoNodeError

from parkazoo.protocol.placement import join
from parkazoo.protocol.steps import IMPOSSIBLE
from parkazoo.structures.entry_asks import Ask, CommitOnce, Ensure, ListAll, Look, Make, ReadOne, ReadSome, Steps
from parkazoo.structures.entry_directories import EntryDirectories
from parkazoo.structures.keys import EMPTY
from parkazoo.structures.local_copy import Entry
from parkazoo.structures.reading import EntryReader
from parkazoo.types.znodes import AsyncResult, ZnodeStat

T = TypeVar("T")


class Entries:
    """Drives the reader and the writer of a dictionary; retries after a lost connection as ``client.retry`` does.

    :param is_linearizable: send a write that changes nothing before each read.
    :param tell: see :class:`LocalCopy`.
    :ivar lock: for the copy.
    :ivar missed: another object for each write of this process that the copy may lack.
    :ivar caught_up: such an object: a read of everything that began behind that write has ended.
    """

    def __init__(
        self,
        client: Any,
        directories: EntryDirectories,
        is_linearizable: bool,
        tell: Callable[[str, Entry | None], None],
    ) -> None:
        self.client = client
        self.path = directories.path
        self.directories = directories.all
        self.place = directories.place
        self.lock = client.handler.lock_object()
        self.reader = EntryReader(directories, tell, self.lock, client.logger, is_linearizable)
        self.copy = self.reader.copy
        self.missed: object = None
        self.caught_up: object = None

    @property
    def is_behind(self) -> bool:
        """Returns whether the copy may lack a write of this process."""
        return self.missed is not self.caught_up

    def miss(self) -> None:
        """The copy may lack a write of this process."""
        self.missed = object()

    def run(self, steps: Steps[T]) -> T:
        """Returns the result of a reader's or a writer's call. Raises its errors, and the client's.

        :raises ForkError: a parent process started this client.
        """
        self.client.check_process()
        try:
            ask = next(steps)
            while True:
                answer, error = self._outcome(ask)
                ask = steps.send(answer) if error is None else steps.throw(error)
        except StopIteration as end:
            result: T = end.value
            return result

    def _outcome(self, ask: Ask) -> tuple[Any, BaseException | None]:
        """Returns the answer, or the error."""
        try:
            return self._answer(ask), None
        except BaseException as error:
            return None, error

    def _answer(self, ask: Ask) -> Any:
        client = self.client
        match ask:
            case CommitOnce(transaction):
                return client.exactly_once.commit(transaction)
            case ReadOne(path, is_certain):
                return client.retry(self._get, path, is_certain)
            case ReadSome(paths):
                return client.retry(self._get_some, paths)
            case ListAll(directories, is_certain):
                return client.retry(self._list, directories, is_certain)
            case Look(paths):
                return client.retry(self._look, paths)
            case Ensure(path):
                return client.retry(client.ensure_path, path)
            case Make(path, data):
                with suppress(NodeExistsError):
                    client.retry(client.create, path, data, makepath=True)
                return None

    def _get(self, path: str, is_certain: bool) -> tuple[bytes, ZnodeStat]:
        if is_certain:
            self._write([path])
        found: tuple[bytes, ZnodeStat] = self.client.get(path)
        return found

    def _get_some(self, paths: Sequence[str]) -> list[tuple[bytes, ZnodeStat] | Exception]:
        asked = [self.client.get_async(path) for path in paths]
        return [_answer_of(each, NoNodeError, NoAuthError) for each in asked]

    def _list(self, directories: Sequence[str], is_certain: bool) -> list[tuple[list[str], ZnodeStat] | None]:
        if is_certain:
            self._write(join(directory, EMPTY) for directory in directories)
        asked = [self.client.get_children_async(each, include_data=True) for each in directories]
        answers = (_answer_of(each, NoNodeError) for each in asked)
        return [None if isinstance(each, Exception) else each for each in answers]

    def _look(self, paths: Sequence[str]) -> list[bool]:
        asked = [self.client.exists_async(path) for path in paths]
        return [answer.get() is not None for answer in asked]

    def _write(self, paths: Iterable[str]) -> None:
        """Sends a write that is refused to the ensemble of each path, so that a later read there is not older."""
        for answer in [self.client.set_async(path, b"", IMPOSSIBLE) for path in paths]:
            with suppress(BadVersionError, NoNodeError, NoAuthError):
                answer.get()


def _answer_of(asked: AsyncResult[T], *expected: type[Exception]) -> T | Exception:
    """Returns the answer, or one of the expected errors; raises another one."""
    try:
        return asked.get()
    except expected as error:
        return error
