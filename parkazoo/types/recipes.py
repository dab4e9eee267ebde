"""kazoo's recipes; see recipes.pyi."""

from kazoo.recipe.barrier import Barrier, DoubleBarrier
from kazoo.recipe.counter import Counter
from kazoo.recipe.election import Election
from kazoo.recipe.lease import MultiNonBlockingLease, NonBlockingLease
from kazoo.recipe.lock import Lock, ReadLock, Semaphore, WriteLock
from kazoo.recipe.partitioner import SetPartitioner
from kazoo.recipe.party import Party, ShallowParty
from kazoo.recipe.queue import LockingQueue, Queue
from kazoo.recipe.watchers import ChildrenWatch, DataWatch

__all__ = [
    "Barrier",
    "ChildrenWatch",
    "Counter",
    "DataWatch",
    "DoubleBarrier",
    "Election",
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
    "WriteLock",
]
