"""The Markdown pages: each link leads somewhere, and the sentences have nouns, as docstrings and comments do."""

from __future__ import annotations

import ast
import re
import sys
import tokenize
import unittest
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from bench import ROOT
from tests.__main__ import PARTS

PARTS_NAMED = re.compile(
    r"(?:python -m tests(?:\.docker)?|run --rm test)((?: (?!-)[a-z\d-]+(?= |$))+)", re.MULTILINE
)
MODULES_RUN = re.compile(r"python -m ((?:parkazoo|bench|tests)(?:\.\w+)*)")
FILES_NAMED = re.compile(r"`((?:parkazoo|bench|tests|conf|docker)/[\w./-]*\w)`")
EXAMPLE = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s#]*)(?:#([^)\s]+))?\)")
HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)
FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
# "What is", "that of" and "those that" stand for a noun, and make the reader look for it.
RELATIVE = re.compile(r"\b(?:what (?:is|was|are|were|has)|that of|those (?:that|of|who)|whoever)\b", re.IGNORECASE)
WORD = re.compile(r"[A-Za-z][\w'-]*")  # figures and the lines of tables are no words
WITH_NOUNS = ("*.md", "recipes/*.md", "docs/**/*.md")
MOST_RELATIVES = 2 / 1000  # of the words
# The comment before a table names the program that makes it.
GENERATED = re.compile(
    r"^<!-- [^\n]*table[^\n]*-->\n.*?^<!-- end of (?:the )?table -->$", re.DOTALL | re.MULTILINE
)
BEGINNING = re.compile(r"# [^\n]+\n\n[A-Z][a-z]+,? [\w\[]")  # a title, then a sentence, no list or table
MOST_WORDS = 32_830  # in docs/; 890 came with moves, 1,130 with asyncio and newer calls, 525 with the gateway
LARGEST_NAMED = 8


def pages(*patterns: str) -> Iterator[Path]:
    for pattern in patterns:
        yield from sorted(ROOT.glob(pattern))


def all_pages() -> list[Path]:
    return list(pages("*.md", "docs/**/*.md", "recipes/*.md", "tests/**/*.md"))


@cache
def anchors(page: Path) -> frozenset[str]:
    """The names that a renderer gives a page's headings."""
    headings = HEADING.findall(FENCE.sub("", page.read_text()))
    return frozenset(re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings)


def source_of(module: str) -> str:
    """Of an installed module, which is not imported; empty if there is none."""
    spec = find_spec(module)
    return Path(spec.origin).read_text() if spec and spec.origin else ""


def count_words(text: str) -> int:
    """Counts all between spaces that has a letter or a digit, and is in no generated table."""
    return sum(any(map(str.isalnum, each)) for each in GENERATED.sub("", text).split())


def words_of_code(path: Path) -> str:
    """The docstrings and comments of a source file."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    parts = (part for part in ast.walk(ast.parse(path.read_bytes())) if isinstance(part, documented))
    found = [ast.get_docstring(part, clean=False) or "" for part in parts]
    with path.open("rb") as file:
        found += [token.string for token in tokenize.tokenize(file.readline) if token.type == tokenize.COMMENT]
    return "\n".join(found)


def broken_links(page: Path) -> Iterator[str]:
    for path, anchor in LINK.findall(FENCE.sub("", page.read_text())):
        if path.startswith(("https:", "http:")):
            continue
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            yield f"{page.relative_to(ROOT)}: {path}{'#' if anchor else ''}{anchor}"


class TestPages(unittest.TestCase):
    THESIS = ROOT / "docs" / "design" / "thesis.md"

    def test_links(self) -> None:
        found = all_pages()
        self.assertGreater(len(found), 20)
        self.assertEqual([link for page in found for link in broken_links(page)], [])

    def test_a_broken_link_is_found(self) -> None:
        self.assertIn("report-a-weakness", anchors(ROOT / "SECURITY.md"))
        self.assertEqual(LINK.findall("[a](b.md#c) [d](e) [f](#g)"), [("b.md", "c"), ("e", ""), ("", "g")])

    def test_examples(self) -> None:
        """Each is Python, and imports names of parkazoo that there are."""
        imported = set()
        for page in all_pages():
            for example in EXAMPLE.findall(page.read_text()):
                for each in ast.walk(ast.parse(example, str(page))):
                    if isinstance(each, ast.ImportFrom) and (each.module or "").startswith("parkazoo"):
                        imported |= {(each.module, alias.name) for alias in each.names}
        self.assertIn(("parkazoo", "ParKazooClient"), imported)
        if sys.version_info < (3, 11):
            imported = {(module, name) for module, name in imported if module != "parkazoo.aio"}
        missing = [(module, name) for module, name in imported if not hasattr(import_module(module), name)]
        self.assertEqual(missing, [])

    def test_commands_name_what_there_is(self) -> None:
        found, missing = set(), []
        for page in all_pages():
            text = page.read_text()
            parts = {part for named in PARTS_NAMED.findall(text) for part in named.split()}
            modules = {name: ROOT / name.replace(".", "/") for name in MODULES_RUN.findall(text)}
            files = {name for name in FILES_NAMED.findall(text) if not (ROOT / name).exists()}
            is_missing = [
                *(parts - PARTS.keys()),
                *(
                    name
                    for name, path in modules.items()
                    if not (path.is_dir() or path.with_suffix(".py").exists())
                ),
                *files,
            ]
            missing += [f"{page.relative_to(ROOT)}: {each}" for each in is_missing]
            found |= parts | modules.keys()
        self.assertLess({"pure", "live", "bench.client", "tests.docker", "tests"}, found)
        self.assertEqual(missing, [])

    def test_relatives(self) -> None:
        self.check_relatives({page: FENCE.sub("", page.read_text()) for page in pages(*WITH_NOUNS)})

    def test_relatives_in_docstrings_and_comments(self) -> None:
        self.check_relatives(
            {path: words_of_code(path) for path in pages("parkazoo/**/*.py", "parkazoo/**/*.pyi")}
        )

    def check_relatives(self, texts: Mapping[Path, str]) -> None:
        found = [
            f"{path.relative_to(ROOT)}: {each}" for path, text in texts.items() for each in RELATIVE.findall(text)
        ]
        words = sum(len(WORD.findall(text)) for text in texts.values())
        self.assertGreater(words, 10_000)
        self.assertLessEqual(len(found), MOST_RELATIVES * words, found)

    def test_words_of_code(self) -> None:
        found = words_of_code(ROOT / "tests" / "repository" / "test_pages.py")
        self.assertIn("The docstrings and comments of a source file.", found)
        self.assertIn("# figures and the lines of tables are no words", found)
        self.assertNotIn("assertNotIn", found)

    def test_words(self) -> None:
        counts = {str(page.relative_to(ROOT)): count_words(page.read_text()) for page in pages("docs/**/*.md")}
        largest = sorted(counts.items(), key=lambda item: -item[1])[:LARGEST_NAMED]
        self.assertLessEqual(
            sum(counts.values()),
            MOST_WORDS,
            "docs/ has too many words: say each thing once, and link to it. The largest pages: "
            + ", ".join(f"{name} {count:,}" for name, count in largest),
        )

    def test_first_lines(self) -> None:
        """The first says what the reader can do after the page."""
        found = [page for page in pages("docs/**/*.md") if not BEGINNING.match(page.read_text())]
        self.assertEqual(found, [])

    def test_generated_tables_are_not_counted(self) -> None:
        table = "<!-- table: ratios a.json -->\n| of | four words |\n<!-- end of table -->\n"
        self.assertEqual(count_words(f"Two words - **:**\n\n{table}\n| `1` | of three |\n"), 5)
        outages = ROOT / "docs" / "design" / "outages.md"
        self.assertLess(count_words(outages.read_text()), len(outages.read_text().split()) / 2)

    def test_pages_name_tests_that_there_are(self) -> None:
        design = ROOT / "docs" / "design"
        named = []
        for page in ("bugs.md", "thesis.md"):
            found = re.findall(r"`tests\.([\w.]+)`", (design / page).read_text())
            self.assertTrue(found)
            named += found
        texts = {path: path.read_text() for path in (ROOT / "tests").rglob("*.py")}
        methods = {
            name
            for text in texts.values()
            for name in re.findall(r"^    (?:async )?def (test_\w+)", text, re.MULTILINE)
        }
        missing = []
        for each in named:
            module, name, method = re.fullmatch(r"([a-z_.]+)(?:\.([A-Z]\w*))?(?:\.(test_\w+))?", each).groups()
            text = texts.get(ROOT / "tests" / f"{module.replace('.', '/')}.py", "")
            if not text or (name and f"\nclass {name}" not in text) or (method and method not in methods):
                missing.append(each)
        self.assertEqual(missing, [], "no such tests: change the page with them")

    def test_the_thesis_names_tests_that_there_are(self) -> None:
        """Of chapter 5, in each row a class and tests of its file."""
        rows = re.findall(
            r"^\| 5\.\S+ \|.*\| `([\w.]+)\.(\w+)` \| (.*) \|$", self.THESIS.read_text(), re.MULTILINE
        )
        self.assertGreater(len(rows), 20)
        missing = []
        for module, name, tests in rows:
            source = source_of(module)
            named = [f"class {name}(", *(f"def {each}(" for each in re.findall(r"`(\w+)`", tests))]
            missing += [f"{module}: {each}" for each in named if each not in source]
        self.assertEqual(missing, [], "no such tests: change docs/design/thesis.md with them")
