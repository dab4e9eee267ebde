"""Several reads in one request, which ZooKeeper knows since 3.6, and kazoo does not. Pure."""

from __future__ import annotations

from typing import NamedTuple

from kazoo.exceptions import EXCEPTIONS
from kazoo.protocol.states import ZnodeStat

from parkazoo.kazoo_private import GetChildren, GetData, int_struct, multiheader_struct, stat_struct
from parkazoo.protocol.newer_requests import ERROR

END = multiheader_struct.pack(-1, True, -1)
Answer = tuple[bytes | None, ZnodeStat] | list[str] | Exception


class MultiRead(NamedTuple):
    """:param requests: each has an answer, or an error, of its own."""

    requests: tuple[GetData | GetChildren, ...]

    @property
    def type(self) -> int:
        return 22

    def serialize(self) -> bytes:
        parts: list[bytes] = []
        for request in self.requests:
            parts += (multiheader_struct.pack(request.type, False, -1), request.serialize())
        return b"".join((*parts, END))

    @classmethod
    def deserialize(cls, bytes: bytes, offset: int) -> list[Answer]:
        answers: list[Answer] = []
        while True:
            kind, is_end, _ = multiheader_struct.unpack_from(bytes, offset)
            offset += multiheader_struct.size
            if is_end:
                return answers
            (number,) = int_struct.unpack_from(bytes, offset)
            offset += int_struct.size
            if kind == ERROR:
                answers.append(EXCEPTIONS[number]())
            elif kind == GetData.type:
                data = None if number < 0 else bytes[offset : offset + number]
                offset += max(number, 0)
                answers.append((data, ZnodeStat._make(stat_struct.unpack_from(bytes, offset))))
                offset += stat_struct.size
            else:
                names = []
                for _ in range(number):
                    (length,) = int_struct.unpack_from(bytes, offset)
                    offset += int_struct.size
                    names.append(bytes[offset : offset + length].decode())
                    offset += length
                answers.append(names)
