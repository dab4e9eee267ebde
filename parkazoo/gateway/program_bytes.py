"""What programs send: frames, and the fields in them. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from struct import error as StructError

from kazoo.security import ACL, Id

from parkazoo.kazoo_private import int_struct

MOST_FRAME_BYTES = 0xFFFFF  # servers' jute.maxbuffer, unless it is set
LENGTH_SIZE = 4
LONG_STRUCT = Struct("!q")
MOST_TEXTS = 1 << 17  # in a list: each has four bytes at least, so no frame holds more that are not empty


class FrameError(Exception):
    """Reports bytes that no client of ZooKeeper sends. Their connection has to end."""


class Incoming:
    """The bytes that have come from one program and have not been taken."""

    def __init__(self) -> None:
        self._data = bytearray()

    @property
    def head(self) -> bytes:
        """The first four bytes, or as many as there are."""
        return bytes(self._data[:LENGTH_SIZE])

    def add(self, data: bytes) -> None:
        self._data += data

    def take(self) -> Iterator[bytes]:
        """Yield each whole frame, without its length.

        :raises FrameError: a length is below 0, or above MOST_FRAME_BYTES.
        """
        data, at = self._data, 0
        try:
            while len(data) - at >= LENGTH_SIZE:
                (length,) = int_struct.unpack_from(data, at)
                if not 0 <= length <= MOST_FRAME_BYTES:
                    raise FrameError(f"a frame of {length} bytes")
                end = at + LENGTH_SIZE + length
                if end > len(data):
                    return
                frame = bytes(data[at + LENGTH_SIZE : end])
                at = end
                yield frame
        finally:
            del data[:at]


class FrameReader:
    """The fields of a frame, in order. Each method raises FrameError if the frame ends before its field does.

    :param begin: where they begin.
    """

    def __init__(self, frame: bytes, begin: int = 0) -> None:
        self._frame = frame
        self._at = begin

    @property
    def is_at_end(self) -> bool:
        return self._at >= len(self._frame)

    def take(self, count: int) -> bytes:
        end = self._at + count
        if count < 0 or end > len(self._frame):
            raise FrameError("a frame that ends too early")
        taken = self._frame[self._at : end]
        self._at = end
        return taken

    def number(self) -> int:
        try:
            (number,) = int_struct.unpack_from(self._frame, self._at)
        except StructError:
            raise FrameError("a frame that ends too early") from None
        self._at += LENGTH_SIZE
        return int(number)

    def long(self) -> int:
        (number,) = LONG_STRUCT.unpack(self.take(LONG_STRUCT.size))
        return int(number)

    def flag(self) -> bool:
        return self.take(1) != b"\0"

    def buffer(self) -> bytes | None:
        length = self.number()
        return None if length == -1 else self.take(length)

    def text(self) -> str:
        try:
            return (self.buffer() or b"").decode()
        except UnicodeDecodeError:
            raise FrameError("a text that is no UTF-8") from None

    def texts(self) -> list[str]:
        return [self.text() for _ in range(self._count())]

    def acls(self) -> list[ACL]:
        return [ACL(self.number(), Id(self.text(), self.text())) for _ in range(self._count())]

    def _count(self) -> int:
        count = self.number()
        if count > MOST_TEXTS:
            raise FrameError(f"a list of {count} entries")
        return max(count, 0)
