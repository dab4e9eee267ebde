"""What servers answer, and what brings the answers."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from typing_extensions import Self

# For mypy the first branch, for pyright the second: parkazoo/types/__init__.py says why.
# mypy: disable-error-code="no-redef"
if 0:
    class _ZnodeStat(tuple[Any, ...]): ...
    class _WatchedEvent(tuple[Any, ...]): ...

    class Id(tuple[str, str]):
        scheme: str
        id: str
        def __new__(cls, scheme: str, id: str) -> Self: ...

    class ACL(tuple[int, Id]):
        perms: int
        id: Id
        def __new__(cls, perms: int, id: Id) -> Self: ...
        @property
        def acl_list(self) -> list[str]: ...

else:
    from kazoo.protocol.states import WatchedEvent as _WatchedEvent
    from kazoo.protocol.states import ZnodeStat as _ZnodeStat
    from kazoo.security import ACL as ACL
    from kazoo.security import Id as Id

_T_co = TypeVar("_T_co", covariant=True)

ACLs = list[ACL] | tuple[ACL, ...]
Watch = Callable[[WatchedEvent], object]

class ZnodeStat(_ZnodeStat):
    czxid: int
    mzxid: int
    ctime: int
    mtime: int
    version: int
    cversion: int
    aversion: int
    ephemeralOwner: int
    dataLength: int
    numChildren: int
    pzxid: int
    def __new__(
        cls,
        czxid: int,
        mzxid: int,
        ctime: int,
        mtime: int,
        version: int,
        cversion: int,
        aversion: int,
        ephemeralOwner: int,
        dataLength: int,
        numChildren: int,
        pzxid: int,
    ) -> Self: ...
    def _replace(self, **changes: int) -> Self: ...
    def _asdict(self) -> dict[str, int]: ...
    @property
    def acl_version(self) -> int: ...
    @property
    def children_version(self) -> int: ...
    @property
    def created(self) -> float: ...
    @property
    def last_modified(self) -> float: ...
    @property
    def owner_session_id(self) -> int | None: ...
    @property
    def creation_transaction_id(self) -> int: ...
    @property
    def last_modified_transaction_id(self) -> int: ...
    @property
    def data_length(self) -> int: ...
    @property
    def children_count(self) -> int: ...

class WatchedEvent(_WatchedEvent):
    type: str
    state: str
    path: str | None
    def __new__(cls, type: str, state: str, path: str | None) -> Self: ...
    def _replace(self, **changes: str | None) -> Self: ...
    def _asdict(self) -> dict[str, str | None]: ...

class AsyncResult(Generic[_T_co]):
    @property
    def value(self) -> _T_co | None: ...
    @property
    def exception(self) -> BaseException | None: ...
    def ready(self) -> bool: ...
    def successful(self) -> bool: ...
    def set(self, value: Any = None) -> None: ...
    def set_exception(self, exception: BaseException) -> None: ...
    def get(self, block: bool = True, timeout: float | None = None) -> _T_co: ...
    def get_nowait(self) -> _T_co: ...
    def wait(self, timeout: float | None = None) -> Any: ...
    def rawlink(self, callback: Callable[[AsyncResult[_T_co]], object]) -> None: ...
    def unlink(self, callback: Callable[[AsyncResult[_T_co]], object]) -> None: ...
