"""The command by which pip adds an extra to this installation, wherever it came from."""

from __future__ import annotations

import json
import shlex
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

CHECKOUT = Path(__file__).parents[1]


def command_to_add(extra: str) -> str:
    """Returns the command as a shell takes it, in any folder."""
    if (CHECKOUT / "pyproject.toml").exists():
        return f"pip install -e {shlex.quote(f'{CHECKOUT}[{extra}]')}"
    return f"pip install {shlex.quote(_wanted(_origin(), extra))}"


def _wanted(origin: dict[str, object], extra: str) -> str:
    """:param origin: as PEP 610 has it; empty if a package index was the origin."""
    url = str(origin.get("url", ""))
    path = url2pathname(urlsplit(url).path)
    if url.startswith("file:") and Path(path).exists():
        return f"{path}[{extra}]"
    vcs = origin.get("vcs_info")
    if isinstance(vcs, dict):
        return f"parkazoo[{extra}] @ {vcs['vcs']}+{url}@{vcs['commit_id']}"
    return f"parkazoo[{extra}]"


def _origin() -> dict[str, object]:
    try:
        text = distribution("parkazoo").read_text("direct_url.json")
    except PackageNotFoundError:
        text = None
    return json.loads(text) if text else {}
