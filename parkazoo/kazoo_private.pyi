"""Types for kazoo_private.py: kazoo has none. tests/repository/test_kazoo_private.py compares both with kazoo.

Classes with an underscore are not kazoo's: they hold what several of its classes have. kazoo's are named tuples.
To mypy named tuples have nothing in common but tuple, so a list of several requests would be a list of tuples.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Any, Final, Generic, TypeVar

from kazoo.exceptions import RolledBackError as RolledBackError
from kazoo.exceptions import RuntimeInconsistency as RuntimeInconsistency
from kazoo.handlers.utils import capture_exceptions as capture_exceptions
from kazoo.hosts import collect_hosts as collect_hosts
from kazoo.protocol.connection import ConnectionHandler as ConnectionHandler
from kazoo.protocol.connection import RWServerAvailable as RWServerAvailable
from typing_extensions import Self

from parkazoo.types.znodes import ACL, ZnodeStat
from parkazoo.types.znodes import Watch as _Watcher

_T_co = TypeVar("_T_co", covariant=True)

BLATHER: Final[int]
CONNECTION_DROP: Final[Any]  # it stands in a request's place, as the next does
SESSION_EXPIRED: Final[Any]
AUTH_XID: Final[int]
PING_XID: Final[int]
WATCH_XID: Final[int]
int_struct: Final[Struct]
int_int_struct: Final[Struct]
multiheader_struct: Final[Struct]
stat_struct: Final[Struct]

CLIENT_ATTRIBUTES: Final[tuple[str, ...]]
CONNECTION_ATTRIBUTES: Final[tuple[str, ...]]
HANDLER_ATTRIBUTES: Final[tuple[str, ...]]

def join(a: str, *p: str) -> str: ...
def normpath(path: str, trailing: bool = False) -> str: ...
def prefix_root(root: str, path: str, trailing: bool = False) -> str: ...

# ---- fields ------------------------------------------------------------------------------------

class _Message(tuple[Any, ...]):
    def serialize(self) -> bytes: ...
    def _replace(self, **changes: Any) -> Self: ...

class _Request(_Message):
    type: int

class _Answered(_Request, Generic[_T_co]):
    @classmethod
    def deserialize(cls, bytes: bytes, offset: int) -> _T_co: ...

class _AtPath(_Request):
    path: str

class _AtVersion(_AtPath):
    version: int
    def __new__(cls, path: str, version: int) -> Self: ...

class _Read(_AtPath):
    watcher: _Watcher | None
    def __new__(cls, path: str, watcher: _Watcher | None) -> Self: ...

class _Creation(_AtPath):
    data: bytes | None
    acl: Sequence[ACL]
    flags: int
    def __new__(cls, path: str, data: bytes | None, acl: Sequence[ACL], flags: int) -> Self: ...

# ---- requests ----------------------------------------------------------------------------------

class Create(_Creation, _Answered[str]): ...
class Create2(_Creation, _Answered[tuple[str, ZnodeStat]]): ...
class Delete(_AtVersion, _Answered[bool]): ...
class CheckVersion(_AtVersion): ...
class Exists(_Read, _Answered[ZnodeStat | None]): ...
class GetData(_Read, _Answered[tuple[bytes, ZnodeStat]]): ...
class GetChildren(_Read, _Answered[list[str]]): ...
class GetChildren2(_Read, _Answered[tuple[list[str], ZnodeStat]]): ...

class SetData(_AtPath, _Answered[ZnodeStat]):
    data: bytes | None
    version: int
    def __new__(cls, path: str, data: bytes | None, version: int) -> Self: ...

class GetACL(_AtPath, _Answered[tuple[list[ACL], ZnodeStat]]):
    def __new__(cls, path: str) -> Self: ...

class SetACL(_AtPath, _Answered[ZnodeStat]):
    acls: Sequence[ACL]
    version: int
    def __new__(cls, path: str, acls: Sequence[ACL], version: int) -> Self: ...

class Sync(_AtPath, _Answered[str]):
    def __new__(cls, path: str) -> Self: ...

class Transaction(_Answered[list[Any]]):  # each result is of its operation's type, or an exception
    operations: Sequence[Create | Delete | SetData | CheckVersion]
    def __new__(cls, operations: Sequence[Create | Delete | SetData | CheckVersion]) -> Self: ...
    @staticmethod
    def unchroot(client: object, response: list[Any]) -> list[Any]: ...

class Reconfig(_Answered[tuple[bytes, ZnodeStat]]):
    joining: str | None
    leaving: str | None
    new_members: str | None
    config_id: int
    def __new__(
        cls, joining: str | None, leaving: str | None, new_members: str | None, config_id: int
    ) -> Self: ...

class Auth(_Request):
    auth_type: int
    scheme: str
    auth: str
    def __new__(cls, auth_type: int, scheme: str, auth: str) -> Self: ...

class SASL(_Answered[tuple[bytes, int]]):
    challenge: bytes
    def __new__(cls, challenge: bytes) -> Self: ...

class Close(_Request):
    def __new__(cls) -> Self: ...

CloseInstance: Final[Close]
PingInstance: Final[_Request]

# ---- other messages ----------------------------------------------------------------------------

class Connect(_Message):
    protocol_version: int
    last_zxid_seen: int
    time_out: int
    session_id: int
    passwd: bytes
    read_only: bool | None
    def __new__(
        cls,
        protocol_version: int,
        last_zxid_seen: int,
        time_out: int,
        session_id: int,
        passwd: bytes,
        read_only: bool | None,
    ) -> Self: ...
    @classmethod
    def deserialize(cls, bytes: bytes, offset: int) -> tuple[Self, int]: ...

class Watch(tuple[Any, ...]):
    type: int
    state: int
    path: str
    def __new__(cls, type: int, state: int, path: str) -> Self: ...
    @classmethod
    def deserialize(cls, bytes: bytes, offset: int) -> tuple[Self, int]: ...
