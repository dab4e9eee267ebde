"""How results are saved: JSON that is read and compared line by line."""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench import ROOT


def results_file(parser: argparse.ArgumentParser, chosen: Path | None, kind: str) -> Path:
    """The chosen file, or a new one of this kind below `build/bench`; its folder is made.

    It ends the program with a message if results cannot be written there.
    """
    path = chosen or ROOT / "build" / "bench" / f"{kind}-{time.strftime('%Y%m%d-%H%M%S')}.json"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        parser.error(f"results cannot be written to {path}: {error.strerror}")
    if path.is_dir() or not os.access(path.parent, os.W_OK):
        parser.error(f"results cannot be written to {path}")
    return path


def as_text(document: Mapping[str, Any]) -> str:
    """JSON with a line for each entry; an entry that is a list of objects has a line for each object."""
    entries = (f"{json.dumps(name)}: {_entry(value)}" for name, value in document.items())
    return "{\n" + ",\n".join(entries) + "\n}\n"


def _entry(value: Any) -> str:
    if isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
        return "[\n" + ",\n".join(json.dumps(each) for each in value) + "\n]"
    return json.dumps(value)
