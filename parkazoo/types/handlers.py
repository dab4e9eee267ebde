"""What a client asks of its handler. Times are in seconds."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol, TypedDict

if TYPE_CHECKING:
    LoggerAdapter = logging.LoggerAdapter[Any]
else:
    LoggerAdapter = logging.LoggerAdapter  # which has no [] before Python 3.11
Log = logging.Logger | LoggerAdapter


class Event(Protocol):
    """What threading's and gevent's events have in common."""

    def is_set(self) -> bool: ...
    def set(self) -> object: ...
    def clear(self) -> object: ...
    def wait(self, timeout: float | None = None) -> object: ...


class Handler(Protocol):
    """kazoo's handlers, or one like them."""

    @property
    def name(self) -> str: ...
    @property
    def timeout_exception(self) -> Any: ...
    @property
    def sleep_func(self) -> Callable[[float], object]: ...
    def start(self) -> object: ...
    def stop(self) -> object: ...
    def event_object(self) -> Event: ...
    def lock_object(self) -> AbstractContextManager[object]: ...
    def rlock_object(self) -> AbstractContextManager[object]: ...
    def async_result(self) -> Any: ...
    def spawn(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> object: ...
    def dispatch_callback(self, callback: Any) -> object: ...


class DeprecatedRetryOptions(TypedDict, total=False):
    """Instead, kazoo asks for `connection_retry` and `command_retry`."""

    max_retries: int | None
    retry_delay: float
    retry_backoff: float
    retry_max_delay: float
