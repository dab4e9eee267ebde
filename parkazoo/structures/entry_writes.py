"""The transactions that write entries of a DistributedDict, and what the copy learns from their results. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kazoo.exceptions import BadVersionError, KazooException, NodeExistsError, NoNodeError

from parkazoo.errors import OutcomeUnknown, PartlyDoneError
from parkazoo.structures.local_copy import LocalCopy, life_of
from parkazoo.structures.values import SAFE_BYTES

NOT_AS_KNOWN = (NoNodeError, NodeExistsError, BadVersionError)


class EntryWrite(NamedTuple):
    """An operation of a transaction. :param kind: "create", "set" or "delete"."""

    key: str
    kind: str


def size_of(path: str, data: bytes) -> int:
    """Returns their size in a request, in bytes."""
    return len(path.encode("utf-8", "surrogatepass")) + len(data)


def verify_size(key: str, path: str, raw: bytes) -> None:
    """
    :raises ValueError: the entry is too large.
    """
    size = size_of(path, raw)
    if size > SAFE_BYTES:
        raise ValueError(
            f"{key[:100]!r}: path and value have {size:,} bytes, more than {SAFE_BYTES:,}, which servers take"
        )


def partly_done(keys: Iterable[str], done: Sequence[str], error: KazooException) -> PartlyDoneError:
    """Returns the error of writes of which some were done before another error."""
    unknown: Sequence[str] = error.keys if isinstance(error, OutcomeUnknown) else ()
    left = [key for key in keys if key not in {*done, *unknown}]
    message = f"{len(done)} entries are done, {len(left)} are not, {len(unknown)} may be: {error!r}"
    return PartlyDoneError(message, done, unknown, left)


def merge(
    copy: LocalCopy,
    number: int,
    began: int,
    values: Mapping[str, bytes],
    writes: Iterable[EntryWrite],
    results: Iterable[Any],
    mine: int,
) -> tuple[dict[str, bytes], list[str]]:
    """Puts finished writes into the copy.

    :param number: of the directory. :param began: the ticket of the transaction. :param mine: the writes' owner.
    :returns: entries of another session, which must be written again; keys in doubt, which must be read.
    """
    again: dict[str, bytes] = {}
    doubtful: list[str] = []
    for (key, kind), result in zip(writes, results, strict=True):
        if kind == "delete":
            is_in_doubt = copy.deleted(number, key, began)
        elif kind == "create":
            is_in_doubt = copy.written(number, key, began, values[key], 0, None, mine)
        else:
            if result.ephemeralOwner != mine:
                again[key] = values[key]
            elif key in copy.unreadable[number]:  # nor would it be seen to change
                continue
            state = result.version, result.mzxid, result.ephemeralOwner, life_of(result)
            is_in_doubt = copy.written(number, key, began, values[key], *state)
        if is_in_doubt:
            doubtful.append(key)
    return again, doubtful


def of_others(copy: LocalCopy, values: Mapping[str, bytes], mine: int) -> dict[str, bytes]:
    """Returns the written values whose entries are another session's: they must be written again."""
    left = ((key, copy.entries.get(key)) for key in values)
    still = (key for key, entry in left if entry and entry.raw == values[key] and entry.owner != mine)
    return {key: values[key] for key in still}
