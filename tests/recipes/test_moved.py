"""Programs for kazoo and for aiozk that were moved to parkazoo.aio: what was changed, and that all run."""

from __future__ import annotations

import asyncio
import inspect
import re
import sys
import unittest
import uuid
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.live.world import shared_cluster

FOLDER = Path(__file__).parent / "moved"
PAGE = Path(__file__).parents[2] / "docs" / "guide" / "asyncio.md"
NEEDS_AIO = unittest.skipIf(sys.version_info < (3, 11), "parkazoo.aio needs Python 3.11")


def plain(text: str) -> list[str]:
    """The lines but the first docstring and imports, without `async` and `await`."""
    lines = [each for each in text.splitlines()[1:] if each and not each.startswith(("from ", "import "))]
    return [re.sub(r"\b(?:async|await) ", "", each) for each in lines]


def renamed(text: str) -> str:
    """With the names of the guide's table in place of aiozk's. `path` in it stands for any argument."""
    for old, new in re.findall(r"^\| `([^`|]+)` \| `([^`|]+)` \|$", PAGE.read_text(), re.MULTILINE):
        text = re.sub(r"(?<!\w)" + re.escape(old).replace("path", "([^()]+)"), new.replace("path", r"\1"), text)
    return text


class TestMoved(unittest.TestCase):
    def test_from_kazoo(self) -> None:
        """Imports, `async` and `await`: nothing else."""
        before, after = (plain((FOLDER / f"{name}.py").read_text()) for name in ("from_kazoo", "from_kazoo_moved"))
        self.assertEqual(before, after)

    def test_from_aiozk(self) -> None:
        """Imports, and the names that the guide lists."""
        for name in ("from_aiozk", "recipes_of_aiozk"):
            before, after = ((FOLDER / f"{each}.py").read_text() for each in (name, f"{name}_moved"))
            self.assertEqual(plain(renamed(before)), plain(after))

    def run_on(self, name: str, ensembles: int) -> Any:
        hosts, root = shared_cluster(ensembles).hosts, f"/{uuid.uuid4().hex}"
        result = import_module(f"tests.recipes.moved.{name}").main(hosts, root)
        return asyncio.run(result) if inspect.iscoroutine(result) else result

    @NEEDS_AIO
    def test_kazoos_runs(self) -> None:
        """As it was with one ensemble, and on three when it was moved."""
        before, after = self.run_on("from_kazoo", 1), self.run_on("from_kazoo_moved", 3)
        self.assertEqual(before, after)
        orders = [f"order-{number:010d}" for number in range(3)]
        self.assertEqual(after, [orders, ["apples", "bread", "cheese"], ["closed"], 100, True])

    @NEEDS_AIO
    @unittest.skipUnless(find_spec("aiozk"), "aiozk is not installed")
    def test_aiozks_runs(self) -> None:
        before, after = self.run_on("from_aiozk", 1), self.run_on("from_aiozk_moved", 3)
        self.assertEqual(before, after)
        line = [f"wait-{number:010d}" for number in range(4)]
        left = ["sold-ada", "sold-bob", "sold-cy", "sold-dee", "closed"]
        self.assertEqual(after, [line, [["ada", "bob", "cy"], ["dee"]], left])

    @NEEDS_AIO
    @unittest.skipUnless(find_spec("aiozk"), "aiozk is not installed")
    def test_aiozks_recipes_run(self) -> None:
        before, after = self.run_on("recipes_of_aiozk", 1), self.run_on("recipes_of_aiozk_moved", 3)
        self.assertEqual(before, after)
        self.assertEqual(after, [[0, 6], [b"a door"] * 2, ["ada", "bob"], []])
