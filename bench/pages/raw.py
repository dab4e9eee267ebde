"""Raw results, in docs/runs."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from bench import RUNS

DATE = re.compile(r"\d{4}-\d\d-\d\d")


class Raw(NamedTuple):
    path: Path
    document: dict[str, Any]

    @property
    def date(self) -> str:
        """With the time, where the file has it; otherwise as its name says. Dates sort as text."""
        found = DATE.search(self.path.name)
        named = found[0] if found else ""
        return str(self.document.get("about", {}).get("date", named))


def read_all(pattern: str) -> list[Raw]:
    """The files of a pattern below docs/runs, the oldest first.

    :raises ValueError: there is none.
    """
    paths = sorted(RUNS.glob(pattern))
    if not paths:
        raise ValueError(f"docs/runs has no {pattern}")
    return sorted((Raw(path, _document(path)) for path in paths), key=lambda raw: (raw.date, raw.path.name))


@cache
def _document(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(path.read_text())
    return document
