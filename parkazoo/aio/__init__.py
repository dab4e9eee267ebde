"""ParKazooClient for asyncio: the same sessions and the same protocol, on the loop that runs."""

import sys

if sys.version_info < (3, 11):  # asyncio.timeout and Task.uncancel, without which nobody can use it well
    raise ImportError("parkazoo.aio needs Python 3.11")

from parkazoo.aio.async_client import ParKazooClient
from parkazoo.aio.recipe.possession import LockLostError

__all__ = ["LockLostError", "ParKazooClient"]
