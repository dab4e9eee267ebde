"""A program whose signal handler raises, again and again: python -m tests.live.interrupted HOSTS ROOT SECONDS.

It creates znodes below ROOT, one call after the other, each with a time limit, most of them too short. Its last
line is what came of it, as JSON.
"""

from __future__ import annotations

import json
import logging
import random
import signal
import sys
import time
from collections import Counter
from typing import Any

from parkazoo import ParKazooClient

SHORTEST_S, LONGEST_S = 0.0003, 0.006
PATIENCE_S = 60
AFTERWARDS = 100


class TooLateError(Exception):
    """What a time limit raises."""


class Lines(logging.Handler):
    """Keeps what is logged as a warning or an error."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


def raise_too_late(*_: Any) -> None:
    raise TooLateError


def main() -> None:
    hosts, root, seconds = sys.argv[1:]
    lines = Lines()
    logging.getLogger().addHandler(lines)
    client = ParKazooClient(hosts)
    client.start()
    dice = random.Random(root)
    signal.signal(signal.SIGALRM, raise_too_late)
    begun = interrupted = 0
    errors: Counter[str] = Counter()
    end_s = time.monotonic() + float(seconds)
    while time.monotonic() < end_s:
        begun += 1
        try:
            try:
                signal.setitimer(signal.ITIMER_REAL, dice.uniform(SHORTEST_S, LONGEST_S))
                client.create(f"{root}/{begun}-", sequence=True)
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        except TooLateError:
            interrupted += 1
        except Exception as error:
            errors[type(error).__name__] += 1
    signal.alarm(PATIENCE_S)
    for number in range(AFTERWARDS):
        client.retry(client.ensure_path, f"{root}/after{number}")
    signal.alarm(0)
    print(json.dumps({"begun": begun, "interrupted": interrupted, "errors": errors, "lines": lines.texts}))
    client.stop()


if __name__ == "__main__":
    main()
