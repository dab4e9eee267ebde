"""What is below `/parkazoo/ensemble`: the notes of clients that found an older state, or anything else."""

from __future__ import annotations

import json
import unittest
from typing import Any

from kazoo.exceptions import NoNodeError

from parkazoo.admin.accept_restore import UNREADABLE, find_notices
from parkazoo.admin.clients import NoRightError
from parkazoo.protocol.placement import ENSEMBLE
from tests.fakes.member import STAT

NOTE = json.dumps({"seen": 9, "found": 7}).encode()
WHEN = "1970-01-01 00:00:00 UTC"
TOLD = f"a client that had seen change 9 of {ENSEMBLE} found change 7, {WHEN}"


class Ensemble:
    """Stands for an AdminClient.

    :param children: of the znode: data by name, or what a read gets.
    """

    def __init__(self, children: dict[str, bytes | Exception]) -> None:
        self._children = children

    def children(self, path: str) -> list[str]:
        return [*self._children]

    def call(self, method: str, path: str) -> Any:
        found = self._children[path.removeprefix(f"{ENSEMBLE}/")]
        if isinstance(found, Exception):
            raise found
        return found, STAT


def find(children: dict[str, bytes | Exception]) -> dict[str, str]:
    """The notices, by name."""
    ensemble: Any = Ensemble(children)
    return {path.removeprefix(f"{ENSEMBLE}/"): told for path, told in find_notices(ensemble).items()}


class TestNotices(unittest.TestCase):
    def test_in_the_order_of_their_making(self) -> None:
        found = find({"10": NOTE, "9": NOTE})
        self.assertEqual([*found.items()], [("9", TOLD), ("10", TOLD)])

    def test_one_that_has_just_been_accepted(self) -> None:
        self.assertEqual(find({"1": NoNodeError(), "2": NOTE}), {"2": TOLD})

    def test_that_no_client_has_written(self) -> None:
        """Nothing of it is shown: it could be longer than a terminal, or change what others show there."""
        strange = [b"", b"\xff", b"7", b"[]", b"{}", b'{"seen": 9}', b'{"seen": "\\u001b[2J", "found": 7}']
        strange += [b'{"seen": [9], "found": 7}', b'{"seen": 9, "found": 7.5}', b"[" * 100_000, b"9" * 10_000]
        for data in strange:
            with self.subTest(data[:40]):
                self.assertEqual(find({"1": data}), {"1": f"{UNREADABLE}, {WHEN}"})
        self.assertEqual(find({"1": NoRightError("no right")}), {"1": UNREADABLE})

    def test_other_names(self) -> None:
        """Fsck reports these."""
        self.assertEqual(find({"x": NOTE, "\N{SUPERSCRIPT TWO}": NOTE, "9" * 10_000: NOTE}), {})
