"""What a client says to an etcd server on one connection, and what it hears: neither socket nor clock.

etcd's interface is gRPC, so this is HTTP/2 (RFC 9113): a request is a HEADERS and a DATA frame on a stream of its
own. The server is told to keep no table of header fields (SETTINGS_HEADER_TABLE_SIZE 0). So all its answers have
the same bytes in their headers, and none have to be decoded.
"""

from __future__ import annotations

from collections import deque
from struct import Struct

from bench.bare_requests import BareError
from bench.load.requests import GET, Request

FRAME = Struct(">BHBBI")  # the length, in three bytes; type, flags, stream
FRAME_BYTES = FRAME.size
NUMBER = Struct(">I")
SETTING = Struct(">HI")
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM, END_HEADERS, ACK = 1, 4, 1
HEADER_TABLE_SIZE, ENABLE_PUSH, INITIAL_WINDOW_SIZE = 1, 2, 4
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
FIRST_WINDOW, LARGEST_WINDOW = 65_535, 2**31 - 1
MOST_HEARD = 1 << 20  # bytes, until the server may send as many again
PUT, RANGE = b"/etcdserverpb.KV/Put", b"/etcdserverpb.KV/Range"
AUTHORITY, PATH, CONTENT_TYPE = 1, 4, 31  # of HPACK's static table: their names
POST_BY_HTTP = b"\x83\x86"  # two entries of it
KEY, VALUE, SERIALIZABLE = 1, 2, 7  # fields of PutRequest and RangeRequest
BYTES, VARINT = 2, 0  # types of fields
# "grpc-status: 0", as servers write it that keep no table: a literal, its name by Huffman's code.
SUCCESS = bytes.fromhex("00 88 9a ca c8 b2 12 34 da 8f 01 30")
# An answer whose frames are together, as most are, is taken at once: HEADERS of 15 bytes, DATA, a trailer of 24.
BEGINS, ENDS, TRAILER_BYTES = b"\x00\x00\x0f\x01\x04", b"\x00\x00\x18\x01\x05", 24
TO_DATA = Struct(">5xI15xBHBxI")  # the stream; of the next frame the length, the type, the stream


def make_frame(kind: int, flags: int, stream: int, content: bytes) -> bytes:
    return FRAME.pack(len(content) >> 16, len(content) & 0xFFFF, kind, flags, stream) + content


def _field(name: int, value: bytes) -> bytes:
    """A header field that no table keeps, its name from the static table."""
    number = bytes([name]) if name < 15 else bytes([15, name - 15])
    return number + bytes([len(value)]) + value


def make_headers(method: bytes) -> bytes:
    fields = _field(PATH, method), _field(AUTHORITY, b"etcd"), _field(CONTENT_TYPE, b"application/grpc")
    return POST_BY_HTTP + b"".join(fields) + b"\x00\x02te\x08trailers"


def _varint(value: int) -> bytes:
    low, rest = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + _varint(rest) if rest else bytes([low])


def _text(number: int, value: bytes) -> bytes:
    """A field of a protobuf message."""
    return bytes([number << 3 | BYTES]) + _varint(len(value)) + value


def make_put(key: bytes, value: bytes) -> bytes:
    return _text(KEY, key) + _text(VALUE, value)


def make_range(key: bytes, is_linearizable: bool) -> bytes:
    """Of one key. If it is not linearizable, the server answers from what it has itself."""
    return _text(KEY, key) + (b"" if is_linearizable else bytes([SERIALIZABLE << 3 | VARINT, 1]))


class EtcdWire:
    """
    :param value: that is put.
    :param is_linearizable: reads are, as etcd's are by default.
    """

    def __init__(self, value: bytes, is_linearizable: bool) -> None:
        self._value = value
        self._is_linearizable = is_linearizable
        self._encoded: dict[tuple[int, str], tuple[int, bytes, bytes, bytes]] = {}
        self._stream = -1
        self._room = FIRST_WINDOW  # bytes of DATA that the server takes now
        self._held: deque[tuple[int, bytes]] = deque()  # until it takes more
        self._heard = 0
        settings = (HEADER_TABLE_SIZE, 0), (ENABLE_PUSH, 0), (INITIAL_WINDOW_SIZE, LARGEST_WINDOW)
        more = NUMBER.pack(LARGEST_WINDOW - FIRST_WINDOW)
        self._out = [
            PREFACE,
            make_frame(SETTINGS, 0, 0, b"".join(SETTING.pack(*each) for each in settings)),
            make_frame(WINDOW_UPDATE, 0, 0, more),
        ]
        self._replies: list[bytes] = []  # to the server's own frames; they go with the next request
        self._rest = b""

    def ask(self, request: Request) -> int:
        """Puts a request into the bytes that are to be sent.

        :returns: its number.
        """
        key = request.kind, request.path
        if (encoded := self._encoded.get(key)) is None:
            encoded = self._encoded[key] = self._encode(request)
        self._stream += 2
        size, first, second, third = encoded
        stream = NUMBER.pack(self._stream)
        whole = b"".join((first, stream, second, stream, third))
        if self._held or size > self._room:
            self._held.append((size, whole))
        else:
            self._room -= size
            self._out.append(whole)
        return self._stream

    def _encode(self, request: Request) -> tuple[int, bytes, bytes, bytes]:
        """How many bytes of DATA there are; then both frames, in parts: between them is the stream's number."""
        key = request.path.encode()
        is_read = request.kind == GET
        message = make_range(key, self._is_linearizable) if is_read else make_put(key, self._value)
        headers = make_headers(RANGE if is_read else PUT)
        prefixed = b"\x00" + NUMBER.pack(len(message)) + message
        head, body = make_frame(HEADERS, END_HEADERS, 0, headers), make_frame(DATA, END_STREAM, 0, prefixed)
        at = FRAME_BYTES - NUMBER.size
        return len(prefixed), head[:at], head[FRAME_BYTES:] + body[:at], body[FRAME_BYTES:]

    def outgoing(self) -> bytes:
        """Takes all that is to be sent now.

        The server pings when data comes. Replies wait for the next request: each would be a write of its own.
        """
        if not self._out:
            return b""
        data = b"".join(self._out + self._replies)
        self._replies.clear()
        self._out.clear()
        return data

    def end(self) -> bytes:
        """The last bytes: there will be no more streams."""
        return make_frame(GOAWAY, 0, 0, bytes(8))

    def hear(self, data: bytes) -> list[tuple[int, str]]:
        """Takes bytes from the server.

        :returns: of each request that is answered its number, and its error, if it has one.
        :raises BareError: the server ends the connection.
        """
        data = self._rest + data
        at, answered = 0, []
        while len(data) - at >= FRAME_BYTES:
            if data.startswith(BEGINS, at) and len(data) - at >= TO_DATA.size:
                stream, high, low, kind, same = TO_DATA.unpack_from(data, at)
                size = high << 16 | low
                to_trailer = at + TO_DATA.size + size
                end = to_trailer + FRAME_BYTES + TRAILER_BYTES
                trailer = ENDS + NUMBER.pack(stream) + SUCCESS
                if stream == same and kind == DATA and len(data) >= end and data.startswith(trailer, to_trailer):
                    self._heard += size
                    answered.append((stream, ""))
                    at = end
                    continue
            high, low, kind, flags, stream = FRAME.unpack_from(data, at)
            begin = at + FRAME_BYTES
            end = begin + (high << 16 | low)
            if len(data) < end:
                break
            if kind == HEADERS:
                if flags & END_STREAM:
                    is_done = data.find(SUCCESS, begin, end) >= 0
                    answered.append((stream, "" if is_done else f"headers {data[begin:end].hex()}"))
            elif kind == DATA:
                self._heard += end - begin
            elif kind == RST_STREAM:
                answered.append((stream, "the server resets the stream"))
            else:
                self._obey(kind, flags, stream, data[begin:end])
            at = end
        self._rest = data[at:]
        if self._heard > MOST_HEARD:
            self._replies.append(make_frame(WINDOW_UPDATE, 0, 0, NUMBER.pack(self._heard)))
            self._heard = 0
        return answered

    def _obey(self, kind: int, flags: int, stream: int, content: bytes) -> None:
        if kind == WINDOW_UPDATE and not stream:
            self._room += NUMBER.unpack(content)[0]
            while self._held and self._held[0][0] <= self._room:
                size, whole = self._held.popleft()
                self._room -= size
                self._out.append(whole)
        elif kind in (SETTINGS, PING) and not flags & ACK:
            self._replies.append(make_frame(kind, ACK, 0, content if kind == PING else b""))
        elif kind == GOAWAY:
            raise BareError("the server ends the connection")
