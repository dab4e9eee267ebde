"""kazoo's public classes with types, for annotations. While a program runs they are kazoo's own.

kazoo has no type information. What it lacks is written in the .pyi files of this package, which type checkers read
instead of the .py files; tests/typing/test_signatures.py compares them with the kazoo that is installed.

The .pyi files begin with `if 0`. To mypy, a class that derives from one of untyped kazoo has every attribute, also
a mistyped one, so ours must not derive from it; mypy keeps what the first branch defines. Pyright reads `0` as
false: it takes kazoo's from the other branch, and so knows that functions annotated with kazoo's class take ours.
"""

from parkazoo.types.client import KazooClient, KazooRetry, TransactionRequest
from parkazoo.types.recipes import (
    Barrier,
    ChildrenWatch,
    Counter,
    DataWatch,
    DoubleBarrier,
    Election,
    Lock,
    LockingQueue,
    MultiNonBlockingLease,
    NonBlockingLease,
    Party,
    Queue,
    ReadLock,
    Semaphore,
    SetPartitioner,
    ShallowParty,
    WriteLock,
)
from parkazoo.types.watch_modes import AddWatchMode
from parkazoo.types.znodes import ACL, ACLs, AsyncResult, Id, WatchedEvent, ZnodeStat

__all__ = [
    "ACL",
    "ACLs",
    "AddWatchMode",
    "AsyncResult",
    "Barrier",
    "ChildrenWatch",
    "Counter",
    "DataWatch",
    "DoubleBarrier",
    "Election",
    "Id",
    "KazooClient",
    "KazooRetry",
    "Lock",
    "LockingQueue",
    "MultiNonBlockingLease",
    "NonBlockingLease",
    "Party",
    "Queue",
    "ReadLock",
    "Semaphore",
    "SetPartitioner",
    "ShallowParty",
    "TransactionRequest",
    "WatchedEvent",
    "WriteLock",
    "ZnodeStat",
]
