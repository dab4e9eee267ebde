"""Which generator runs a client call, and what it claims (see order.py).

A plan is made when an operation is issued, from the request as kazoo's public methods made it: its logical
path, chroot included. ``claims`` keep later operations behind it, ``lasting`` are those that it still needs once
its first request is sent: none, if that is all that it will need.
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
from parkazoo.protocol import directory as protocol
from parkazoo.protocol.operations import (
    create,
    delete,
    everything_else,
    everywhere,
    get_children,
    read,
    set_acls,
    set_data,
    sync,
)
from parkazoo.protocol.order import ADD, COUNT, LIST, OWN, READ, REMOVE, WRITE, Claims, children, merge, node
from parkazoo.protocol.placement import split
from parkazoo.protocol.steps import Operation, Request
from parkazoo.protocol.transaction import transaction
from parkazoo.protocol.tree import Tree, parent_of


class Plan(NamedTuple):
    """How an operation is run: its generator, its claims, and those of them that outlast its first request."""

    operation: Callable[[Tree, Request], Operation[Any]]
    claims: Callable[[Tree, Request], Claims]
    lasting: Callable[[Tree, Request], Claims]


def _no_claims(tree: Tree, request: Request) -> Claims:
    return {}


def _read_claims(tree: Tree, request: Request) -> Claims:
    return {node(request.path): READ, children(request.path): COUNT}


def _list_claims(tree: Tree, request: Request) -> Claims:
    return {node(request.path): READ, children(request.path): LIST}


def _set_claims(tree: Tree, request: Request) -> Claims:
    return {node(request.path): WRITE, children(request.path): COUNT}


def _lasting_count(tree: Tree, request: Request) -> Claims:
    """Data comes with the first request, the number of children perhaps with another."""
    return {} if tree.placement.is_native(request.path) else {children(request.path): COUNT}


def _list_lasting(tree: Tree, request: Request) -> Claims:
    if tree.placement.is_native(request.path):
        return {}
    if tree.is_promoted(request.path) and not isinstance(request, GetChildren2):
        return {}
    return _list_claims(tree, request)


def _create_claims(tree: Tree, request: Request) -> Claims:
    parent, _ = parent_of(request)
    mode = ADD if _is_plain(tree, parent) and not protocol.is_secret(request.acl) else OWN
    return merge([(node(request.path), WRITE), (children(parent), mode), (node(parent), READ)])


def _create_lasting(tree: Tree, request: Request) -> Claims:
    if _is_plain(tree, parent_of(request)[0]) and not protocol.is_secret(request.acl):
        return {}
    return _create_claims(tree, request)


def _is_plain(tree: Tree, parent: str) -> bool:
    """Whether a create below `parent` takes one request."""
    return tree.placement.is_native(parent) or tree.is_promoted(parent)


def _delete_claims(tree: Tree, request: Request) -> Claims:
    path = request.path
    return merge([(node(path), WRITE), (children(path), OWN), (children(split(path)[0]), REMOVE)])


def _set_acls_claims(tree: Tree, request: Request) -> Claims:
    return {node(request.path): WRITE, children(request.path): OWN}


def _if_mirrored(claims: Callable[[Tree, Request], Claims]) -> Callable[[Tree, Request], Claims]:
    return lambda tree, request: {} if tree.placement.is_native(request.path) else claims(tree, request)


def _transaction_claims(tree: Tree, request: Request) -> Claims:
    claims: list[tuple[str, int]] = []
    for operation in request.operations:
        plan = PLANS.get(operation.type)
        claims += (plan.claims(tree, operation) if plan else _read_claims(tree, operation)).items()
    return merge(claims)


def _transaction_lasting(tree: Tree, request: Request) -> Claims:
    lasting: list[tuple[str, int]] = []
    for operation in request.operations:
        plan = PLANS.get(operation.type)
        lasting += (plan.lasting(tree, operation) if plan else {}).items()
    if any(mode != COUNT for _, mode in lasting):  # the multi may be sent again
        return _transaction_claims(tree, request)
    return merge(lasting)


PLANS: Mapping[int, Plan] = {
    Create.type: Plan(create, _create_claims, _create_lasting),
    Create2.type: Plan(create, _create_claims, _create_lasting),
    Delete.type: Plan(delete, _delete_claims, _if_mirrored(_delete_claims)),
    Exists.type: Plan(read, _read_claims, _lasting_count),
    GetData.type: Plan(read, _read_claims, _lasting_count),
    GetACL.type: Plan(read, _read_claims, _lasting_count),
    SetData.type: Plan(set_data, _set_claims, _lasting_count),
    SetACL.type: Plan(set_acls, _set_acls_claims, _if_mirrored(_set_acls_claims)),
    GetChildren.type: Plan(get_children, _list_claims, _list_lasting),
    GetChildren2.type: Plan(get_children, _list_claims, _list_lasting),
    Sync.type: Plan(sync, _list_claims, _no_claims),
    Auth.type: Plan(everywhere, _no_claims, _no_claims),
    Transaction.type: Plan(transaction, _transaction_claims, _transaction_lasting),
}
# What one request answers, unless the znode has children on another ensemble.
BRIEF = frozenset({Exists.type, GetData.type, GetACL.type, SetData.type})
OTHER = Plan(everything_else, _no_claims, _no_claims)
