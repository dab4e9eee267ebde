"""ZooKeeper's four-letter words: one question to one server, in plain text or over TLS."""

from __future__ import annotations

import socket
import ssl
import time

MOST_BYTES = 1 << 26  # `cons` has some 200 for each connection
PART = 1 << 16


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
