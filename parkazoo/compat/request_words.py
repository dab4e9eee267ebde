"""The words by which listeners and counters know requests and errors: few, and always the same."""

from __future__ import annotations

from collections.abc import Mapping

from kazoo.exceptions import (
    BadVersionError,
    ConnectionLoss,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    SessionExpiredError,
)

from parkazoo.kazoo_private import (
    Create,
    Create2,
    Delete,
    Exists,
    GetACL,
    GetChildren,
    GetChildren2,
    GetData,
    Reconfig,
    SetACL,
    SetData,
    Sync,
    Transaction,
)
from parkazoo.monitoring import NO_ERROR, OTHER, OUTCOMES
from parkazoo.protocol.chain import ChainedBatch
from parkazoo.protocol.newer_requests import CreateContainer, CreateTTL
from parkazoo.protocol.once import Once

_OPERATIONS: Mapping[int, str] = {
    Create.type: "create",
    Create2.type: "create",
    CreateTTL.type: "create",
    CreateContainer.type: "create",
    Delete.type: "delete",
    Exists.type: "exists",
    GetData.type: "get",
    SetData.type: "set",
    GetACL.type: "get_acls",
    SetACL.type: "set_acls",
    GetChildren.type: "get_children",
    GetChildren2.type: "get_children",
    Sync.type: "sync",
    Transaction.type: "transaction",
    Reconfig.type: "reconfig",
    Once.type: "once",
    ChainedBatch.type: "deferred",
}
_ERRORS: tuple[type[Exception], ...] = (
    NoNodeError,
    NodeExistsError,
    BadVersionError,
    NotEmptyError,
    NoAuthError,
    ConnectionLoss,
    SessionExpiredError,
)
_OUTCOMES = dict(zip(_ERRORS, OUTCOMES[1:-1], strict=True))


def operation_of(kind: int) -> str:
    """Returns the word for the type of a request."""
    return _OPERATIONS.get(kind, OTHER)


def outcome_of(error: type[Exception] | None) -> str:
    """Returns the word for the class of an error; None: for success."""
    if error is None:
        return NO_ERROR
    known = _OUTCOMES.get(error)
    return known or next((word for kind, word in _OUTCOMES.items() if issubclass(error, kind)), OTHER)
