"""Who imports whom in bench/: pages, scenarios, then load, hosts and report, which do not know each other."""

from __future__ import annotations

import unittest
from collections.abc import Iterator
from pathlib import Path

import bench
from tests.repository.test_layering import imports, is_in
from tests.repository.test_layering import modules as modules_of_parkazoo

BASE = (
    "bench.bare_requests",
    "bench.chaos",
    "bench.command_line",
    "bench.disk_wait",
    "bench.documents",
    "bench.etcd_server",
    "bench.lab",
    "bench.machine",
    "bench.moves_told",
    "bench.published",
    "bench.replica",
    "bench.sampler",
    "bench.sampling",
    "bench.statistics",
)
# What each layer may import of bench, beside itself and `bench.ROOT`.
LAYERS = {
    "bench.bare_requests": (),
    "bench.chaos": ("bench.lab",),
    "bench.command_line": (),
    "bench.disk_wait": ("bench.lab",),
    "bench.documents": (),
    "bench.etcd_server": (),
    "bench.lab": (),
    "bench.machine": (),
    "bench.moves_told": (),
    "bench.published": (),
    "bench.replica": (),
    "bench.sampler": ("bench.machine",),
    "bench.sampling": ("bench.sampler",),
    "bench.statistics": (),
    "bench.client": BASE,
    "bench.gateway": (*BASE, "bench.client"),
    "bench.scale": BASE,
    "bench.dictionary": BASE,
    "bench.growth": BASE,
    "bench.recipe_requests": BASE,
    "bench.load": BASE,
    "bench.zipf": (*BASE, "bench.load"),
    "bench.hosts": BASE,
    "bench.report": BASE,
    "bench.loopback": BASE,
    "bench.scenarios": (*BASE, "bench.load", "bench.hosts", "bench.report", "bench.loopback"),
    "bench.pages": (
        *BASE,
        "bench.client",
        "bench.dictionary",
        "bench.gateway",
        "bench.recipe_requests",
        "bench.report",
        "bench.scale",
        "bench.scenarios",
    ),
}
# A program (``__main__``) imports what its layer may, and this. No module imports a program.
PROGRAMS = {
    # `python -m bench.report FOLDER` is for readers of saved results. Only the scenarios know what these mean.
    "bench.report.__main__": ("bench.scenarios",),
}


def modules() -> Iterator[tuple[str, Path]]:
    for path in sorted(bench.ROOT.glob("bench/**/*.py")):
        parts = path.relative_to(bench.ROOT).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def layer_of(module: str) -> str:
    return next((layer for layer in LAYERS if is_in(module, (layer,))), "")


class TestBenchLayering(unittest.TestCase):
    def test_import_direction(self) -> None:
        wrong = []
        for module, path in modules():
            layer = layer_of(module)
            allowed = (*LAYERS.get(layer, ()), layer, *PROGRAMS.get(module, ()))
            for line, name in imports(path):
                if is_in(name, ("bench",)) and name != "bench" and not is_in(name, allowed):
                    wrong.append(f"{path}:{line}: {module} imports {name}")
        remedy = (
            "pages -> scenarios -> load | hosts | report -> what all share. Hand what is needed from above down "
            "as an argument, or move it to where all that need it may import it. Give a new layer its place in "
            "LAYERS."
        )
        self.assertFalse(wrong, "\n".join(["", *wrong, remedy]))

    def test_every_module_has_its_layer(self) -> None:
        found = {layer_of(module) for module, _ in modules() if module != "bench"}
        self.assertEqual(
            found, {*LAYERS}, "give each module of bench/ its place in LAYERS, and LAYERS nothing else"
        )

    def test_no_module_imports_a_program(self) -> None:
        wrong = [
            f"{path}:{line}: {module} imports {name}"
            for module, path in modules()
            for line, name in imports(path)
            if "__main__" in name.split(".")
        ]
        self.assertFalse(wrong, "\n".join(["", *wrong, "Move what both need out of the program."]))

    def test_nothing_below_imports_what_measures_or_tests_it(self) -> None:
        both = [
            *((each, ("bench", "tests")) for each in modules_of_parkazoo()),
            *((each, ("tests",)) for each in modules()),
        ]
        wrong = [
            f"{path}:{line}: {module} imports {name}"
            for (module, path), above in both
            for line, name in imports(path)
            if is_in(name, above)
        ]
        self.assertFalse(wrong, "\n".join(["", *wrong, "Move what both need down, into parkazoo/ or bench/."]))
