"""A gateway as a process: from its start to SIGTERM or ^C."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from parkazoo.gateway.gateway import Gateway, GatewayOptions
from parkazoo.gateway.listen_sockets import bind
from parkazoo.gateway.listen_tls import ListenFiles
from parkazoo.gateway.session_table import SessionTable
from parkazoo.gateway.worker_processes import WorkerProcesses
from parkazoo.kazoo_private import collect_hosts

log = logging.getLogger(__name__)

LOOK_S = 5.0  # for a server


class Listening(NamedTuple):
    """:param files: of TLS; None: programs connect in plain text."""

    host: str
    port: int
    files: ListenFiles | None = None

    def name(self, port: int) -> str:
        """``ADDRESS:PORT``, as programs are given it."""
        return f"[{self.host}]:{port}" if ":" in self.host else f"{self.host}:{port}"


def serve(
    options: Mapping[str, Any],
    listening: Listening,
    table: Path | None,
    on_start: Callable[[str], None],
    workers: int = 1,
) -> None:
    """Serve programs until SIGTERM or SIGINT. The sessions are left to their time-out then.

    :param options: of :class:`GatewayOptions`. :param table: a file; None: sessions end with the process.
    :param on_start: is called with ``ADDRESS:PORT``, once programs can connect.
    :param workers: processes; several need a table.
    :raises TableError: the table cannot be used. :raises OSError: the address cannot be listened on.
    :raises ConfigurationError: a file of TLS cannot be used.
    """
    given = GatewayOptions(**options)
    if workers == 1:
        asyncio.run(_serve(given, listening, table, lambda port: on_start(listening.name(port))))
        return
    if listening.files is not None:
        listening.files.make_context()
    with SessionTable(table):
        pass  # it can be used
    for each in bind(listening.host, listening.port):  # by nobody else, or this fails
        each.close()
    held = bind(listening.host, listening.port, is_shared=True)
    port = held[0].getsockname()[1]
    shared = listening._replace(port=port)

    def work(lifeline: int, on_ready: Callable[[], None]) -> None:
        asyncio.run(_serve(given, shared, table, lambda port: on_ready(), lifeline))

    try:
        WorkerProcesses(workers, work).serve(lambda: on_start(shared.name(port)))
    finally:
        for each in held:
            each.close()


async def _serve(
    options: GatewayOptions,
    listening: Listening,
    table: Path | None,
    on_start: Callable[[int], None],
    lifeline: int | None = None,
) -> None:
    """:param lifeline: of a worker: it ends with its parent."""
    is_over = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, is_over.set)
    if lifeline is None:
        loop.add_signal_handler(signal.SIGINT, is_over.set)
    else:
        loop.add_reader(lifeline, is_over.set)
    tls = None if listening.files is None else listening.files.make_context()
    with SessionTable(table) as sessions:
        gateway = Gateway(options, sessions)
        await gateway.start(listening.host, listening.port, tls, is_shared=lifeline is not None)
        on_start(gateway.port)
        looking = asyncio.create_task(_warn_without_servers(options.hosts))
        await is_over.wait()
        looking.cancel()
        if lifeline is not None:
            loop.remove_reader(lifeline)
        await gateway.stop()


async def _warn_without_servers(hosts: str) -> None:
    """Now, for programs come later, and only wait."""
    answered = await asyncio.gather(*(_answers(*each) for each in collect_hosts(hosts)[0]))
    if not any(answered):
        log.warning("%s: no server answers: programs wait until one does", hosts)


async def _answers(host: str, port: int) -> bool:
    try:
        _, writer = await asyncio.wait_for(asyncio.open_connection(host, port), LOOK_S)
    except (OSError, asyncio.TimeoutError):
        return False
    writer.close()
    return True
