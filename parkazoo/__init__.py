"""KazooClient over several ZooKeeper ensembles. Importing it does nothing else."""

from parkazoo.client import ParKazooClient
from parkazoo.errors import ClusterMapError, CrossEnsembleError, DeferredError, ForkError
from parkazoo.version import __version__ as __version__

__all__ = ["ClusterMapError", "CrossEnsembleError", "DeferredError", "ForkError", "ParKazooClient"]
