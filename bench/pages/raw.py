"""A raw result."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

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
