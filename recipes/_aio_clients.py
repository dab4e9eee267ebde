"""What the programs for asyncio share; not a recipe itself. They need Python 3.11."""

from __future__ import annotations

import asyncio
import sys
import uuid
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager

from _clients import hosts_given
from kazoo.exceptions import KazooException

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


def run(main: Coroutine[None, None, None]) -> None:
    """Run a program, and end with a message if ZooKeeper fails it."""
    try:
        asyncio.run(main)
    except (KazooException, TimeoutError) as error:
        sys.exit(f"{type(error).__name__}: {error}".rstrip(": "))
    except KeyboardInterrupt:
        sys.exit(130)
