"""Deferred writes as a program gives them, and the error that names those that are not done: for both clients."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from parkazoo.engine.deferred.lanes import Lanes
from parkazoo.engine.deferred.writes import DROPPED, FAILED, OVERHEAD_BYTES, UNKNOWN, Write, directory_of
from parkazoo.errors import GUARD, CrossEnsembleError, DeferredError
from parkazoo.kazoo_private import Create, Delete
from parkazoo.protocol.asking import prefixed
from parkazoo.protocol.reserved import refusal
from parkazoo.protocol.steps import WriteRequest

LARGEST_BYTES = (1 << 20) - (1 << 14)  # servers take packets of 1 MiB; the rest is for the chain
ACL_BYTES = 12  # of an entry, beside scheme and id; the first is in OVERHEAD_BYTES
DIRECTORIES_REMEMBERED = 1 << 16
NAMED = 5  # writes or keys that an error's message names
MAKE_OTHERS = "Make others with client.deferred()"


def checked(
    chroot: str, kind: Callable[..., WriteRequest], path: str, value: bytes | None, *rest: Any
) -> tuple[WriteRequest, int]:
    """Returns a write with the whole path, and its size in a batch, in bytes.

    :raises TypeError: path or value is of a wrong type. :raises ValueError: they are too large for ZooKeeper.
    :raises BadArgumentsError: the path is reserved.
    """
    if not isinstance(path, str):
        raise TypeError("Invalid type for 'path' (string expected)")
    if value is not None and not isinstance(value, bytes):
        raise TypeError("Invalid type for 'value' (must be a byte string)")
    whole = prefixed(chroot, path)
    size = len(whole.encode()) + len(value or b"") + OVERHEAD_BYTES
    if kind is Create:
        size += sum(len(who.scheme) + len(who.id) + ACL_BYTES for _, who in rest[0][1:])
    if size > LARGEST_BYTES:
        raise ValueError(
            f"{path}: {len(value or b'')} bytes are too many for a deferred write: at most {LARGEST_BYTES}, "
            "with the path and the ACL"
        )
    request = kind(whole, *rest) if kind is Delete else kind(whole, value, *rest)
    if (error := refusal(request)) is not None:
        raise error
    return request, size


def verify_options(max_pending: object, linger_s: object, on_error: object, guard: object) -> None:
    """
    :raises TypeError: an option has the wrong type. :raises ValueError: an option is out of range.
    """
    if guard is not None and not isinstance(guard, str):
        raise TypeError("Invalid type for 'guard' (string expected: the path of a znode)")
    if isinstance(max_pending, bool) or not isinstance(max_pending, int):
        raise TypeError(f"max_pending must be a whole number, not {max_pending!r}")
    if max_pending < 1:
        raise ValueError(f"max_pending must be at least 1, not {max_pending!r}")
    if isinstance(linger_s, bool) or not isinstance(linger_s, int | float):
        raise TypeError(f"linger_s must be a number, not {linger_s!r}")
    if not linger_s >= 0:
        raise ValueError(f"linger_s must not be below 0, not {linger_s!r}")
    if on_error not in ("stop", "skip"):
        raise ValueError(f"on_error must be 'stop' or 'skip', not {on_error!r}")


def verify_open(lanes: Lanes) -> None:
    """
    :raises DeferredError: the lanes take no more writes.
    """
    if lanes.ended:
        raise DeferredError(f"these deferred writes are {lanes.ended}. {MAKE_OTHERS}")
    if lanes.is_over:
        raise DeferredError(f"no more deferred writes are taken: the session is over. {MAKE_OTHERS}")


def verify_taken(lanes: Lanes, taken: bool | Exception) -> bool:
    """Returns whether a lane has taken a write.

    :param taken: of :meth:`Lanes.put`. :raises DeferredError: it takes none.
    """
    if isinstance(taken, Exception):
        verify_open(lanes)
        raise DeferredError(
            f"no more deferred writes are taken on this ensemble: {taken!r}. {MAKE_OTHERS}"
        ) from taken
    return taken


def apart_from_guard(lanes: Lanes, path: str, ensemble: int, guarded: int) -> CrossEnsembleError:
    """:param path: of a write on another ensemble than the guard's, `guarded`."""
    names = lanes.own.driver.context.names
    guard = "guard", str(lanes.guard), names[guarded]
    return CrossEnsembleError([guard, ("write", path, names[ensemble])], GUARD)


def directory_of_guard(lanes: Lanes) -> str | None:
    return None if lanes.guard is None else directory_of(lanes.guard)


def error_of(bad: Iterable[Write], unchroot: Callable[[str], str]) -> DeferredError:
    """:param bad: writes that are not done."""
    by_state: dict[str, list[tuple[str, Exception]]] = {FAILED: [], DROPPED: [], UNKNOWN: []}
    for write in bad:
        assert write.error is not None
        by_state[write.state].append((unchroot(write.request.path), write.error))
    counts = ", ".join(f"{len(each)} {state}" for state, each in by_state.items() if each)
    some = [pair for each in by_state.values() for pair in each][:NAMED]
    named = ", ".join(f"{path} ({error!r})" for path, error in some)
    more = ", ..." if sum(map(len, by_state.values())) > len(some) else ""
    return DeferredError(f"deferred writes: {counts}: {named}{more}", *by_state.values())
