"""The result of a load on one host, as a .npz file: every request, and what the host was busy with."""

from __future__ import annotations

import json
import platform
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from bench.load.plan import Plan
from bench.load.record import COLUMNS, Account
from bench.load.requests import name_directories
from parkazoo.protocol.placement import Placement


@dataclass(frozen=True)
class Result:
    """Of one host.

    :param columns: by the names of record.COLUMNS.
    :param first_s: when the first of its processes began, in seconds since the epoch; `begun_s`, the last.
    :param cpu_share: of one processor; of the process that used most.
    :param versions: of Python and kazoo.
    """

    plan: Plan
    columns: dict[str, Any]
    first_s: float
    begun_s: float
    cpu_share: float
    errors: Counter[str]
    versions: dict[str, str]


def write_result(path: Path, plan: Plan, accounts: Sequence[Account]) -> None:
    rows = read_rows(b"".join(account.rows for account in accounts))
    about = {
        "plan": plan.as_json(),
        "first_s": min(account.begun_s for account in accounts),
        "begun_s": max(account.begun_s for account in accounts),
        "cpu_share": max(account.cpu_share for account in accounts),
        "errors": sum((account.errors for account in accounts), Counter()),
        "versions": {
            "python": sys.version.split()[0],
            "kazoo": version("kazoo"),
            "system": platform.platform(),
        },
    }
    arrays: Any = {name: rows[name] for name in COLUMNS}
    np.savez_compressed(path, about=np.array(json.dumps(about)), **arrays)


def read_rows(rows: bytes | bytearray) -> Any:
    """As an array of numpy, with a field for each of record.COLUMNS."""
    return np.frombuffer(rows, np.dtype(list(COLUMNS.items())))


def read_result(path: Path) -> Result:
    """
    :raises OSError: the file cannot be read.
    :raises ValueError: it is no result.
    """
    with np.load(path) as file:
        about = json.loads(str(file["about"]))
        columns = {name: file[name] for name in COLUMNS}
    return Result(
        Plan.from_json(about["plan"]),
        columns,
        about["first_s"],
        about["begun_s"],
        about["cpu_share"],
        Counter(about["errors"]),
        about["versions"],
    )


def join(results: Sequence[Result]) -> dict[str, Any]:
    """The columns of all hosts."""
    return {name: np.concatenate([each.columns[name] for each in results]) for name in COLUMNS}


def ensembles_of(plan: Plan, directories: Any) -> Any:
    """Of each request, by its column `directory`, the number of the ensemble that it goes to."""
    of_children = Placement(plan.ensembles).of_children
    return np.array([of_children(path) for path in name_directories(plan)])[directories]
