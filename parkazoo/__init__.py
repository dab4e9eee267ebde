"""KazooClient over several ZooKeeper ensembles. Importing it does nothing else."""

from parkazoo.client import ParKazooClient
from parkazoo.errors import (
    AnswerLostError,
    ClusterMapError,
    CrossEnsembleError,
    DeferredError,
    ForkError,
    OutcomeUnknown,
    PartlyDoneError,
    RequestTooLargeError,
    WentBackError,
)
from parkazoo.version import __version__ as __version__

__all__ = [
    "AnswerLostError",
    "ClusterMapError",
    "CrossEnsembleError",
    "DeferredError",
    "ForkError",
    "OutcomeUnknown",
    "ParKazooClient",
    "PartlyDoneError",
    "RequestTooLargeError",
    "WentBackError",
]
