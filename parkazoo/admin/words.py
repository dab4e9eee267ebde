"""ZooKeeper's four-letter words: one question to one server, in plain text or over TLS."""

from __future__ import annotations

import socket
import ssl
import struct
import time

MOST_BYTES = 1 << 26  # `cons` has some 200 for each connection
PART = 1 << 16
SMALL, IMPOSSIBLE = 64, 0xFFFFFFFF  # of a request that every server takes, and of one that none does
CLOSES_WITHIN_S = 0.3  # where each server is asked
CLOSES_SLOWLY_S = 1.0  # where one cannot be reached
CLOSED = (BrokenPipeError, ConnectionResetError)  # also of a connect, if the server has closed it by its end


def ask_server(word: str, server: tuple[str, int], timeout_s: float, context: ssl.SSLContext | None = None) -> str:
    """Send a four-letter word to a server; return all that it answers until it closes the connection.

    kazoo's ``client.command`` reads once, at most 8,192 bytes, and takes the port for the host name over TLS.

    :param timeout_s: seconds for everything together.
    :param context: of TLS; None: plain text.
    :raises OSError: the server cannot be reached, or its answer does not end in time or within MOST_BYTES.
    """
    deadline = time.monotonic() + timeout_s
    with socket.create_connection(server, timeout_s) as plain:
        if context is None:
            return _exchange(plain, word, deadline)
        plain.settimeout(_left(deadline))
        with context.wrap_socket(plain, server_hostname=server[0]) as secured:
            return _exchange(secured, word, deadline)


def takes_request(
    size: int, server: tuple[str, int], timeout_s: float, context: ssl.SSLContext | None = None
) -> bool | None:
    """Whether a server takes requests of `size` bytes, as its jute.maxbuffer says; None if that cannot be seen.

    It is sent the length alone, and closes the connection at once if that is too much.
    """
    is_closed = _closes_after(size, server, timeout_s, context)
    if is_closed and _closes_after(SMALL, server, timeout_s, context) is not False:
        return None  # it closes every connection: there is an election, or there are too many
    if is_closed is False:
        if not _closes_after(IMPOSSIBLE, server, timeout_s, context):
            return None  # it is slow now, whatever it is sent
        is_closed = _closes_after(size, server, timeout_s, context)  # it may have been slow just then
    return None if is_closed is None else not is_closed


def closes_at_once(server: tuple[str, int], timeout_s: float) -> bool:
    """Whether a server accepts a connection and closes it before it has been sent anything."""
    try:
        with socket.create_connection(server, timeout_s) as plain:
            return _closes(plain, b"", CLOSES_SLOWLY_S)
    except CLOSED:
        return True
    except OSError:
        return False


def _closes_after(
    size: int, server: tuple[str, int], timeout_s: float, context: ssl.SSLContext | None
) -> bool | None:
    try:
        with socket.create_connection(server, timeout_s) as plain:
            if context is None:
                return _closes(plain, struct.pack(">I", size))
            with context.wrap_socket(plain, server_hostname=server[0]) as secured:
                return _closes(secured, struct.pack(">I", size))
    except CLOSED:
        return True
    except OSError:
        return None


def _closes(connection: socket.socket, data: bytes, within_s: float = CLOSES_WITHIN_S) -> bool:
    connection.settimeout(within_s)
    try:
        connection.sendall(data)
        return not connection.recv(1)
    except TimeoutError:
        return False
    except OSError:  # reset, perhaps before all was sent
        return True


def _exchange(connection: socket.socket, word: str, deadline: float) -> str:
    connection.settimeout(_left(deadline))
    connection.sendall(word.encode())
    answer = bytearray()
    while len(answer) <= MOST_BYTES:
        connection.settimeout(_left(deadline))
        part = connection.recv(PART)
        if not part:
            return answer.decode(errors="replace")
        answer += part
    raise OSError(f"its answer to {word} has more than {MOST_BYTES:,} bytes")


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("timed out")
    return left
