"""Every name of kazoo 2.11 that ParKazoo uses beyond kazoo's documented interface, and nowhere else.

The package's requirements pin kazoo's minor version for the sake of this file. It has two parts: names that
can be imported, and, in CLIENT_ATTRIBUTES, CONNECTION_ATTRIBUTES and HANDLER_ATTRIBUTES, attributes that are
read, replaced or overridden on KazooClient, ConnectionHandler and handlers;
tests/repository/test_kazoo_private.py checks that kazoo still has each of them.
"""

from kazoo.exceptions import RolledBackError, RuntimeInconsistency
from kazoo.handlers.utils import capture_exceptions
from kazoo.hosts import collect_hosts
from kazoo.loggingsupport import BLATHER
from kazoo.protocol.connection import _CONNECTION_DROP as CONNECTION_DROP
from kazoo.protocol.connection import _SESSION_EXPIRED as SESSION_EXPIRED
from kazoo.protocol.connection import AUTH_XID, PING_XID, WATCH_XID, ConnectionHandler, RWServerAvailable
from kazoo.protocol.paths import _prefix_root as prefix_root
from kazoo.protocol.paths import join, normpath
from kazoo.protocol.serialization import (
    SASL,
    Auth,
    CheckVersion,
    Close,
    CloseInstance,
    Connect,
    Create,
    Create2,
    Delete,
    Exists,
    GetACL,
    GetChildren,
    GetChildren2,
    GetData,
    PingInstance,
    Reconfig,
    SetACL,
    SetData,
    Sync,
    Transaction,
    Watch,
    int_int_struct,
    int_struct,
    multiheader_struct,
    stat_struct,
)

CLIENT_ATTRIBUTES = (
    "_call",
    "_child_watchers",
    "_conn_retry",
    "_connection",
    "_data_watchers",
    "_live",
    "_make_state_change",
    "_notify_pending",
    "_pending",
    "_protocol_version",
    "_queue",
    "_reset",
    "_reset_session",
    "_reset_watchers",
    "_retry",
    "_safe_close",
    "_session_callback",
    "_session_id",
    "_session_passwd",
    "_session_timeout",
    "_state",
    "_stopped",
    "_writer_stopped",
)
CONNECTION_ATTRIBUTES = (
    "_authenticate_with_sasl",
    "_connect",
    "_ro_mode",
    "_read_sock",
    "_read_watch_event",
    "_socket",
    "_write_sock",
    "_xid",
    "sasl_options",
)
HANDLER_ATTRIBUTES = (
    "_running",
    "_workers",
)

__all__ = [
    "AUTH_XID",
    "BLATHER",
    "CONNECTION_DROP",
    "PING_XID",
    "SASL",
    "SESSION_EXPIRED",
    "WATCH_XID",
    "Auth",
    "CheckVersion",
    "Close",
    "CloseInstance",
    "Connect",
    "ConnectionHandler",
    "Create",
    "Create2",
    "Delete",
    "Exists",
    "GetACL",
    "GetChildren",
    "GetChildren2",
    "GetData",
    "PingInstance",
    "RWServerAvailable",
    "Reconfig",
    "RolledBackError",
    "RuntimeInconsistency",
    "SetACL",
    "SetData",
    "Sync",
    "Transaction",
    "Watch",
    "capture_exceptions",
    "collect_hosts",
    "int_int_struct",
    "int_struct",
    "join",
    "multiheader_struct",
    "normpath",
    "prefix_root",
    "stat_struct",
]
