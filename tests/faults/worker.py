"""One process of a load: python -m tests.faults.worker, started by crew.py.

SIGTERM ends it when the load is done with what it has begun; SIGUSR1 writes every thread's stack to its log.
"""

from __future__ import annotations

import argparse
import faulthandler
import importlib
import logging
import os
import random
import signal
import threading
import time
import traceback
from pathlib import Path

from tests import LOG_FORMAT
from tests.faults.load import Load, Worker
from tests.faults.scarce_threads import NoThreadError

POLL_S = 0.5
CONFUSED = "xids do not match"


def load_named(name: str) -> Load:
    """The load of tests/faults/loads/NAME.py."""
    module = importlib.import_module(f"tests.faults.loads.{name}")
    found: Load = module.LOAD
    return found


def work(load: Load, worker: Worker) -> None:
    """Let the load work, and let the process end."""
    worker.record("began", pid=os.getpid())
    try:
        load.work(worker)
        worker.record("ended", asked=worker.is_over())
    except BaseException:
        logging.exception("%s crashed", load.name)  # which Crashes records
    finally:
        os.kill(os.getpid(), signal.SIGTERM)


class Crashes(logging.Handler):
    """Records each unexpected exception: what ends a thread, and what kazoo logs as an error.

    And answers that came for another request.
    """

    def __init__(self, worker: Worker) -> None:
        super().__init__(logging.WARNING)
        self._worker = worker
        threading.excepthook = lambda hook: self._record(hook.exc_value)

    def emit(self, record: logging.LogRecord) -> None:
        if CONFUSED in record.getMessage():
            self._worker.record("crashed", trace=record.getMessage())
        elif record.exc_info and record.levelno >= logging.ERROR:
            self._record(record.exc_info[1])

    def _record(self, error: BaseException | None) -> None:
        if error is not None and not is_kazoos_own(error) and not isinstance(error, NoThreadError):
            self._worker.record("crashed", trace="".join(traceback.format_exception(error)))


def is_kazoos_own(error: BaseException) -> bool:
    """Whether it is what ends a thread of kazoo's SetPartitioner when its locks are released by two at once."""
    frames = traceback.extract_tb(error.__traceback__)
    return isinstance(error, ValueError) and bool(frames) and frames[-1].name == "_release_locks"


def watch(worker: Worker) -> None:
    """Until it is asked to end."""
    while signal.SIGTERM not in signal.sigpending():
        time.sleep(POLL_S)
        worker.record_clients()
    worker.end()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.worker", description=__doc__)
    parser.add_argument("--number", type=int, required=True)
    parser.add_argument("--life", type=int, required=True)
    parser.add_argument("--root", required=True)
    parser.add_argument("--hosts", required=True)
    parser.add_argument("--timeout", type=float, required=True)
    parser.add_argument("--journal", type=Path, required=True)
    parser.add_argument("--seed", required=True)
    parser.add_argument("--counted", action="store_true")
    parser.add_argument("load")
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format=LOG_FORMAT)
    faulthandler.register(signal.SIGUSR1)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # inherited by every thread
    dice = random.Random(given.seed)
    worker = Worker(
        given.number,
        given.life,
        given.root,
        given.hosts,
        given.timeout,
        given.journal,
        dice,
        is_counted=given.counted,
    )
    logging.getLogger().addHandler(Crashes(worker))
    thread = threading.Thread(target=watch, args=(worker,), name="watch")
    thread.start()
    work(load_named(given.load), worker)  # on the main thread, where signal handlers run
    thread.join()


if __name__ == "__main__":
    main()
