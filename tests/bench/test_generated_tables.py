"""The tables in docs/ are those that the raw results make."""

from __future__ import annotations

import io
import shutil
import tempfile
import unittest
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from bench import ROOT
from bench.pages.__main__ import main
from bench.pages.marked import PageError, make, pages, renewed, stale_tables
from bench.report.markdown import as_markdown
from bench.report.section import Table

DOCS = ROOT / "docs"
MARKER = "scale-fates scale-2026-11-22.json held=3 columns=0,2"
PAGE = f"""Before.

<!-- table: {MARKER} -->
<!-- end of table -->

After.
"""
MADE = f"""Before.

<!-- table: {MARKER} -->

| holds on | LOST |
|---:|---:|
| 3 | 3 |

From [scale-2026-11-22.json](../runs/scale-2026-11-22.json).

<!-- end of table -->

After.
"""


class TestPages(unittest.TestCase):
    def test_no_table_is_stale(self) -> None:
        found = pages(DOCS)
        self.assertTrue(found)
        stale = [f"{page.relative_to(ROOT)}: {marker}" for page in found for marker in stale_tables(page)]
        self.assertFalse(stale, "\n".join(["", *stale, "python -m bench.pages makes them anew"]))


class TestMarked(unittest.TestCase):
    def setUp(self) -> None:
        (ROOT / "build").mkdir(exist_ok=True)
        self.folder = Path(tempfile.mkdtemp(dir=ROOT / "build"))  # its links lead to docs/runs from there
        self.addCleanup(shutil.rmtree, self.folder)
        self.page = self.folder / "page.md"

    def write(self, text: str) -> None:
        self.page.write_text(text)

    def test_a_table_is_made(self) -> None:
        self.write(PAGE)
        self.assertEqual(stale_tables(self.page), [MARKER])
        self.assertEqual(renewed(self.page), MADE.replace("../runs", "../../docs/runs"))
        self.write(renewed(self.page))
        self.assertEqual(stale_tables(self.page), [])

    def test_a_figure_that_was_changed_by_hand(self) -> None:
        self.write(MADE.replace("../runs", "../../docs/runs").replace("| 3 | 3 |", "| 3 | 4 |"))
        self.assertEqual(stale_tables(self.page), [MARKER])

    def test_what_cannot_be_made(self) -> None:
        for marker in (
            "unheard-of scale-2026-11-22.json",
            "scale-fates scale-1999-*.json",
            "scale-fates scale-2026-11-22.json columns=99",
            "scale-fates scale-2026-11-22.json unheard-of=3",
            "ratios client-2026-11-23.json loads=unheard-of",
            "recipe-calls scale-2026-11-22.json",
            "scenario evaluation-2026-11-24/elections.json title=unheard-of",
            "scenario evaluation-2026-11-24/elections.json evaluation-2026-11-27/failures-five.json title=",
        ):
            with self.subTest(marker), self.assertRaisesRegex(PageError, "cannot be made"):
                make(self.page, marker)

    def test_rows_of_several_parts(self) -> None:
        of = "evaluation-2026-11-27/failures-five.json", "evaluation-2026-11-27/failures-pool.json"
        both, *each = (
            [line for line in make(self.page, f"scenario {names} title=What").splitlines() if "killed" in line]
            for names in (" ".join(of), *of)
        )
        self.assertEqual(both, [*each[0], *each[1]])
        self.assertTrue(all(each))

    def test_command(self) -> None:
        self.write(PAGE)
        said = io.StringIO()
        with redirect_stdout(said):
            self.assertEqual(main(["--check", str(self.page)]), 1)
            self.assertEqual(main([str(self.page)]), 0)
            self.assertEqual(main(["--check", str(self.page)]), 0)
        self.assertIn(f"{self.page}: the table '{MARKER}' is stale\n", said.getvalue())
        self.write(PAGE.replace("held=3", "unheard-of=3"))
        with redirect_stderr(said):
            self.assertEqual(main(["--check", str(self.page)]), 2)
        self.assertIn("cannot be made", said.getvalue())

    def test_a_table_without_an_end(self) -> None:
        self.write(PAGE.replace("<!-- end of table -->", "") + PAGE)
        with self.assertRaisesRegex(PageError, "no end"):
            stale_tables(self.page)

    def test_pages(self) -> None:
        (self.folder / "other.md").write_text("No table.\n")
        self.write(PAGE)
        self.assertEqual(pages(self.folder), [self.page])


class TestMarkdown(unittest.TestCase):
    def test_cells(self) -> None:
        table = Table("", ("load", "rate"), [["a|b", "245 *\n234 to 247"], ["2 * 3", "-"]])
        self.assertEqual(
            as_markdown(table).splitlines(),
            ["| load | rate |", "|---|---:|", "| a\\|b | 245 \\* (234\N{EN DASH}247) |", "| 2 * 3 | - |"],
        )
