"""The site from docs/: Sphinx finds nothing to say, and each link in a page leads to a file."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import unittest
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

from bench import ROOT


class Links(HTMLParser):
    def __init__(self, page: Path) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(page.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value for name, value in attrs if name in ("href", "src") and value]


def broken(site: Path) -> Iterator[str]:
    for page in site.rglob("*.html"):
        for link in dict.fromkeys(each.partition("#")[0].partition("?")[0] for each in Links(page).found):
            if ":" not in link and not (page.parent / unquote(link)).exists():
                yield f"{page.relative_to(site)}: {link}"


class SiteTest(unittest.TestCase):
    def test_site(self) -> None:
        with tempfile.TemporaryDirectory(prefix="parkazoo-site-") as folder:
            sphinx = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-c", "docs", ".", folder]
            ran = subprocess.run(sphinx, cwd=ROOT, capture_output=True, text=True, check=False)
            self.assertEqual((ran.returncode, ran.stderr), (0, ""))
            site = Path(folder)
            self.assertEqual([*broken(site)], [])
            self.assertIn("ParKazooClient.state_of", (site / "docs" / "reference" / "api.html").read_text())
            self.assertIn("parkazoo map grow", (site / "docs" / "reference" / "commands.html").read_text())
            self.assertTrue((site / "searchindex.js").exists())

    def test_a_broken_link_is_found(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder, "page.html")
            page.write_text('<a href="page.html#a"></a><img src="gone.svg"><a href="https://example.org"></a>')
            self.assertEqual([*broken(Path(folder))], ["page.html: gone.svg"])
