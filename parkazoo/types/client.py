"""kazoo's client; see client.pyi."""

from collections.abc import Callable

from kazoo.client import KazooClient, TransactionRequest
from kazoo.retry import KazooRetry

from parkazoo.types.znodes import ZnodeStat

Listener = Callable[[str], object]
TransactionResult = str | bool | ZnodeStat | Exception

__all__ = ["KazooClient", "KazooRetry", "Listener", "TransactionRequest", "TransactionResult"]
