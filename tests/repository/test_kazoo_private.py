"""parkazoo/kazoo_private.py is the whole truth about what is used of kazoo beyond its documented interface."""

from __future__ import annotations

import ast
import unittest

from kazoo.client import KazooClient
from kazoo.protocol.connection import ConnectionHandler

from parkazoo import kazoo_private
from tests.repository.test_layering import PACKAGE

DOCUMENTED = {  # modules of kazoo that its reference documents
    "kazoo.client",
    "kazoo.exceptions",
    "kazoo.handlers.gevent",
    "kazoo.handlers.threading",
    "kazoo.protocol.states",
    "kazoo.recipe.barrier",
    "kazoo.recipe.counter",
    "kazoo.recipe.election",
    "kazoo.recipe.lease",
    "kazoo.recipe.lock",
    "kazoo.recipe.partitioner",
    "kazoo.recipe.party",
    "kazoo.recipe.queue",
    "kazoo.recipe.watchers",
    "kazoo.retry",
    "kazoo.security",
}
CORE = ("client.py", "compat", "engine", "recipe", "wire")


def sources() -> dict[str, ast.Module]:
    files = sorted(PACKAGE.rglob("*.py"))
    return {str(path.relative_to(PACKAGE)): ast.parse(path.read_text()) for path in files}


class TestKazooPrivate(unittest.TestCase):
    def setUp(self) -> None:
        self.client = KazooClient()
        self.connection: ConnectionHandler = self.client._connection
        self.sources = sources()
        del self.sources["kazoo_private.py"]
        self.listed = {
            *kazoo_private.CLIENT_ATTRIBUTES,
            *kazoo_private.CONNECTION_ATTRIBUTES,
            *kazoo_private.HANDLER_ATTRIBUTES,
        }

    def used(self) -> dict[str, str]:
        """Attributes that are read, set or overridden where kazoo's objects are handled, each with a file."""
        names: dict[str, str] = {}
        for file, tree in self.sources.items():
            if not file.startswith(CORE):
                continue
            for part in ast.walk(tree):
                if isinstance(part, ast.Attribute):
                    names[part.attr] = file
                elif isinstance(part, ast.FunctionDef):
                    names[part.name] = file
        return names

    def test_kazoo_has_them(self) -> None:
        for name in kazoo_private.CLIENT_ATTRIBUTES:
            self.assertTrue(hasattr(self.client, name), name)
        for name in kazoo_private.CONNECTION_ATTRIBUTES:
            self.assertTrue(hasattr(self.connection, name), name)
        for name in kazoo_private.HANDLER_ATTRIBUTES:
            self.assertTrue(hasattr(self.client.handler, name), name)

    def test_none_is_unused(self) -> None:
        self.assertEqual(self.listed - self.used().keys(), set(), "take it out of kazoo_private.py")

    def test_none_is_missing(self) -> None:
        for name, file in self.used().items():
            is_kazoos = name.startswith("_") and not name.startswith("__")
            if is_kazoos and (hasattr(self.client, name) or hasattr(self.connection, name)):
                self.assertIn(name, self.listed, f"{file} uses it: list it in kazoo_private.py")

    def test_imports(self) -> None:
        for file, tree in self.sources.items():
            for part in ast.walk(tree):
                if isinstance(part, ast.ImportFrom) and (part.module or "").startswith("kazoo."):
                    self.assertIn(part.module, DOCUMENTED, f"{file}: import it by way of kazoo_private.py")
