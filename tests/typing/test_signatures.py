"""The typed client has every public name of the kazoo that is installed, with the same parameters."""

from __future__ import annotations

import ast
import importlib
import inspect
import typing
import unittest
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient

import parkazoo.types
from parkazoo import ParKazooClient
from parkazoo.compat.calls import KazooCalls

FOLDER = Path(parkazoo.types.__file__).parent
STUBS = ("client", "recipes", "znodes")
OURS_ALONE = [  # options that kazoo has not
    ("give_up_after", "None"),
    ("consistency", "'ensemble'"),
    ("listeners", "()"),
    ("counters", "False"),
]


def classes(module: str) -> Iterator[ast.ClassDef]:
    for found in ast.parse((FOLDER / f"{module}.pyi").read_text()).body:
        if isinstance(found, ast.ClassDef) and not found.name.startswith("_"):
            yield found


def declared(stub: ast.ClassDef) -> dict[str, ast.FunctionDef | None]:
    """The members of a class in a stub; None for what is no method."""
    members: dict[str, ast.FunctionDef | None] = {}
    for part in stub.body:
        if isinstance(part, ast.FunctionDef):
            is_property = any(isinstance(each, ast.Name) and each.id == "property" for each in part.decorator_list)
            members[part.name] = None if is_property else part
        elif isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
            members[part.target.id] = None
    return members


def parameters_of_stub(method: ast.FunctionDef) -> list[tuple[str, str]]:
    """Names and defaults, `...` for a default that is not repeated; without self."""
    arguments = method.args
    names = [each.arg for each in (*arguments.posonlyargs, *arguments.args)]
    defaults = ["" for _ in names[len(arguments.defaults) :]] + [ast.unparse(each) for each in arguments.defaults]
    found = list(zip(names, defaults, strict=True))[1:]
    found += [(f"*{each.arg}", "") for each in (arguments.vararg,) if each]
    return found + [(f"**{each.arg}", "") for each in (arguments.kwarg,) if each]


def parameters_of(function: Any) -> list[tuple[str, str]]:
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    return [
        (stars.get(each.kind, "") + each.name, "" if each.default is each.empty else repr(each.default))
        for each in inspect.signature(function).parameters.values()
        if each.name != "self"
    ]


def differences(stub: list[tuple[str, str]], kazoos: list[tuple[str, str]]) -> list[str]:
    """What a stub's parameters have that kazoo's have not, or have otherwise; `...` stands for any default."""
    if [name for name, _ in stub] != [name for name, _ in kazoos]:
        return [f"{stub} are not {kazoos}"]
    return [
        f"{name}: {ours} is not {theirs}"
        for (name, ours), (_, theirs) in zip(stub, kazoos, strict=True)
        if (not theirs if ours == "..." else theirs != (repr(ast.literal_eval(ours)) if ours else ""))
    ]


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_") and name not in dir(object)}


class TestClient(unittest.TestCase):
    def setUp(self) -> None:
        self.kazoos = KazooClient()
        (self.stub,) = (stub for stub in classes("client") if stub.name == "KazooClient")

    def test_every_name_has_a_type(self) -> None:
        """A name that kazoo gains is found here: give it types in compat/ or types/client.pyi."""
        own = {
            name
            for kind in ParKazooClient.__mro__
            if kind.__module__.startswith("parkazoo")
            for name in vars(kind)
        }
        names = {name for name in dir(self.kazoos) if not name.startswith("_")}
        self.assertEqual(names - own - declared(self.stub).keys(), set())

    def test_calls(self) -> None:
        """Same parameters, in the same order, with the same defaults, given in the same ways."""
        for name in sorted(public(KazooClient)):
            kazoos = inspect.getattr_static(KazooClient, name)
            if not inspect.isfunction(kazoos):
                continue
            ours = inspect.getattr_static(ParKazooClient, name)
            with self.subTest(name=name):
                for one, other in zip(
                    inspect.signature(kazoos).parameters.values(),
                    inspect.signature(ours).parameters.values(),
                    strict=True,
                ):
                    self.assertEqual((one.name, one.kind, one.default), (other.name, other.kind, other.default))
        *kazoos, rest = parameters_of(KazooClient)
        self.assertEqual(parameters_of(ParKazooClient), [*kazoos, *OURS_ALONE, rest])

    def test_hints_while_a_program_runs(self) -> None:
        """Frameworks ask for them, and then each name that an annotation uses must be there."""
        for name in ("__init__", *sorted(public(ParKazooClient))):
            found = inspect.getattr_static(ParKazooClient, name)
            call = found.fget if isinstance(found, property) else found
            if inspect.isfunction(call) and call.__module__.startswith("parkazoo."):
                with self.subTest(name=name):
                    self.assertIn("return", typing.get_type_hints(call))

    def test_members(self) -> None:
        """`members` says that kazoo's clients have what KazooCalls has."""
        self.assertLessEqual(public(KazooCalls), set(dir(self.kazoos)))

    def test_recipes(self) -> None:
        """Each recipe of the client takes what its class takes, and the stubs say so twice."""
        recipes = {name: each for name, each in vars(self.kazoos).items() if isinstance(each, partial)}
        stubs = {stub.name: declared(stub).get("__init__") for stub in classes("recipes")}
        bases = {"ReadLock": "Lock", "WriteLock": "Lock", "Party": "_Members", "ShallowParty": "_Members"}
        self.assertGreaterEqual(len(recipes), 17)
        for name, recipe in recipes.items():
            with self.subTest(name=name):
                bound = declared(self.stub)[name]
                assert bound is not None
                self.assertEqual(differences(parameters_of_stub(bound), parameters_of(recipe)), [])
                made = stubs.get(bases.get(name, name))
                if made is not None:
                    self.assertEqual(differences(parameters_of_stub(made)[1:], parameters_of(recipe)), [])


class TestStubs(unittest.TestCase):
    """Every class of the stubs against kazoo's."""

    def test_classes(self) -> None:
        for module in STUBS:
            runtime = importlib.import_module(f"parkazoo.types.{module}")
            for stub in classes(module):
                kazoos = getattr(runtime, stub.name)
                if not kazoos.__module__.startswith("kazoo"):
                    continue
                members = declared(stub)
                for name, method in members.items():
                    if method is None or not hasattr(kazoos, name) or name in ("__new__", "__init__", "_replace"):
                        continue
                    with self.subTest(kind=stub.name, name=name):
                        self.assertEqual(
                            differences(parameters_of_stub(method), parameters_of(getattr(kazoos, name))), []
                        )

    def test_no_method_is_missing(self) -> None:
        """A method that a recipe gains is found here: give it types in types/recipes.pyi."""
        stubs = {stub.name: set(declared(stub)) for stub in classes("recipes")}
        inherited = stubs["Lock"] | {"join", "leave"}
        for name, members in stubs.items():
            kazoos = getattr(parkazoo.types, name)
            methods = {each for each in public(kazoos) if callable(getattr(kazoos, each))}
            self.assertLessEqual(methods - members - inherited, set(), name)

    def test_stats(self) -> None:
        (stub,) = (stub for stub in classes("znodes") if stub.name == "ZnodeStat")
        members = declared(stub).keys()
        self.assertEqual(
            {name for name in public(parkazoo.types.ZnodeStat) if name not in ("count", "index")} - members, set()
        )
