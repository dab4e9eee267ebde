"""JSON that others have written, read with care: each error is a ClusterMapError that people understand."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from typing import TypeVar

from parkazoo.errors import ClusterMapError

QUOTED_AT_MOST = 200
T = TypeVar("T")


def quoted(value: object) -> str:
    """Its repr, cut short: a damaged map may hold anything, and people read the message."""
    short = reprlib.Repr()
    short.maxstring = short.maxother = QUOTED_AT_MOST
    return short.repr(value)


def typed(document: Mapping[str, object], key: str, kind: type[T], where: str = "") -> T:
    value = document.get(key)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ClusterMapError(f"it is damaged ({key!r}{where} is {quoted(value)})")
    return value


def verify_keys(document: Mapping[str, object], keys: frozenset[str], where: str = "") -> None:
    if document.keys() != keys:
        raise ClusterMapError(
            f"it is damaged (missing or unknown{where}: {quoted(sorted(document.keys() ^ keys))})"
        )


def unique_keys(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    """For json's ``object_pairs_hook``: ClusterMapError if a key appears twice, where json keeps the last."""
    document = dict(pairs)
    if len(document) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ClusterMapError(f"it is damaged (the key {quoted(twice)} appears twice)")
    return document
