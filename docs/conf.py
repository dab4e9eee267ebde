"""The site: Sphinx reads the repository's own pages, and adds the shelves, the public names and the commands.

`make site` calls it. The pages stay plain Markdown: what only a site can have is added here while it is read.
"""

from __future__ import annotations

import importlib
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from typer.main import get_command

import parkazoo
from parkazoo import types
from parkazoo.cli.app import make_app
from tests.typing.test_user import INTERNAL

project = "ParKazoo"
author = "the ParKazoo developers"
version = release = parkazoo.__version__
html_title = f"ParKazoo {version}"
html_theme = "furo"
html_copy_source = False
html_show_copyright = False
html_static_path = ["site.css"]
smartquotes = False  # it would make a dash of the two before an option
toc_object_entries_show_parents = "hide"
html_css_files = ["site.css"]
extensions = ["myst_parser", "sphinx.ext.autodoc"]
myst_heading_anchors = 6
root_doc = "README"
include_patterns = ["*.md", "docs/*.md", "docs/**/*.md", "recipes/*.md", "tests/*.md", "tests/**/*.md"]
exclude_patterns = [".venv", "build", "dist", "docs/evaluation"]
suppress_warnings = ["myst.header", "misc.highlighting_failure"]  # a page may begin its sections as it likes
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True

ROOT = Path(__file__).parents[1]
INDEX = "docs/README"
SHELVES = ("guide", "operations", "reference", "design")  # the rows of its table
START = (INDEX, "recipes/README")
PROJECT = (
    "ARCHITECTURE", "CONTRIBUTING", "CODE_OF_CONDUCT", "ROADMAP", "SECURITY", "CHANGELOG", "tests/README",
    "tests/explore/README", "docs/runs/README",
)  # fmt: skip
WITH_NAMES, WITH_COMMANDS = "docs/reference/api", "docs/reference/commands"
FOLDERS = ("docs/evaluation", "docs/runs")  # files beside the pages
ADDED = ".txt"  # to the name of a source file, so that a browser shows it
NAMES = {  # of each module its public names, or none for all that it defines
    "parkazoo": ("ParKazooClient",),
    "parkazoo.aio": (),
    "parkazoo.errors": (),
    "parkazoo.monitoring": (),
    "parkazoo.structures.deferred": ("Deferred", "Ticket"),
    "parkazoo.structures.distributed_dict": ("DistributedDict",),
    "parkazoo.structures.policies": (),
    "parkazoo.recipe.buckets": ("Spread",),
    "parkazoo.prometheus": (),
    "parkazoo.otel": (),
    "parkazoo.local": (),
    "parkazoo.admin": (),
    "parkazoo.fsck": (),
}


def add_to_page(app: Sphinx, name: str, text: list[str]) -> None:
    """Adds to a page that is being read what only the site has."""
    if name == root_doc:
        text[0] += "\n".join(_shelves())
    elif name == WITH_NAMES:
        text[0] += "\n".join(_names())
    elif name == WITH_COMMANDS:
        text[0] += "\n".join(_commands(get_command(make_app()), "parkazoo"))


def _shelves() -> Iterator[str]:
    index = (ROOT / f"{INDEX}.md").read_text()
    on_shelf = {shelf: dict.fromkeys(re.findall(rf"\(({shelf}/[\w-]+)\.md", index)) for shelf in SHELVES}
    shelves = {"start": START} | {shelf: [f"docs/{page}" for page in found] for shelf, found in on_shelf.items()}
    for shelf, found in (shelves | {"project": PROJECT}).items():
        yield from ("", "```{toctree}", ":hidden:", f":caption: {shelf.capitalize()}", "", *found, "```", "")


def _names() -> Iterator[str]:
    for module, names in NAMES.items():
        yield from (f"\n## {module}\n", "```{eval-rst}", f".. currentmodule:: {module}", "")
        found = importlib.import_module(module)
        for name in names or getattr(found, "__all__", None) or _defined(found):
            each = getattr(found, name)
            kind = "class" if isinstance(each, type) else "function" if callable(each) else "data"
            if kind == "class" and issubclass(each, BaseException):
                kind = "exception"
            yield f".. auto{kind}:: {name}"
            if kind in ("class", "exception"):
                hidden = ", ".join(sorted(INTERNAL.get(each, ())))
                yield from ("   :members:", "   :inherited-members: KazooClient, BaseException, tuple, object")
                yield f"   :exclude-members: {hidden}" if hidden else ""
            yield ""
        yield "```"
    yield f"\n## parkazoo.types\n\nFor annotations: {', '.join(f'`{name}`' for name in sorted(types.__all__))}."


def _defined(module: ModuleType) -> Iterator[str]:
    for name, each in vars(module).items():
        if not name.startswith("_") and callable(each) and each.__module__ == module.__name__:
            yield name


def _commands(command: Any, words: str) -> Iterator[str]:
    """:param command: as typer has it. :param words: by which a shell calls it."""
    inner = getattr(command, "commands", {})
    arguments = [each.name.upper() for each in command.params if each.param_type_name == "argument"]
    options = [each for each in command.params if each.param_type_name == "option"]
    if not inner:
        yield f"\n## {words}\n\n{command.help}\n\n    {' '.join([words, '[OPTIONS]', *arguments])}\n"
        yield from ("| option | |", "|---|---|")
        for each in options:
            yield f"| {', '.join(f'`{name}`' for name in each.opts)} | {_cell(each.help or '')} |"
    for name, each in inner.items():
        yield from _commands(each, f"{words} {name}")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "\\<").replace("*", "\\*")


class FilesBesidePages(SphinxTransform):
    """Links to files of the repository: the site has them too, under the same path. Folders without a page go."""

    default_priority = 5

    def apply(self, **kwargs: object) -> None:
        page = Path(self.env.docname)
        for link in [
            *self.document.findall(addnodes.download_reference),
            *self.document.findall(addnodes.pending_xref),
        ]:
            name = os.path.normpath(page.parent / link["reftarget"].partition("#")[0])
            if (ROOT / name).is_file() and not name.endswith(".md"):
                self._replace(link, os.path.relpath(_copied(name), page.parent))
            elif (ROOT / name / "README.md").exists():
                self._replace(link, os.path.relpath(f"{name}/README.html", page.parent))
            elif (ROOT / name).is_dir() and link.get("reftype") == "myst":
                link.parent.replace(link, nodes.inline("", "", *_text(link)))

    @staticmethod
    def _replace(link: nodes.Element, url: str) -> None:
        link.parent.replace(link, nodes.reference("", "", *_text(link), refuri=url, internal=True))


def _text(link: nodes.Element) -> list[nodes.Node]:
    return [each.deepcopy() for each in link.children]


def _copied(name: str) -> str:
    """Returns the path in the site."""
    return name if name.startswith(FOLDERS) else name + ADDED


def _link_of_report(found: re.Match[str]) -> str:
    """To a page of the site, to a file, or no link to a folder."""
    link, anchor, text = found.groups()
    if (ROOT / "docs" / "evaluation" / link).is_dir():
        return text
    for end, in_site in ((".md", ".html"), (".py", f".py{ADDED}")):
        if link.endswith(end):
            link = link.removesuffix(end) + in_site
    return f'<a href="{link}{anchor}">{text}</a>'


def copy_files(app: Sphinx, error: Exception | None) -> None:
    if error:
        return
    for folder in FOLDERS:
        shutil.copytree(
            ROOT / folder, app.outdir / folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.md")
        )
    report = app.outdir / "docs" / "evaluation" / "index.html"
    report.write_text(re.sub(r'<a href="([^":#]+)((?:#[^"]*)?)">(.*?)</a>', _link_of_report, report.read_text()))
    shutil.copy(app.outdir / f"{root_doc}.html", app.outdir / "index.html")
    for page in app.outdir.rglob("*.html"):
        for link in re.findall(rf'href="([^":#]+)\{ADDED}"', page.read_text()):
            source = (page.parent / link).resolve().relative_to(app.outdir.resolve())
            (app.outdir / source).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / source, app.outdir / f"{source}{ADDED}")


def setup(app: Sphinx) -> None:
    app.connect("source-read", add_to_page)
    app.add_transform(FilesBesidePages)
    app.connect("build-finished", copy_files)
