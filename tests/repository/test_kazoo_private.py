"""parkazoo/kazoo_private.py is the whole truth about what is used of kazoo beyond its documented interface."""

from __future__ import annotations

import ast
import unittest
from pathlib import Path

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
    "kazoo.recipe.cache",
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


STUB = ast.parse(Path(kazoo_private.__file__).with_suffix(".pyi").read_text())


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


class TestStub(unittest.TestCase):
    """kazoo_private.pyi, which mypy reads in place of kazoo_private.py, says of kazoo what is so."""

    def setUp(self) -> None:
        self.classes = {each.name: each for each in STUB.body if isinstance(each, ast.ClassDef)}

    def lines_of(self, name: str) -> list[ast.stmt]:
        """The body of a class of the stub, after those of its bases."""
        found = self.classes.get(name)
        if found is None:
            return []
        bases = (base.value if isinstance(base, ast.Subscript) else base for base in found.bases)
        inherited = [self.lines_of(base.id) for base in bases if isinstance(base, ast.Name)]
        return [*(line for lines in inherited for line in lines), *found.body]

    def test_names(self) -> None:
        named = {
            *self.classes,
            *(each.name for each in STUB.body if isinstance(each, ast.FunctionDef)),
            *(
                each.target.id
                for each in STUB.body
                if isinstance(each, ast.AnnAssign)
                if isinstance(each.target, ast.Name)
            ),
            *(alias.asname for each in STUB.body if isinstance(each, ast.ImportFrom) for alias in each.names),
        }
        lists = {"CLIENT_ATTRIBUTES", "CONNECTION_ATTRIBUTES", "HANDLER_ATTRIBUTES"}
        public = {name for name in named if name and not name.startswith("_")}
        self.assertEqual(public, {*kazoo_private.__all__, *lists})

    def test_classes(self) -> None:
        """Each has the fields of kazoo's named tuple, in its order, and methods that kazoo's has."""
        for name in self.classes:
            if name.startswith("_"):
                continue
            with self.subTest(name=name):
                kazoos, lines = getattr(kazoo_private, name), self.lines_of(name)
                attributes = {
                    each.target.id: each
                    for each in lines
                    if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
                }
                if "type" not in kazoos._fields and "type" in attributes:
                    self.assertIsInstance(kazoos.type, int)
                    del attributes["type"]
                self.assertEqual(tuple(attributes), kazoos._fields)
                methods = {each.name: each for each in lines if isinstance(each, ast.FunctionDef)}
                made = methods.pop("__new__", None)
                taken = [] if made is None else [each.arg for each in made.args.args[1:]]
                self.assertEqual(tuple(taken), kazoos._fields)
                for method, stub in methods.items():
                    self.assertTrue(callable(getattr(kazoos, method)), method)
                    is_of_class = "classmethod" in map(ast.unparse, stub.decorator_list)
                    self.assertTrue(not is_of_class or getattr(kazoos, method).__self__ is kazoos, method)

    def test_no_answer_is_left_out(self) -> None:
        """A class of kazoo's with `deserialize` has it in the stub, and no other has."""
        for name in self.classes:
            if not name.startswith("_"):
                has = any(
                    isinstance(each, ast.FunctionDef) and each.name == "deserialize"
                    for each in self.lines_of(name)
                )
                self.assertEqual(has, hasattr(getattr(kazoo_private, name), "deserialize"), name)
