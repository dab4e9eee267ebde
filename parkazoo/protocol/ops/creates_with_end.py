"""Creates of znodes that end by themselves: after a time, or once they are empty."""

from __future__ import annotations

from kazoo.exceptions import BadArgumentsError, UnimplementedError

from parkazoo.kazoo_private import Create
from parkazoo.protocol.context import Context
from parkazoo.protocol.newer_requests import CreateContainer, CreateContainerIfAble, CreateTTL
from parkazoo.protocol.ops.creates import create
from parkazoo.protocol.placement import CERTAIN, shown
from parkazoo.protocol.steps import Operation


def create_ttl(context: Context, request: CreateTTL) -> Operation[object]:
    """:raises UnimplementedError: the servers take no TTL."""
    try:
        return (yield from create(context, request))
    except UnimplementedError as error:
        raise UnimplementedError(f"{error}: its servers take no TTL without extendedTypesEnabled=true") from None


def create_container(context: Context, request: CreateContainer) -> Operation[object]:
    """:raises BadArgumentsError: it would never end, because it would have a pin, and it may not be ordinary."""
    d = context.known(request.path)
    if d.certainty < CERTAIN:
        why = "the map has grown or is about to, so a pin would say where its children are"
    elif not d.is_native:
        why = f"its children would be on ensemble {context.names[d.mirror.ensemble]}, as a pin below it would say"
    else:
        return (yield from create(context, request))
    if isinstance(request, CreateContainerIfAble):
        return (yield from create(context, Create(*request)))
    raise BadArgumentsError(f"{shown(request.path)}: a container here would never end: {why}")
