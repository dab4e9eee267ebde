"""KazooClient over several ZooKeeper ensembles. Importing it does nothing else."""

from parkazoo.client import ParKazooClient
from parkazoo.errors import ClusterMapError, CrossEnsembleError, ForkError

__version__ = "0.1.0"
__all__ = ["ClusterMapError", "CrossEnsembleError", "ForkError", "ParKazooClient"]
