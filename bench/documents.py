"""How results are saved: JSON that is read and compared line by line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def as_text(document: Mapping[str, Any]) -> str:
    """JSON with a line for each entry; an entry that is a list of objects has a line for each object."""
    entries = (f"{json.dumps(name)}: {_entry(value)}" for name, value in document.items())
    return "{\n" + ",\n".join(entries) + "\n}\n"


def _entry(value: Any) -> str:
    if isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
        return "[\n" + ",\n".join(json.dumps(each) for each in value) + "\n]"
    return json.dumps(value)
