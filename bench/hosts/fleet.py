"""Many hosts at once."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from types import TracebackType
from typing import Any, Generic, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from bench.hosts.inventory import Host, Inventory
from bench.hosts.remote import HostError, Remote
from bench.lab import LabError

AT_ONCE = 64
REFRESH_S = 0.2
SHOWN = 4  # hosts that are waited for

T = TypeVar("T")


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


class Fleet:
    """The hosts of an inventory. Connections stay open until the end of the context."""

    def __init__(self, inventory: Inventory, console: Console) -> None:
        self.inventory = inventory
        self.console = console
        self._remotes = {host.name: Remote(host, inventory) for host in inventory.hosts}
        self._pool = ThreadPoolExecutor(AT_ONCE)

    def __enter__(self) -> Fleet:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for remote in self._remotes.values():  # whoever still waits for an answer gets an error
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

    def each(self, about: str, work: Callable[[Remote], T], hosts: Iterable[Host] | None = None) -> dict[str, T]:
        """Do it on hosts, all by default, at the same time.

        :param about: for people: ``"deploying"``.
        :raises FleetError: when all have ended and some have failed.
        """
        names = [host.name for host in (self.inventory.hosts if hosts is None else hosts)]
        tasks = {self._pool.submit(work, self[name]): name for name in names}
        try:
            self._watch(about, tasks)
        except BaseException:
            for task in tasks:
                task.cancel()
            raise
        failures, done = {}, {}
        for task, name in tasks.items():
            error = task.exception()
            if error is None:
                done[name] = task.result()
            elif isinstance(error, HostError):
                failures[name] = str(error)
            else:
                raise error
        if failures:
            raise FleetError(failures, done)
        return done

    def _watch(self, about: str, tasks: Mapping[Future[Any], str]) -> None:
        """Show progress until all tasks have ended."""
        began = time.monotonic()
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[late]}"),
        )
        with Progress(*columns, console=self.console, transient=True, disable=not sys.stdout.isatty()) as progress:
            shown = progress.add_task(about, total=len(tasks), late="")
            waiting = set(tasks)
            while waiting:
                ended, waiting = wait(waiting, REFRESH_S, FIRST_COMPLETED)
                late = [tasks[task] for task in tasks if task in waiting]
                text = ", ".join(late[:SHOWN]) + (f" and {len(late) - SHOWN} more" if len(late) > SHOWN else "")
                progress.update(shown, advance=len(ended), late=text)
        self.console.print(
            f"  {about}: {len(tasks)} host{'' if len(tasks) == 1 else 's'}, {time.monotonic() - began:.1f} s",
            style="dim",
            highlight=False,
        )
