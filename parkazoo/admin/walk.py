"""Look at every znode of every ensemble, and mend safe kinds while clients go on working. Nothing is printed.

protocol/audit.py asks and concludes, protocol/mend.py mends. This runs both over the ensembles: depth first, with
a bounded number of znodes under way, so that memory does not grow with the tree.
"""

from __future__ import annotations

import logging
import queue
import time
from collections import deque
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from typing import Any

from kazoo.exceptions import ConnectionLoss, KazooException, SessionExpiredError
from kazoo.handlers.threading import KazooTimeoutError

from parkazoo.admin.clients import SESSION_TIMEOUT_S, TIMEOUT_S, Auth
from parkazoo.admin.fsck_report import Found, Report
from parkazoo.admin.read import find_away, read_map
from parkazoo.admin.verify import verify_names
from parkazoo.client import ParKazooClient
from parkazoo.engine.driver import Driver
from parkazoo.errors import ClusterMapError
from parkazoo.protocol.audit import Audit, Suspect, Unvisited, without
from parkazoo.protocol.audit_directory import recheck
from parkazoo.protocol.audit_ensemble import audit_ensemble, is_essential
from parkazoo.protocol.audit_paths import BY_PATH
from parkazoo.protocol.audit_pins import BY_PINS, audit_moved
from parkazoo.protocol.epochs import Form
from parkazoo.protocol.findings import LOST_CHILDREN, Finding
from parkazoo.protocol.mend import MENDS, mend
from parkazoo.protocol.placement import Place
from parkazoo.protocol.steps import Operation

GRACE_S = 10.0
UNDER_WAY = 128
NAMES_HELD = 100_000  # with more names in memory than this, few listings are under way at once
UNDER_WAY_THEN = 8
SUSPECTS_HELD = 10_000
PROGRESS_EVERY_S = 0.1
POLL_S = 0.02  # while the client goes from one map to the next

log = logging.getLogger("parkazoo.fsck")
log.addHandler(logging.NullHandler())  # what matters is in the report or an error, not on stderr


Progress = Callable[[int, int], None]


def check(
    hosts: str,
    *,
    auth: Auth = (),
    repair: bool = False,
    accept_loss: Collection[str] = (),
    timeout_s: float = TIMEOUT_S,
    grace_s: float = GRACE_S,
    progress: Progress = lambda looked_at, found: None,
    **client_options: Any,
) -> Report:
    """Look at everything; with `repair`, mend what can be mended safely, while clients go on working.

    Without `repair` nothing is written.

    An ensemble that is away is left out, with all that could not be said without it: the report names it.

    :param hosts: hosts (``"h:p,h:p"``) of any ensembles of the cluster.
    :param auth: identities as ``(scheme, credential)``.
    :param accept_loss: names of ensembles; with `repair`, directories that lost their children with one of them
        count as empty from then on.
    :param timeout_s: seconds to wait for the connections, and for an answer.
    :param grace_s: seconds for which a delete or a set_acls must not have moved to count as abandoned.
    :param progress: called now and then with the znodes looked at and the faults found so far.
    :param client_options: further arguments for ParKazooClient (TLS, SASL).
    :raises ClusterMapError: there is no map, it cannot be used, or an ensemble is not in it; with `repair`, an
        ensemble is away.
    :raises KazooTimeoutError: an ensemble ceases to answer.
    """
    cluster_map = read_map(hosts, auth=auth, timeout_s=timeout_s, **client_options)
    verify_names(accept_loss, cluster_map)
    away = find_away(cluster_map, {**client_options, "auth_data": list(auth)}, timeout_s)
    present = [name for name in cluster_map.ensembles if name not in away]
    told = "; ".join(f"ensemble {name}: {why}" for name, why in away.items())
    if not present:
        raise ClusterMapError(f"no ensemble can be read: {told}")
    if away and repair:
        raise ClusterMapError(
            f"nothing is repaired while an ensemble is away: {told}. Without --repair, fsck looks at the others"
        )
    session_timeout_s = min(SESSION_TIMEOUT_S, timeout_s)
    client = ParKazooClient(
        ",".join(cluster_map.ensembles[name] for name in present) if away else hosts,
        **{"timeout": session_timeout_s, "auth_data": list(auth), "logger": log, **client_options},
    )
    try:
        client.start(timeout_s)
        for name in present:
            client.join(name, timeout=session_timeout_s)  # not longer: its requests would fail, and say less
        report = Report(cluster_map.cluster, is_blind=bool(away), absent=away)
        began = time.monotonic()
        _Walk(client, report, repair, accept_loss, timeout_s, grace_s, progress).run()
        report.seconds = time.monotonic() - began
        return report
    finally:
        with suppress(KazooException):
            client.stop()
            client.close()


class _ChangingError(Exception):
    """Reports that the client goes from one map to the next."""


class _Task:
    """An operation under way, and the reply to it."""

    __slots__ = ("_answers", "begin", "then")

    def __init__(
        self,
        begin: Callable[[], Operation[object]],
        then: Callable[[Any], None],
        answers: queue.Queue[tuple[_Task, object]],
    ) -> None:
        self.begin = begin
        self.then = then
        self._answers = answers

    def set(self, value: object = None) -> None:
        self._answers.put((self, value))

    def set_exception(self, exception: Exception) -> None:
        self._answers.put((self, exception))


class _Walk:
    """Through all the trees, on one thread; the loop only queues the answers."""

    def __init__(
        self,
        client: ParKazooClient,
        report: Report,
        repair: bool,
        accept_loss: Collection[str],
        timeout_s: float,
        grace_s: float,
        progress: Progress,
    ) -> None:
        session = client._session
        assert session is not None and session.driver is not None and session.roster.cluster_map is not None
        self._here = session.roster.cluster_map.ensembles
        self._client = client
        self._session = session
        self._driver: Driver = session.driver
        self._known = self._driver.context
        self._context = self._known.risen(self._known.form, self._known.places, self._known.hold)
        self._report = report
        self._repair = repair
        self._accept_loss = accept_loss if repair else ()
        self._timeout_s = timeout_s
        self._grace_s = grace_s
        self._progress = progress
        # No SimpleQueue: before Python 3.13 its get() waits for ever if the time is over when it begins to.
        self._answers: queue.Queue[tuple[_Task, object]] = queue.Queue()
        self._away = [at for at, name in enumerate(self._context.names) if name in report.absent]
        self._stack: list[Unvisited] = []
        self._held = 0  # names in the stack
        self._suspects: deque[tuple[float, Suspect]] = deque()  # with the time at which to look again
        self._refused: deque[_Task] = deque()  # to be run by the map that comes
        self._moved: set[Place] = set()  # mirrors that moves have made, and that were looked at
        self._last_move = self._newest_move()
        self._under_way = 0
        self._heard_at = self._told_at = time.monotonic()

    def run(self) -> None:
        now_ms = int(time.time() * 1000)
        looks = BY_PATH if self._context.form is Form.PLAIN else BY_PINS
        for ensemble in self._ensembles():
            self._start(partial(audit_ensemble, self._context, ensemble, now_ms, looks), self._take)
        while True:
            if self._follow():
                self._start_more()
                if not self._under_way and not self._suspects:
                    return
            self._wait()

    def _start(self, begin: Callable[[], Operation[object]], then: Callable[[Any], None]) -> None:
        by_known = partial(self._by_known, begin)
        self._run(_Task(by_known, then, self._answers))

    def _run(self, task: _Task) -> None:
        if not self._under_way:
            self._heard_at = time.monotonic()
        self._under_way += 1
        self._driver.run(task.begin(), task)

    def _by_known(self, begin: Callable[[], Operation[object]]) -> Operation[object]:
        """By the map that the walk follows: the client keeps it until this has ended."""
        if self._session.is_changing or self._driver.context is not self._known:
            raise _ChangingError
        return (yield from without(self._away, begin()) if self._away else begin())

    def _follow(self) -> bool:
        """Works by the newest map, by which a directory may move. False: nothing can begin at the moment.

        Nothing is under way by the map before when the client has changed.
        """
        context = self._driver.context
        if self._session.is_changing:
            return False
        if (context.form, context.places.leaving) != (self._known.form, self._known.places.leaving):
            raise ClusterMapError(
                "the map goes from one form to the next meanwhile, or an ensemble leaves: run `parkazoo fsck` "
                "again when `parkazoo map grow`, or `map remove`, has come to its end"
            )
        self._known = context
        self._context.follow(context)
        return True

    def _start_more(self) -> None:
        while self._refused and self._under_way < UNDER_WAY:
            self._run(self._refused.popleft())
        while self._suspects and self._suspects[0][0] <= time.monotonic() and self._under_way < UNDER_WAY:
            _, suspect = self._suspects.popleft()
            self._start(partial(recheck, suspect), self._take)
        while (
            self._stack
            and self._under_way < (UNDER_WAY if self._held < NAMES_HELD else UNDER_WAY_THEN)
            and len(self._suspects) < SUSPECTS_HELD
        ):
            look, names = self._stack[-1]
            name = names.pop()
            if not names:
                self._stack.pop()
            self._held -= 1
            self._report.looked_at += 1
            self._start(partial(look, name), self._take)
        if not (self._under_way or self._stack) and self._last_move != self._newest_move():
            self._last_move = self._newest_move()
            for ensemble in self._ensembles():
                self._start(partial(audit_moved, self._context, ensemble, self._moved), self._take)

    def _newest_move(self) -> str:
        """Only when the client knows of a move is anything deleted where the children have been."""
        cluster_map = self._session.roster.cluster_map
        return "" if cluster_map is None else cluster_map.last_move

    def _ensembles(self) -> list[int]:
        """As the client knows them; more may come."""
        named = enumerate(self._context.names)
        return [ensemble for ensemble, name in named if ensemble not in self._away and name in self._here]

    def _wait(self) -> None:
        """For one answer, or for the time to look again."""
        now = time.monotonic()
        if self._session.is_changing or not (self._under_way or self._suspects):
            until = now + POLL_S
        else:
            until = self._heard_at + self._timeout_s if self._under_way else self._suspects[0][0]
        try:
            task, answer = self._answers.get(timeout=max(0.0, until - now))
        except queue.Empty:
            if not self._under_way or time.monotonic() < self._heard_at + self._timeout_s:
                return
            missing = [name for name, member in self._client.members.items() if not member.connected]
            told = f"not connected to {', '.join(missing)}" if missing else "an ensemble is slow, or hangs"
            raise KazooTimeoutError(
                f"no answer within {self._timeout_s:g} s ({told}); it is safe to try again"
            ) from None
        if isinstance(answer, (ConnectionLoss, SessionExpiredError)):
            self._driver.run(task.begin(), task)  # what it has done, it need not do again
            return
        self._under_way -= 1
        self._heard_at = now = time.monotonic()
        if isinstance(answer, _ChangingError):
            self._refused.append(task)
            return
        task.then(answer)
        if now > self._told_at + PROGRESS_EVERY_S:
            self._told_at = now
            found = sum(tally.found for kind, tally in self._report.tallies.items() if not kind.is_note)
            self._progress(self._report.looked_at, found)

    def _take(self, audit: Audit | Exception) -> None:
        if isinstance(audit, Exception):
            raise audit
        for unvisited in audit.unvisited:
            if unvisited.names:
                self._stack.append(unvisited)
                self._held += len(unvisited.names)
        self._moved.update(audit.moved)
        due = time.monotonic() + self._grace_s
        self._suspects.extend((due, suspect) for suspect in audit.suspects)
        for place in audit.hidden:
            found = Found(self._context.names[place.ensemble], place.path, "", "no right to look")
            self._report.hidden.add(found)
            self._report.is_blind |= is_essential(place.path)
        for place in audit.undecided:
            self._report.undecided.add(
                Found(self._context.names[place.ensemble], place.path, "", "an ensemble is away")
            )
        for finding in audit.findings:
            if self._may_mend(finding):
                self._start(partial(mend, self._context, finding), partial(self._mended, finding))
            else:
                remedy = finding.kind.remedy
                self._record(finding, remedy or "run `parkazoo fsck --repair`")

    def _may_mend(self, finding: Finding) -> bool:
        if finding.kind is LOST_CHILDREN:
            return self._context.names[finding.ensemble] in self._accept_loss
        return self._repair and finding.kind in MENDS

    def _mended(self, finding: Finding, remains: str | Exception) -> None:
        if isinstance(remains, KazooException):
            remains = str(remains) or type(remains).__name__
        if isinstance(remains, Exception):
            raise remains
        self._record(finding, remains)

    def _record(self, finding: Finding, remains: str) -> None:
        kind, ensemble, path, detail, *_ = finding
        self._report.tallies[kind].add(Found(self._context.names[ensemble], path, detail, remains))
