"""What a client's session is and has: its identities, its ephemerals."""

from __future__ import annotations

from typing import Any

from kazoo.exceptions import UnimplementedError
from kazoo.security import Id

from parkazoo.protocol.context import Context
from parkazoo.protocol.newer_requests import SINCE, GetEphemerals, WhoAmI
from parkazoo.protocol.placement import is_reserved, logical
from parkazoo.protocol.steps import Operation, Request


def whoami(context: Context, request: WhoAmI) -> Operation[list[Id]]:
    """Ask one ensemble, a connected one if there is one."""
    joined = _joined(context)
    ensemble = next(filter(context.is_connected, joined), context.places.bootstrap)
    (answer,) = yield ((ensemble, request),)
    identities: list[Id] = known_there(context, ensemble, request, answer)
    return identities


def get_ephemerals(context: Context, request: GetEphemerals) -> Operation[list[str]]:
    """Ask all ensembles on which there is a session. A directory that moves has its ephemerals on two."""
    joined = _joined(context)
    answers = yield from context.read(request.path, *((ensemble, GetEphemerals("/")) for ensemble in joined))
    found: set[str] = set()
    for ensemble, answer in zip(joined, answers, strict=True):
        found.update(map(logical, known_there(context, ensemble, request, answer)))
    below = request.path.rstrip("/") + "/"
    return sorted(
        path for path in found if (path == request.path or path.startswith(below)) and not is_reserved(path)
    )


def _joined(context: Context) -> list[int]:
    return [ensemble for ensemble in range(len(context.names)) if context.is_joined(ensemble)]


def known_there(context: Context, ensemble: int, request: Request, answer: Any) -> Any:
    """The answer of an ensemble, or raise it.

    :raises UnimplementedError: its servers are too old.
    """
    if isinstance(answer, UnimplementedError):
        raise UnimplementedError(
            f"ensemble {context.names[ensemble]}: its servers are older than ZooKeeper {SINCE[request.type]}, "
            f"which has {type(request).__name__}"
        )
    if isinstance(answer, Exception):
        raise answer
    return answer
