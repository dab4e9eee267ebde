"""Requests that are handed on as bytes: gets, sets and exists without a watch. Pure."""

from __future__ import annotations

from struct import Struct

from parkazoo.gateway.program_requests import RefusedError, placed
from parkazoo.kazoo_private import Exists, GetData, SetData, int_struct
from parkazoo.protocol.reserved import refusal

HEAD = Struct("!iii")  # xid, type, and the length of the path
HEAD_BYTES = HEAD.size
READS = (GetData.type, Exists.type)
NO_WATCH = b"\0"
LENGTH_BYTES = int_struct.size
MOST_PATHS = 1 << 14
MOST_PATH_BYTES = 1 << 8  # of one that is remembered


# Xid, type, path with the chroot, and the bytes behind the path: a bare tuple, because each request makes one.
PlacedRequest = tuple[int, int, str, bytes]


class PathTable:
    """The paths that programs have named, as a client has them. A forgotten one is found again.

    :param chroot: of all of them.
    """

    def __init__(self, chroot: str) -> None:
        self._chroot = chroot
        self._paths: dict[bytes, str] = {}

    def read(self, frame: bytes) -> PlacedRequest | None:
        """Return what a frame asks for; None: something else, or what no server would take."""
        if len(frame) < HEAD_BYTES:
            return None
        xid, kind, length = HEAD.unpack_from(frame)
        end = HEAD_BYTES + length
        rest = frame[end:]
        if length <= 0 or not (
            rest == NO_WATCH if kind in READS else kind == SetData.type and _is_data_and_version(rest)
        ):
            return None
        name = frame[HEAD_BYTES:end]
        path = self._paths.get(name) or self._find(name)
        return (xid, kind, path, rest) if path else None

    def _find(self, name: bytes) -> str:
        """Return the path; empty: this is none, or a reserved one."""
        try:
            path = placed(self._chroot, name.decode())
        except (RefusedError, UnicodeDecodeError):
            return ""
        if refusal(Exists(path, None)) is not None:
            return ""
        if len(name) <= MOST_PATH_BYTES:
            if len(self._paths) >= MOST_PATHS:
                self._paths.clear()
            self._paths[name] = path
        return path


def _is_data_and_version(rest: bytes) -> bool:
    """Whether that is all of it."""
    if len(rest) < 2 * LENGTH_BYTES:
        return False
    (length,) = int_struct.unpack_from(rest)
    return bool(length >= -1) and len(rest) == 2 * LENGTH_BYTES + max(length, 0)
