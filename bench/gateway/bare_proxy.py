"""``python -m bench.gateway.bare_proxy HOST:PORT``: hands bytes on, and looks at none.

What it costs no gateway on asyncio can save.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import cast

HERE = "127.0.0.1"


class End(asyncio.Protocol):
    """One of two connections; what it reads is written to the other. If one ends, both do."""

    def __init__(self) -> None:
        self.other: asyncio.Transport | None = None
        self.early: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.own = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self.other is None:
            self.early.append(data)
        else:
            self.other.write(data)

    def connection_lost(self, error: Exception | None) -> None:
        if self.other is not None:
            self.other.close()


class Front(End):
    """A program's connection, which has one to the server."""

    def __init__(self, server: tuple[str, int]) -> None:
        super().__init__()
        self._server = server

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._reaching = asyncio.ensure_future(self._reach())

    async def _reach(self) -> None:
        _, back = await asyncio.get_running_loop().create_connection(End, *self._server)
        back.other, self.other = self.own, back.own
        self.other.writelines(self.early)


async def serve(server: tuple[str, int]) -> None:
    """Until SIGTERM."""
    loop, ends = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, ends.set)
    listening = await loop.create_server(lambda: Front(server), HERE, 0)
    host, port = listening.sockets[0].getsockname()
    print(f"listening on {host}:{port}", flush=True)
    await ends.wait()


if __name__ == "__main__":
    name, _, number = sys.argv[1].rpartition(":")
    asyncio.run(serve((name, int(number))))
