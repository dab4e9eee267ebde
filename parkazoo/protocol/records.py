"""Records that clients leave behind, as fsck sees them: of finished deletes, and markers of deferred writes."""

from __future__ import annotations

import json
from contextlib import suppress

from kazoo.exceptions import NoNodeError

from parkazoo.kazoo_private import Delete, Exists, GetChildren, GetData
from parkazoo.protocol.findings import ABANDONED_MARKERS, STALE_DONE, Finding, is_stale
from parkazoo.protocol.placement import CLIENTS, DEFERRED, DONE, join
from parkazoo.protocol.registration import CLIENT, decode_registration
from parkazoo.protocol.steps import Operation, ask


def look_at_done(ensemble: int, now_ms: int, name: str) -> Operation[list[Finding]]:
    """The record of a finished delete that its deleter has not read.

    :param now_ms: the time, in milliseconds since 1970.
    """
    path = join(DONE, name)
    stat = yield from ask(ensemble, Exists(path, None))
    return [] if stat is None or not is_stale(stat.ctime, now_ms) else [Finding(STALE_DONE, ensemble, path)]


def look_at_marker(ensemble: int, now_ms: int, name: str) -> Operation[list[Finding]]:
    """The marker of a lane of deferred writes whose client is gone: for a day no batch has set it."""
    path = join(DEFERRED, name)
    stat = yield from ask(ensemble, Exists(path, None))
    if stat is None or not is_stale(stat.mtime, now_ms) or not (yield from _is_abandoned(ensemble, path)):
        return []
    return [Finding(ABANDONED_MARKERS, ensemble, path)]


def _is_abandoned(ensemble: int, path: str) -> Operation[bool]:
    """Whether the client of a marker has no session on its ensemble."""
    try:
        data, _ = yield from ask(ensemble, GetData(path, None))
    except NoNodeError:
        return False
    client = None
    with suppress(ValueError, TypeError, KeyError):
        client = json.loads(data)[CLIENT]
    for session in (yield from ask(ensemble, GetChildren(CLIENTS, None))):
        with suppress(NoNodeError):
            registered, _ = yield from ask(ensemble, GetData(join(CLIENTS, session), None))
            if decode_registration(registered).get(CLIENT) == client:
                return False
    return True


def delete_marker(finding: Finding) -> Operation[str]:
    """Mend an abandoned marker: delete it, unless a batch has set it since."""
    stat = yield from ask(finding.ensemble, Exists(finding.path, None))
    if stat is not None and (yield from _is_abandoned(finding.ensemble, finding.path)):
        with suppress(NoNodeError):
            yield from ask(finding.ensemble, Delete(finding.path, stat.version))
    return ""
