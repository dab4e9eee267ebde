"""What the tests of a DistributedDict share: two clients, and dictionaries of theirs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from parkazoo import ForkError
from parkazoo.structures.distributed_dict import DistributedDict
from parkazoo.structures.policies import Policy
from tests.live.world import LiveTest, wait_until


class DictionaryTest(LiveTest):
    def setUp(self) -> None:
        super().setUp()
        self.client, self.other = self.parkazoo(), self.parkazoo()
        self.root = self.new_root(self.client)
        self.path = f"{self.root}/d"

    def dictionary(self, client: Any = None, refresh: Policy | None = None, **options: Any) -> DistributedDict:
        made = (client or self.client).DistributedDict(options.pop("path", self.path), refresh, **options)
        self.addCleanup(self.close, made)
        return made

    def close(self, made: DistributedDict) -> None:
        with suppress(ForkError):
            made.close()

    def becomes(self, found: DistributedDict, items: dict[str, Any]) -> None:
        wait_until(lambda: found.copy() == items, f"{items}, it is {found.copy()}")

    def heard(self, found: DistributedDict) -> list[tuple[Any, ...]]:
        """What is told of changes, from now on."""
        told: list[tuple[Any, ...]] = []
        found.on_change(lambda *change: told.append(change))
        return told

    def next(self, found: DistributedDict, key: str) -> tuple[int, int]:
        """For an add: the version, and one more than the value."""
        value, version = found.get_with_version(key)
        return version, value + 1

    def run_together(self, *calls: Callable[[], None]) -> None:
        """Each on a thread or greenlet of its own; the first error is raised."""
        ended: list[BaseException | None] = []

        def run(call: Callable[[], None]) -> None:
            try:
                call()
            except BaseException as error:
                ended.append(error)
            else:
                ended.append(None)

        for call in calls:
            self.client.handler.spawn(run, call)
        wait_until(lambda: len(ended) == len(calls), "all have ended")
        for error in ended:
            if error is not None:
                raise error
