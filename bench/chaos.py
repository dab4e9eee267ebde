"""The chaos matrix: for each sender and receiver, the probability that a packet on that way is dropped.

A file has it as TOML (or as JSON, if its name ends so): of each sender a table of its receivers, by the names of
hosts. What is not named is as it is.

    [h1]
    h2 = 0.1            # of the packets that h1 sends to h2, one in ten
    h3 = 1              # h3 hears nothing of h1; h1 hears h3

Or it names a preset, a matrix that is made of some hosts:

    preset = "bridge"
    hosts = ["h1", "h2", "h3", "h4", "h5"]
    p = 1               # which is the default
"""

from __future__ import annotations

import difflib
import json
import math
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench.lab import LabError, Matrix

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PRESET, HOSTS, P = "preset", "hosts", "p"


class ChaosError(LabError):
    """A matrix cannot be used. The message says what is wrong with which entry."""


def crash(hosts: Sequence[str], p: float = 1.0) -> Matrix:
    """The first one and all others do not hear each other: its row and its column."""
    first, *others = hosts
    return {first: dict.fromkeys(others, p), **{other: {first: p} for other in others}}


def one_way(hosts: Sequence[str], p: float = 1.0) -> Matrix:
    """The others do not hear the first one, which hears them: its row."""
    first, *others = hosts
    return {first: dict.fromkeys(others, p)}


def partial(hosts: Sequence[str], p: float = 1.0) -> Matrix:
    """These two do not hear each other; everyone else hears both."""
    return crash(hosts, p)


def bridge(hosts: Sequence[str], p: float = 1.0) -> Matrix:
    """The one in the middle hears all; those before it and those behind it do not hear each other."""
    half = len(hosts) // 2
    left, right = hosts[:half], hosts[half + 1 :]
    return {each: dict.fromkeys(right if each in left else left, p) for each in (*left, *right)}


def uniform(hosts: Sequence[str], p: float = 1.0) -> Matrix:
    """All pairs, both ways."""
    return {each: {other: p for other in hosts if other != each} for each in hosts}


class Preset(NamedTuple):
    make: Callable[[Sequence[str], float], Matrix]
    is_enough: Callable[[int], bool]
    takes: str


def _some(count: int) -> bool:
    return count >= 2


PRESETS = {
    "crash": Preset(crash, _some, "the host that crashes, and at least one that misses it"),
    "one-way": Preset(one_way, _some, "the host that is not heard, and at least one that does not hear it"),
    "partial": Preset(partial, lambda count: count == 2, "two hosts"),
    "bridge": Preset(bridge, lambda count: count >= 3 and count % 2 == 1, "an odd number of hosts, from three on"),
    "uniform": Preset(uniform, _some, "at least two hosts"),
}


def flap(begin: Callable[[], object], end: Callable[[], object], period_s: float, lasts_s: float) -> None:
    """Begin and end in turns, each for `period_s` seconds, for `lasts_s` seconds in all. It is ended then."""
    until_s = time.monotonic() + lasts_s
    while time.monotonic() < until_s:
        try:
            begin()
            time.sleep(period_s)
        finally:
            end()
        time.sleep(period_s)


def read_matrix(path: Path, hosts: Collection[str]) -> Matrix:
    """
    :param hosts: the names that there are.
    :raises ChaosError: the file cannot be read or has mistakes.
    """
    try:
        return _take(_load(path), hosts)
    except ChaosError as error:
        raise ChaosError(f"the chaos matrix {path}{error}") from None


def _load(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text()
    except OSError as error:
        raise ChaosError(f" cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ChaosError(" is no text") from None
    if path.suffix != ".json":
        try:
            return tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise ChaosError(f" is no TOML: {error}") from None
    try:
        content = json.loads(text, object_pairs_hook=_unique)
    except ValueError as error:
        raise ChaosError(f" is no JSON: {error}") from None
    if not isinstance(content, dict):
        raise ChaosError(f" must be an object of senders, not {json.dumps(content)}")
    return content


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Where json keeps the last one, and TOML is strict itself."""
    keys = [key for key, _ in pairs]
    if twice := [key for key in keys if keys.count(key) > 1]:
        raise ChaosError(f": {twice[0]} is there twice")
    return dict(pairs)


def _take(content: Mapping[str, Any], hosts: Collection[str]) -> Matrix:
    if isinstance(content.get(PRESET), str):
        return _make(content, hosts)
    matrix: dict[str, dict[str, float]] = {}
    for sender, row in content.items():
        _see_host(sender, hosts)
        if not isinstance(row, Mapping):
            raise ChaosError(f": {sender} must be a table of its receivers, not {json.dumps(row)}")
        matrix[sender] = {}
        for receiver, p in row.items():
            matrix[sender][receiver] = _see_pair(sender, receiver, p, hosts)
    if not any(matrix.values()):
        raise ChaosError(" names no pair of hosts: to have no chaos any more, fab chaos.clear")
    return matrix


def _make(content: Mapping[str, Any], hosts: Collection[str]) -> Matrix:
    for key in content:
        if key not in (PRESET, HOSTS, P):
            raise ChaosError(f": a preset has no {key!r}; it has {PRESET}, {HOSTS}, {P}")
    name, names, p = content[PRESET], content.get(HOSTS), content.get(P, 1)
    if name not in PRESETS:
        raise ChaosError(f": there is no preset {name!r}{_meant(name, PRESETS)}")
    if not isinstance(names, list) or not all(isinstance(each, str) for each in names):
        raise ChaosError(f": {HOSTS} must be a list of names of hosts")
    for each in names:
        _see_host(each, hosts)
    if twice := [each for each in names if names.count(each) > 1]:
        raise ChaosError(f": {HOSTS} names {twice[0]} twice")
    preset = PRESETS[name]
    if not preset.is_enough(len(names)):
        raise ChaosError(f": the preset {name} takes {preset.takes}, not {len(names)}")
    if not _is_probability(p):
        raise ChaosError(f": {P} is {p!r}; it must be a probability, 0 to 1")
    return preset.make(names, float(p))


def read_pair(sender: str, receiver: str, p: str, hosts: Collection[str]) -> float:
    """As it comes from a command line.

    :returns: the probability.
    :raises ChaosError: it is none, or these are no two hosts.
    """
    try:
        number: object = float(p)
    except ValueError:
        number = p
    try:
        return _see_pair(sender, receiver, number, hosts)
    except ChaosError as error:
        raise ChaosError(str(error).removeprefix(": ")) from None


def _see_pair(sender: str, receiver: str, p: object, hosts: Collection[str]) -> float:
    _see_host(sender, hosts)
    _see_host(receiver, hosts)
    if sender == receiver:
        raise ChaosError(f": what {sender} sends to itself does not leave it, and cannot be dropped")
    if not _is_probability(p):
        raise ChaosError(f": {sender} to {receiver} is {p!r}; it must be a probability, 0 to 1")
    return float(p)  # type: ignore[arg-type]


def _see_host(name: str, hosts: Collection[str]) -> None:
    if name not in hosts:
        raise ChaosError(f": there is no host {name!r}{_meant(name, hosts)}")


def _is_probability(p: object) -> bool:
    return isinstance(p, (int, float)) and not isinstance(p, bool) and math.isfinite(p) and 0 <= p <= 1


def _meant(word: str, known: Collection[str]) -> str:
    close = difflib.get_close_matches(word, known, n=1)
    return f"; do you mean {close[0]}?" if close else f"; there are {', '.join(known)}"
