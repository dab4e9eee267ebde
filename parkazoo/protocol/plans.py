"""Which generator runs a client call, and what it claims (see order.py).

A plan is made when an operation is issued, from the request of kazoo's public method, whose path is logical and
includes the chroot. ``claims`` keep later operations behind it. ``lasting`` are the claims that it still needs
once its first request is sent: none if there is no other request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

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
from parkazoo.protocol.newer_requests import CreateContainer, CreateTTL, GetEphemerals, WhoAmI
from parkazoo.protocol.once import Once, once
from parkazoo.protocol.ops.acls import set_acls
from parkazoo.protocol.ops.batch import chained
from parkazoo.protocol.ops.brief import is_there, read, set_data, sync
from parkazoo.protocol.ops.children import Listing, get_children
from parkazoo.protocol.ops.creates import Creation, create
from parkazoo.protocol.ops.creates_with_end import create_container, create_ttl
from parkazoo.protocol.ops.deletes import delete
from parkazoo.protocol.ops.of_session import get_ephemerals, whoami
from parkazoo.protocol.ops.transaction import transaction
from parkazoo.protocol.ops.unplaced import add_auth, ask_bootstrap
from parkazoo.protocol.order import (
    ADD,
    COUNT,
    LIST,
    OWN,
    READ,
    REMOVE,
    TRUST,
    WRITE,
    Claims,
    children,
    merge,
    node,
)
from parkazoo.protocol.placement import CERTAIN, GUESS, split
from parkazoo.protocol.presence import Presence
from parkazoo.protocol.rights import (
    is_secret,
)
from parkazoo.protocol.steps import Operation, PathRequest, Request

Several = Transaction | Once | ChainedBatch
NO_CLAIMS: Claims = {}


class Plan(NamedTuple):
    """How an operation runs: its generator, its claims, and those that outlast its first request (None: all)."""

    # Any is the type of request under which the plan stands in PLANS.
    operation: Callable[[Context, Any], Operation[object]]
    claims: Callable[[Context, Any], Claims]
    lasting: Callable[[Context, Any], Claims | None]


def no_claims(context: Context, request: Request) -> Claims:
    return NO_CLAIMS


def _read_claims(context: Context, request: PathRequest) -> Claims:
    return {node(request.path): READ, children(request.path): COUNT}


def presence_claims(context: Context, request: Presence) -> Claims:
    return {node(request.path): READ}


def _list_claims(context: Context, request: PathRequest) -> Claims:
    return {node(request.path): READ, children(request.path): LIST}


def _set_claims(context: Context, request: SetData) -> Claims:
    return {node(request.path): WRITE, children(request.path): COUNT}


def _create_claims(context: Context, request: Creation) -> Claims:
    parent, _ = split(request.path)
    mode = OWN if _create_lasting(context, request) is None else ADD
    return merge([(node(request.path), WRITE), (children(parent), mode), (node(parent), READ)])


def _delete_claims(context: Context, request: Delete) -> Claims:
    path = request.path
    parent, _ = split(path)
    return {children(parent): REMOVE, node(parent): READ, node(path): WRITE, children(path): OWN}


def _set_acls_claims(context: Context, request: SetACL) -> Claims:
    return {node(request.path): WRITE, children(request.path): OWN}


def _transaction_claims(context: Context, request: Several) -> Claims:
    claims: list[tuple[str, int]] = []
    for operation in request.operations:
        plan = PLANS.get(operation.type)
        claims += (plan.claims(context, operation) if plan else _read_claims(context, operation)).items()
    return merge(claims)


# ---- what outlasts the first request -----------------------------------------------------------


def _nothing_lasts(context: Context, request: Request) -> Claims | None:
    return NO_CLAIMS


def all_last(context: Context, request: Request) -> Claims | None:
    return None


def _count_lasts(context: Context, request: PathRequest) -> Claims | None:
    """If the place is certain, data comes with the first request, the number of children perhaps with another."""
    d = context.known(request.path)
    if d.certainty < CERTAIN:
        return None
    return NO_CLAIMS if d.is_native else {children(request.path): COUNT}


def _lasts_if_mirrored(context: Context, request: Delete | SetACL) -> Claims | None:
    d = context.known(request.path)
    return NO_CLAIMS if d.is_native and d.certainty == CERTAIN else None


def _list_lasting(context: Context, request: Listing) -> Claims | None:
    d = context.known(request.path)
    if d.certainty == CERTAIN and d.is_native:
        return NO_CLAIMS
    is_one_request = not d.is_native and d.is_decided and not isinstance(request, GetChildren2)
    return {d.path: TRUST} if is_one_request else None


def _create_lasting(context: Context, request: Creation) -> Claims | None:
    d = context.known(request.path.rpartition("/")[0] or "/")
    if is_secret(request.acl):
        return None
    if d.certainty == CERTAIN and d.is_native:
        return NO_CLAIMS
    if not d.is_decided or (d.is_native and isinstance(request, Create2)):  # in a multi, without its stat
        return None
    return {d.path: TRUST}


def _transaction_lasting(context: Context, request: Several) -> Claims | None:
    lasting: list[tuple[str, int]] = []
    for operation in request.operations:
        plan = PLANS.get(operation.type)
        claims = plan.lasting(context, operation) if plan else NO_CLAIMS
        if claims is None or context.known(operation.path.rpartition("/")[0] or "/").certainty < CERTAIN:
            return None  # the multi may be sent again
        lasting += claims.items()
    return merge(lasting)


def _chained_claims(context: Context, request: ChainedBatch) -> Claims:
    """A batch stays behind those in front of it if one of them has to wait."""
    return merge([*_transaction_claims(context, request).items(), (node(request.marker.path), WRITE)])


def _chained_lasting(context: Context, request: ChainedBatch) -> Claims | None:
    """A batch takes one request if the client remembers all places."""
    lasting: list[tuple[str, int]] = []
    for write in request.writes:
        above = context.known(split(write.path)[0])
        if not isinstance(write, SetData):  # its stat is not asked for
            claims = PLANS[write.type].lasting(context, write)
        elif above.certainty == CERTAIN or (
            above.certainty > GUESS and above.mirror.ensemble == request.marker.ensemble
        ):
            claims = NO_CLAIMS
        else:
            claims = None
        if claims is None:
            return None
        lasting += claims.items()
    return merge(lasting)


PLANS: Mapping[int, Plan] = {
    Create.type: Plan(create, _create_claims, _create_lasting),
    Create2.type: Plan(create, _create_claims, _create_lasting),
    CreateTTL.type: Plan(create_ttl, _create_claims, _create_lasting),
    CreateContainer.type: Plan(create_container, _create_claims, _create_lasting),
    Delete.type: Plan(delete, _delete_claims, _lasts_if_mirrored),
    Exists.type: Plan(read, _read_claims, _count_lasts),
    Presence.type: Plan(is_there, presence_claims, all_last),
    GetData.type: Plan(read, _read_claims, _count_lasts),
    GetACL.type: Plan(read, _read_claims, _count_lasts),
    SetData.type: Plan(set_data, _set_claims, _count_lasts),
    SetACL.type: Plan(set_acls, _set_acls_claims, _lasts_if_mirrored),
    GetChildren.type: Plan(get_children, _list_claims, _list_lasting),
    GetChildren2.type: Plan(get_children, _list_claims, _list_lasting),
    Sync.type: Plan(sync, _list_claims, _nothing_lasts),
    Auth.type: Plan(add_auth, no_claims, _nothing_lasts),
    Transaction.type: Plan(transaction, _transaction_claims, _transaction_lasting),
    WhoAmI.type: Plan(whoami, no_claims, _nothing_lasts),
    GetEphemerals.type: Plan(get_ephemerals, no_claims, _nothing_lasts),
    Once.type: Plan(once, _transaction_claims, all_last),
    ChainedBatch.type: Plan(chained, _chained_claims, _chained_lasting),
}
# These take one request, unless the znode has children on another ensemble.
BRIEF = frozenset({Exists.type, GetData.type, GetACL.type, SetData.type})
OTHER = Plan(ask_bootstrap, no_claims, _nothing_lasts)
