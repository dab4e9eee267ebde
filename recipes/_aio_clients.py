"""What the programs for asyncio share; not a recipe itself. They need Python 3.11."""

from __future__ import annotations

import asyncio
import logging
import sys
import uuid
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager

from _clients import connected, hosts_given
from kazoo.exceptions import KazooException
from kazoo.protocol.states import KazooState

from parkazoo.aio import ParKazooClient


@asynccontextmanager
async def clients(count: int) -> AsyncIterator[list[ParKazooClient]]:
    """`count` started clients, each with a session of its own, as if each were a program of its own.

    Their ``/`` is a new chroot, which is deleted at the end with everything below it.
    """
    hosts, chroot = hosts_given(), f"/cookbook-{uuid.uuid4().hex[:8]}"
    async with ParKazooClient(hosts) as owner:
        await owner.create(chroot)
        try:
            async with AsyncExitStack() as stack:
                yield [await stack.enter_async_context(ParKazooClient(hosts + chroot)) for _ in range(count)]
        finally:
            await owner.delete(chroot, recursive=True)


async def end_session(zk: ParKazooClient) -> None:
    """End a client's session, as servers do when nobody has pinged for the session timeout; wait for the next one.

    :param zk: it has an ephemeral, and so hears LOST; or a watch, and hears SUSPENDED.
    """
    logging.getLogger("parkazoo").setLevel(logging.ERROR)  # its warnings would say what the program prints
    while (number := zk.client_id) is None:  # not connected just now
        await asyncio.sleep(0.05)
    has_another = asyncio.Event()
    zk.add_listener(lambda state: has_another.set() if state == KazooState.CONNECTED else None)
    with connected(hosts_given() + zk.chroot, client_id=number):
        pass  # It has the session now. The loop stands still, so that the first client does not take it back.
    await has_another.wait()


def run(main: Coroutine[None, None, None]) -> None:
    """Run a program, and end with a message if ZooKeeper fails it."""
    try:
        asyncio.run(main)
    except (KazooException, TimeoutError) as error:
        sys.exit(f"{type(error).__name__}: {error}".rstrip(": "))
    except KeyboardInterrupt:
        sys.exit(130)
