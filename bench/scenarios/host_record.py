"""What each host of a scenario did, each second: written line by line while it runs, one small file in the end."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bench.sampler import COLUMNS, PERIOD_S

LINES = ".jsonl"


class Did(NamedTuple):
    """What a host did.

    :param time_s: of each sample, since the epoch.
    :param counted: by the names of COLUMNS.
    :param cost_share: of a processor, that it took to see it.
    """

    time_s: Any
    counted: dict[str, Any]
    cost_share: float


class HostRecord:
    """
    :param path: of the file in the end, which ends with .npz. Until then the samples are in a text file beside it,
        which remains if this program is killed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lines = path.with_suffix(LINES).open("w", buffering=1)
        self._turn = threading.Lock()

    def add(self, line: Mapping[str, Any]) -> None:
        """What bench/sampler.py says, from any thread."""
        with self._turn:
            self._lines.write(json.dumps(line) + "\n")

    def close(self) -> dict[str, Any]:
        """:returns: what it cost: `cost_share` of a processor for each host, the highest of them."""
        self._lines.close()
        lines = self.path.with_suffix(LINES)
        np.savez_compressed(self.path, **_as_arrays(lines))
        lines.unlink()
        costs = [each.cost_share for each in read_hosts(self.path).values()]
        return {"seen": len(costs), "period_s": PERIOD_S, "cost_share": round(max(costs, default=0.0), 6)}


def _as_arrays(path: Path) -> Any:
    """Of a text file: the hosts' names; of each sample the number of its host, and what was counted."""
    rows: list[tuple[float, ...]] = []
    numbers: dict[str, int] = {}
    for line in path.read_text().splitlines():
        with suppress(ValueError):  # the last one of a program that was killed
            said = json.loads(line)
            for host, counted in said["hosts"].items():
                cost_s = said["cost_s"] / len(said["hosts"])
                rows.append((numbers.setdefault(host, len(numbers)), said["time_s"], cost_s, *counted))
    columns = np.array(rows, dtype=np.float64).reshape(-1, 3 + len(COLUMNS)).T
    names = ("host", "time_s", "cost_s", *COLUMNS)
    return {"names": np.array([*numbers], dtype=np.str_), **dict(zip(names, columns, strict=True))}


def read_hosts(path: Path) -> dict[str, Did]:
    """What each host did, by its name; of a record that was not closed, too; nothing if there is no record."""
    if path.exists():
        with np.load(path) as file:
            arrays = {name: file[name] for name in file.files}
    elif path.with_suffix(LINES).exists():
        arrays = _as_arrays(path.with_suffix(LINES))
    else:
        return {}
    found = {}
    for number, name in enumerate(arrays["names"].tolist()):
        chosen = arrays["host"] == number
        time_s, cost_s = arrays["time_s"][chosen], arrays["cost_s"][chosen]
        lasted_s = float(time_s[-1] - time_s[0])
        share = float(cost_s[-1] - cost_s[0]) / lasted_s if lasted_s else 0.0
        found[name] = Did(time_s, {each: arrays[each][chosen] for each in COLUMNS}, share)
    return found
