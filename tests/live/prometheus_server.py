"""Debian's Prometheus on loopback, with its data in a temporary folder."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

from bench import ROOT
from parkazoo.local import HOST, free_ports
from tests.live.world import wait_until

PROMETHEUS = shutil.which("prometheus")
PROMTOOL = shutil.which("promtool")
MISSING = "there is no Prometheus: apt-get install prometheus"
ALERTS = ROOT / "conf" / "prometheus-alerts.yml"
TIMEOUT_S = 10.0


def run_promtool(*arguments: str) -> str:
    """What it says.

    :raises AssertionError: it finds something wrong.
    """
    ended = subprocess.run([str(PROMTOOL), *arguments], capture_output=True, text=True, check=False)
    said = ended.stdout + ended.stderr
    assert ended.returncode == 0, said
    return said


class PrometheusServer:
    """:param configuration: the text of its prometheus.yml."""

    def __init__(self, configuration: str) -> None:
        self._configuration = configuration

    def __enter__(self) -> PrometheusServer:
        self._folder = Path(tempfile.mkdtemp())
        file = self._folder / "prometheus.yml"
        file.write_text(self._configuration)
        run_promtool("check", "config", str(file))
        address = f"{HOST}:{free_ports(1)[0]}"
        self._url = f"http://{address}"
        with (self._folder / "log").open("w") as log:
            self._process = subprocess.Popen(
                [
                    str(PROMETHEUS),
                    f"--config.file={file}",
                    f"--storage.tsdb.path={self._folder / 'data'}",
                    f"--web.listen-address={address}",
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        try:
            wait_until(lambda: self._get("-/ready"), "Prometheus")
        except BaseException:
            print((self._folder / "log").read_text())
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait()
        shutil.rmtree(self._folder)

    def _get(self, path: str, **parameters: str) -> str:
        with urlopen(f"{self._url}/{path}?{urlencode(parameters)}", timeout=TIMEOUT_S) as answer:
            text: str = answer.read().decode()
            return text

    def ask(self, path: str, **parameters: str) -> Any:
        """The data of an answer of its API."""
        return json.loads(self._get(f"api/v1/{path}", **parameters))["data"]

    def values(self, query: str, *labels: str) -> dict[tuple[str, ...], float]:
        """The values of a query now, by these labels."""
        found = self.ask("query", query=query)
        assert found["resultType"] == "vector", query
        return {
            tuple(each["metric"].get(label, "") for label in labels): float(each["value"][1])
            for each in found["result"]
        }
