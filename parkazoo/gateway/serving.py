"""A gateway as a process: from its start to SIGTERM or ^C."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from parkazoo.gateway.gateway import Gateway, GatewayOptions
from parkazoo.gateway.session_table import SessionTable


def serve(
    options: Mapping[str, Any], address: tuple[str, int], table: Path | None, on_start: Callable[[str], None]
) -> None:
    """Serve programs until SIGTERM or SIGINT. The sessions are left to their time-out then.

    :param options: of :class:`GatewayOptions`. :param table: a file; None: sessions end with the process.
    :param on_start: is called with ``ADDRESS:PORT``, once programs can connect.
    :raises TableError: the table cannot be used. :raises OSError: the address cannot be listened on.
    """
    asyncio.run(_serve(GatewayOptions(**options), address, table, on_start))


async def _serve(
    options: GatewayOptions, address: tuple[str, int], table: Path | None, on_start: Callable[[str], None]
) -> None:
    is_over = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, is_over.set)
    with SessionTable(table) as sessions:
        gateway = Gateway(options, sessions)
        await gateway.start(*address)
        on_start(f"{address[0]}:{gateway.port}")
        await is_over.wait()
        await gateway.stop()
