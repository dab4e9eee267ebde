"""What says things once: no dead names, no constant twice, no two files and no two classes of one name."""

from __future__ import annotations

import ast
import gc
import re
import sys
import unittest
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TypeGuard

from bench import ROOT

PRODUCT = ("parkazoo", "bench")
FOLDERS = (*PRODUCT, "tests")
# What they use counts, what they define does not: each program of recipes/ is copied alone and whole.
USERS = (*FOLDERS, "recipes", "docker", "fabfile.py")
# What users name, and this test.
UNUSED_HERE = ("parkazoo/types/", "tests/typing/", "tests/repository/test_tidy.py")

# The exceptions, each with its reason. One that is no longer needed fails, so the lists only shrink.
SAME_FILE_NAMES = {
    "client.py": "a client, and the types of its methods",
    "transaction.py": "a client's Transaction, and the protocol's part of its commit",
}
SAME_CLASS_NAMES = {
    "Lock": "kazoo's recipe, and a policy of a DistributedDict: users write both",
    "ParKazooClient": "a client, and one for asyncio: users write both",
}
REPEATED = {
    "P": "each file has its type variables",
    "T": "each file has its type variables",
}
CALLED_BY_OTHERS = {
    "AUTO_FOCUS": "textual",
    "CSS": "textual",
    "ENABLE_COMMAND_PALETTE": "textual",
    "VERTICAL_BREAKPOINTS": "textual",
    "_get_connection": "taskflow's tests",
    "_get_data": "kazoo's DataWatch",
    "_restart": "tests/fuzz/sides.py, by the name of a call",
    "do_GET": "http.server",
    "emit": "logging",
    "get_logs": "kazoo's test harness",
    "get_ssl_client_configuration": "kazoo's test harness",
    "handle_endtag": "html.parser",
    "handle_starttag": "html.parser",
    "load_tests": "unittest",
    "log_message": "http.server",
    "on_input_changed": "textual",
    "on_key": "textual",
    "on_mount": "textual",
    "render": "textual",
    "secure_address": "kazoo's test harness",
    "secure_client_port": "kazoo's test harness",
    "setUpModule": "unittest",
    "tearDown": "unittest",
    "tearDownClass": "unittest",
    "tearDownModule": "unittest",
    "teardown": "hypothesis",
}
HOOKS = {"setUp", "tearDown", "setUpClass", "tearDownClass"}
MANY_LINES = 600  # more may be more than one noun
# Files that run where nothing else of this repository is, so that they repeat what they need.
ALONE = ("bench/hosts/agent.py", "parkazoo/local/supervisor_process.py")


def setUpModule() -> None:
    gc.disable()  # it would look through all syntax trees, again and again: a third of the time without


def tearDownModule() -> None:
    files.cache_clear()
    tree_of.cache_clear()
    gc.enable()


@cache
def files(*places: str) -> Mapping[str, ast.Module]:
    """Of each Python file in the places, its syntax tree."""
    paths = [
        path
        for place in places
        for path in ([ROOT / place] if place.endswith(".py") else (ROOT / place).rglob("*.py"))
    ]
    return {str(path.relative_to(ROOT)): tree_of(path) for path in sorted(paths)}


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def assignments(node: ast.Module | ast.ClassDef) -> Iterator[tuple[str, ast.expr | None]]:
    """The names that a module or class gives a value or a type."""
    for each in node.body:
        if isinstance(each, ast.Assign):
            names = [name for target in each.targets for name in ast.walk(target)]
        else:
            names = [each.target] if isinstance(each, ast.AnnAssign) else []
        yield from ((name.id, each.value) for name in names if isinstance(name, ast.Name))


def definitions(tree: ast.Module) -> Iterator[str]:
    """Functions, classes, methods, constants, fields."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        if isinstance(node, (ast.Module, ast.ClassDef)):
            yield from (name for name, _ in assignments(node))


def documentation(tree: ast.Module) -> set[int]:
    """The ids of docstrings: to name something there is not to use it."""
    documented = (each for each in ast.walk(tree) if isinstance(each, (ast.Module, ast.ClassDef, ast.FunctionDef)))
    return {id(each.body[0].value) for each in documented if each.body and isinstance(each.body[0], ast.Expr)}


def uses(tree: ast.Module) -> Iterator[str]:
    """The names that a file uses, those in strings too: getattr, mock.patch and templates name things."""
    docstrings = documentation(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            yield node.attr
        elif isinstance(node, ast.keyword) and node.arg:
            yield node.arg
        elif isinstance(node, ast.alias):
            yield from node.name.split(".")
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield from re.findall(r"\w+", node.value)


def is_a_test(name: str) -> bool:
    return name.startswith(("test_", "Test")) or name.endswith("Test")


def dead_names() -> dict[str, str]:
    """By name: the file that defines it."""
    used = {
        name for path, tree in files(*USERS).items() if not path.startswith(UNUSED_HERE) for name in uses(tree)
    }
    return {
        name: path
        for path, tree in files(*FOLDERS).items()
        for name in definitions(tree)
        if not path.startswith(UNUSED_HERE)
        and name not in used
        and not is_a_test(name)
        and not name.startswith("__")
    }


def is_worked_out(value: ast.expr | None) -> TypeGuard[ast.expr]:
    """Whether it is more than another name for something."""
    return value is not None and any(isinstance(each, (ast.Constant, ast.Call)) for each in ast.walk(value))


def repeated_constants() -> dict[str, str]:
    """By name: the files of the product that give it the same value. Tests say what they expect independently.

    Durations do not count, since each waits as long as it must.
    """
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for path, tree in files(*PRODUCT).items():
        for name, value in assignments(tree):
            if name.isupper() and not name.endswith("_S") and is_worked_out(value) and path not in ALONE:
                found[name, ast.unparse(value)].append(path)
    repeated: dict[str, str] = defaultdict(str)
    for (name, value), paths in found.items():
        if len(paths) > 1:
            repeated[name] += f" {value}: {', '.join(paths)}"
    return repeated


def same_file_names() -> dict[str, str]:
    found: dict[str, list[str]] = defaultdict(list)
    for path in files(*PRODUCT):
        found[path.rpartition("/")[2]].append(path)
    return {
        name: ", ".join(paths) for name, paths in found.items() if len(paths) > 1 and not name.startswith("__")
    }


def same_class_names() -> dict[str, str]:
    """By name: the files of the library that define such a class."""
    found: dict[str, list[str]] = defaultdict(list)
    for path, tree in files("parkazoo").items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(path)
    return {name: ", ".join(paths) for name, paths in found.items() if len(paths) > 1}


def long_files() -> dict[str, int]:
    """Lines of each file that has very many."""
    lines = {path: (ROOT / path).read_text().count("\n") for path in files(*FOLDERS)}
    return {path: count for path, count in lines.items() if count > MANY_LINES}


class TestTidy(unittest.TestCase):
    def check(self, found: Mapping[str, str], exceptions: Collection[str], remedy: str) -> None:
        wrong = [f"{name}: {about}" for name, about in sorted(found.items()) if name not in exceptions]
        self.assertFalse(wrong, "\n".join(["", *wrong, remedy]))
        self.assertEqual({*exceptions} - {*found}, set(), "exceptions that are not needed any more: take them out")

    def test_dead_names(self) -> None:
        self.check(dead_names(), CALLED_BY_OTHERS, "No code uses these names: delete what they name.")

    def test_constants_are_said_once(self) -> None:
        self.check(
            repeated_constants(),
            REPEATED,
            "These constants are equal in several files: define each in the lowest one and import it from there. "
            "If they are equal by chance, say in the name what each is for.",
        )

    def test_file_names_differ(self) -> None:
        self.check(
            same_file_names(), SAME_FILE_NAMES, "Who looks for one opens the other: name each for what it holds."
        )

    def test_class_names_differ(self) -> None:
        self.check(
            same_class_names(), SAME_CLASS_NAMES, "One word for one thing: name each class for what it is there."
        )

    def test_long_files(self) -> None:
        """It warns, and does not fail: how long a file is does not say how many nouns it has."""
        for path, lines in long_files().items():
            sys.stderr.write(f"\n{path} has {lines} lines. Does it have one noun?")

    def test_no_test_hides_a_method_of_unittest(self) -> None:
        """Assertions call `fail`: with another one of that name they do not fail."""
        theirs = {*vars(unittest.TestCase)} - HOOKS
        found = [
            f"{path}: {node.name}.{each.name}"
            for path, tree in files("tests").items()
            for node in ast.walk(tree)
            if isinstance(node, ast.ClassDef) and (is_a_test(node.name) or node.name.endswith("Case"))
            for each in node.body
            if isinstance(each, ast.FunctionDef) and each.name in theirs
        ]
        self.assertEqual(found, [])


class TestTheTidyTest(unittest.TestCase):
    """That it can fail."""

    def test_what_is_defined_and_used(self) -> None:
        tree = ast.parse('"""word"""\nA = B = 1\nclass C:\n    d: int = A\n    def e(self): return "f g"\n')
        self.assertEqual({*definitions(tree)}, {"A", "B", "C", "d", "e"})
        self.assertEqual({*uses(tree)}, {"A", "int", "f", "g"})
