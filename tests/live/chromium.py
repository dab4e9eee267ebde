"""Debian's Chromium without a window, driven over its debugging pipe, with its profile in a temporary folder."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from types import TracebackType
from typing import Any

from tests.live.world import wait_until

CHROMIUM = shutil.which("chromium")
NO_CHROMIUM = "there is no Chromium: apt-get install chromium"
ANSWER_S = 180.0  # on a machine with much else to do
FREE_DESCRIPTOR = 10  # and higher: the browser has its pipe at 3 and 4
ON_PIPE = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.dup2(int(sys.argv[2]), 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
OPTIONS = (
    "--headless",
    "--remote-debugging-pipe",
    "--no-sandbox",  # which root cannot have
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


class Chromium:
    """One tab. :ivar events: all that the browser has told of it, by name."""

    def __enter__(self) -> Chromium:
        self._folder = tempfile.mkdtemp()
        to_browser, self._to = _pipe()
        self._from, from_browser = _pipe()
        command = [sys.executable, "-c", ON_PIPE, str(to_browser), str(from_browser), str(CHROMIUM)]
        self._process = subprocess.Popen(
            [*command, *OPTIONS, f"--user-data-dir={self._folder}"],
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._answers: dict[int, dict[str, Any]] = {}
        self._number = 0
        self._tab: str | None = None
        self.events: list[tuple[str, dict[str, Any]]] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        try:
            target = self.call("Target.createTarget", url="about:blank")["targetId"]
            self._tab = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Log", "Network"):
                self.call(f"{domain}.enable")
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()  # its end of the pipe has closed
        os.close(self._to)
        os.close(self._from)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _read(self) -> None:
        rest = b""
        while data := os.read(self._from, 1 << 16):
            *messages, rest = (rest + data).split(b"\0")
            for each in map(json.loads, messages):
                if "id" in each:
                    self._answers[each["id"]] = each
                else:
                    self.events.append((each["method"], each["params"]))

    def call(self, method: str, **parameters: object) -> dict[str, Any]:
        """Returns the result of a command of Chromium's debugging protocol."""
        self._number += 1
        number = self._number
        document = {"id": number, "method": method, "params": parameters}
        if self._tab is not None:
            document["sessionId"] = self._tab
        os.write(self._to, json.dumps(document).encode() + b"\0")
        answer = wait_until(lambda: self._answers.get(number), method, ANSWER_S)
        assert "result" in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def value(self, script: str) -> Any:
        """Returns the value of an expression in the page."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        for kind in ("rawKeyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=KEY_CODES[key])

    def resize(self, width: int, height: int) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )


KEY_CODES = {"Tab": 9, "End": 35, "Home": 36, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}


def _pipe() -> tuple[int, int]:
    """Reading and writing end, neither at the numbers that the browser wants."""
    ends = []
    for each in os.pipe():
        ends.append(fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, FREE_DESCRIPTOR))
        os.close(each)
    return ends[0], ends[1]
