"""The page of `parkazoo top --web` in a real browser."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from parkazoo.admin.rates import DirectoryRates, Rates
from parkazoo.admin.recorded_rates import Recorder
from parkazoo.cli.top_web import WebPage
from tests.admin.test_rates import FIRST, REGISTERED, SECOND, rates
from tests.entered import entered
from tests.live.chromium import CHROMIUM, NO_CHROMIUM, Chromium
from tests.live.world import wait_until

HOSTILE = "/<script>window.ran=1</script><img src=https://evil.example/x onerror=window.ran=2>"
INVISIBLE, SHOWN = "/a\u202eb\x1b", "/a\\u{202e}b\\u{1b}"
LOOKS = 3
ENSEMBLES, DIRECTORIES = "#heat-ensembles", "#heat-directories"
CELLS = f"[...document.querySelectorAll('{ENSEMBLES} [role=gridcell]')]"


def looks() -> list[Rates]:
    """An ensemble whose writes are not known once, and a directory that is not named once."""
    whole = rates(FIRST, SECOND, registered=REGISTERED)
    (ensemble,) = whole.ensembles
    found = []
    for number, writes in enumerate((100.0, None, 25.0)):
        rows = [DirectoryRates(HOSTILE, "a", 20.0 + number, 0.8)]
        if number:
            rows.append(DirectoryRates(INVISIBLE, "a", 5.0, 0.2))
        found.append(
            whole._replace(
                time_s=whole.time_s + 2 * number,
                ensembles=[ensemble._replace(writes=writes)],
                directories=rows,
                directories_s=15.0,
                unseen=[HOSTILE],
            )
        )
    return found


@unittest.skipUnless(CHROMIUM, NO_CHROMIUM)
class TestTopBrowser(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        file = Path(folder.name, "rates")
        self.looks = looks()
        with Recorder(file) as recorder:
            for each in self.looks:
                recorder.add(each)
        command = [sys.executable, "-m", "parkazoo", "top", "--replay", str(file), "--web", "0", "--interval=0.5"]
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        process = entered(self, subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment))
        self.addCleanup(process.kill)
        assert process.stdout is not None
        self.url = process.stdout.readline().split()[0]
        self.browser = entered(self, Chromium())
        self.browser.call("Emulation.setFocusEmulationEnabled", enabled=True)
        self.browser.resize(1400, 900)
        self.browser.call("Page.navigate", url=self.url)
        wait_until(lambda: len(self.labels(ENSEMBLES)) == LOOKS, "the last look")

    def labels(self, within: str) -> list[str]:
        """What its cells say."""
        cells = f"[...document.querySelectorAll('{within} [role=gridcell]')]"
        found: list[str] = self.browser.value(f"{cells}.map(each => each.ariaLabel)")
        return found

    def texts(self, within: str) -> list[str]:
        found: list[str] = self.browser.value(
            f"[...document.querySelectorAll('{within}')].map(each => each.textContent)"
        )
        return found

    def reading(self) -> str:
        return self.texts("#reading")[0]

    def test_the_page(self) -> None:
        """Its cells, by pointer and keys, at two widths, light and dark; and nothing but itself runs in it."""
        self.check_cells()
        self.check_tables()
        self.check_reading()
        self.check_looks()
        self.check_nothing_else()
        self.check_late_rates()

    def check_cells(self) -> None:
        clocks = [time.strftime("%H:%M:%S", time.localtime(each.time_s)) for each in self.looks]
        said = ("100.0 writes/s", "not known", "25.0 writes/s")
        self.assertEqual(
            self.labels(ENSEMBLES), [f"a, {at}: {each}" for at, each in zip(clocks, said, strict=True)]
        )
        directories = {
            HOSTILE: ("20.0 writes/s", "21.0 writes/s", "22.0 writes/s"),
            SHOWN: ("not among the hottest", "5.0 writes/s", "5.0 writes/s"),
        }
        self.assertEqual(
            self.labels(DIRECTORIES),
            [
                f"{name} on a, {at}: {each}"
                for name, row in directories.items()
                for at, each in zip(clocks, row, strict=True)
            ],
        )
        strengths = self.browser.value(f"{CELLS}.map(each => each.style.getPropertyValue('--heat'))")
        self.assertEqual(strengths, ["1.000", "0.000", "0.500"])
        self.check_strengths()

    def check_strengths(self) -> None:
        """Each can be seen."""
        colours = self.browser.value(f"{CELLS}.map(each => getComputedStyle(each).backgroundColor)")
        self.assertEqual(len({*colours}), 3)

    def check_tables(self) -> None:
        self.assertEqual(
            self.texts("#directories td"), [HOSTILE, "a", "22.0", " 80 %", SHOWN, "a", "5.0", " 20 %"]
        )
        self.assertEqual(self.texts("#ensembles tbody td")[:5], ["a", "3/3", "237", "140", "25"])
        self.assertEqual(len(self.texts("#clients tbody tr")), 2)
        self.assertEqual(self.texts("#remarks li")[1], HOSTILE)

    def check_reading(self) -> None:
        labels = self.labels(ENSEMBLES)
        self.browser.press("Tab")
        self.assertEqual(self.reading(), labels[2])
        self.browser.press("Home")
        self.assertEqual(self.reading(), labels[0])
        self.browser.press("ArrowRight")
        self.assertEqual(self.reading(), labels[1])
        box = self.browser.value(
            f"document.querySelectorAll('{DIRECTORIES} [role=gridcell]')[1].getBoundingClientRect().toJSON()"
        )
        self.browser.call(
            "Input.dispatchMouseEvent",
            type="mouseMoved",
            x=box["x"] + box["width"] / 2,
            y=box["y"] + box["height"] / 2,
        )
        wait_until(lambda: self.reading() == self.labels(DIRECTORIES)[1], "what the pointer is at")

    def check_looks(self) -> None:
        """Nothing is wider than the window, and each row has all looks."""
        grounds = set()
        for scheme in ("light", "dark"):
            self.browser.call(
                "Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}]
            )
            for width in (390, 1400):
                self.browser.resize(width, 900)
                wait_until(lambda at=width: self.browser.value("innerWidth") == at, "the width")
                self.assertLessEqual(self.browser.value("document.documentElement.scrollWidth"), width)
                self.assertEqual(len(self.labels(DIRECTORIES)), 2 * LOOKS)
            grounds.add(self.browser.value("getComputedStyle(document.body).backgroundColor"))
        self.assertEqual(len(grounds), 2)
        self.browser.call("Emulation.setEmulatedMedia", features=[{"name": "forced-colors", "value": "active"}])
        self.check_strengths()
        self.browser.call("Emulation.setEmulatedMedia", features=[])

    def check_late_rates(self) -> None:
        """They stay, and it says since when no others have come, until some come."""
        with WebPage("0", "every 0.1 s", 0.1) as page:
            page(self.looks[0])
            self.browser.call("Page.navigate", url=page.url)
            at = time.strftime("%H:%M:%S", time.localtime(self.looks[0].time_s))
            wait_until(lambda: self.texts("#state") == [f"no rates since {at}"], "that they are late")
            self.assertEqual(len(self.labels(ENSEMBLES)), 1)
            page(self.looks[1])
            wait_until(lambda: len(self.labels(ENSEMBLES)) == 2, "the others")
            self.assertNotIn(at, self.texts("#state")[0])

    def check_nothing_else(self) -> None:
        self.assertEqual(self.browser.value("[typeof window.ran, document.scripts.length]"), ["undefined", 1])
        self.assertEqual(self.browser.value("document.querySelectorAll('img, iframe, body script').length"), 0)
        events = self.browser.events
        wrong = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
        self.assertEqual([each for each in events if each[0] in wrong], [])
        asked = {about["request"]["url"] for name, about in events if name == "Network.requestWillBeSent"}
        self.assertEqual(asked, {self.url, *[f"{self.url}{each}" for each in ("top.css", "top.js", "events")]})


if __name__ == "__main__":
    unittest.main()
