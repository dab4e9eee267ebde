"""Which generator runs a client call where pins decide, and what it claims: as plans.py has it.

A place is not a function of the path, so an operation keeps its claims until its answer is proved. A create or
listing for which the client remembers the place keeps TRUST alone, as one that remembers a mirror.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from parkazoo.kazoo_private import (
    Auth,
    Create,
    Create2,
    Delete,
    Exists,
    GetACL,
    GetChildren,
    GetChildren2,
    GetData,
    SetACL,
    SetData,
    Sync,
    Transaction,
)
from parkazoo.protocol.chain import ChainedBatch
from parkazoo.protocol.context import Context
from parkazoo.protocol.grown.batches import chained
from parkazoo.protocol.grown.changing import delete, set_acls, set_data
from parkazoo.protocol.grown.common import GrownContext
from parkazoo.protocol.grown.making import create, promote_secret
from parkazoo.protocol.grown.multi import transaction
from parkazoo.protocol.grown.places import is_fixed
from parkazoo.protocol.grown.reading import get_children, is_there, read, sync
from parkazoo.protocol.once import Calls, Once
from parkazoo.protocol.order import ADD, OWN, READ, TRUST, WRITE, Claims, children, merge, node
from parkazoo.protocol.placement import split
from parkazoo.protocol.plans import NO_CLAIMS, PLANS, Plan, all_last
from parkazoo.protocol.presence import Presence
from parkazoo.protocol.rights import is_secret
from parkazoo.protocol.steps import Operation, Request


def _create_claims(context: Context, request: Request) -> Claims:
    parent, _ = split(request.path)
    mode = OWN if _create_lasting(context, request) is None else ADD
    return merge([(node(request.path), WRITE), (children(parent), mode), (node(parent), READ)])


def _create_lasting(context: Context, request: Request) -> Claims | None:
    parent, _ = split(request.path)
    if is_secret(request.acl) or (isinstance(request, Create2) and _places(context).known(parent).is_native):
        return None
    if is_fixed(parent):
        return NO_CLAIMS
    return {node(parent): TRUST} if _places(context).is_pinned(parent) else None


def _list_lasting(context: Context, request: Request) -> Claims | None:
    path = request.path
    if is_fixed(path):
        return NO_CLAIMS
    d = _places(context).known(path)
    is_one_request = not d.is_native and _places(context).is_pinned(path)
    return {node(path): TRUST} if is_one_request and not isinstance(request, GetChildren2) else None


def _transaction_claims(context: Context, request: Request) -> Claims:
    claims: list[tuple[str, int]] = []
    for operation in request.operations:
        claims += (
            GROWN_PLANS[operation.type if operation.type in GROWN_PLANS else Exists.type]
            .claims(context, operation)
            .items()
        )
    return merge(claims)


def _chained_claims(context: Context, request: Request) -> Claims:
    return merge([*_transaction_claims(context, request).items(), (node(request.marker.path), WRITE)])


def _chained_lasting(context: Context, request: Request) -> Claims | None:
    """A batch takes one request if the client remembers all places."""
    places, ensemble = _places(context), request.marker.ensemble
    lasting: list[tuple[str, int]] = []
    for write in request.writes:
        parent, _ = split(write.path)
        if not isinstance(write, SetData):
            claims = GROWN_PLANS[write.type].lasting(context, write)
        elif is_fixed(parent) or (places.is_known(parent) and places.known(parent).mirror.ensemble == ensemble):
            claims = NO_CLAIMS
        else:
            claims = None
        if claims is None:
            return None
        lasting += claims.items()
    return merge(lasting)


def _places(context: Context) -> Any:
    return cast(GrownContext, context).places


def _plan(
    operation: Callable[[GrownContext, Request], Operation[Any]],
    like: int,
    claims: Callable[[Context, Request], Claims] | None = None,
    lasting: Callable[[Context, Request], Claims | None] = all_last,
) -> Plan:
    """:param like: the type of the request whose claims these are, unless others are given."""
    return Plan(cast(Any, operation), claims or PLANS[like].claims, lasting)


GROWN_PLANS: Mapping[int, Plan] = {
    Create.type: _plan(create, Create.type, _create_claims, _create_lasting),
    Create2.type: _plan(create, Create2.type, _create_claims, _create_lasting),
    Delete.type: _plan(delete, Delete.type),
    Exists.type: _plan(read, Exists.type),
    Presence.type: _plan(is_there, Presence.type),
    GetData.type: _plan(read, GetData.type),
    GetACL.type: _plan(read, GetACL.type),
    SetData.type: _plan(set_data, SetData.type),
    SetACL.type: _plan(set_acls, SetACL.type),
    GetChildren.type: _plan(get_children, GetChildren.type, lasting=_list_lasting),
    GetChildren2.type: _plan(get_children, GetChildren2.type, lasting=_list_lasting),
    Sync.type: _plan(sync, Sync.type, lasting=PLANS[Sync.type].lasting),
    Auth.type: PLANS[Auth.type],
    Transaction.type: _plan(transaction, Transaction.type, _transaction_claims),
    Once.type: _plan(
        Calls(transaction, read, get_children, promote_secret).once, Transaction.type, _transaction_claims
    ),
    ChainedBatch.type: _plan(chained, ChainedBatch.type, _chained_claims, _chained_lasting),
}
# These take no turn, unless an earlier operation is in their way.
GROWN_READS = frozenset(kind for kind, plan in GROWN_PLANS.items() if plan.operation is read)
