"""Programs that know plain ZooKeeper alone do all operations through gateways; they must be linearizable.

Workers 0 and 1 are gateways, which are killed and frozen like others, and then go on with their tables. The other
workers are kazoo's own clients, each at one gateway. What they do and record is that of the load `registers`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.retry import KazooRetry

from parkazoo import ParKazooClient
from parkazoo.gateway.gateway import Gateway, GatewayOptions
from parkazoo.gateway.session_table import SessionTable
from tests.faults.asyncio_worker import Followed
from tests.faults.load import CONNECT_TIMEOUT_S, Worker
from tests.faults.loads import registers
from tests.faults.loads.registers import PAUSE_S, Recorder, User

GATEWAYS = 2
BEAT_S = 0.5
IDLE_BEATS = 20  # without a program: one that has lost its connection comes back in less


class GatewayRegisters:
    name = "gateway_registers"
    about = "through gateways, writes and synced reads of each znode by kazoo's own clients are linearizable"
    processes = GATEWAYS + 3

    def prepare(self, client: ParKazooClient, root: str) -> None:
        """Nothing is needed: the first client makes a group's znodes."""

    def work(self, worker: Worker) -> None:
        if worker.number < GATEWAYS:
            asyncio.run(_serve(worker, _port_file(worker, worker.number)))
        else:
            _use(worker)

    def finish(self, client: ParKazooClient, root: str, record: Callable[..., None]) -> None:
        registers.LOAD.finish(client, root, record)


async def _serve(worker: Worker, port_file: Path) -> None:
    """Until all is over, and no program is connected any more. Its port is the same in each life."""
    with SessionTable(port_file.with_suffix(".sessions")) as sessions:
        gateway = Gateway(GatewayOptions(worker.hosts), sessions)
        await gateway.start("127.0.0.1", _read_port(port_file))
        port_file.write_text(str(gateway.port))
        idle = 0
        while idle < IDLE_BEATS:
            await asyncio.sleep(BEAT_S)
            worker.record("serves", programs=len(gateway._connections))
            for each in gateway._sessions.values():
                if each.client._session is not None:
                    worker.follow(Followed(each.client))
            idle = idle + 1 if worker.is_over() and not gateway._connections else 0
        await gateway.stop()


def _use(worker: Worker) -> None:
    port_file = _port_file(worker, worker.number % GATEWAYS)
    while not (port := _read_port(port_file)):
        time.sleep(BEAT_S)
    client = _connected(worker, port)
    user = User(worker, client, Recorder(client, worker.root, worker.record))
    while not worker.is_over():
        user.act()
        worker.pause(worker.dice.random() * PAUSE_S)
    client.stop()
    client.close()


def _connected(worker: Worker, port: int) -> Any:
    """A started client of kazoo's, which keeps trying for ever."""
    retry = KazooRetry(max_tries=-1, max_delay=1.0)
    client = KazooClient(f"127.0.0.1:{port}", timeout=worker.session_timeout_s, connection_retry=retry)
    client.add_listener(lambda state: worker.record("state", state=state))
    while not client.connected:
        with suppress(KazooTimeoutError):
            client.start(CONNECT_TIMEOUT_S)
    return client


def _port_file(worker: Worker, gateway: int) -> Path:
    return worker.folder / f"{GatewayRegisters.name}-{gateway}.port"


def _read_port(file: Path) -> int:
    """0: there has been no gateway yet."""
    with suppress(FileNotFoundError, ValueError):
        return int(file.read_text())
    return 0


LOAD = GatewayRegisters()
