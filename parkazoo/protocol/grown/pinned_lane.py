"""Which operations may be under way at a time, as in parkazoo/protocol/lane.py, where pins decide."""

from __future__ import annotations

from typing import cast

from parkazoo.protocol.context import Context
from parkazoo.protocol.grown.claims import GROWN_PLANS
from parkazoo.protocol.grown.common import GrownContext
from parkazoo.protocol.grown.places import is_fixed
from parkazoo.protocol.lane import ALONE, SEVERAL, listed_in
from parkazoo.protocol.placement import split
from parkazoo.protocol.plans import BRIEF
from parkazoo.protocol.steps import Request


def grown_lane_of(context: Context, request: Request) -> int:
    """As :func:`parkazoo.protocol.lane.lane_of`: what the client remembers of places holds.

    :raises ValueError: a path that has no UTF-8.
    """
    kind, places = request.type, cast(GrownContext, context).places
    plan = GROWN_PLANS.get(kind)
    if plan is None or kind in SEVERAL:
        return ALONE
    if kind in BRIEF:
        path = request.path
        parent = split(path)[0]
        is_one_request = (is_fixed(parent) or places.is_known(parent)) and not places.is_pinned(path)
        return places.known(path).home.ensemble if is_one_request else ALONE
    if plan.lasting(context, request) is None:
        return ALONE
    return places.known(listed_in(request)).mirror.ensemble
