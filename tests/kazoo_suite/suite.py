"""The module that nose2 loads: kazoo's test modules, with the class under test in KazooClient's place."""

from __future__ import annotations

import ast
import importlib
import os
import pkgutil
import sys
import unittest
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import kazoo.client
import kazoo.tests
import pytest

from tests.kazoo_suite import cluster
from tests.report import cases_in

# Test classes that want servers with other options; they come last, so that the servers start three times only.
OTHER_SERVERS = ("test_connection.TestReadOnlyMode", "test_sasl.")


def skip(reason: str = "") -> NoReturn:
    """For pytest.skip, whose own exception unittest does not know."""
    raise unittest.SkipTest(reason)


def put_in_place() -> None:
    """Everything that kazoo's tests are to find; to be called before one of them is imported."""
    # pytest.skip and kazoo's client are what the tests import by name: they have to be replaced where they are
    pytest.skip = skip  # type: ignore[assignment]
    sys.modules["kazoo.testing.common"] = cluster
    os.environ["ZOOKEEPER_VERSION"] = "3.9"  # the harness wants it; from 3.5 on all is the same to it
    os.environ.pop("CI", None)  # with it, tests trust the environment about the server's version
    if os.environ["PARKAZOO_SUITE"] not in ("plain", "gateway"):
        # both take KazooClient from kazoo.client when they are imported, so that must come first
        from parkazoo import ParKazooClient, admin  # noqa: F401, PLC0415

        kazoo.client.KazooClient = ParKazooClient
    from kazoo.testing import harness  # noqa: PLC0415 - imports what has just been replaced

    harness.uuid = cluster.Chroots


def modules() -> list[ModuleType]:
    names = sorted(each.name for each in pkgutil.iter_modules(kazoo.tests.__path__))
    return [importlib.import_module(f"kazoo.tests.{name}") for name in names if name.startswith("test_")]


def written(module: ModuleType) -> set[str]:
    """Names of the tests in a module's source, as ``Class.test_name`` or ``test_name``."""
    assert module.__file__ is not None
    names = set()
    for top in ast.parse(Path(module.__file__).read_text()).body:
        if isinstance(top, ast.FunctionDef) and top.name.startswith("test"):
            names.add(top.name)
        elif isinstance(top, ast.ClassDef):
            inner = (each for each in top.body if isinstance(each, ast.FunctionDef))
            names |= {f"{top.name}.{each.name}" for each in inner if each.name.startswith("test")}
    return names


def load_tests(loader: Any, standard: Any, pattern: str) -> unittest.TestSuite:
    put_in_place()
    early: list[unittest.TestCase] = []
    late: list[unittest.TestCase] = []
    lost: set[str] = set()
    for module in modules():
        tests = list(cases_in(loader.loadTestsFromModule(module)))
        loaded = {test.id().removeprefix(module.__name__ + ".") for test in tests}
        lost |= {f"{module.__name__}.{name}" for name in written(module) - loaded}
        for test in tests:
            is_late = test.id().removeprefix("kazoo.tests.").startswith(OTHER_SERVERS)
            (late if is_late else early).append(test)
        if getattr(module, "KazooClient", kazoo.client.KazooClient) is not kazoo.client.KazooClient:
            raise RuntimeError(f"{module.__name__} was imported before the class under test was in place")
    if lost:
        raise RuntimeError(f"nose2 does not load these tests of kazoo: {', '.join(sorted(lost))}")
    return unittest.TestSuite([*early, *late])
