"""The bytes of the most frequent requests. Pure.

kazoo's request types write these too, but with three times as many calls. All other requests are left to kazoo.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from parkazoo.kazoo_private import Exists, GetData, SetData, int_struct
from parkazoo.protocol.chain import ChainStep
from parkazoo.protocol.steps import ExistsForWatch, WireRequest

pack_int = int_struct.pack
STEP, END = b"\0" + pack_int(-1), pack_int(-1) + b"\1" + pack_int(-1)  # of the headers in a multi


def _write_read(request: Exists | GetData) -> bytes:
    path = request.path.encode()
    return b"".join((pack_int(len(path)), path, b"\1" if request.watcher else b"\0"))


def _write_set(request: SetData) -> bytes:
    path, data = request.path.encode(), request.data
    size = -1 if data is None else len(data)
    return b"".join(
        (pack_int(len(path)), path, pack_int(size), b"" if data is None else data, pack_int(request.version))
    )


def _write_multi(request: ChainStep) -> bytes:
    parts: list[bytes] = []
    for each in request.operations:
        parts += (pack_int(each.type), STEP, serialize(each))
    return b"".join((*parts, END))


WRITERS: Mapping[type, Callable[[Any], bytes]] = {
    Exists: _write_read,
    ExistsForWatch: _write_read,
    GetData: _write_read,
    SetData: _write_set,
    ChainStep: _write_multi,
}


def serialize(request: WireRequest) -> bytes:
    """What kazoo's method returns.

    :raises: what that raises, for a value that kazoo's types let through, such as a version of 2**40.
    """
    write = WRITERS.get(type(request))
    return request.serialize() if write is None else write(request)
