"""kazoo's client. Times are in seconds."""

import datetime
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

from typing_extensions import Self

from parkazoo.types import recipes
from parkazoo.types.handlers import Event
from parkazoo.types.znodes import ACLs, AsyncResult, ZnodeStat

# For mypy the first branch, for pyright the second: parkazoo/types/__init__.py says why.
# mypy: disable-error-code="no-redef"
if 0:
    class _KazooClient: ...
    class _TransactionRequest: ...

    class KazooRetry:
        def __init__(
            self,
            max_tries: int | None = 1,
            delay: float = 0.1,
            backoff: float = 2,
            max_jitter: float = 0.4,
            max_delay: float = 60.0,
            ignore_expire: bool = True,
            sleep_func: Callable[[float], object] = ...,
            deadline: float | None = None,
            interrupt: Callable[[], bool] | None = None,
        ) -> None: ...
        def reset(self) -> None: ...
        def copy(self) -> KazooRetry: ...
        def __call__(self, func: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T: ...

else:
    from kazoo.client import KazooClient as _KazooClient
    from kazoo.client import TransactionRequest as _TransactionRequest
    from kazoo.retry import KazooRetry as KazooRetry

_T = TypeVar("_T")
_P = ParamSpec("_P")
_Number = TypeVar("_Number", int, float)

Listener = Callable[[str], object]
# A path for a create, a stat for a set, True for a delete and a check, or what has gone wrong with it.
TransactionResult = str | bool | ZnodeStat | Exception

class KazooClient(_KazooClient):
    """What :class:`parkazoo.ParKazooClient` leaves as it is in kazoo's client."""

    handler: Any
    logger: Any
    auth_data: set[tuple[str, str]]
    default_acl: ACLs | None
    randomize_hosts: bool
    hosts: list[tuple[str, int]]
    chroot: str
    read_only: bool | None
    use_ssl: bool
    verify_certs: bool
    check_hostname: bool
    certfile: str | None
    keyfile: str | None
    keyfile_password: str | None
    ca: str | None
    state: str
    state_listeners: set[Listener]
    _call: Any
    _child_watchers: Any
    _conn_retry: Any
    _connection: Any
    _data_watchers: Any
    _live: Any
    _protocol_version: Any
    _retry: Any
    _session_timeout: int
    _state: str
    _stopped: Any
    _writer_stopped: Any
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def _session_callback(self, state: str) -> None: ...
    @property
    def client_state(self) -> str: ...
    @property
    def connected(self) -> bool: ...
    def set_hosts(self, hosts: str | list[str], randomize_hosts: bool | None = None) -> None: ...
    def add_listener(self, listener: Listener) -> None: ...
    def remove_listener(self, listener: Listener) -> None: ...
    def restart(self) -> None: ...
    def close(self) -> None: ...
    def command(self, cmd: bytes = b"ruok") -> str: ...
    def server_version(self, retries: int = 3) -> tuple[int, ...]: ...
    def unchroot(self, path: str) -> str: ...
    def retry(self, func: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T: ...
    # The recipes, bound to this client.
    def Barrier(self, path: str) -> recipes.Barrier: ...
    def Counter(
        self, path: str, default: _Number = ..., support_curator: bool = False
    ) -> recipes.Counter[_Number]: ...
    def DoubleBarrier(
        self, path: str, num_clients: int, identifier: str | None = None
    ) -> recipes.DoubleBarrier: ...
    def ChildrenWatch(
        self,
        path: str,
        func: recipes.ChildrenFunction | None = None,
        allow_session_lost: bool = True,
        send_event: bool = False,
    ) -> recipes.ChildrenWatch: ...
    def DataWatch(
        self, path: str, func: recipes.DataFunction | None = None, *args: Any, **kwargs: Any
    ) -> recipes.DataWatch: ...
    def Election(self, path: str, identifier: str | None = None) -> recipes.Election: ...
    def NonBlockingLease(
        self,
        path: str,
        duration: datetime.timedelta,
        identifier: str | None = None,
        utcnow: Callable[[], datetime.datetime] = ...,
    ) -> recipes.NonBlockingLease: ...
    def MultiNonBlockingLease(
        self,
        count: int,
        path: str,
        duration: datetime.timedelta,
        identifier: str | None = None,
        utcnow: Callable[[], datetime.datetime] = ...,
    ) -> recipes.MultiNonBlockingLease: ...
    def Lock(
        self, path: str, identifier: str | None = None, extra_lock_patterns: Iterable[str] = ()
    ) -> recipes.Lock: ...
    def ReadLock(
        self, path: str, identifier: str | None = None, extra_lock_patterns: Iterable[str] = ()
    ) -> recipes.ReadLock: ...
    def WriteLock(
        self, path: str, identifier: str | None = None, extra_lock_patterns: Iterable[str] = ()
    ) -> recipes.WriteLock: ...
    def Party(self, path: str, identifier: str | None = None) -> recipes.Party: ...
    def Queue(self, path: str) -> recipes.Queue: ...
    def LockingQueue(self, path: str) -> recipes.LockingQueue: ...
    def SetPartitioner(
        self,
        path: str,
        set: Iterable[_T],
        partition_func: Callable[[str, list[str], Iterable[_T]], Iterable[_T]] | None = None,
        identifier: str | None = None,
        time_boundary: float = 30,
        max_reaction_time: float = 1,
        state_change_event: Event | None = None,
    ) -> recipes.SetPartitioner[_T]: ...
    def Semaphore(self, path: str, identifier: str | None = None, max_leases: int = 1) -> recipes.Semaphore: ...
    def ShallowParty(self, path: str, identifier: str | None = None) -> recipes.ShallowParty: ...

class TransactionRequest(_TransactionRequest):
    client: Any
    operations: list[Any]
    committed: bool
    def __init__(self, client: Any) -> None: ...
    def create(
        self,
        path: str,
        value: bytes = b"",
        acl: ACLs | None = None,
        ephemeral: bool = False,
        sequence: bool = False,
    ) -> None: ...
    def delete(self, path: str, version: int = -1) -> None: ...
    def set_data(self, path: str, value: bytes, version: int = -1) -> None: ...
    def check(self, path: str, version: int) -> None: ...
    def commit_async(self) -> AsyncResult[list[TransactionResult]]: ...
    def commit(self) -> list[TransactionResult]: ...
    def _check_tx_state(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None: ...
