"""What a load's client does about lost connections, and how its journal shows that it runs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kazoo.exceptions import ConnectionLoss, OperationTimeoutError, SessionExpiredError
from kazoo.retry import KazooRetry

from parkazoo.admin.clients import LostError
from tests.faults.load import Worker

LOST = (ConnectionLoss, OperationTimeoutError, SessionExpiredError)  # it may or may not have been done
BEAT_S = 0.1
RETRY_S = 0.2


@contextmanager
def beating(worker: Worker, every_s: float = BEAT_S) -> Iterator[None]:
    """Meanwhile the journal shows that the process runs."""
    is_done = threading.Event()

    def beat() -> None:
        while not is_done.wait(every_s):
            worker.record("beat")

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_done.set()
        thread.join()


def retry_to_the_end() -> KazooRetry:
    """A client's `command_retry` that ends with the session alone."""
    return KazooRetry(max_tries=-1, max_delay=RETRY_S, ignore_expire=False)


def until_answered(call: Any, max_tries: int = -1) -> Any:
    """What `call` returns, asked again after each lost connection: for what may be done twice.

    :param max_tries: after the first; -1: as many as it takes.
    :raises RetryFailedError: all were in vain.
    """
    retry = KazooRetry(max_tries=max_tries, max_delay=RETRY_S)
    retry.retry_exceptions = (*LOST, LostError)  # which commands raise
    return retry(call)
