"""A process with asyncio clients on one loop, which take locks in turn."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Mapping, Sequence
from types import SimpleNamespace

from kazoo.exceptions import KazooException

from parkazoo import ClusterMapError
from parkazoo.aio import LockLostError, ParKazooClient
from parkazoo.aio.recipe.async_lock import AsyncLock
from parkazoo.protocol.cluster_map import ClusterMap
from tests.faults.guarded_writes import GUARDED, SEQUENCE_DIGITS
from tests.faults.load import CONNECT_PAUSE_S, CONNECT_TIMEOUT_S, Worker
from tests.faults.retries import BEAT_S, LOST

PATIENCE_S = 2.0
SHARE_HASTY, HASTE_S = 0.3, (0.0, 0.05)  # of the times that a task has for all of it
SHARE_LONG, LONG_S = 0.05, 15.0  # so that a session may end while it holds the lock
MOST_WRITES, MANY_WRITES = 5, 60
PAUSE_S, HELD_PAUSE_S = (0.0, 0.1), (0.01, 0.1)


def lock_in_turn(worker: Worker, clients: int, names: Sequence[str]) -> None:
    """Until it is over. Nothing but the clients' own work may be left when they have stopped."""
    asyncio.run(_all(worker, clients, names))


async def _all(worker: Worker, clients: int, names: Sequence[str]) -> None:
    beats = asyncio.create_task(_beat(worker))
    async with asyncio.TaskGroup() as tasks:
        for number in range(clients):
            tasks.create_task(_live(worker.part(number), names))
    beats.cancel()
    await asyncio.wait([beats])
    left = asyncio.all_tasks() - {asyncio.current_task()}
    if left:
        worker.record("crashed", trace=f"tasks are left: {left}")


async def _beat(worker: Worker) -> None:
    """The journal shows that the loop runs."""
    while True:
        worker.record("beat")
        await asyncio.sleep(BEAT_S)


async def _live(worker: Worker, names: Sequence[str]) -> None:
    """One client's."""
    client = await _connect(worker)
    for hold in itertools.count():
        if worker.is_over():
            break
        lock = client.Lock(f"{worker.root}/{worker.dice.choice(names)}")
        worker.record("asking", lock=lock.path, hold=hold)
        limit_s, writes = PATIENCE_S, worker.dice.randint(1, MOST_WRITES)
        if worker.dice.random() < SHARE_HASTY:
            limit_s = worker.dice.uniform(*HASTE_S)
        elif worker.dice.random() < SHARE_LONG:
            limit_s, writes = LONG_S, MANY_WRITES
        try:
            async with asyncio.timeout(limit_s), lock:
                await _hold(worker, client, lock, hold, writes)
        except TimeoutError:
            worker.record("too late", hold=hold)
        except LockLostError:
            worker.record("lost", hold=hold)
        await asyncio.sleep(worker.dice.uniform(*PAUSE_S))
    await client.stop()


async def _connect(worker: Worker) -> ParKazooClient:
    """See :meth:`Worker.connect`."""
    while True:
        client = ParKazooClient(worker.hosts, timeout=worker.session_timeout_s)
        client.add_listener(lambda state: worker.record("state", state=state))
        try:
            await client.start(CONNECT_TIMEOUT_S)
        except (TimeoutError, ClusterMapError):  # an address may lead to another ensemble
            await asyncio.sleep(CONNECT_PAUSE_S)
        else:
            worker.follow(Followed(client))
            return client


class Followed:
    """What the journal has of a client."""

    def __init__(self, client: ParKazooClient) -> None:
        self._client = client

    @property
    def members(self) -> Mapping[str, SimpleNamespace]:
        session = self._client._session
        assert session is not None
        found = {}
        for each in session.roster.members:
            client_id = (each.session_id, each.session_password) if each.is_connected else None
            found[each.name] = SimpleNamespace(client_id=client_id, servers=each.servers)
        return found

    @property
    def cluster_map(self) -> ClusterMap | None:
        assert self._client._session is not None
        return self._client._session.roster.cluster_map


async def _hold(worker: Worker, client: ParKazooClient, lock: AsyncLock, hold: int, writes: int) -> None:
    """See :func:`tests.faults.guarded_writes.hold`; it may be cancelled at any await."""
    node = lock.node or ""
    token = int(node[-SEQUENCE_DIGITS:])
    worker.record("acquired", lock=lock.path, hold=hold, token=token)
    try:
        for _ in range(writes):
            if worker.is_over():
                return
            began_s = time.monotonic()
            transaction = client.transaction()
            transaction.check(f"{lock.path}/{node}", -1)
            transaction.set_data(f"{lock.path}/{GUARDED}", b"%d" % token)
            try:
                outcome = await transaction.commit()
            except LOST:
                outcome = []
            errors = [type(result).__name__ for result in outcome if isinstance(result, KazooException)]
            if errors:
                worker.record("refused", hold=hold, began=began_s, errors=errors)
                return
            if outcome:
                worker.record("guarded", hold=hold, began=began_s, version=outcome[1].version)
            await asyncio.sleep(worker.dice.uniform(*HELD_PAUSE_S))
    finally:
        worker.record("releasing", hold=hold)
