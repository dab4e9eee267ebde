"""Rates in a file, a JSON document a line, as ``parkazoo top --record`` writes it."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, get_args, get_origin, get_type_hints

from parkazoo.admin.arguments import WrongArgumentError
from parkazoo.admin.rates import ClientRates, DirectoryRates, EnsembleRates, Rates, ServerRates
from parkazoo.errors import ClusterMapError
from parkazoo.protocol.checked_json import quoted, unique_keys

BEGIN = b'{"time_s": '  # of each line, as `Rates.to_json` gives it
LONGEST = 1 << 28  # bytes of a line: 100,000 clients have a tenth of it
MOST = 1e15  # of a number: more is damage, and the screen could not draw it
ROWS: Mapping[str, type] = {
    "ensembles": EnsembleRates,
    "servers": ServerRates,
    "clients": ClientRates,
    "directories": DirectoryRates,
}


class Recorder(AbstractContextManager["Recorder"]):
    """Appends rates to a file; each is there when `add` returns. A line that was cut before keeps to itself.

    :raises WrongArgumentError: the file cannot be opened.
    """

    def __init__(self, file: Path) -> None:
        self._name = file
        try:
            self._before = "\n" if file.is_file() and _lacks_end(file) else ""
            self._file = file.open("a", encoding="utf-8")
        except OSError as error:
            raise WrongArgumentError(f"{file} cannot be written: {error.strerror}") from None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):  # it comes again, of what `add` could not write
            self._file.close()

    def add(self, rates: Rates) -> None:
        """:raises ClusterMapError: the file cannot be written any more."""
        try:
            self._file.write(f"{self._before}{json.dumps(rates.to_json())}\n")
            self._before = ""
            self._file.flush()
        except OSError as error:
            raise ClusterMapError(f"{self._name} cannot be written: {error.strerror}") from None


def _lacks_end(file: Path) -> bool:
    with file.open("rb") as written:
        length = written.seek(0, os.SEEK_END)
        written.seek(max(0, length - 1))
        return written.read() not in {b"", b"\n"}


def read_recorded(file: Path) -> Iterator[Rates]:
    """Yields what was recorded, the oldest first. A line that was cut is left out, as a last one without its end.

    :raises WrongArgumentError: the file cannot be read, or has something else.
    """
    try:
        with file.open("rb") as lines:
            for number, line in enumerate(iter(partial(lines.readline, LONGEST), b""), 1):
                if len(line) == LONGEST:
                    raise WrongArgumentError(f"{file}, line {number} is longer than any that is recorded")
                if line.endswith(b"\n") and (rates := _parse_line(line, f"{file}, line {number}")) is not None:
                    yield rates
    except OSError as error:
        raise WrongArgumentError(f"{file} cannot be read: {error.strerror}") from None


def _parse_line(line: bytes, where: str) -> Rates | None:
    """None: its writer was ended in the middle of it, and another has gone on behind it."""
    try:
        return parse_rates(json.loads(line, object_pairs_hook=unique_keys))
    except (ValueError, RecursionError) as error:
        if line.startswith(BEGIN) or BEGIN.startswith(line.rstrip(b"\n")):
            return None
        raise WrongArgumentError(f"{where} is not JSON: {error}") from None
    except ClusterMapError as error:
        raise WrongArgumentError(f"{where}: {error}") from None


def parse_rates(document: object) -> Rates:
    """Returns what `Rates.to_json` gave. What it does not know, a later version's, is left out.

    :raises ClusterMapError: it is something else, or damaged.
    """
    rates: Rates = _parse(Rates, document)
    return rates


def _parse(kind: type[Any], document: object) -> Any:
    if not isinstance(document, dict):
        raise ClusterMapError(f"it is damaged ({quoted(document)} stands where an object should)")
    return kind(**{name: _value(name, hint, document) for name, hint in get_type_hints(kind).items()})


def _value(name: str, hint: Any, document: Mapping[str, object]) -> object:
    value = document.get(name)
    if get_origin(hint) in (Sequence, tuple):
        if isinstance(value, list) and name in ROWS and ROWS[name] in get_args(hint):
            return [_parse(ROWS[name], each) for each in value]
        if isinstance(value, list) and all(isinstance(each, str) for each in value):
            return tuple(value)
    elif name in document and _fits(value, get_args(hint) or (hint,)):
        return value
    raise ClusterMapError(f"it is damaged ({name!r} is {quoted(value) if name in document else 'missing'})")


def _fits(value: object, kinds: Collection[type]) -> bool:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return type(value) in kinds
    return (float in kinds or type(value) in kinds) and 0 <= value <= MOST
