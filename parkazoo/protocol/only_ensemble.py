"""Which operations of a client may be under way at a time if all ensembles have one order.

One ensemble answers in the order in which it was asked. So operations of one request each may follow one another
on their way to the same ensemble without waiting. Every other operation is alone: it begins when all
before it have ended, and what comes behind it begins when it has ended.

If what the client remembers is out of date, an operation that is not alone takes more requests. Those that were
sent behind it may then be done before it; see "One order for all ensembles" in docs/design/protocol.md.
"""

from __future__ import annotations

from parkazoo.kazoo_private import Create, Create2, Delete, SetACL, Sync, Transaction
from parkazoo.protocol.context import Context
from parkazoo.protocol.epochs import Form
from parkazoo.protocol.newer_requests import CreateContainer, CreateTTL, GetEphemerals, WhoAmI
from parkazoo.protocol.once import Once
from parkazoo.protocol.placement import CERTAIN, GUESS, split
from parkazoo.protocol.plans import BRIEF, PLANS
from parkazoo.protocol.steps import PathRequest, Request

ALONE = -1
CREATES = (Create.type, Create2.type, CreateTTL.type, CreateContainer.type)
# These ask several ensembles or any, may be sent again, or go on behind their first answer.
SEVERAL = (
    Sync.type,
    Transaction.type,
    Once.type,
    Delete.type,
    SetACL.type,
    GetEphemerals.type,
    WhoAmI.type,
)


def only_ensemble(context: Context, request: Request) -> int:
    """Return the ensemble that gets an operation's only request; ALONE if it may send several, as far as is known.

    :raises ValueError: a path that has no UTF-8.
    """
    if len(context.names) == 1 and context.form is Form.PLAIN:
        return 0
    kind, known = request.type, context.known
    plan = PLANS.get(kind)
    if plan is None or kind in SEVERAL:
        return ALONE
    named: PathRequest = request  # type: ignore[assignment]  # as those without a path have gone to ALONE
    if kind in BRIEF:
        d, above = known(named.path), known(split(named.path)[0])
        asks_children = d.is_decided and not (d.is_native and d.certainty == CERTAIN)
        return ALONE if above.certainty == GUESS or asks_children else d.home.ensemble
    if plan.lasting(context, request) is None:
        return ALONE
    return known(listed_in(named)).mirror.ensemble


def listed_in(request: PathRequest) -> str:
    """The directory whose children a request concerns that goes to where they are."""
    path = request.path
    return split(path)[0] if request.type in CREATES else path
