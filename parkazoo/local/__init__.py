"""Real ZooKeeper ensembles on this machine, for trying things out, for tests and for notebooks.

    with LocalCluster(ensembles=3, servers=3) as cluster:
        client = ParKazooClient(cluster.hosts)

Needs the extra ``local``. Servers listen on 127.0.0.1 alone and never outlive their owner, see
supervisor_process.py. Importing this package does nothing.
"""

from parkazoo.local.addresses import HOST, free_ports
from parkazoo.local.cluster import LocalCluster
from parkazoo.local.cluster_error import AlreadyRunningError, LocalClusterError
from parkazoo.local.detached import (
    LocalServerStatus,
    start_detached,
    start_named,
    status,
    stop_detached,
    stop_named,
)
from parkazoo.local.four_letter_words import Role, four_letter_word, role_of
from parkazoo.local.jars import find_zookeeper
from parkazoo.local.java import find_java
from parkazoo.local.servers import LocalEnsemble, LocalServer, Machine

__all__ = [
    "HOST",
    "AlreadyRunningError",
    "LocalCluster",
    "LocalClusterError",
    "LocalEnsemble",
    "LocalServer",
    "LocalServerStatus",
    "Machine",
    "Role",
    "find_java",
    "find_zookeeper",
    "four_letter_word",
    "free_ports",
    "role_of",
    "start_detached",
    "start_named",
    "status",
    "stop_detached",
    "stop_named",
]
