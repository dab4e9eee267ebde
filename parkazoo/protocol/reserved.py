"""Paths that belong to ParKazoo: the error for a user who names one."""

from __future__ import annotations

from kazoo.exceptions import BadArgumentsError, NoNodeError

from parkazoo.kazoo_private import Create, Create2
from parkazoo.protocol.newer_requests import CreateContainer, CreateTTL
from parkazoo.protocol.placement import PIN, PROOF, ROOT, is_reserved
from parkazoo.protocol.steps import Request

NAME = ROOT[1:]


def refusal(request: Request) -> Exception | None:
    """The error that answers a request for a reserved path; None if the path is the user's."""
    path = getattr(request, "path", None)
    if path is None or NAME not in path or not is_reserved(path):  # most do not have the name
        return None
    if isinstance(request, (Create, Create2, CreateTTL, CreateContainer)):
        return BadArgumentsError(
            f"{request.path}: {ROOT} and the names {PIN} and {PROOF} are reserved for ParKazoo"
        )
    return NoNodeError()
