"""Which watches and completion callbacks are the library's own.

They return at once, and call nothing of the user's. So they wait for no callback of the user's.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import FunctionType

from parkazoo.types.handlers import Handler
from parkazoo.wire.workers import CallQueue

# kazoo.recipe.watchers and kazoo.recipe.queue have watches that ask the servers and wait.
PLACES = (
    "parkazoo.recipe.",
    "parkazoo.structures.",
    "kazoo.recipe.barrier.",
    "kazoo.recipe.cache.",
    "kazoo.recipe.lock.",
    "kazoo.recipe.watchers.PatientChildrenWatch.",
)
OF_USERS = ("parkazoo.recipe.bucket_names.OneWatch.",)  # calls the user's


def is_own(call: Callable[..., object]) -> bool:
    """Whether this is a function, method or callable object of a recipe or structure that never blocks."""
    while isinstance(call, partial):
        call = call.func
    function: object = getattr(call, "__func__", call)
    if not isinstance(function, FunctionType):
        function = getattr(type(call), "__call__", None)  # noqa: B004 - the function itself is wanted
    if not isinstance(function, FunctionType):
        return False
    name = f"{function.__module__}.{function.__qualname__}"
    return name.startswith(PLACES) and not name.startswith(OF_USERS)


def own_queue(handler: Handler) -> CallQueue:
    """The queue in which a client's own calls are made: one for all that uses the handler, if it has one."""
    queue: CallQueue = getattr(handler, "own_queue", None) or CallQueue(handler)
    return queue
