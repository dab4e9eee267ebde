"""Many hosts at once."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Generic, TypeVar

from fabric import Config
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from bench.hosts.inventory import Host, Inventory
from bench.hosts.remote import HostError, Remote
from bench.lab import LabError

THREADS = 64
REFRESH_S = 0.2
SHOWN = 4

T = TypeVar("T")


def shorten(names: Sequence[str]) -> str:
    """The first ones, and how many more there are."""
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")


class FleetError(LabError, Generic[T]):
    """Some hosts have failed: a line for each; hosts that say the same share one.

    :param done: what the others have answered.
    """

    def __init__(self, failures: Mapping[str, str], done: Mapping[str, T]) -> None:
        self.failures = failures
        self.done = done
        names: dict[str, list[str]] = {}
        for name, message in failures.items():
            names.setdefault(message, []).append(name)
        super().__init__("\n".join(f"{', '.join(each)}: {message}" for message, each in names.items()))


@contextmanager
def cleanup(end: Callable[[], object]) -> Iterator[None]:
    """Do that at the end, whatever happens.

    :raises LabError: it fails; if something failed before, the message has both.
    """
    try:
        yield
    except LabError as error:
        try:
            end()
        except LabError as another:
            raise LabError(f"{error}\n{another}") from error
        raise
    except BaseException:
        end()
        raise
    end()


class Fleet:
    """The hosts of an inventory. Connections stay open until the end of the context."""

    def __init__(self, inventory: Inventory, console: Console) -> None:
        self.inventory = inventory
        self.console = console
        config = Config()  # it reads files
        self._remotes = {host.name: Remote(host, inventory, config) for host in inventory.hosts}
        self._pool = ThreadPoolExecutor(THREADS)

    def __enter__(self) -> Fleet:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for remote in self._remotes.values():  # a thread that still waits for an answer gets an error
            remote.close()
        self._pool.shutdown()

    def __getitem__(self, name: str) -> Remote:
        return self._remotes[name]

    def ask(self, name: str, command: str, *arguments: Any) -> Any:
        """One host.

        :raises LabError: it fails; its name stands before the reason.
        """
        return self.on(name, lambda remote: remote.ask(command, *arguments))

    def on(self, name: str, work: Callable[[Remote], T]) -> T:
        """
        :raises LabError: as `ask`.
        """
        try:
            return work(self[name])
        except HostError as error:
            raise FleetError({name: str(error)}, {}) from None

    def each(
        self,
        about: str,
        work: Callable[[Remote], T],
        hosts: Iterable[Host] | None = None,
        *,
        all_or_none: bool = False,
    ) -> dict[str, T]:
        """Do it on hosts, all by default, at the same time.

        :param about: for people, ``"deploying"``; if empty, nothing is shown.
        :param all_or_none: whether the first failure ends it on the others, as the end of this program does.
        :raises FleetError: some have failed.
        """
        names = [host.name for host in (self.inventory.hosts if hosts is None else hosts)]
        tasks = {self._pool.submit(work, self[name]): name for name in names}
        try:
            self._wait(about, tasks, all_or_none)
        except BaseException:
            self._interrupt(tasks)
            raise
        ended = {name: task for task, name in tasks.items() if task.done()}
        failures = {name: str(task.exception()) for name, task in ended.items() if task.exception()}
        done = {name: task.result() for name, task in ended.items() if not task.exception()}
        self._interrupt(tasks)
        if failures:
            raise FleetError(failures, done)
        return done

    def _interrupt(self, tasks: Mapping[Future[Any], str]) -> None:
        """End those that have not ended: the agent on a host ends a load when its connection does."""
        for task, name in tasks.items():
            if not task.done() and not task.cancel():
                self[name].close()
        wait(tasks)

    def _wait(self, about: str, tasks: Mapping[Future[Any], str], all_or_none: bool) -> None:
        """Until all have ended, or one has failed; show how far it is.

        :raises Exception: what a task has raised that is not about its host.
        """
        began = time.monotonic()
        texts = TextColumn("{task.description}"), TextColumn("{task.fields[late]}")
        columns = texts[0], BarColumn(), MofNCompleteColumn(), texts[1]
        is_hidden = not about or not sys.stdout.isatty()
        with Progress(*columns, console=self.console, transient=True, disable=is_hidden) as progress:
            shown = progress.add_task(about, total=len(tasks), late="")
            waiting = {*tasks}
            while waiting:
                ended, waiting = wait(waiting, REFRESH_S, FIRST_COMPLETED)
                errors = [error for task in ended if (error := task.exception())]
                if unexpected := [error for error in errors if not isinstance(error, HostError)]:
                    raise unexpected[0]
                late = [name for task, name in tasks.items() if task in waiting]
                progress.update(shown, advance=len(ended), late=shorten(late))
                if errors and all_or_none:
                    return
        if about:
            hosts = f"{len(tasks)} host{'' if len(tasks) == 1 else 's'}"
            said = f"  {about}: {hosts}, {time.monotonic() - began:.1f} s"
            self.console.print(said, style="dim", highlight=False)
