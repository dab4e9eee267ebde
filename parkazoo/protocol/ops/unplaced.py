"""Requests that are about no znode of the user's: Reconfig, Auth, and requests of the program's own making."""

from __future__ import annotations

from kazoo.exceptions import UnimplementedError

from parkazoo.kazoo_private import Auth, Reconfig
from parkazoo.protocol.context import Context
from parkazoo.protocol.steps import Operation, Question, ask


def ask_bootstrap(context: Context, request: Question[object]) -> Operation[object]:
    """Send a Reconfig, or a request that a program has made itself, to the bootstrap ensemble.

    :raises UnimplementedError: nobody knows which of several ensembles such a request is for.
    """
    if request.type != Reconfig.type and len(context.names) > 1:
        raise UnimplementedError(
            f"{type(request).__name__}: ParKazoo does not know this request, nor the ensemble that it is for. "
            "Send it by client.members[name], with the physical path that `parkazoo where` shows"
        )
    return (yield from ask(context.places.bootstrap, request))


def add_auth(context: Context, request: Auth) -> Operation[bool]:
    """Send an Auth to every ensemble: each must take the credential."""
    answers = yield tuple((ensemble, request) for ensemble in range(len(context.names)))
    for answer in answers:
        if isinstance(answer, Exception):
            raise answer
    return True
