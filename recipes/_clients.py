"""What the programs here share; not a recipe itself."""

from __future__ import annotations

import os
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from parkazoo import ParKazooClient

TIMEOUT_S = 30.0
T = TypeVar("T")


def hosts_given() -> str:
    """The hosts on the command line, or in the environment."""
    hosts = sys.argv[1] if len(sys.argv) == 2 else os.environ.get("PARKAZOO_HOSTS", "")
    if not hosts or len(sys.argv) > 2:
        sys.exit(f"usage: python {sys.argv[0]} HOST:PORT,...    servers of any ensembles; or PARKAZOO_HOSTS")
    return hosts


@contextmanager
def connected(hosts: str, **options: Any) -> Iterator[ParKazooClient]:
    client = ParKazooClient(hosts, **options)
    try:
        client.start()
        yield client
    finally:
        client.stop()
        client.close()


@contextmanager
def clients(count: int, give_up_after: float | None = None) -> Iterator[list[ParKazooClient]]:
    """`count` started clients, each with a session of its own, as if each were a program of its own.

    Their ``/`` is a new chroot, which is deleted at the end with everything below it.
    """
    hosts, chroot = hosts_given(), f"/cookbook-{uuid.uuid4().hex[:8]}"
    try:
        with connected(hosts) as owner:
            owner.create(chroot)
            try:
                with ExitStack() as stack:
                    yield [
                        stack.enter_context(connected(hosts + chroot, give_up_after=give_up_after))
                        for _ in range(count)
                    ]
            finally:
                owner.delete(chroot, recursive=True)
    except (KazooException, KazooTimeoutError) as error:
        sys.exit(f"{type(error).__name__}: {error}".rstrip(": "))
    except KeyboardInterrupt:
        sys.exit(130)


def in_background(function: Callable[..., T], *arguments: object) -> Future[T]:
    """Call the function in a thread; ``.result(TIMEOUT_S)`` is what it returns."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(function(*arguments))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def together(function: Callable[[str, ParKazooClient], T], **clients: ParKazooClient) -> list[T]:
    """Call ``function(name, client)`` for each client, all at the same time; what they return."""
    futures = [in_background(function, name, client) for name, client in clients.items()]
    return [future.result(TIMEOUT_S) for future in futures]


def expect(is_so: bool, promise: str) -> None:
    """End the program with status 1 if the promise was not kept."""
    if not is_so:
        sys.exit(f"not kept: {promise}")
