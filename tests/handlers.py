"""Which handler the live tests use: environment variable PARKAZOO_TEST_HANDLER.

``threading`` (the default): the one that a client makes itself; ``gevent``: kazoo's for gevent, nothing patched;
``gevent-patched``: the same and everything monkey-patched, before anything else was imported, by
``python -m tests.part``.
"""

from __future__ import annotations

import os
from typing import Any

VARIABLE = "PARKAZOO_TEST_HANDLER"
NAMES = ("threading", "gevent", "gevent-patched")


def handler_name() -> str:
    name = os.environ.get(VARIABLE, "threading")
    if name not in NAMES:
        raise SystemExit(f"{VARIABLE}={name}: it must be one of {', '.join(NAMES)}")
    return name


def make_handler() -> Any:
    """A new handler for one client: ``ParKazooClient(hosts, handler=make_handler())``."""
    if handler_name() == "threading":
        from parkazoo.wire.handler import ThreadingHandler  # noqa: PLC0415 - after patching

        return ThreadingHandler()
    from kazoo.handlers.gevent import SequentialGeventHandler  # noqa: PLC0415 - gevent is optional

    return SequentialGeventHandler()


def patch_everything_if_asked() -> None:
    """To be called before anything is imported that uses threads or sockets."""
    if handler_name() == "gevent-patched":
        from gevent import monkey  # noqa: PLC0415 - gevent is optional

        monkey.patch_all()
