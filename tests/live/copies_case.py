"""What the tests of the map's copies share: a map on three ensembles, and commands that crash or are overtaken."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

from parkazoo.admin import grow_map, init_map, read_map
from parkazoo.admin.clients import AdminClient
from parkazoo.admin.rise import DOES
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.epochs import Form
from parkazoo.protocol.placement import MAP
from tests.live.map_case import MapCase


class CrashError(Exception):
    """The process that changes the map ends here."""


def crash_when(words: str) -> Callable[[str], None]:
    """Listens to the steps of a command, which ends at one with these words."""

    def step(told: str) -> None:
        if words in told:
            raise CrashError

    return step


@contextlib.contextmanager
def crash_at_write(number: int) -> Iterator[None]:
    """Before that write to a map, counted from 0."""
    writes = itertools.count()

    def make_crash(write: Callable[..., bool]) -> Callable[..., bool]:
        def write_or_crash(client: AdminClient, path: str, *rest: Any) -> bool:
            if path == MAP and next(writes) == number:
                raise CrashError
            return write(client, path, *rest)

        return write_or_crash

    with (
        mock.patch.object(AdminClient, "make", make_crash(AdminClient.make)),
        mock.patch.object(AdminClient, "set", make_crash(AdminClient.set)),
        mock.patch.object(AdminClient, "commit", make_crash(AdminClient.commit)),  # of the primary
    ):
        yield


def rise_to(hosts: str, form: Form) -> ClusterMap:
    """The map of that form, whose growth ends there."""
    try:
        grow_map(hosts, {}, yes=True, strangers_gone=True, tell=crash_when(DOES[form]))
    except CrashError:
        rising = read_map(hosts)
        assert rising.form is form, rising.form
        return rising
    raise AssertionError(f"it has not come to form {form.word}")


@contextlib.contextmanager
def overtaken_at(name: str, act: Callable[[], None]) -> Iterator[None]:
    """Right after the map on that ensemble has been read for the first time."""
    read, reads = AdminClient.read_with_version, itertools.count()

    def read_and_act(client: AdminClient, path: str) -> tuple[bytes, int] | None:
        found = read(client, path)
        if path == MAP and client.name == name and next(reads) == 0:
            act()
        return found

    with mock.patch.object(AdminClient, "read_with_version", read_and_act):
        yield


class CopiesCase(MapCase):
    def setUp(self) -> None:
        super().setUp()
        self.map = init_map(self.a, self.all)

    def epoch(self, number: int, **changes: str) -> ClusterMap:
        return dataclasses.replace(self.map, epoch=number, ensembles={**self.all, **changes})

    def write(self, **maps: ClusterMap | bytes | None) -> None:
        """Write to ensembles, by name; None deletes."""
        for name, found in maps.items():
            client = self.plain["abc".index(name)]
            if found is None:
                client.delete(MAP)
            else:
                client.set(MAP, found if isinstance(found, bytes) else found.to_json())

    def stored(self) -> list[bytes | None]:
        return [client.get(MAP)[0] if client.exists(MAP) else None for client in self.plain]

    def assert_stored(self, expected: ClusterMap) -> None:
        self.assertEqual(self.stored(), [expected.to_json()] * 3)
